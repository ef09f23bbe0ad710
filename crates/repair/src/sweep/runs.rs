//! Runs: how a node gives a range to another one in bulk, and takes it.

use super::exchange::RangeId;
use super::leftovers::Sends;
use super::participant::{Participant, UnknownRange};
use base::{Entry, EntryRef};
use bytes::Bytes;
use cluster::NodeId;
use cluster::sweep::{Digest, Item, PassId};
use lsm::{Error, Scan};
use peer::{HELD_MAX, Run, RunWriter};
use std::sync::Arc;

/// A range is asked for in bulk if this node lacks so many items of it, or more. With
/// fewer, mends cost no more.
const BULK_ITEMS_MIN: u64 = 16;

/// How much this node lacks of what another one has of a range.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Gap {
    /// Nothing: the two are equal.
    None,
    /// Few items, or none: symbols tell which.
    Small,
    /// Most of it.
    Large {
        /// The short hashes of what it has.
        held: Vec<u32>,
    },
}

/// What taking a run has brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TakenRun {
    /// The versions that this node lacked.
    pub(super) keys: u64,
    /// The bytes of their keys and values.
    pub(super) bytes: u64,
    /// Whether more of the range may be pulled.
    pub(super) has_room: bool,
}

/// Why a run was not taken. No version of it was.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RunRefusal {
    /// The pass, or the range, is not known any more.
    Unknown,
    /// It is not what was asked for.
    Malformed(&'static str),
}

impl Participant {
    /// How much this node lacks of a range of which another node has `theirs`.
    pub(super) fn gap(
        &mut self,
        range: RangeId,
        with: NodeId,
        theirs: Digest,
    ) -> Result<Gap, UnknownRange> {
        self.take_in_mends(range)?;
        let items = self.shared_items(range, with)?;
        let mine: Digest = items.iter().copied().collect();
        if mine == theirs {
            return Ok(Gap::None);
        }
        let lacks = theirs.items.saturating_sub(mine.items);
        Ok(if lacks >= BULK_ITEMS_MIN && lacks > mine.items {
            Gap::Large {
                held: items
                    .into_iter()
                    .take(HELD_MAX)
                    .map(Item::short_hash)
                    .collect(),
            }
        } else {
            Gap::Small
        })
    }

    /// The newest versions of what is shared with the node that asks, in the order of
    /// their keys: those `after` a key, without what the other has already, and
    /// without values that are too long for a run.
    ///
    /// # Errors
    /// [`UnknownRange`]; within, that of the store.
    pub(super) fn run(
        &mut self,
        (pass, number): RangeId,
        asker: NodeId,
        after: Option<&Bytes>,
        mut held: Vec<u32>,
    ) -> Result<Result<Run, Error>, UnknownRange> {
        held.sort_unstable();
        let (own, engine, doubts) = (
            self.environment.own,
            self.environment.engine.clone(),
            self.doubts(),
        );
        let placement = Arc::clone(&self.environment.placement);
        let state = self.state(pass).ok_or(UnknownRange)?;
        let bounds = state.bounds.get(asker.index()).cloned();
        let bounds = bounds.ok_or(UnknownRange)?;
        let position = state.position_permille();
        let range = state.range(number).ok_or(UnknownRange)?;
        let from = match after {
            Some(after) => [after, &[0][..]].concat(),
            None => range.start.to_vec(),
        };
        let least = bounds.least_in(&from, range.end.as_deref());
        let scan = engine
            .scan(&from, range.end.as_deref())
            .for_comparison(least);
        let mut store = ByKey::new(scan.with_read_ahead(&state.sent_ahead));
        let comparison = state.comparison(&placement, own);
        let mut writer = RunWriter::default();
        let is_sent = |entry: &EntryRef<'_>| {
            let doubt = doubts(entry.key());
            let sends = state.leftovers.sends(*entry, &placement, own, doubt);
            RunWriter::carries(*entry) && sends == Sends::Now
        };
        for (key, item) in range.items.shared_keys(&comparison, asker, &from) {
            if held.binary_search(&item.short_hash()).is_ok() {
                continue;
            }
            if !writer.has_room() {
                return Ok(Ok(writer.finish(false, position)));
            }
            let stored = match store.seek(key) {
                Ok(stored) => stored,
                Err(error) => return Ok(Err(error)),
            };
            let pulled = range.newer_pulled(key, stored).map(Entry::lend);
            // From the block of a table straight into the run.
            if let Some(newest) = pulled.or(stored).filter(is_sent) {
                writer.push(newest);
            }
        }
        Ok(Ok(writer.finish(true, position)))
    }

    /// Takes the versions of a run that was asked for from the keys `after` one on.
    ///
    /// # Errors
    /// [`RunRefusal`].
    pub(super) fn take_run(
        &mut self,
        (pass, number): RangeId,
        after: Option<&Bytes>,
        entries: Vec<Entry>,
    ) -> Result<TakenRun, RunRefusal> {
        let (own, placement) = (
            self.environment.own,
            Arc::clone(&self.environment.placement),
        );
        let pulled_bytes_max = self.environment.sizes.pulled_bytes_max();
        let state = self.state(pass).ok_or(RunRefusal::Unknown)?;
        let cut = state.cut;
        let range = state.range_mut(number).ok_or(RunRefusal::Unknown)?;
        let mut before = after.map(|after| &**after);
        for entry in &entries {
            if before.is_some_and(|before| entry.key() <= before) {
                return Err(RunRefusal::Malformed("keys that are not in order"));
            }
            if !range.contains(entry.key()) {
                return Err(RunRefusal::Malformed("a key beyond the range"));
            }
            if !placement.is_replica(own, entry.key(), entry.copies()) {
                return Err(RunRefusal::Malformed("a version for other nodes"));
            }
            before = Some(entry.key());
        }
        let (keys, bytes) = range.take_in(entries, cut);
        Ok(TakenRun {
            keys,
            bytes,
            has_room: range.pulled_bytes < pulled_bytes_max,
        })
    }

    /// Writes into tables what waits for that. A pass whose tables cannot be written
    /// is given up: its driver finds that this node does not know it any more.
    ///
    /// # Errors
    /// As those of an ingest.
    pub(super) fn push_pulled(&mut self, pass: PassId) -> Result<(), Error> {
        self.give_up_if_outrun(pass);
        let pushed = match self.state(pass) {
            Some(state) => state.filling.push(),
            None => Ok(()),
        };
        if pushed.is_err() {
            self.give_up(pass);
        }
        pushed
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
