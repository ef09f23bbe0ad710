//! Which fences and forget bounds of other members this node believes.
//!
//! A store refuses what is below its fence and below the greatest forget bound that it has
//! heard of. So one bound from the future, named by a member whose clock was wrong or that is
//! not sound, would stop all writes, and everybody who heard of it would pass it on. But each
//! member raises its fence at most to the grace before its own time, while its clock is trusted,
//! and the grace is at least the age of hints plus twice what clocks may differ. So a bound that
//! is not the age of hints in the past was never shown by a pass, and is not believed, however it
//! comes: with hellos and heartbeats, with answers to reads, in the requests of a pass, and in the
//! answers to them.

use super::{ForgetFile, Forgetting, Heard};
use base::{LogBounds, LogRate, Timestamp};
use cluster::ReplicaState;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The lines about bounds that are not believed: how often a member has one.
pub(super) const REFUSED: LogBounds = LogBounds {
    each: ONCE_IN_A_WHILE,
    others: ONCE_IN_A_WHILE,
    keys_max: 255,
};

const ONCE_IN_A_WHILE: LogRate = LogRate {
    burst: 1,
    period: Duration::from_secs(600),
};

impl Forgetting {
    /// Whether to believe a fence or a forget bound that the member `name` names. It is logged if
    /// not, once in a while for each member.
    pub fn believes(&self, name: &str, named: Timestamp) -> bool {
        let latest = (self.environment.latest_named)();
        // What it knows already was believed under other options, or is no better itself.
        if named <= latest.max(self.greatest()) {
            return true;
        }
        self.refused.line(name.to_owned(), |_left_out| {
            tracing::error!(
                node = name,
                %named,
                %latest,
                "a node names a fence or a GC threshold from the future, which no repair can have \
                 shown: it is not believed. Its clock was wrong, or it is not sound. Look at its \
                 clock and at this one's; if both are right now, replace that node"
            );
        });
        false
    }

    /// As [`Forgetting::hear`], of what the member `name` names, as far as that is believed.
    pub fn hear_from(
        self: &Arc<Self>,
        name: &str,
        heard: Heard,
        replica_state: ReplicaState,
    ) -> Option<oneshot::Receiver<()>> {
        let believed = |named| {
            if self.believes(name, named) {
                named
            } else {
                Timestamp::ZERO
            }
        };
        let heard = Heard {
            forgotten: believed(heard.forgotten),
            fence: believed(heard.fence),
        };
        self.hear(heard, replica_state)
    }
}

/// Warns the operator if the node's own file says what it would not believe of others. It is kept:
/// this node's clock may be the wrong one.
pub(super) fn warn_of_future(stored: &ForgetFile, latest: Timestamp) {
    let greatest = stored.bounds.fence.max(stored.bounds.forgotten);
    let greatest = greatest.max(stored.greatest);
    if greatest > latest {
        tracing::error!(
            bound = %greatest,
            %latest,
            "by this node's clock, the fence or the GC threshold in the file FORGET comes from the \
             future, and writes below it are refused here: correct the clock; or if it is right, \
             replace this node, or start all nodes with --drop-future-versions if all say so"
        );
    }
}
