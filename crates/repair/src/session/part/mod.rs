//! What this node keeps of the sessions that it takes part in, and what it does for them with
//! its store.
//!
//! Everything here may read the disk and hash megabytes, so it runs as jobs of
//! the background class, one after another. A part of a session holds what was scanned ahead of
//! the range that is compared, and the items of that one.
//!
//! - `state`: the scan of one session, and its range.
//! - `joining`: how a node begins to take part, and ends that.
//! - `kept`: what was scanned and may be sent; `prepared`: a run that is read ahead.
//! - `runs`: how a range is streamed, and `stream_ingest`: how that gets into tables.
//! - `offers`: versions for nodes that do not compare them.
//! - `written_keys`: for which keys repair writes have come.

mod joining;
mod kept;
mod offers;
mod prepared;
mod runs;
mod state;
mod stream_ingest;
#[cfg(test)]
mod tests;
mod written_keys;

pub(super) use joining::Known;
pub(super) use offers::OfferReply;
pub(super) use prepared::{ReadRun, StreamedKeys};
pub(super) use runs::{Gap, RunRefusal, TakenRun};
pub(super) use state::Agreed;
pub(super) use stream_ingest::Streamed;
pub(super) use written_keys::WrittenKeys;

use crate::RepairSizes;
use crate::session::progress::StoreRead;
use base::{Clock, Entry, Timestamp};
use bytes::Bytes;
use cluster::comparison::symbols::{Decoder, Symbol, symbols_of};
use cluster::comparison::{Digest, Exchange, Item, RangeSummary, RepairKind};
use cluster::repair::SessionId;
use cluster::{NodeId, NodeTable};
use joining::EqualSession;
use lsm::{Engine, Error};
use membership::Layouts;
use peer::SYMBOLS_MAX;
use replica::ExpiryBound;
use state::{Position, Range, SessionPart, newest_of};
use std::collections::BTreeMap;
use std::sync::Arc;
use written_keys::Overflowed;

/// A range of a session.
pub(super) type RangeId = (SessionId, u32);

/// The bytes that are scanned in one job. It stops earlier once it has enough keys, so the
/// keys of a range are bounded however short they are: symbols must be enough for all of them.
const STEP_BYTES: usize = 1 << 20;

/// Below which timestamp this node does not send versions of keys that a damaged block may have
/// held, at this moment.
pub(super) type UncertainBelow = Box<dyn Fn() -> Timestamp + Send + Sync>;

/// What taking part works with.
pub(super) struct PartEnvironment {
    pub(super) engine: Engine,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) layouts: Layouts,
    pub(super) written: Arc<WrittenKeys>,
    pub(super) uncertain_below: UncertainBelow,
    pub(super) expiry: Arc<ExpiryBound>,
    pub(super) sizes: RepairSizes,
    /// From how many bytes of keys and values on an ingest is committed.
    pub(super) ingest_bytes_max: usize,
}

/// A node's part in sessions: in one of each kind at most.
pub(super) struct Participant {
    environment: PartEnvironment,
    parts: BTreeMap<SessionId, SessionPart>,
    /// For each node the last session that found this node equal with it. Lost at a
    /// restart, and with it what need not be compared again.
    last_equal: NodeTable<EqualSession>,
    /// The reach of this node, which covers every version that an incremental session may pass
    /// over. [`None`] until a session has seen the whole store.
    reach: Option<u8>,
}

/// Whether a scan has read enough for the next range.
pub(super) enum Advance {
    /// It has; up to this key, or to the end for [`None`].
    Reached(Option<Bytes>),
    /// Another job has to go on.
    GoOn,
    /// The session is not known.
    Unknown,
}

/// What follows from the end of a range.
pub(super) struct Digested {
    /// What the coordinator hears of it.
    pub(super) summary: RangeSummary,
    /// What was streamed of the range before.
    pub(super) streamed: Streamed,
    /// How far the session has come in the bytes of the store.
    pub(super) read: StoreRead,
}

/// What is sent to a node that lacks it.
#[derive(Debug)]
pub(super) struct Selected {
    pub(super) entries: Vec<Entry>,
    /// Of how many keys it is what is sent.
    pub(super) read: usize,
    /// Whether the two are equal in these keys then.
    pub(super) is_all: bool,
    /// The cut of the session.
    pub(super) cut: Timestamp,
}

/// What makes this node and another equal in a range.
#[derive(Debug)]
pub(super) struct Plan {
    /// The keys whose newest version the other node lacks.
    pub(super) send: Vec<Bytes>,
    /// The hashes of the keys whose newest version this node lacks.
    pub(super) fetch: Vec<u64>,
    /// Whether the two are equal once this is done.
    pub(super) makes_equal: bool,
}

/// The session, or the range, is not known any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnknownRange;

impl Participant {
    pub(super) fn new(environment: PartEnvironment) -> Self {
        Self {
            environment,
            parts: BTreeMap::new(),
            last_equal: NodeTable::default(),
            reach: None,
        }
    }

    /// Scans on for one step, unless what was scanned ahead is enough for a range. Calls `before`
    /// it reads anything.
    ///
    /// # Errors
    /// See [`lsm::Scan::advance`]; or that of `before`.
    pub(super) fn advance(
        &mut self,
        session: SessionId,
        start: &[u8],
        before: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Advance, Error> {
        let (engine, sizes) = (self.environment.engine.clone(), self.environment.sizes);
        let Some(part) = self.part(session) else {
            return Ok(Advance::Unknown);
        };
        part.skip_to(start);
        let from = match &part.position {
            Position::At(key) if !part.is_enough(sizes) => key.clone(),
            Position::At(key) => return Ok(Advance::Reached(Some(key.clone()))),
            Position::End => return Ok(Advance::Reached(None)),
        };
        before()?;
        let bounds = part.bounds.iter();
        let least = bounds.map(|bounds| bounds.least_in(&from, None)).min();
        let scan = engine.scan(&from, part.scan_end.as_deref());
        let scan = scan.with_read_ahead(&part.scanned_ahead);
        let mut scan = match part.kind {
            RepairKind::Incremental => scan.for_comparison(least.unwrap_or(Timestamp::ZERO)),
            RepairKind::Full => scan.for_full_comparison(),
        };
        part.scan_ahead(&mut scan, part.ahead_bytes + STEP_BYTES, sizes)?;
        Ok(Advance::GoOn)
    }

    /// The keys that are ahead of the scan of a session: from the first one to the one before
    /// which the scan ends, if there is such a key; [`None`] if there are none.
    pub(super) fn keys_ahead(&mut self, session: SessionId) -> Option<(Bytes, Option<Bytes>)> {
        self.part(session)?.keys_ahead()
    }

    /// Ends a range at `end`, and the one before is over.
    ///
    /// # Errors
    /// [`UnknownRange`].
    pub(super) fn digest(
        &mut self,
        session: SessionId,
        range: u32,
        end: Option<&[u8]>,
    ) -> Result<Digested, UnknownRange> {
        let (engine, now) = (
            self.environment.engine.clone(),
            self.environment.clock.monotonic(),
        );
        let part = self.part(session).ok_or(UnknownRange)?;
        let read = part.read(&engine, now);
        let streamed = part.end_range(range, end).ok_or(UnknownRange)?;
        let summary = part.summary(range).ok_or(UnknownRange)?;
        Ok(Digested {
            summary,
            streamed,
            read,
        })
    }

    /// Symbols over what is shared with another node.
    ///
    /// # Errors
    /// [`UnknownRange`].
    pub(super) fn symbols(
        &mut self,
        range: RangeId,
        asker: NodeId,
        first: u32,
        count: u32,
    ) -> Result<Vec<Symbol>, UnknownRange> {
        let count = count.min(SYMBOLS_MAX as u32);
        let numbers = first..first.saturating_add(count);
        Ok(symbols_of(self.shared_items(range, asker)?, numbers))
    }

    /// Takes note that this node differs from another one in a range. Returns whether that is new:
    /// a range that is compared again counts once.
    pub(super) fn differs(&mut self, (session, range): RangeId, with: NodeId) -> bool {
        let range = self.part(session).and_then(|part| part.range_mut(range));
        range.is_some_and(|range| range.differing.insert(with))
    }

    /// The digest of what this node shares with another one in a range, with what repair
    /// writes have brought since the range was scanned.
    pub(super) fn recount(&mut self, range: RangeId, with: NodeId) -> Result<Digest, UnknownRange> {
        self.take_in_written(range)?;
        // The two compare the range anew.
        self.part(range.0).ok_or(UnknownRange)?.prepared = None;
        self.shared_digest(range, with)
    }

    /// Takes into the items of a range what repair writes have brought. What the store has is what
    /// counts: one that it has refused has brought nothing.
    fn take_in_written(&mut self, (session, number): RangeId) -> Result<(), UnknownRange> {
        let (engine, written) = (
            self.environment.engine.clone(),
            Arc::clone(&self.environment.written),
        );
        let part = self.part(session).ok_or(UnknownRange)?;
        let (kind, cut) = (part.kind, part.cut);
        let keys = written.take(session).map_err(|Overflowed| UnknownRange)?;
        if keys.is_empty() {
            // What follows copies all items.
            return Ok(());
        }
        let range = part.range(number).ok_or(UnknownRange)?;
        let is_compared = |entry: &Entry| {
            (kind == RepairKind::Full || entry.timestamp() <= cut)
                && !part.is_left_out(entry.lend())
        };
        let mut stored = Vec::new();
        for key in keys.iter().filter(|key| range.contains(key)) {
            let newest = engine.get_skipping_damage(key).map_err(|error| {
                report_unreadable(&error);
                UnknownRange
            })?;
            stored.extend(newest.filter(is_compared));
        }
        let range = part.range_mut(number).ok_or(UnknownRange)?;
        let _newer = range.take_in_items(stored, cut);
        Ok(())
    }

    /// Takes symbols of another node, which has `theirs` of the range. Once the
    /// difference is known it gives what to do about it.
    ///
    /// # Errors
    /// [`UnknownRange`].
    pub(super) fn plan(
        &mut self,
        range: RangeId,
        with: NodeId,
        decoder: &mut Decoder,
        symbols: &[Symbol],
        theirs: Digest,
    ) -> Result<Option<Plan>, UnknownRange> {
        let items = self.shared_items(range, with)?;
        let Some(difference) = decoder.take(items.iter().copied(), symbols) else {
            return Ok(None);
        };
        let mine: Digest = items.into_iter().collect();
        let decoded = difference.applied_to(mine);
        // All that this node keeps of these keys, shared with the other or not.
        let only_theirs = difference.only_theirs.iter().map(|item| item.key_hash);
        let items = self.range(range)?.items();
        let kept: BTreeMap<u64, Item> = items
            .find(only_theirs.collect())
            .map(|(_, item)| (item.key_hash, item))
            .collect();
        let Exchange { send, fetch } = difference.exchange(|key_hash| kept.get(&key_hash).copied());
        let send = self.keys_of(range, send)?;
        Ok(Some(Plan {
            send,
            fetch,
            makes_equal: decoded == theirs,
        }))
    }

    /// The keys with these hashes.
    ///
    /// # Errors
    /// [`UnknownRange`].
    pub(super) fn keys_of(
        &mut self,
        range: RangeId,
        key_hashes: Vec<u64>,
    ) -> Result<Vec<Bytes>, UnknownRange> {
        let found = self.range(range)?.items().find(key_hashes);
        Ok(found.map(|(key, _)| Bytes::copy_from_slice(key)).collect())
    }

    /// The newest versions of some keys, which another node lacks: of as many keys as have so many
    /// bytes of keys and values, and of one at least. What a damaged block may have hidden is left
    /// out.
    ///
    /// # Errors
    /// [`UnknownRange`]; within, that of the store.
    pub(super) fn newest(
        &mut self,
        range: RangeId,
        keys: &[Bytes],
        bytes_max: usize,
    ) -> Result<Result<Selected, Error>, UnknownRange> {
        let (engine, is_certain) = (self.environment.engine.clone(), self.is_certain());
        let part = self.part(range.0).ok_or(UnknownRange)?;
        let of_range = part.range(range.1).ok_or(UnknownRange)?;
        let (mut entries, mut bytes, mut read) = (Vec::new(), 0, 0);
        let mut is_all = true;
        while let Some(key) = keys.get(read)
            && bytes < bytes_max
        {
            match newest_of(&engine, of_range, key) {
                Ok(Some(newest)) if !is_certain(key, newest.timestamp()) => is_all = false,
                Ok(newest) => {
                    bytes += newest.as_ref().map_or(0, Entry::data_bytes);
                    entries.extend(newest);
                }
                Err(error) => return Ok(Err(error)),
            }
            read += 1;
        }
        Ok(Ok(Selected {
            entries,
            read,
            is_all,
            cut: part.cut,
        }))
    }

    /// Whether no tombstone that damage may have taken away hides a version of this node, at this
    /// moment.
    fn is_certain(&self) -> impl Fn(&[u8], Timestamp) -> bool + use<> {
        let below = (self.environment.uncertain_below)();
        let engine = self.environment.engine.clone();
        move |key, timestamp| timestamp >= below || !engine.is_damaged(key)
    }

    /// The part in a session. A session is of one epoch: this node leaves it once another list of
    /// members is in force.
    fn part(&mut self, session: SessionId) -> Option<&mut SessionPart> {
        let now = self.environment.clock.monotonic();
        let epoch = self.environment.layouts.peek().epoch();
        if self.parts.get(&session)?.layout.epoch() != epoch {
            self.leave(session);
        }
        let part = self.parts.get_mut(&session)?;
        part.last_asked = now;
        Some(part)
    }

    fn range(&mut self, (session, number): RangeId) -> Result<&Range, UnknownRange> {
        let part = self.part(session).ok_or(UnknownRange)?;
        part.range(number).ok_or(UnknownRange)
    }

    fn shared_digest(
        &mut self,
        (session, number): RangeId,
        with: NodeId,
    ) -> Result<Digest, UnknownRange> {
        let part = self.part(session).ok_or(UnknownRange)?;
        part.digest_with(number, with).ok_or(UnknownRange)
    }

    fn shared_items(&mut self, range: RangeId, with: NodeId) -> Result<Vec<Item>, UnknownRange> {
        let part = self.part(range.0).ok_or(UnknownRange)?;
        let items = part.range(range.1).ok_or(UnknownRange)?.items();
        let comparison = part.comparison();
        Ok(items.shared_with(&comparison, with).collect())
    }
}

/// Logs that a repair cannot read this node's store.
pub(super) fn report_unreadable(error: &Error) {
    tracing::error!(
        %error,
        "a repair cannot read the store, so it finds this node equal with no other one: look at \
         the disk, and at earlier lines about it"
    );
}
