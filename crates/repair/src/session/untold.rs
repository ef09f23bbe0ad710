//! Who has not heard how the last full session of this node has ended.

use base::{Clock, Timestamp};
use cluster::NodeId;
use cluster::repair::{SESSION_IDLE_MAX, Token};
use profile::lock;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A session that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Over {
    /// Its last attempt.
    pub(super) token: Token,
    /// The first attempt of which it is known that it has raised nothing, unless it is the last.
    pub(super) first: Token,
    /// What the GC threshold has risen to; [`Timestamp::ZERO`] if it has not.
    pub(super) gc_threshold: Timestamp,
    /// The nodes that have not heard it.
    pub(super) nodes: BTreeSet<NodeId>,
}

/// The last full session that this node has coordinated, until all nodes have heard that it is
/// over, or take it for idle.
pub(super) struct Untold {
    clock: Arc<dyn Clock>,
    /// With the time when it ended, on the monotonic clock.
    last: Mutex<Option<(Over, Duration)>>,
}

impl Untold {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            last: Mutex::default(),
        }
    }

    /// A session has ended.
    pub(super) fn end(&self, over: Over) {
        *lock(&self.last) = Some((over, self.clock.monotonic()));
    }

    /// The session that nodes have to hear of, if there is one.
    pub(super) fn last(&self) -> Option<Over> {
        let now = self.clock.monotonic();
        let mut last = lock(&self.last);
        last.take_if(|(over, ended)| {
            over.nodes.is_empty() || now.saturating_sub(*ended) >= SESSION_IDLE_MAX
        });
        last.as_ref().map(|(over, _)| over.clone())
    }

    /// A node has heard of it.
    pub(super) fn told(&self, node: NodeId) {
        if let Some((over, _)) = &mut *lock(&self.last) {
            over.nodes.remove(&node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ManualClock;

    #[test]
    fn nodes_hear_of_the_last_session_until_they_take_it_for_idle() {
        let clock = Arc::new(ManualClock::new(0));
        let untold = Untold::new(Arc::clone(&clock) as Arc<dyn Clock>);
        assert_eq!(untold.last(), None);
        let over = Over {
            token: Token::default(),
            first: Token::default(),
            gc_threshold: Timestamp::ZERO,
            nodes: [1, 2].map(NodeId::new).into(),
        };
        untold.end(over.clone());
        assert_eq!(untold.last(), Some(over.clone()));
        for node in over.nodes.iter().copied() {
            assert!(untold.last().unwrap().nodes.contains(&node));
            untold.told(node);
        }
        assert_eq!(untold.last(), None);
        untold.end(over);
        clock.advance(SESSION_IDLE_MAX);
        assert_eq!(untold.last(), None);
    }
}
