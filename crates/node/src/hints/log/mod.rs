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

mod batch;
mod recovery;
mod upkeep;

pub(crate) use batch::Batch;

use super::options::{HintEnvironment, HintOptions};
use super::statistics::{Counters, End, HintsWaiting, Waiting};
use base::{Clock, Entry};
use cluster::{HintLimits, HintSegment, NodeNumber};
use lsm::{Error, SegmentFolder, SegmentWriter};
use std::collections::BTreeMap;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A segment with as many bytes takes no more hints.
const SEGMENT_BYTES: u64 = 4 << 20;

/// All of the room may be divided into at least so many segments, so that to
/// make room is not to drop everything.
const SEGMENTS_MIN: u64 = 8;

/// A group is ended by the hint that brings it to as many bytes.
const GROUP_BYTES: usize = 1 << 20;

/// What a hint takes on disk besides key and value, at most, in bytes.
const HINT_OVERHEAD_BYTES: usize = 64;

/// By how much the file of a segment may be longer than what is in it, in bytes.
const SEGMENT_SLACK_BYTES: u64 = 264 << 10;

/// The segments of all peers.
pub(super) struct Logs {
    folder: SegmentFolder,
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

impl Logs {
    /// Lists and reads what an earlier run left; see [`super::HintStore::open`].
    pub(super) fn open(
        environment: HintEnvironment,
        options: HintOptions,
        names: &[&str],
        waiting: &Arc<Waiting>,
        counters: &Arc<Counters>,
    ) -> Result<Self, Error> {
        let folder = SegmentFolder::open(environment.disk, environment.folder)?;
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
        if let Some(limit) = options.drop_above {
            logs.drop_above(limit);
        }
        Ok(logs)
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

    /// Every hint that can be read.
    pub(super) fn all(&self) -> Vec<Entry> {
        let mut hints = Vec::new();
        for (number, segment) in &self.segments {
            let secret = self.peers[segment.peer.index()].secret;
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

    /// Lets segments take no more hints.
    fn retire_where(&mut self, is_to_end: impl Fn(&Active) -> bool) {
        for peer in &mut self.peers {
            let ended = peer.active.take_if(|active| is_to_end(active));
            self.retired.extend(ended.map(|active| active.writer));
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
