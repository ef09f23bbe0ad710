//! Whole compactions: an operator asks that everything in the store be compacted now.
//!
//! It is done in pieces ([`Walk`]), each no larger than an ordinary compaction. Ordinary
//! ones take turns with the pieces, and go first while compaction is behind. So writes go
//! on, and neither time nor room for more than a piece is taken at once. What is in memory
//! when the compaction begins is flushed first.
//!
//! When it ends without a failure, no tombstone and no non-owned version is left that was in
//! the store when it began and below the GC threshold, but for those that a living snapshot or
//! a damaged table needs, and for those under which something older has come meanwhile.

use super::gc_thresholds::GcThresholds;
use super::merging::Replaced;
use super::pick::{Pick, PickSettings, Reason, Walk};
use crate::engine::core::Core;
use crate::error::Error;
use crate::locks::lock;
use std::sync::Mutex;

/// Where whole compactions stand.
#[derive(Clone, Debug, Default)]
pub struct WholeCompaction {
    /// The number of the last one that was ordered since the store was opened; 0 if none
    /// was.
    pub ordered: u64,
    /// The number of the last one that has ended. One is under way while that is less
    /// than `ordered`.
    pub ended: u64,
    /// Why the last one that ended has failed; `None` if it has done its work.
    pub failure: Option<Error>,
    /// The bytes of the keys and values that the last one that was ordered has merged.
    pub merged_bytes: u64,
}

impl WholeCompaction {
    fn is_under_way(&self) -> bool {
        self.ended < self.ordered
    }
}

/// What was ordered, and how it ended. One compaction is under way at a time.
///
/// Its lock is held briefly, and no other lock is taken meanwhile.
#[derive(Default)]
pub(crate) struct Orders(Mutex<WholeCompaction>);

impl Orders {
    /// Orders a compaction, or joins the one under way. Returns its number.
    pub(super) fn order(&self) -> u64 {
        let mut state = lock(&self.0);
        if !state.is_under_way() {
            state.ordered += 1;
            state.merged_bytes = 0;
        }
        state.ordered
    }

    pub(super) fn get(&self) -> WholeCompaction {
        lock(&self.0).clone()
    }

    pub(super) fn is_under_way(&self) -> bool {
        lock(&self.0).is_under_way()
    }

    /// Ends the compaction under way, if there is one.
    pub(super) fn end(&self, failure: Option<Error>) {
        let mut state = lock(&self.0);
        if !state.is_under_way() {
            return;
        }
        state.ended = state.ordered;
        match &failure {
            None => tracing::info!(
                merged_bytes = state.merged_bytes,
                "the full compaction has \
             ended"
            ),
            Some(Error::Closed) => {}
            Some(error) => tracing::warn!(%error, "the full compaction failed"),
        }
        state.failure = failure;
    }

    /// How the compaction with this number has ended; `None` while it is under way.
    pub(super) fn outcome(&self, number: u64) -> Option<Result<(), Error>> {
        let state = lock(&self.0);
        (state.ended >= number).then(|| match &state.failure {
            Some(failure) if state.ended == number => Err(failure.clone()),
            _ => Ok(()),
        })
    }

    fn note_merged(&self, bytes: u64) {
        let mut state = lock(&self.0);
        state.merged_bytes = state.merged_bytes.saturating_add(bytes);
    }
}

/// The whole compaction under way, between its pieces.
#[derive(Default)]
pub(super) struct Whole {
    /// What was in memory when it began is in segments below this one.
    memory_below_segment: Option<u64>,
    walk: Option<Walk>,
    /// Whether the last compaction that began was a piece of it.
    pub(super) had_turn: bool,
}

impl Whole {
    /// The next piece; `None` if it is over, or waits for a flush. An error ends it.
    pub(super) fn pick(
        &mut self,
        settings: &PickSettings,
        gc_thresholds: GcThresholds,
        orders: &Orders,
        core: &Core,
    ) -> Option<Pick> {
        if !orders.is_under_way() {
            *self = Self::default();
            return None;
        }
        match self.is_flushed(core) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => {
                orders.end(Some(error));
                return None;
            }
        }
        let levels = core.tables.summaries();
        let walk = self.walk.get_or_insert_with(|| Walk::new(&levels));
        let next = walk.next(&levels, settings, gc_thresholds);
        if next.is_none() {
            orders.end(None);
            *self = Self::default();
        }
        next
    }

    /// Whether nothing is compacted before what is in memory is flushed.
    pub(super) fn awaits_flush(&self) -> bool {
        self.walk.is_none()
    }

    /// Whether everything that was in memory when this began is in tables.
    fn is_flushed(&mut self, core: &Core) -> Result<bool, Error> {
        let segment = match self.memory_below_segment {
            Some(segment) => segment,
            None => {
                let mut committer = core.log.lock();
                if !core.tables.load().active.is_empty() {
                    if core.tables.load().frozen.len() >= core.options.memtables_frozen_max {
                        // The flush under way wakes compaction when it ends.
                        return Ok(false);
                    }
                    core.log.freeze(&mut committer, core)?;
                }
                *self
                    .memory_below_segment
                    .insert(core.tables.load().active.segment())
            }
        };
        let state = core.tables.load();
        Ok(state
            .frozen
            .iter()
            .all(|memtable| memtable.segment() >= segment))
    }

    /// Notes what a compaction has replaced.
    pub(super) fn note_replaced(&mut self, replaced: &Replaced, orders: &Orders) {
        if let (Reason::Whole, Some(walk)) = (replaced.pick.reason, &mut self.walk) {
            let outputs = replaced.outputs.iter().map(|(id, _)| *id);
            walk.note_replaced(&replaced.pick, outputs);
            orders.note_merged(replaced.input_entry_bytes);
        }
    }
}
