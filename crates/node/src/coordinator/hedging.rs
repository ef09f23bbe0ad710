//! Decides when a read asks one replica more than it needs (Dean and Barroso, "The Tail at Scale",
//! 2013).

use cluster::ReplicaIndex;
use std::cell::Cell;
use tokio::time::Instant;

/// One hedge is earned by this many reads.
const READS_A_HEDGE: u32 = 20;

/// The most hedges that may be saved up.
const HEDGES_SAVED_MAX: u32 = 64;

/// How many reads may be hedged because a replica is slow: 5 in 100 ([`READS_A_HEDGE`]), so
/// that hedges cannot add to an overload.
#[derive(Default)]
pub(crate) struct HedgeBudget {
    /// In parts of a hedge.
    saved: Cell<u32>,
}

impl HedgeBudget {
    /// Counts a read that has more replicas than it needs.
    pub(super) fn earn(&self) {
        let saved = self.saved.get() + 1;
        self.saved.set(saved.min(HEDGES_SAVED_MAX * READS_A_HEDGE));
    }

    /// Takes one hedge; returns whether there was one.
    pub(super) fn spend(&self) -> bool {
        match self.saved.get().checked_sub(READS_A_HEDGE) {
            Some(rest) => {
                self.saved.set(rest);
                true
            }
            None => false,
        }
    }
}

/// When to ask one replica more, because of a replica that has not answered.
#[derive(Clone, Copy)]
pub(super) struct Hedge {
    /// When.
    pub(super) at: Instant,
    /// The replica that has not answered.
    pub(super) replica: ReplicaIndex,
    /// Why then.
    pub(super) reason: HedgeReason,
}

/// Why a replica counts as slow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HedgeReason {
    /// It is slower than it usually is: the budget decides.
    Slow,
    /// Half of the time is over. Without another replica the request fails, so one
    /// is asked in any case.
    HalfTime,
}
