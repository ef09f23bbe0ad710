//! Which closed timestamps and GC thresholds of other members this node believes.
//!
//! A store refuses what is below its closed timestamp and below its GC threshold. So one from the
//! future, named by a member whose clock was wrong or that is not sound, would stop all writes, and
//! everybody who heard of it would pass it on. But each member raises its closed timestamp at most
//! to the grace before its own time, while its clock is trusted, and the GC grace is at least the age
//! of hints plus twice what clocks may differ. So a timestamp that is less than the age of hints in
//! the past was never shown by a session, and is not believed, however it comes: with hellos and
//! heartbeats, with answers to reads, in the requests of a session, and in the answers to them.

use super::{StoreFile, StoreSide};
use base::{LogBounds, LogRate, Timestamp};
use std::time::Duration;

/// The lines about timestamps that are not believed: how often a member has one.
pub(super) const REFUSED: LogBounds = LogBounds {
    each: ONCE_IN_A_WHILE,
    others: ONCE_IN_A_WHILE,
    keys_max: 255,
};

const ONCE_IN_A_WHILE: LogRate = LogRate {
    burst: 1,
    period: Duration::from_secs(600),
};

impl StoreSide {
    /// Whether to believe a closed timestamp or a GC threshold that the member `name` names. It is
    /// logged if not, once in a while for each member.
    pub fn believes(&self, name: &str, named: Timestamp) -> bool {
        let latest = (self.environment.latest_named)();
        // What it knows already was believed under other options, or is no better itself.
        if named <= latest.max(self.greatest_known()) {
            return true;
        }
        self.log.line(name.to_owned(), |_left_out| {
            tracing::error!(
                node = name,
                %named,
                %latest,
                "a node names a closed timestamp or a GC threshold from the future, which no repair \
                 can have shown: it is not believed. Its clock was wrong, or it is not sound. Look at its \
                 clock and at this one's; if both are right now, replace that node"
            );
        });
        false
    }
}

/// Warns the operator if the node's own file says what it would not believe of others. It is kept:
/// this node's clock may be the wrong one.
pub(super) fn warn_of_future(stored: &StoreFile, latest: Timestamp) {
    let greatest = stored.greatest();
    if greatest > latest {
        tracing::error!(
            named = %greatest,
            %latest,
            "by this node's clock, the closed timestamp or the GC threshold in the file TOMBSTONE_GC \
             comes from the future, and writes below it are refused here: correct the clock; or if it is right, \
             replace this node, or start all nodes with --drop-future-versions if all say so"
        );
    }
}
