//! The disk side of hints: the segments of all peers.
//!
//! All segments lie in one folder and are numbered in the order in which they
//! were begun. Each belongs to one peer, and its tag tells to which: the
//! secret of a peer's log is made of the peer's name, so names of any length
//! and spelling need no place in the file system, and no list beside the
//! segments can fall out of step with them.
//!
//! Invariants:
//! - a peer has at most one segment that takes hints, its last;
//! - an earlier run's segments take none: how they end is for their reader to see;
//! - what is listed here is on disk; a file that could not be read at the start
//!   is not listed, and is left alone until the next start.
//!
//! Removals are not made durable: a segment that a crash brings back is
//! delivered once more, which changes nothing at its receiver.

use super::statistics::{Counters, End, HintsWaiting, Waiting};
use super::{HintEnvironment, HintOptions};
use cluster::{HintLimits, HintSegment, NodeNumber};
use lsm::{Clock, Entry, Error, LogFolder, PendingSync, SegmentFile, SegmentOwner, SegmentWriter};
use std::collections::BTreeMap;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A segment with as many bytes takes no more hints.
pub(super) const SEGMENT_BYTES: u64 = 4 << 20;

/// All of the room may be divided into at least so many segments, so that to
/// make room is not to drop everything.
const SEGMENTS_MIN: u64 = 8;

/// A group is ended by the hint that brings it to as many bytes.
const GROUP_BYTES: usize = 1 << 20;

/// What a hint takes on disk besides key and value, at most, in bytes.
const HINT_OVERHEAD_BYTES: usize = 64;

/// By how much the file of a segment may be longer than what is in it, in bytes.
const SEGMENT_SLACK_BYTES: u64 = 264 << 10;

/// The hints of one segment, read.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The segment's number, by which it is given up.
    pub(crate) segment: u64,
    /// The size of its file.
    pub(crate) bytes: u64,
    /// The hints, in the order in which they were kept.
    pub(crate) entries: Vec<Entry>,
}

impl Batch {
    /// Whether the segment is longer than any that holds short values only.
    pub(crate) fn is_long(&self) -> bool {
        self.bytes > SEGMENT_BYTES + SEGMENT_SLACK_BYTES + GROUP_BYTES as u64
    }

    /// Whether the segment had room for many more hints.
    pub(crate) fn is_short(&self) -> bool {
        self.bytes < SEGMENT_BYTES / 4
    }
}

/// The segments of all peers.
pub(super) struct Logs {
    folder: LogFolder,
    clock: Arc<dyn Clock>,
    limits: HintLimits,
    segment_bytes: u64,
    disk_spare_bytes: u64,
    /// Ascending, so that the first of a peer is its oldest.
    segments: BTreeMap<u64, Segment>,
    peers: Vec<PeerLog>,
    /// Segments that take no more hints and are to be sealed.
    retired: Vec<SegmentWriter>,
    next_segment: u64,
    is_upkeep_scheduled: bool,
    is_closed: bool,
    /// The last append failed, and that was reported.
    is_failing: bool,
    waiting: Arc<Waiting>,
    counters: Arc<Counters>,
}

struct Segment {
    peer: NodeNumber,
    /// The size of the file.
    bytes: u64,
    hints: u64,
    newest_append_unix_ms: u64,
}

struct PeerLog {
    name: Arc<str>,
    secret: u64,
    active: Option<Active>,
}

/// The segment that takes a peer's hints.
struct Active {
    segment: u64,
    writer: SegmentWriter,
}

/// What is to be made durable. It is done without the lock of the logs, since
/// replies wait for what is written meanwhile.
pub(super) struct Upkeep {
    retired: Vec<SegmentWriter>,
    syncs: Vec<SegmentSync>,
}

struct SegmentSync {
    peer: NodeNumber,
    segment: u64,
    sync: PendingSync,
}

impl Upkeep {
    /// Seals and syncs; gives the syncs with how they ended. Blocks.
    pub(super) fn run(self) -> SyncOutcomes {
        for segment in self.retired {
            if let Err(error) = segment.seal() {
                // It reads the same without a seal, and hints are not missed
                // so badly that they would have to be written again.
                tracing::warn!(%error, "cannot end a segment of hints");
            }
        }
        let run = |sync: SegmentSync| {
            let result = sync.sync.run();
            (sync, result)
        };
        SyncOutcomes(self.syncs.into_iter().map(run).collect())
    }
}

/// How syncs ended.
pub(super) struct SyncOutcomes(Vec<(SegmentSync, Result<(), Error>)>);

impl Logs {
    /// Lists and reads what an earlier run left; see [`super::HintStore::open`].
    pub(super) fn open(
        environment: HintEnvironment,
        options: HintOptions,
        names: &[&str],
        waiting: &Arc<Waiting>,
        counters: &Arc<Counters>,
    ) -> Result<Self, Error> {
        let folder = LogFolder::open(environment.disk, environment.folder)?;
        let found = folder.segments()?;
        let peer_log = |name: &&str| PeerLog {
            name: Arc::from(*name),
            secret: xxh3_64_with_seed(name.as_bytes(), environment.secret),
            active: None,
        };
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
            peers: names.iter().map(peer_log).collect(),
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
        Ok(logs)
    }

    /// Takes over a segment of an earlier run, or removes it.
    fn recover(&mut self, segment: u64) {
        let secrets: Vec<u64> = self.peers.iter().map(|peer| peer.secret).collect();
        let file = match self.folder.read(segment) {
            Ok(file) => file,
            Err(error) => {
                tracing::error!(%error, "cannot read hints; they are left for the next start");
                return;
            }
        };
        let place = match file.owner(&secrets) {
            Ok(SegmentOwner::Log(place)) => place,
            Ok(SegmentOwner::Other) => {
                tracing::warn!(
                    segment,
                    "dropping hints for a node that is no member any more"
                );
                return self.remove(segment);
            }
            Ok(SegmentOwner::Unknown) => {
                tracing::warn!(
                    segment,
                    "dropping a segment of hints that has no whole header"
                );
                return self.remove(segment);
            }
            Err(error) => {
                tracing::error!(%error, "cannot read hints; they are left for the next start");
                return;
            }
        };
        let entries = match file.entries(secrets[place]) {
            Ok(entries) => entries,
            Err(error) => {
                let peer = &*self.peers[place].name;
                tracing::error!(%error, peer, "dropping a damaged segment of hints");
                self.counters.ended(End::Damaged, 0);
                return self.remove(segment);
            }
        };
        let Some(newest) = newest_unix_ms(&entries, self.clock.unix_ms()) else {
            return self.remove(segment);
        };
        let peer = NodeNumber::new(place as u8);
        let recovered = Segment {
            peer,
            bytes: file.bytes(),
            hints: entries.len() as u64,
            newest_append_unix_ms: newest,
        };
        self.waiting.add(peer, recovered.waiting());
        self.segments.insert(segment, recovered);
    }

    /// Writes hints for a peer, in groups, and tells of each whether it was kept.
    pub(super) fn keep(&mut self, peer: NodeNumber, hints: &[&Entry]) -> Vec<bool> {
        let kept = self.write(peer, hints, self.clock.unix_ms());
        let count = kept.iter().filter(|is_kept| **is_kept).count();
        self.counters.kept(count as u64);
        self.counters.dropped_unwritten((kept.len() - count) as u64);
        kept
    }

    /// Writes hints that were kept at `append_unix_ms`, or before, in groups;
    /// tells of each whether it was written.
    fn write(&mut self, peer: NodeNumber, hints: &[&Entry], append_unix_ms: u64) -> Vec<bool> {
        let mut written = Vec::with_capacity(hints.len());
        let mut bytes = 0;
        let mut start = 0;
        for (place, hint) in hints.iter().enumerate() {
            bytes += hint.data_bytes() + HINT_OVERHEAD_BYTES;
            if bytes < GROUP_BYTES && place + 1 < hints.len() {
                continue;
            }
            let group = &hints[start..=place];
            let result = self.write_group(peer, group, bytes as u64, append_unix_ms);
            written.resize(place + 1, result.is_ok());
            match result {
                Ok(()) => self.is_failing = false,
                Err(error) if !self.is_failing => {
                    self.is_failing = true;
                    tracing::warn!(%error, "cannot keep hints: dropping them until it works");
                }
                Err(_) => {}
            }
            (start, bytes) = (place + 1, 0);
        }
        written
    }

    /// Writes one group of at most `bytes` bytes.
    fn write_group(
        &mut self,
        peer: NodeNumber,
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
        let mut active = match self.peers[peer.index()].active.take() {
            Some(active) => active,
            None => self.begin_segment(peer)?,
        };
        let result = active.writer.append(group.iter().copied());
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
        if active.writer.written_bytes() < self.segment_bytes {
            self.peers[peer.index()].active = Some(active);
        } else {
            self.retired.push(active.writer);
        }
        result
    }

    fn begin_segment(&mut self, peer: NodeNumber) -> Result<Active, Error> {
        if self.folder.available_bytes()? < self.disk_spare_bytes {
            return Err(Error::DiskFull);
        }
        let number = self.next_segment;
        let secret = self.peers[peer.index()].secret;
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
        Ok(Active {
            segment: number,
            writer,
        })
    }

    /// Whether upkeep is to come soon that nobody has been told of yet.
    pub(super) fn wants_upkeep(&mut self) -> bool {
        let has_active = self.peers.iter().any(|peer| peer.active.is_some());
        let has_work = has_active || !self.retired.is_empty();
        has_work && !self.is_closed && !std::mem::replace(&mut self.is_upkeep_scheduled, true)
    }

    /// What is to be made durable now.
    pub(super) fn take_upkeep(&mut self) -> Upkeep {
        self.is_upkeep_scheduled = false;
        let sync_of = |(place, peer): (usize, &PeerLog)| {
            let active = peer.active.as_ref()?;
            Some(SegmentSync {
                peer: NodeNumber::new(place as u8),
                segment: active.segment,
                sync: active.writer.pending_sync()?,
            })
        };
        Upkeep {
            syncs: self.peers.iter().enumerate().filter_map(sync_of).collect(),
            retired: std::mem::take(&mut self.retired),
        }
    }

    /// Takes note of what was made durable, and lets a segment alone whose
    /// sync has failed: no later one could tell anything.
    pub(super) fn note_upkeep(&mut self, SyncOutcomes(outcomes): SyncOutcomes) {
        for (sync, result) in outcomes {
            let active = &mut self.peers[sync.peer.index()].active;
            let Some(synced) = active.as_mut().filter(|one| one.segment == sync.segment) else {
                continue;
            };
            match result {
                Ok(()) => synced.writer.synced(&sync.sync),
                Err(error) => {
                    tracing::warn!(%error, "hints may be lost; others go to a new segment");
                    *active = None;
                }
            }
        }
    }

    /// Takes no more hints; what is to be made durable is left to do.
    pub(super) fn close(&mut self) -> Upkeep {
        self.is_closed = true;
        self.retire_where(|_| true);
        self.take_upkeep()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Lets segments take no more hints.
    fn retire_where(&mut self, is_to_end: impl Fn(&Active) -> bool) {
        for peer in &mut self.peers {
            let ended = peer.active.take_if(|active| is_to_end(active));
            self.retired.extend(ended.map(|active| active.writer));
        }
    }

    /// Reads a segment; see [`super::HintStore::next_batch`].
    pub(super) fn next_batch(
        &mut self,
        peer: NodeNumber,
        after: u64,
    ) -> Result<Option<Batch>, Error> {
        self.make_room(0);
        while let Some(segment) = self.pick(peer, after) {
            self.retire_where(|active| active.segment == segment);
            let file = self.folder.read(segment)?;
            let damage = match self.read_entries(peer, segment, &file) {
                Ok(entries) => {
                    return Ok(Some(Batch {
                        segment,
                        bytes: file.bytes(),
                        entries,
                    }));
                }
                Err(error) => error,
            };
            let name = &*self.peers[peer.index()].name;
            tracing::error!(error = %damage, peer = name, "dropping a damaged segment of hints");
            self.end(segment, End::Damaged);
        }
        Ok(None)
    }

    fn pick(&self, peer: NodeNumber, after: u64) -> Option<u64> {
        let is_of_peer = |(number, segment): (&u64, &Segment)| {
            (segment.peer == peer && segment.hints > 0).then_some(*number)
        };
        let mut above = self.segments.range(after.saturating_add(1)..);
        let mut all = self.segments.iter();
        above
            .find_map(is_of_peer)
            .or_else(|| all.find_map(is_of_peer))
    }

    fn read_entries(
        &mut self,
        peer: NodeNumber,
        number: u64,
        file: &SegmentFile,
    ) -> Result<Vec<Entry>, Error> {
        let entries = file.entries(self.peers[peer.index()].secret)?;
        if let Some(segment) = self.segments.get_mut(&number) {
            let read = entries.len() as u64;
            let lost = segment.hints.saturating_sub(read);
            if lost > 0 {
                tracing::error!(
                    segment = number,
                    lost,
                    "a segment of hints has lost its end"
                );
                segment.hints = read;
                self.waiting.subtract(
                    peer,
                    HintsWaiting {
                        hints: lost,
                        bytes: 0,
                    },
                );
                self.counters.ended(End::Damaged, lost);
            }
        }
        Ok(entries)
    }

    /// Gives up a segment whose hints were all delivered.
    pub(super) fn delivered(&mut self, segment: u64) {
        if !self.is_closed {
            self.end(segment, End::Delivered);
        }
    }

    /// Gives up a segment whose hints were delivered but for those `left`,
    /// which go to the end of the log as what they are: they do not get younger.
    pub(super) fn put_back(&mut self, segment: u64, left: &[Entry]) {
        let Some(listed) = self.segments.get(&segment).filter(|_| !self.is_closed) else {
            return;
        };
        let (peer, hints) = (listed.peer, listed.hints);
        let now_unix_ms = self.clock.unix_ms();
        let age_ms = |hint: &Entry| now_unix_ms.saturating_sub(hint.timestamp().unix_ms());
        let young: Vec<&Entry> = left
            .iter()
            .filter(|hint| age_ms(hint) <= self.limits.age_ms_max)
            .collect();
        let newest = newest_unix_ms(young.iter().copied(), now_unix_ms);
        let is_written = match newest {
            Some(newest) => !self.write(peer, &young, newest).contains(&false),
            None => true,
        };
        // Else all of them are delivered once more.
        if is_written && self.unlist(segment).is_some() {
            let aged = (left.len() - young.len()) as u64;
            let delivered = hints.saturating_sub(left.len() as u64);
            self.counters.ended(End::Delivered, delivered);
            self.counters.ended(End::ForAge, aged);
        }
    }

    /// Drops what is too old.
    pub(super) fn drop_expired(&mut self) {
        if !self.is_closed {
            self.make_room(0);
        }
    }

    /// Drops what is too old, and the oldest until `wanted` more bytes may be taken.
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
        for place in limits.to_drop(&segments, now_unix_ms) {
            let age_ms = now_unix_ms.saturating_sub(segments[place].newest_append_unix_ms);
            let end = if age_ms > limits.age_ms_max {
                End::ForAge
            } else {
                End::ForRoom
            };
            self.end(numbers[place], end);
        }
    }

    /// Removes a segment and counts its hints.
    fn end(&mut self, number: u64, end: End) {
        let Some(segment) = self.unlist(number) else {
            return;
        };
        self.counters.ended(end, segment.hints);
        if end == End::ForRoom || end == End::ForAge {
            let peer = &*self.peers[segment.peer.index()].name;
            let hints = segment.hints;
            tracing::warn!(peer, hints, reason = ?end, "dropping the oldest hints");
        }
    }

    /// Removes a segment if it is there, whether or not it takes hints.
    fn unlist(&mut self, number: u64) -> Option<Segment> {
        let segment = self.segments.remove(&number)?;
        self.peers[segment.peer.index()]
            .active
            .take_if(|active| active.segment == number);
        self.waiting.subtract(segment.peer, segment.waiting());
        self.remove(number);
        Some(segment)
    }

    fn remove(&self, segment: u64) {
        if let Err(error) = self.folder.remove(segment) {
            tracing::warn!(%error, "a segment of hints is left over until the next start");
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

/// When the newest of some hints was kept, in milliseconds since the Unix
/// epoch, as far as they tell: a hint is kept as its write is stamped, give or
/// take what clocks differ. A stamp from the future must not keep it longer.
fn newest_unix_ms<'a>(hints: impl IntoIterator<Item = &'a Entry>, now_unix_ms: u64) -> Option<u64> {
    let stamps = hints.into_iter().map(|hint| hint.timestamp().unix_ms());
    stamps.max().map(|newest| newest.min(now_unix_ms))
}
