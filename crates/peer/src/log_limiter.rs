//! Limits warnings about peers, both repeated ones and those that a peer causes on purpose.
//!
//! A link keeps dialling an unreachable peer, and each runtime has its own link. So a problem is
//! logged only if it differs from the last one with the same peer in the same direction, and each
//! peer has its own rate. A node that has not proved itself can choose what its problem is, so
//! problems of such nodes are logged only once in a while.

use base::{Clock, LimitedLog, LogBounds, LogRate};
use std::sync::Arc;
use std::time::Duration;

/// By name and direction: both of each of 255 nodes. Nodes without a name are unauthenticated.
const BOUNDS: LogBounds = LogBounds {
    each: LogRate::FAILURES,
    others: LogRate {
        burst: 1,
        period: Duration::from_secs(10),
    },
    keys_max: 512,
};

/// Which side dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Direction {
    /// This node.
    Outgoing,
    /// The other node.
    Incoming,
}

/// The lines about each peer, shared by all runtimes.
#[derive(Debug)]
pub struct PeerLog(LimitedLog<(Direction, String)>);

impl PeerLog {
    /// Limits lines by this clock.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self(LimitedLog::new(clock, BOUNDS))
    }

    /// Calls `write` to log this problem with a peer, unless it is that of the last line, or
    /// there were too many. It gets how many lines were left out, if any were. An
    /// unauthenticated node has no name.
    pub(crate) fn line(
        &self,
        direction: Direction,
        name: Option<&str>,
        problem: &str,
        write: impl FnOnce(Option<u64>),
    ) {
        let key = name.map(|name| (direction, name.to_owned()));
        self.0.problem(key, problem, write);
    }

    /// Forgets the last problem with a peer, because it is over. Returns whether
    /// there was one.
    pub(crate) fn clear(&self, direction: Direction, name: &str) -> bool {
        self.0.forget_last((direction, name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ManualClock;

    #[test]
    fn directions_are_apart_and_nodes_without_a_name_share_a_limit() {
        let log = PeerLog::new(Arc::new(ManualClock::new(0)));
        let is_logged = |direction, name, problem| {
            let mut is_written = false;
            log.line(direction, name, problem, |_| is_written = true);
            is_written
        };
        let (to, from) = (Direction::Outgoing, Direction::Incoming);
        assert!(is_logged(to, Some("a"), "secret") && is_logged(from, Some("a"), "secret"));
        assert!(log.clear(to, "a") && !log.clear(to, "a"));
        assert!(is_logged(to, Some("a"), "secret") && !is_logged(from, Some("a"), "secret"));
        assert!(is_logged(from, None, "secret") && !is_logged(from, None, "list"));
    }
}
