//! What this node keeps of the passes that it takes part in, and what it does
//! for them with its store.
//!
//! Everything here may read the disk and hash megabytes, so it runs as jobs of
//! the background class, one after another. A pass holds what was scanned ahead of
//! the range that is due, and the items of the last few ranges, until nobody can
//! ask for them any more.

use super::exchange::RangeId;
use super::mended::{MendedKeys, Overflowed};
use super::pass_state::{PassState, Position, Range, newest_of};
use crate::SweepSizes;
use base::{Clock, Entry, Timestamp};
use bytes::Bytes;
use cluster::sweep::symbols::{Decoder, Symbol, symbols_of};
use cluster::sweep::{Digest, Exchange, Incarnation, Item, KeyBounds, PassId, PassKind};
use cluster::{NodeId, Placement};
use lsm::{Engine, Error};
use peer::{SYMBOLS_MAX, SweepAnswer};
use replica::ExpiryBound;
use replica::SharedBounds;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The bytes that are scanned in one job. It stops earlier once it has enough keys, so the
/// keys of a range are bounded however short they are: symbols must be enough for all of them.
const STEP_BYTES: usize = 1 << 20;

/// Whether the store only receives below the greatest forget bound, at this moment.
pub(super) type IsReceiver = Box<dyn Fn() -> bool + Send + Sync>;

/// What taking part works with.
pub(super) struct ParticipantEnvironment {
    pub(super) engine: Engine,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) placement: Arc<Placement>,
    pub(super) own: NodeId,
    pub(super) mended: Arc<MendedKeys>,
    pub(super) bounds: Arc<SharedBounds>,
    pub(super) is_receiver: IsReceiver,
    pub(super) expiry: Arc<ExpiryBound>,
    pub(super) sizes: SweepSizes,
    /// From how many bytes of keys and values on an ingest is committed.
    pub(super) ingest_bytes_max: usize,
}

/// A node's part in passes.
pub(super) struct Participant {
    pub(super) environment: ParticipantEnvironment,
    pub(super) passes: BTreeMap<PassId, PassState>,
    /// By node number: the last pass that found this node equal with it. Lost at a
    /// restart, and with it what need not be compared again.
    pub(super) last_clean: Vec<Option<CleanPass>>,
    /// The reach of this node, which covers every version that a recent pass may pass
    /// over. [`None`] until a pass has seen the whole store.
    pub(super) reach: Option<u8>,
}

/// What a node remembers of the last pass that found it equal with another.
#[derive(Clone, Copy)]
pub(super) struct CleanPass {
    /// Versions above it were left out.
    cut: Timestamp,
    /// The last record of this node's store when the pass began.
    sequence: u64,
}

/// Whether a scan has read enough for the next range.
pub(super) enum Advance {
    /// It has; up to this key, or to the end for [`None`].
    Reached(Option<Bytes>),
    /// Another job has to go on.
    GoOn,
    /// The pass is not known.
    Unknown,
}

/// What is sent to a node that lacks it.
#[derive(Debug)]
pub(super) struct Selected {
    pub(super) entries: Vec<Entry>,
    /// Of how many keys it is what is sent.
    pub(super) read: usize,
    /// Whether the two are equal in these keys then: see [`Participant::withhold`].
    pub(super) is_all: bool,
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

/// What a pass was to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) kind: PassKind,
    /// Whether this node has not been restarted since it began.
    pub(super) is_from_begin: bool,
}

/// The pass, or the range, is not known any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnknownRange;

impl Participant {
    pub(super) fn new(environment: ParticipantEnvironment) -> Self {
        let last_clean = vec![None; environment.placement.nodes()];
        Self {
            environment,
            passes: BTreeMap::new(),
            last_clean,
            reach: None,
        }
    }

    /// Scans on for one step, unless what was scanned ahead is enough for a range.
    ///
    /// # Errors
    /// See [`lsm::Scan::advance`].
    pub(super) fn advance(&mut self, pass: PassId, start: &[u8]) -> Result<Advance, Error> {
        let (engine, sizes) = (self.environment.engine.clone(), self.environment.sizes);
        let Some(state) = self.state(pass) else {
            return Ok(Advance::Unknown);
        };
        state.skip_to(start);
        let from = match &state.position {
            Position::At(key) if !state.is_enough(sizes) => key.clone(),
            Position::At(key) => return Ok(Advance::Reached(Some(key.clone()))),
            Position::End => return Ok(Advance::Reached(None)),
        };
        let bounds = state.bounds.iter();
        let least = bounds.map(|bounds| bounds.least_in(&from, None)).min();
        let scan = engine.scan(&from, state.scan_end.as_deref());
        let scan = scan.with_read_ahead(&state.scanned_ahead);
        let mut scan = match state.kind {
            PassKind::Recent => scan.for_comparison(least.unwrap_or(Timestamp::ZERO)),
            PassKind::Full => scan.for_full_comparison(),
        };
        state.scan_ahead(&mut scan, state.ahead_bytes + STEP_BYTES, sizes)?;
        Ok(Advance::GoOn)
    }

    /// The digests of the range that ends at `end`.
    pub(super) fn digest(&mut self, pass: PassId, range: u32, end: Option<&[u8]>) -> SweepAnswer {
        let (own, placement) = (
            self.environment.own,
            Arc::clone(&self.environment.placement),
        );
        self.give_up_if_outrun(pass);
        let Some(state) = self.state(pass) else {
            return SweepAnswer::Unknown;
        };
        if !state.end_range(range, end) {
            return SweepAnswer::Unknown;
        }
        let compared = (state.kind == PassKind::Full)
            .then(|| state.compared_keys())
            .flatten();
        if let Some((start, end)) = compared {
            self.environment.mended.expect(pass, start, end);
        }
        let Some(state) = self.state(pass) else {
            return SweepAnswer::Unknown;
        };
        let Some(summary) = state.summary(range, &placement, own) else {
            return SweepAnswer::Unknown;
        };
        SweepAnswer::Digests {
            surplus: summary.surplus,
            announces: summary.announces,
            single_copies: summary.single_copies,
            digests: summary.digests,
        }
    }

    /// Symbols over what is shared with another node.
    pub(super) fn symbols(
        &mut self,
        range: RangeId,
        asker: NodeId,
        first: u32,
        count: u32,
    ) -> SweepAnswer {
        let count = count.min(SYMBOLS_MAX as u32);
        let numbers = first..first.saturating_add(count);
        match self.shared_items(range, asker) {
            Ok(items) => SweepAnswer::Symbols(symbols_of(items, numbers)),
            Err(UnknownRange) => SweepAnswer::Unknown,
        }
    }

    /// The digest of what this node shares with another one in a range, with what mends
    /// have brought since the range was scanned.
    pub(super) fn recount(&mut self, range: RangeId, with: NodeId) -> Result<Digest, UnknownRange> {
        self.take_in_mends(range)?;
        Ok(self.shared_items(range, with)?.into_iter().collect())
    }

    /// Takes into the items of a range what mends have brought. What the store has is what
    /// counts: a mend that it has refused has brought nothing.
    pub(super) fn take_in_mends(&mut self, (pass, number): RangeId) -> Result<(), UnknownRange> {
        let (engine, mended) = (
            self.environment.engine.clone(),
            Arc::clone(&self.environment.mended),
        );
        let state = self.state(pass).ok_or(UnknownRange)?;
        let (kind, cut) = (state.kind, state.cut);
        let keys = mended.take(pass).map_err(|Overflowed| UnknownRange)?;
        if keys.is_empty() {
            // What follows copies all items.
            return Ok(());
        }
        let range = state.range(number).ok_or(UnknownRange)?;
        let is_compared = |entry: &Entry| {
            (kind == PassKind::Full || entry.timestamp() <= cut)
                && !state.is_forgotten(entry.lend())
        };
        let mut stored = Vec::new();
        for key in keys.iter().filter(|key| range.contains(key)) {
            let newest = engine.get_skipping_damage(key).map_err(|error| {
                super::report_unreadable(&error);
                UnknownRange
            })?;
            stored.extend(newest.filter(is_compared));
        }
        let range = state.range_mut(number).ok_or(UnknownRange)?;
        let _newer = range.items.take_in(stored, cut);
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
        let items = &self.range(range)?.items;
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
        let found = self.range(range)?.items.find(key_hashes);
        Ok(found.map(|(key, _)| Bytes::copy_from_slice(key)).collect())
    }

    /// The newest versions of some keys, which a node lacks, but for those that are withheld:
    /// of as many keys as have so many bytes of keys and values, and of one at least.
    ///
    /// # Errors
    /// [`UnknownRange`]; within, that of the store.
    pub(super) fn newest(
        &mut self,
        range: RangeId,
        lacking: NodeId,
        keys: &[Bytes],
        bytes_max: usize,
    ) -> Result<Result<Selected, Error>, UnknownRange> {
        let engine = self.environment.engine.clone();
        let of_range = self.range(range)?;
        let (mut entries, mut bytes, mut read) = (Vec::new(), 0, 0);
        while let Some(key) = keys.get(read)
            && bytes < bytes_max
        {
            match newest_of(&engine, of_range, key) {
                Ok(newest) => {
                    bytes += newest.as_ref().map_or(0, Entry::data_bytes);
                    entries.extend(newest);
                }
                Err(error) => return Ok(Err(error)),
            }
            read += 1;
        }
        let is_all = self.withhold(range.0, lacking, &mut entries);
        Ok(Ok(Selected {
            entries,
            read,
            is_all,
        }))
    }

    /// Forgets a pass that found this node equal with some others. Gives what it was,
    /// if this node has taken part in it with this store. A full pass that found it equal
    /// with all others has brought what damaged parts of the store had held.
    pub(super) fn end(
        &mut self,
        pass: PassId,
        incarnation: Incarnation,
        clean_with: &[NodeId],
    ) -> Option<Ended> {
        let state = self.passes.remove(&pass)?;
        if state.incarnation != incarnation {
            return None;
        }
        for node in clean_with {
            if let Some(last_clean) = self.last_clean.get_mut(node.index())
                && let Some(sequence) = state.sequence
            {
                *last_clean = Some(CleanPass {
                    cut: state.cut,
                    sequence,
                });
            }
        }
        let mut others =
            (0..self.last_clean.len()).filter(|node| *node != self.environment.own.index());
        if state.kind == PassKind::Full
            && others.all(|other| clean_with.iter().any(|node| node.index() == other))
            && let Some(damage) = state.damage
        {
            self.environment.engine.damage_compared(damage);
        }
        // What this pass has seen may be what another one passes over.
        for other in self.passes.values_mut() {
            other.reach = other.reach.max(state.reach);
        }
        self.reach = if state.has_seen_all() {
            Some(state.reach)
        } else {
            self.reach.map(|reach| reach.max(state.reach))
        };
        Some(Ended {
            kind: state.kind,
            is_from_begin: state.sequence.is_some(),
        })
    }

    /// Makes durable what the store has committed, and what the pass has brought in
    /// bulk. Returns whether this node takes part in the pass: after a restart it may
    /// have lost what the pass has brought since the last checkpoint.
    ///
    /// # Errors
    /// See [`Engine::sync`] and [`Filling::commit`]. The pass is given up then.
    pub(super) fn sync(&mut self, pass: PassId) -> Result<bool, Error> {
        self.give_up_if_outrun(pass);
        let Some(state) = self.state(pass) else {
            return Ok(false);
        };
        if let Err(error) = state.commit_pulled() {
            self.give_up(pass);
            return Err(error);
        }
        self.environment.engine.sync()?;
        Ok(true)
    }

    /// What need not be compared again with each node: what is older than all that
    /// came since the two were found equal.
    pub(super) fn bounds(&self) -> Vec<KeyBounds> {
        let bounds_since = |clean: &CleanPass| {
            // A change that cannot be read is not known: everything is compared.
            let changes = self.environment.engine.changes_since(clean.sequence).ok()?;
            let unchanged = KeyBounds::constant(Timestamp::MAX);
            let changed = changes.into_iter().map(|least| {
                let before = (Vec::new(), Timestamp::MAX);
                KeyBounds::from_steps(std::iter::once(before).chain(least))
            });
            let bounds = changed.fold(unchanged, |bounds, changed| bounds.min(&changed));
            Some(bounds.at_most(clean.cut))
        };
        let steps_max = peer::bound_steps_max(self.last_clean.len());
        let bounds = self.last_clean.iter().map(|clean| {
            let bounds = clean.as_ref().and_then(bounds_since);
            let bounds = bounds.unwrap_or_else(KeyBounds::everything);
            bounds.with_steps_at_most(steps_max)
        });
        bounds.collect()
    }

    pub(super) fn state(&mut self, pass: PassId) -> Option<&mut PassState> {
        let now = self.environment.clock.monotonic();
        let state = self.passes.get_mut(&pass)?;
        state.last_asked = now;
        Some(state)
    }

    pub(super) fn range(&mut self, (pass, number): RangeId) -> Result<&Range, UnknownRange> {
        let state = self.state(pass).ok_or(UnknownRange)?;
        state.range(number).ok_or(UnknownRange)
    }

    pub(super) fn shared_items(
        &mut self,
        range: RangeId,
        with: NodeId,
    ) -> Result<Vec<Item>, UnknownRange> {
        let (own, placement) = (
            self.environment.own,
            Arc::clone(&self.environment.placement),
        );
        let state = self.state(range.0).ok_or(UnknownRange)?;
        let items = &state.range(range.1).ok_or(UnknownRange)?.items;
        let comparison = state.comparison(&placement, own);
        Ok(items.shared_with(&comparison, with).collect())
    }
}
