//! Streaming: how a node sends a range to another one in runs, which are versions in the order of
//! their keys, and how the other one takes them. While a run is on its way, the next one is read.

use super::prepared::{PreparedRun, ReadRun, StreamedKeys};
use super::{Participant, RangeId, UnknownRange};
use base::{Entry, EntryRef};
use bytes::Bytes;
use cluster::NodeId;
use cluster::comparison::{Digest, Item};
use lsm::{Error, Scan};
use peer::{HELD_MAX, RunWriter};
use std::sync::Arc;

/// A range is streamed if this node lacks so many items of it, or more. With
/// fewer, repair writes cost no more.
const STREAM_ITEMS_MIN: u64 = 16;

/// A range is streamed if this node lacks one item for so many that it has, or more. A stream costs
/// 4 bytes for each item that it has, and coded symbols about 39 for each item that it lacks.
const HELD_FOR_EACH_LACKED: u64 = 8;

/// Of how many items that this node has it sends short hashes at a time, which each run of these
/// keys repeats.
const HELD_AT_A_TIME: usize = 2048;
const _: () = assert!(HELD_AT_A_TIME <= HELD_MAX);

/// How much this node lacks of what another one has of a range.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::session) enum Gap {
    /// Nothing: the two are equal.
    None,
    /// Few items, or none: symbols tell which.
    Small,
    /// So much that streaming it costs less than symbols.
    Large {
        /// The keys of the range, in order and in such parts that what this node has of each fits
        /// a request.
        parts: Vec<StreamedKeys>,
    },
}

/// What taking a run has brought.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::session) struct TakenRun {
    /// The versions that this node lacked.
    pub(in crate::session) keys: u64,
    /// The bytes of their keys and values.
    pub(in crate::session) bytes: u64,
    /// Whether more of the range may be streamed.
    pub(in crate::session) has_room: bool,
}

/// Why a run was not taken. No version of it was.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::session) enum RunRefusal {
    /// The session, or the range, is not known any more.
    Unknown,
    /// It is not what was asked for.
    Malformed(&'static str),
}

impl Participant {
    /// How much this node lacks of a range of which another node has `theirs`.
    pub(in crate::session) fn gap(
        &mut self,
        range: RangeId,
        with: NodeId,
        theirs: Digest,
    ) -> Result<Gap, UnknownRange> {
        self.take_in_written(range)?;
        let mine = self.shared_digest(range, with)?;
        if mine == theirs {
            return Ok(Gap::None);
        }
        let lacks = theirs.items.saturating_sub(mine.items);
        if lacks < STREAM_ITEMS_MIN || lacks.saturating_mul(HELD_FOR_EACH_LACKED) < mine.items {
            return Ok(Gap::Small);
        }
        let parts = self.streamed_parts(range, with)?;
        Ok(Gap::Large { parts })
    }

    /// The keys of a range in parts, each with what this node shares with another one of it.
    fn streamed_parts(
        &mut self,
        (session, number): RangeId,
        with: NodeId,
    ) -> Result<Vec<StreamedKeys>, UnknownRange> {
        let part = self.part(session).ok_or(UnknownRange)?;
        let range = part.range(number).ok_or(UnknownRange)?;
        let comparison = part.comparison();
        let (mut parts, mut last) = (Vec::new(), StreamedKeys::default());
        let mut before: Option<&[u8]> = None;
        for (key, item) in range.items().shared_keys(&comparison, with, &range.start) {
            if last.held.len() == HELD_AT_A_TIME {
                let end = before.map(Bytes::copy_from_slice);
                last.until.clone_from(&end);
                let next = StreamedKeys {
                    after: end,
                    ..StreamedKeys::default()
                };
                parts.push(std::mem::replace(&mut last, next));
            }
            last.held.push(Item::short_hash(item));
            before = Some(key);
        }
        parts.push(last);
        Ok(parts)
    }

    /// The newest versions of what is shared with the node that asks, in the order of
    /// their keys: those of `keys`, without what the other has already, and
    /// without values that are too long for a run.
    ///
    /// # Errors
    /// [`UnknownRange`]; within, that of the store.
    pub(in crate::session) fn run(
        &mut self,
        range: RangeId,
        asker: NodeId,
        keys: &StreamedKeys,
    ) -> Result<Result<ReadRun, Error>, UnknownRange> {
        let part = self.part(range.0).ok_or(UnknownRange)?;
        part.kept.asked();
        let prepared = part.prepared.take();
        match prepared.and_then(|prepared| prepared.for_request(range.1, asker, keys)) {
            Some(read) => Ok(Ok(read)),
            None => self.read_run(range, asker, keys),
        }
    }

    /// Reads the run that is asked for next, about. One that cannot be read is read once more when
    /// it is asked for, which tells why.
    pub(in crate::session) fn prepare_run(
        &mut self,
        range: RangeId,
        asker: NodeId,
        keys: StreamedKeys,
    ) {
        if let Ok(Ok(read)) = self.read_run(range, asker, &keys)
            && let Some(part) = self.part(range.0)
        {
            part.prepared = Some(PreparedRun {
                range: range.1,
                asker,
                keys,
                read,
            });
        }
    }

    fn read_run(
        &mut self,
        (session, number): RangeId,
        asker: NodeId,
        keys: &StreamedKeys,
    ) -> Result<Result<ReadRun, Error>, UnknownRange> {
        let StreamedKeys { after, until, held } = keys;
        let mut held = held.clone();
        held.sort_unstable();
        let (engine, is_certain) = (self.environment.engine.clone(), self.is_certain());
        let part = self.part(session).ok_or(UnknownRange)?;
        let bounds = part.bounds.get(asker.index()).cloned();
        let bounds = bounds.ok_or(UnknownRange)?;
        let position = part.position_permille();
        let range = part.range(number).ok_or(UnknownRange)?;
        let from = match after {
            Some(after) => [after, &[0][..]].concat(),
            None => range.start.to_vec(),
        };
        let least = bounds.least_in(&from, range.end.as_deref());
        let scan = engine
            .scan(&from, range.end.as_deref())
            .for_comparison(least);
        let mut store = ByKey::new(scan.with_read_ahead(&part.sent_ahead));
        let mut kept = part.kept.of_range_from(&from).peekable();
        let comparison = part.comparison();
        let (mut writer, mut last) = (RunWriter::default(), None);
        let is_sent = |entry: &EntryRef<'_>| {
            RunWriter::carries(*entry) && is_certain(entry.key(), entry.timestamp())
        };
        for (key, item) in range.items().shared_keys(&comparison, asker, &from) {
            if until.as_ref().is_some_and(|until| key > &until[..]) {
                break;
            }
            if !held.is_empty() && held.binary_search(&item.short_hash()).is_ok() {
                continue;
            }
            if !writer.has_room() {
                let next = StreamedKeys {
                    after: last.map(Bytes::copy_from_slice),
                    ..keys.clone()
                };
                return Ok(Ok(ReadRun {
                    run: writer.finish(false, position),
                    next: Some(next),
                }));
            }
            while kept.next_if(|kept| kept.key() < key).is_some() {}
            // A newer version may have come since the scan.
            let is_item =
                |kept: &&EntryRef<'_>| kept.key() == key && kept.timestamp() == item.timestamp;
            let stored = match kept.peek().filter(is_item) {
                Some(kept) => Some(*kept),
                None => match store.seek(key) {
                    Ok(stored) => stored,
                    Err(error) => return Ok(Err(error)),
                },
            };
            let streamed = range.newer_streamed(key, stored).map(Entry::lend);
            // From what was kept, or the block of a table, straight into the run.
            if let Some(newest) = streamed.or(stored).filter(is_sent) {
                writer.push(newest);
                last = Some(key);
            }
        }
        Ok(Ok(ReadRun {
            run: writer.finish(true, position),
            next: None,
        }))
    }

    /// Takes the versions of a run that was asked for with these keys.
    ///
    /// # Errors
    /// [`RunRefusal`].
    pub(in crate::session) fn take_run(
        &mut self,
        (session, number): RangeId,
        keys: &StreamedKeys,
        entries: Vec<Entry>,
    ) -> Result<TakenRun, RunRefusal> {
        let streamed_bytes_max = self.environment.sizes.streamed_bytes_max();
        let part = self.part(session).ok_or(RunRefusal::Unknown)?;
        let cut = part.cut;
        let layout = Arc::clone(&part.layout);
        let own = layout.members().own();
        // What is streamed takes memory, too.
        part.kept.give_up();
        let range = part.range_mut(number).ok_or(RunRefusal::Unknown)?;
        let (mut before, until) = (keys.after.as_deref(), keys.until.as_deref());
        for entry in &entries {
            if before.is_some_and(|before| entry.key() <= before) {
                return Err(RunRefusal::Malformed("keys that are not in order"));
            }
            if !range.contains(entry.key()) || until.is_some_and(|until| entry.key() > until) {
                return Err(RunRefusal::Malformed(
                    "a key beyond those that were asked for",
                ));
            }
            if !layout.is_replica(own, entry.key(), entry.copies()) {
                return Err(RunRefusal::Malformed("a version for other nodes"));
            }
            before = Some(entry.key());
        }
        let (keys, bytes) = range.take_in(entries, cut);
        Ok(TakenRun {
            keys,
            bytes,
            has_room: range.streamed_bytes < streamed_bytes_max,
        })
    }
}

/// A scan whose entries are found by key, in ascending order.
struct ByKey {
    scan: Scan,
    stand: Stand,
}

/// Where a scan stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    BeforeFirst,
    AtEntry,
    AtEnd,
}

impl ByKey {
    fn new(scan: Scan) -> Self {
        Self {
            scan,
            stand: Stand::BeforeFirst,
        }
    }

    /// The entry of a key that is after all keys so far.
    fn seek(&mut self, key: &[u8]) -> Result<Option<EntryRef<'_>>, Error> {
        while self.stand == Stand::BeforeFirst
            || self.stand == Stand::AtEntry && self.scan.entry().key() < key
        {
            self.stand = if self.scan.advance()? {
                Stand::AtEntry
            } else {
                Stand::AtEnd
            };
        }
        let entry = (self.stand == Stand::AtEntry).then(|| self.scan.entry());
        Ok(entry.filter(|entry| entry.key() == key))
    }
}
