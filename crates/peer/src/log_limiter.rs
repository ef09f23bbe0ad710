//! What was last said of each peer, so that a log says it once.
//!
//! Links are dialled again and again, each time perhaps in vain, and each
//! runtime has its own. A complaint is logged when it is not the last one that
//! was made of the same peer in the same direction. Strangers choose what is to
//! be complained of, so of them there is news only now and then.

use profile::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// How often there may be news of strangers.
const STRANGERS_EVERY: Duration = Duration::from_secs(10);

/// Who has dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Direction {
    /// This node.
    Outgoing,
    /// The other.
    Incoming,
}

/// What was last said of each peer; shared by all runtimes. It holds a line
/// for each node of the cluster and direction, and one for all strangers.
#[derive(Debug, Default)]
pub struct LogLimiter {
    last: Mutex<BTreeMap<(Direction, String), Line>>,
}

#[derive(Debug)]
struct Line {
    complaint: String,
    /// On the monotonic clock.
    noted: Duration,
}

impl LogLimiter {
    /// Notes a complaint; `true` if it is news. A stranger has no name. `now`
    /// is on the monotonic clock.
    #[must_use]
    pub(super) fn should_log(
        &self,
        direction: Direction,
        name: Option<&str>,
        complaint: &str,
        now: Duration,
    ) -> bool {
        let mut last = lock(&self.last);
        let key = (direction, name.unwrap_or_default().to_owned());
        if let Some(line) = last.get(&key)
            && (line.complaint == complaint
                || (name.is_none() && now < line.noted + STRANGERS_EVERY))
        {
            return false;
        }
        let line = Line {
            complaint: complaint.to_owned(),
            noted: now,
        };
        last.insert(key, line);
        true
    }

    /// There is nothing to complain about any more; `true` if there was.
    pub(super) fn settle(&self, direction: Direction, name: &str) -> bool {
        lock(&self.last)
            .remove(&(direction, name.to_owned()))
            .is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_news_until_it_is_repeated() {
        let log_limiter = LogLimiter::default();
        let (to, from) = (Direction::Outgoing, Direction::Incoming);
        let should_log = |direction, complaint| {
            log_limiter.should_log(direction, Some("a"), complaint, Duration::ZERO)
        };
        assert!(should_log(to, "secret"));
        assert!(!should_log(to, "secret"));
        assert!(should_log(from, "secret"));
        assert!(should_log(to, "list"));
        assert!(should_log(to, "secret"));
        assert!(log_limiter.settle(to, "a"));
        assert!(!log_limiter.settle(to, "a"));
        assert!(should_log(to, "secret"));
    }

    #[test]
    fn strangers_make_news_now_and_then() {
        let log_limiter = LogLimiter::default();
        let should_log = |complaint, second| {
            let now = Duration::from_secs(second);
            log_limiter.should_log(Direction::Incoming, None, complaint, now)
        };
        assert!(should_log("one", 0));
        assert!(!should_log("two", 9));
        assert!(should_log("three", 10));
        assert!(!should_log("three", 30));
        assert!(should_log("four", 30));
    }
}
