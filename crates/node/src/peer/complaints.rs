//! What was last said of each peer, so that a log says it once.
//!
//! Links are dialled again and again, each time perhaps in vain, and each
//! runtime has its own. A complaint is logged when it is not the last one that
//! was made of the same peer in the same direction.

use crate::executor::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;

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
pub(crate) struct Complaints {
    last: Mutex<BTreeMap<(Direction, String), String>>,
}

impl Complaints {
    /// Notes a complaint; `true` if it is news. A stranger has no name.
    #[must_use]
    pub(super) fn is_news(
        &self,
        direction: Direction,
        name: Option<&str>,
        complaint: &str,
    ) -> bool {
        let mut last = lock(&self.last);
        let line = (direction, name.unwrap_or_default().to_owned());
        if last.get(&line).is_some_and(|last| last == complaint) {
            return false;
        }
        last.insert(line, complaint.to_owned());
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
        let complaints = Complaints::default();
        let (to, from) = (Direction::Outgoing, Direction::Incoming);
        assert!(complaints.is_news(to, Some("a"), "secret"));
        assert!(!complaints.is_news(to, Some("a"), "secret"));
        assert!(complaints.is_news(from, Some("a"), "secret"));
        assert!(complaints.is_news(to, None, "secret"));
        assert!(complaints.is_news(to, Some("a"), "list"));
        assert!(complaints.is_news(to, Some("a"), "secret"));
        assert!(complaints.settle(to, "a"));
        assert!(!complaints.settle(to, "a"));
        assert!(complaints.is_news(to, Some("a"), "secret"));
    }
}
