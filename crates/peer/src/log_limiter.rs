//! Limits warnings about peers, both repeated ones and those that a peer causes on purpose.
//!
//! A link keeps dialling an unreachable peer, and each runtime has its own link. So a problem is
//! logged only if it differs from the last one with the same peer in the same direction, and each
//! peer has its own rate. A node that has not proved itself can choose what its problem is, so
//! problems of such nodes are logged only once in a while.

use base::{LogLimiter, LogRate};
use profile::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// How often problems of unauthenticated nodes are logged.
const UNAUTHENTICATED: LogRate = LogRate {
    burst: 1,
    period: Duration::from_secs(10),
};

/// For how many names and directions there are limits: both of each of 255 nodes. Further
/// names count as those of unauthenticated nodes.
const NAMES_MAX: usize = 512;

/// Which side dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Direction {
    /// This node.
    Outgoing,
    /// The other node.
    Incoming,
}

/// The lines about each peer, shared by all runtimes: a limit for each peer and direction, and
/// one for all unauthenticated nodes.
#[derive(Debug, Default)]
pub struct PeerLog {
    limiters: Mutex<BTreeMap<(Direction, String), LogLimiter>>,
}

impl PeerLog {
    /// Calls `write` to log this problem with a peer, unless it is that of the last line, or
    /// there were too many. It gets how many lines were left out, if any were. An
    /// unauthenticated node has no name. `now` is on the monotonic clock.
    pub(super) fn line(
        &self,
        direction: Direction,
        name: Option<&str>,
        problem: &str,
        now: Duration,
        write: impl FnOnce(Option<u64>),
    ) {
        let left_out = {
            let mut limiters = lock(&self.limiters);
            let known = (direction, name.unwrap_or_default().to_owned());
            let is_known = limiters.len() < NAMES_MAX || limiters.contains_key(&known);
            let key = if is_known {
                known
            } else {
                (direction, String::new())
            };
            let rate = if key.1.is_empty() {
                UNAUTHENTICATED
            } else {
                LogRate::FAILURES
            };
            let limiter = limiters.entry(key).or_insert_with(|| LogLimiter::new(rate));
            if !limiter.admits_news(problem, now, Duration::MAX) {
                return;
            }
            limiter.take_left_out()
        };
        write((left_out > 0).then_some(left_out));
    }

    /// Forgets the last problem with a peer, because it is over. Returns whether
    /// there was one.
    pub(super) fn clear(&self, direction: Direction, name: &str) -> bool {
        let mut limiters = lock(&self.limiters);
        let limiter = limiters.get_mut(&(direction, name.to_owned()));
        limiter.is_some_and(LogLimiter::forget_last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the log says of a problem: `None` for nothing, or how many lines were left out.
    fn line(
        log: &PeerLog,
        direction: Direction,
        name: Option<&str>,
        problem: &str,
        second: u64,
    ) -> Option<Option<u64>> {
        let mut written = None;
        let now = Duration::from_secs(second);
        log.line(direction, name, problem, now, |left_out| {
            written = Some(left_out);
        });
        written
    }

    #[test]
    fn a_problem_is_logged_once_until_another_takes_its_place() {
        let log = PeerLog::default();
        let (to, from) = (Direction::Outgoing, Direction::Incoming);
        let is_logged =
            |direction, problem| line(&log, direction, Some("a"), problem, 0) == Some(None);
        assert!(is_logged(to, "secret"));
        assert!(!is_logged(to, "secret"));
        assert!(is_logged(from, "secret"));
        assert!(is_logged(to, "list"));
        assert!(is_logged(to, "secret"));
        assert!(log.clear(to, "a"));
        assert!(!log.clear(to, "a"));
        assert!(is_logged(to, "secret"));
    }

    /// Such a peer proves itself each time, so its problem is over each time.
    #[test]
    fn a_peer_that_misbehaves_again_and_again_has_a_few_lines_and_takes_none_from_others() {
        let log = PeerLog::default();
        let told = |name, second| {
            log.clear(Direction::Incoming, name);
            line(&log, Direction::Incoming, Some(name), "malformed", second)
        };
        let lines = (0..1000).filter_map(|_| told("bad", 0)).count();
        assert_eq!(lines, 10);
        assert_eq!(told("other", 0), Some(None));
        assert_eq!(told("bad", 10), Some(Some(990)));
    }

    #[test]
    fn problems_of_unauthenticated_nodes_are_logged_once_in_a_while() {
        let log = PeerLog::default();
        let told = |problem, second| line(&log, Direction::Incoming, None, problem, second);
        assert_eq!(told("one", 0), Some(None));
        assert_eq!(told("two", 9), None);
        assert_eq!(told("three", 10), Some(Some(1)));
        assert_eq!(told("three", 30), None);
        assert_eq!(told("four", 30), Some(None));
    }

    #[test]
    fn names_without_end_are_limited_as_one() {
        let log = PeerLog::default();
        let names = (0..10 * NAMES_MAX).map(|number| number.to_string());
        let lines = names
            .filter(|name| line(&log, Direction::Incoming, Some(name), "problem", 0).is_some());
        assert_eq!(lines.count(), NAMES_MAX + 1);
        assert_eq!(lock(&log.limiters).len(), NAMES_MAX + 1);
    }
}
