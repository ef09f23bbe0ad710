//! Keeps repeated warnings about peers out of the log.
//!
//! A link dials an unreachable peer again and again, and each runtime has its
//! own link. So a problem is logged only if it differs from the last one with
//! the same peer in the same direction. A node that has not proved itself can
//! choose what its problem is, so problems of such nodes are logged only once in
//! a while.

use profile::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// The least time between two logged problems of unauthenticated nodes.
const UNAUTHENTICATED_EVERY: Duration = Duration::from_secs(10);

/// Which side dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Direction {
    /// This node.
    Outgoing,
    /// The other node.
    Incoming,
}

/// The last problem with each peer, shared by all runtimes. It holds one problem
/// for each peer and direction, and one for all unauthenticated nodes.
#[derive(Debug, Default)]
pub struct LogLimiter {
    last: Mutex<BTreeMap<(Direction, String), LoggedProblem>>,
}

#[derive(Debug)]
struct LoggedProblem {
    problem: String,
    /// On the monotonic clock.
    logged: Duration,
}

impl LogLimiter {
    /// Whether to log this problem with a peer; if so, remembers it. An
    /// unauthenticated node has no name. `now` is on the monotonic clock.
    #[must_use]
    pub(super) fn should_log(
        &self,
        direction: Direction,
        name: Option<&str>,
        problem: &str,
        now: Duration,
    ) -> bool {
        let mut last = lock(&self.last);
        let key = (direction, name.unwrap_or_default().to_owned());
        if let Some(last) = last.get(&key)
            && (last.problem == problem
                || (name.is_none() && now < last.logged + UNAUTHENTICATED_EVERY))
        {
            return false;
        }
        let logged = LoggedProblem {
            problem: problem.to_owned(),
            logged: now,
        };
        last.insert(key, logged);
        true
    }

    /// Forgets the last problem with a peer, because it is over. Returns whether
    /// there was one.
    pub(super) fn clear(&self, direction: Direction, name: &str) -> bool {
        lock(&self.last)
            .remove(&(direction, name.to_owned()))
            .is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_logged_once_until_another_takes_its_place() {
        let limiter = LogLimiter::default();
        let (to, from) = (Direction::Outgoing, Direction::Incoming);
        let should_log =
            |direction, problem| limiter.should_log(direction, Some("a"), problem, Duration::ZERO);
        assert!(should_log(to, "secret"));
        assert!(!should_log(to, "secret"));
        assert!(should_log(from, "secret"));
        assert!(should_log(to, "list"));
        assert!(should_log(to, "secret"));
        assert!(limiter.clear(to, "a"));
        assert!(!limiter.clear(to, "a"));
        assert!(should_log(to, "secret"));
    }

    #[test]
    fn problems_of_unauthenticated_nodes_are_logged_once_in_a_while() {
        let limiter = LogLimiter::default();
        let should_log = |problem, second| {
            let now = Duration::from_secs(second);
            limiter.should_log(Direction::Incoming, None, problem, now)
        };
        assert!(should_log("one", 0));
        assert!(!should_log("two", 9));
        assert!(should_log("three", 10));
        assert!(!should_log("three", 30));
        assert!(should_log("four", 30));
    }
}
