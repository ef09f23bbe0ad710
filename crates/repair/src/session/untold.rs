//! Which nodes have not heard how full sessions of this node have ended.

use base::{Clock, Timestamp};
use cluster::NodeId;
use cluster::repair::{SESSION_IDLE_MAX, Token};
use profile::lock;
use std::collections::{BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The sessions that are remembered. A node that was away may have begun any of them.
const OVER_MAX: usize = 64;

/// A session that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Over {
    /// Its last attempt.
    pub(super) token: Token,
    /// Attempts that some nodes may have begun. All but the last one have raised nothing.
    pub(super) tried: RangeInclusive<Token>,
    /// What the GC threshold has risen to; [`Timestamp::ZERO`] if it has not.
    pub(super) gc_threshold: Timestamp,
}

/// The full sessions that this node has coordinated, until all nodes have heard that they are
/// over, or take them for idle.
pub(super) struct Untold {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// With the time when each ended, on the monotonic clock.
    over: VecDeque<(Over, Duration)>,
    /// The nodes that have not heard of the last one.
    nodes: BTreeSet<NodeId>,
}

impl Over {
    /// What an attempt has raised the GC threshold to, if it is one of this session.
    fn outcome_of(&self, token: Token) -> Option<Timestamp> {
        if token == self.token {
            Some(self.gc_threshold)
        } else {
            self.tried.contains(&token).then_some(Timestamp::ZERO)
        }
    }
}

impl Untold {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            state: Mutex::default(),
        }
    }

    /// A session has ended, and these nodes have not heard it.
    pub(super) fn end(&self, over: Over, nodes: BTreeSet<NodeId>) {
        let mut state = lock(&self.state);
        if state.over.len() == OVER_MAX {
            state.over.pop_front();
        }
        state.over.push_back((over, self.clock.monotonic()));
        state.nodes = nodes;
    }

    /// The last session, and the nodes that have to hear of it, if there are any.
    pub(super) fn last(&self) -> Option<(Over, BTreeSet<NodeId>)> {
        let now = self.clock.monotonic();
        let mut state = lock(&self.state);
        state
            .over
            .retain(|(_, ended)| now.saturating_sub(*ended) < SESSION_IDLE_MAX);
        let (over, _) = state.over.back().filter(|_| !state.nodes.is_empty())?;
        Some((over.clone(), state.nodes.clone()))
    }

    /// What an attempt of a session has raised the GC threshold to, if it is known to be over.
    pub(super) fn outcome_of(&self, token: Token) -> Option<Timestamp> {
        let state = lock(&self.state);
        let mut over = state.over.iter();
        over.find_map(|(over, _)| over.outcome_of(token))
    }

    /// A node has heard of the last session, or of the one that it had begun.
    pub(super) fn told(&self, node: NodeId) {
        lock(&self.state).nodes.remove(&node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ManualClock;

    fn token(session: u64, attempt: u32) -> Token {
        Token { session, attempt }
    }

    fn over(session: u64, gc_threshold: u64) -> Over {
        Over {
            token: token(session, 3),
            tried: token(session, 2)..=token(session, 4),
            gc_threshold: Timestamp::from_u64(gc_threshold),
        }
    }

    #[test]
    fn nodes_hear_of_the_session_that_they_have_begun_until_they_take_it_for_idle() {
        let clock = Arc::new(ManualClock::new(0));
        let untold = Untold::new(Arc::clone(&clock) as Arc<dyn Clock>);
        assert_eq!(untold.last(), None);
        let nodes: BTreeSet<NodeId> = [1, 2].map(NodeId::new).into();
        untold.end(over(6, 0), nodes.clone());
        untold.end(over(7, 9), nodes.clone());
        assert_eq!(untold.last(), Some((over(7, 9), nodes.clone())));
        for (of, outcome) in [
            (token(6, 3), Some(0)),
            (token(7, 3), Some(9)),
            // Attempts that this session has left, or has only tried.
            (token(7, 2), Some(0)),
            (token(7, 4), Some(0)),
            // One from before this node was started may have raised it.
            (token(7, 1), None),
            (token(8, 3), None),
        ] {
            let outcome = outcome.map(Timestamp::from_u64);
            assert_eq!(untold.outcome_of(of), outcome, "{of}");
        }
        nodes.iter().for_each(|node| untold.told(*node));
        assert_eq!(untold.last(), None);
        untold.end(over(8, 0), nodes);
        clock.advance(SESSION_IDLE_MAX);
        assert_eq!(untold.last(), None);
        assert_eq!(untold.outcome_of(token(8, 3)), None);
    }
}
