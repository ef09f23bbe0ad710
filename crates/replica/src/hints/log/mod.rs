//! Hints on disk: the segments of all peers.
//!
//! All segments are in one folder and are numbered in the order in which they were begun. Each
//! segment belongs to one peer. Its tag says to which one, because the secret of a peer's log is
//! derived from the peer's name. So no file name depends on a node's name, and no separate list can
//! disagree with the segments.
//!
//! Invariants:
//! - A peer has at most one segment that takes hints, the last one.
//! - Segments of an earlier run take no hints, because they may end in a torn group.
//! - Every listed segment is on disk. A file that could not be read at the start is
//!   not listed, and stays untouched until the next start.
//!
//! Removals are not synced. A segment that reappears after a crash is delivered once
//! more, which changes nothing at the peer.

mod batch;
mod recovery;
mod upkeep;

pub use batch::HintBatch;

use super::options::{HintEnvironment, HintOptions};
use super::statistics::{HintCounters, HintsWaiting, SegmentEnd, WaitingCounts};
use base::{Clock, Entry};
use cluster::{HintLimits, HintSegment, Member, Members, NodeId, NodeTable};
use lsm::{Error, SegmentFolder, SegmentWriter};
use std::collections::BTreeMap;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A segment of this length takes no more hints.
const SEGMENT_BYTES: u64 = 4 << 20;

/// The room for hints is divided into at least this many segments, so that making
/// room does not drop all hints.
const SEGMENTS_MIN: u64 = 8;

/// A group of this length takes no more hints.
const GROUP_BYTES: usize = 1 << 20;

/// The most bytes that a hint takes on disk besides its key and value.
const HINT_OVERHEAD_BYTES: usize = 64;

/// How many bytes longer than its content the file of a segment may be.
const SEGMENT_SLACK_BYTES: u64 = 264 << 10;

/// The segments of all peers.
pub(super) struct HintLogs {
    folder: SegmentFolder,
    clock: Arc<dyn Clock>,
    limits: HintLimits,
    segment_bytes: u64,
    disk_spare_bytes: u64,
    /// By number, so that the first segment of a peer is its oldest.
    segments: BTreeMap<u64, Segment>,
    peers: NodeTable<PeerLog>,
    /// The secrets of the peers' logs are derived from it.
    secret: u64,
    /// Segments that take no more hints and still have to be sealed.
    retired: Vec<SegmentWriter>,
    next_segment: u64,
    is_upkeep_scheduled: bool,
    is_closed: bool,
    /// Whether the last append failed; that was logged then.
    is_failing: bool,
    waiting: Arc<WaitingCounts>,
    counters: Arc<HintCounters>,
}

struct Segment {
    peer: NodeId,
    /// The size of the file.
    bytes: u64,
    hints: u64,
    newest_append_unix_ms: u64,
}

struct PeerLog {
    name: Arc<str>,
    secret: u64,
    active: Option<ActiveSegment>,
}

/// The segment that takes a peer's hints.
struct ActiveSegment {
    segment: u64,
    writer: SegmentWriter,
}

impl HintLogs {
    /// Lists and reads the segments of an earlier run; see [`super::HintStore::open`].
    pub(super) fn open(
        environment: HintEnvironment,
        options: HintOptions,
        members: &Members,
        waiting: &Arc<WaitingCounts>,
        counters: &Arc<HintCounters>,
    ) -> Result<Self, Error> {
        let folder = SegmentFolder::open(environment.disk, environment.folder)?;
        let found = folder.segments()?;
        let peer_log =
            |(node, member): (NodeId, &Member)| (node, PeerLog::new(member, environment.secret));
        let mut logs = Self {
            folder,
            clock: environment.clock,
            limits: HintLimits {
                bytes_max: options.bytes_max,
                age_ms_max: u64::try_from(options.age_max.as_millis()).unwrap_or(u64::MAX),
            },
            segment_bytes: SEGMENT_BYTES.min(options.bytes_max / SEGMENTS_MIN),
            disk_spare_bytes: options.disk_spare_bytes,
            segments: BTreeMap::new(),
            peers: members.iter().map(peer_log).collect(),
            secret: environment.secret,
            next_segment: found.last().map_or(1, |last| last + 1),
            retired: Vec::new(),
            is_upkeep_scheduled: false,
            is_closed: false,
            is_failing: false,
            waiting: Arc::clone(waiting),
            counters: Arc::clone(counters),
        };
        for segment in found {
            logs.recover(segment);
        }
        logs.make_room(0);
        if let Some(limit) = options.drop_above {
            logs.drop_above(limit);
        }
        Ok(logs)
    }

    /// Takes the hints of these nodes, and drops those for all others.
    pub(super) fn follow(&mut self, members: &Members) {
        let stays = |node: NodeId, log: &PeerLog| {
            let member = members.get(node);
            member.is_some_and(|member| member.name() == &*log.name)
        };
        let gone: Vec<NodeId> = self
            .peers
            .iter()
            .filter(|(node, log)| !stays(*node, log))
            .map(|(node, _)| node)
            .collect();
        let of_gone =
            |(number, segment): (&u64, &Segment)| gone.contains(&segment.peer).then_some(*number);
        let segments: Vec<u64> = self.segments.iter().filter_map(of_gone).collect();
        for segment in segments {
            self.end(segment, SegmentEnd::WithPeer);
        }
        for node in gone {
            self.peers.remove(node);
        }
        let secret = self.secret;
        for (node, member) in members.iter() {
            self.peers
                .get_or_insert_with(node, || PeerLog::new(member, secret));
        }
    }

    /// Writes hints for a peer, in groups. Returns for each hint whether it was kept.
    pub(super) fn keep(&mut self, peer: NodeId, hints: &[&Entry]) -> Vec<bool> {
        let kept = if self.peers.contains(peer) {
            self.write(peer, hints, self.clock.unix_ms())
        } else {
            // It has left the cluster meanwhile.
            vec![false; hints.len()]
        };
        let count = kept.iter().filter(|is_kept| **is_kept).count();
        self.counters.kept(count as u64);
        self.counters.dropped_unwritten((kept.len() - count) as u64);
        kept
    }

    /// Writes hints, in groups, that were kept at `append_unix_ms` or before. Returns
    /// for each hint whether it was written.
    fn write(&mut self, peer: NodeId, hints: &[&Entry], append_unix_ms: u64) -> Vec<bool> {
        let mut written = Vec::with_capacity(hints.len());
        let mut bytes = 0;
        let mut start = 0;
        for (index, hint) in hints.iter().enumerate() {
            bytes += hint.data_bytes() + HINT_OVERHEAD_BYTES;
            if bytes < GROUP_BYTES && index + 1 < hints.len() {
                continue;
            }
            let group = &hints[start..=index];
            let result = self.write_group(peer, group, bytes as u64, append_unix_ms);
            written.resize(index + 1, result.is_ok());
            match result {
                Ok(()) => self.is_failing = false,
                Err(error) if !self.is_failing => {
                    self.is_failing = true;
                    tracing::warn!(%error, "hints cannot be written: they are dropped until writing works again");
                }
                Err(_) => {}
            }
            (start, bytes) = (index + 1, 0);
        }
        written
    }

    /// Writes one group of at most `bytes` bytes.
    fn write_group(
        &mut self,
        peer: NodeId,
        group: &[&Entry],
        bytes: u64,
        append_unix_ms: u64,
    ) -> Result<(), Error> {
        if self.is_closed {
            return Err(Error::Closed);
        }
        let wanted = bytes + SEGMENT_SLACK_BYTES;
        if wanted > self.limits.bytes_max {
            return Err(Error::DiskFull);
        }
        self.make_room(wanted);
        let Some(log) = self.peers.get_mut(peer) else {
            return Err(Error::Closed);
        };
        let mut active = match log.active.take() {
            Some(active) => active,
            None => self.begin_segment(peer)?,
        };
        let result = active.writer.append(group.iter().copied()).map(drop);
        if let Some(segment) = self.segments.get_mut(&active.segment) {
            let hints = if result.is_ok() { group.len() } else { 0 };
            let more = HintsWaiting {
                hints: hints as u64,
                bytes: active.writer.allocated_bytes() - segment.bytes,
            };
            segment.hints += more.hints;
            segment.bytes += more.bytes;
            segment.newest_append_unix_ms = segment.newest_append_unix_ms.max(append_unix_ms);
            self.waiting.add(peer, more);
        }
        match self.peers.get_mut(peer) {
            Some(log) if active.writer.written_bytes() < self.segment_bytes => {
                log.active = Some(active);
            }
            _ => self.retired.push(active.writer),
        }
        result
    }

    fn begin_segment(&mut self, peer: NodeId) -> Result<ActiveSegment, Error> {
        if self.folder.available_bytes()? < self.disk_spare_bytes {
            return Err(Error::DiskFull);
        }
        let number = self.next_segment;
        let secret = self.secret_of(peer);
        let writer = self.folder.create(number, secret)?;
        self.next_segment += 1;
        let begun = Segment {
            peer,
            bytes: writer.allocated_bytes(),
            hints: 0,
            newest_append_unix_ms: 0,
        };
        self.waiting.add(peer, begun.waiting());
        self.segments.insert(number, begun);
        Ok(ActiveSegment {
            segment: number,
            writer,
        })
    }

    /// All hints that can be read.
    pub(super) fn all(&self) -> Vec<Entry> {
        let mut hints = Vec::new();
        for (number, segment) in &self.segments {
            let secret = self.secret_of(segment.peer);
            let read = self.folder.read(*number);
            hints.extend(
                read.and_then(|file| file.entries(secret))
                    .unwrap_or_default(),
            );
        }
        hints
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Ends the active segments that `is_to_end` chooses: they take no more hints.
    fn retire_where(&mut self, is_to_end: impl Fn(&ActiveSegment) -> bool) {
        for peer in self.peers.values_mut() {
            let ended = peer.active.take_if(|active| is_to_end(active));
            self.retired.extend(ended.map(|active| active.writer));
        }
    }

    /// Drops segments that are too old.
    pub(super) fn drop_expired(&mut self) {
        if !self.is_closed {
            self.make_room(0);
        }
    }

    /// Drops segments that are too old, and the oldest ones until there is room for
    /// `wanted` more bytes.
    fn make_room(&mut self, wanted: u64) {
        let now_unix_ms = self.clock.unix_ms();
        let limits = HintLimits {
            bytes_max: self.limits.bytes_max.saturating_sub(wanted),
            ..self.limits
        };
        let (numbers, segments): (Vec<u64>, Vec<HintSegment>) = self
            .segments
            .iter()
            .map(|(number, segment)| (*number, segment.as_listed()))
            .unzip();
        for index in limits.to_drop(&segments, now_unix_ms) {
            let age_ms = now_unix_ms.saturating_sub(segments[index].newest_append_unix_ms);
            let end = if age_ms > limits.age_ms_max {
                SegmentEnd::ForAge
            } else {
                SegmentEnd::ForRoom
            };
            self.end(numbers[index], end);
        }
    }

    /// Removes a segment and counts its hints.
    fn end(&mut self, number: u64, end: SegmentEnd) {
        let Some(segment) = self.unlist(number) else {
            return;
        };
        self.counters.ended(end, segment.hints);
        if end == SegmentEnd::ForRoom || end == SegmentEnd::ForAge || end == SegmentEnd::WithPeer {
            let peer = &*self.name_of(segment.peer);
            let hints = segment.hints;
            tracing::warn!(peer, hints, reason = ?end, "dropping the oldest hints");
        }
    }

    /// Removes a segment if it is listed, also an active one.
    fn unlist(&mut self, number: u64) -> Option<Segment> {
        let segment = self.segments.remove(&number)?;
        if let Some(log) = self.peers.get_mut(segment.peer) {
            log.active.take_if(|active| active.segment == number);
        }
        self.waiting.subtract(segment.peer, segment.waiting());
        self.remove(number);
        Some(segment)
    }

    /// The secret of a peer's log.
    fn secret_of(&self, peer: NodeId) -> u64 {
        self.peers.get(peer).map_or(self.secret, |log| log.secret)
    }

    /// The name of a peer, for people.
    fn name_of(&self, peer: NodeId) -> Arc<str> {
        let known = self.peers.get(peer).map(|log| Arc::clone(&log.name));
        known.unwrap_or_else(|| Arc::from(Members::NO_NAME))
    }

    fn remove(&self, segment: u64) {
        if let Err(error) = self.folder.remove(segment) {
            tracing::warn!(%error, "a segment of hints could not be removed: the next start delivers it again");
        }
    }
}

impl PeerLog {
    fn new(member: &Member, secret: u64) -> Self {
        Self {
            name: Arc::from(member.name()),
            secret: xxh3_64_with_seed(member.name().as_bytes(), secret),
            active: None,
        }
    }
}

impl Segment {
    fn waiting(&self) -> HintsWaiting {
        HintsWaiting {
            hints: self.hints,
            bytes: self.bytes,
        }
    }

    fn as_listed(&self) -> HintSegment {
        HintSegment {
            bytes: self.bytes,
            newest_append_unix_ms: self.newest_append_unix_ms,
        }
    }
}

/// When the newest of some hints was kept, in milliseconds since the Unix epoch. The
/// timestamp of its write stands for that, because a hint is kept when its write is
/// given a timestamp. A timestamp from the future does not make the hint newer than now.
fn newest_unix_ms<'a>(hints: impl IntoIterator<Item = &'a Entry>, now_unix_ms: u64) -> Option<u64> {
    let timestamps = hints.into_iter().map(|hint| hint.timestamp().unix_ms());
    timestamps.max().map(|newest| newest.min(now_unix_ms))
}
