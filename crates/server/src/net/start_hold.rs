//! How long a node that was just started delays its first status.
//!
//! An operator who starts the nodes one after another waits for the status of each, and then uses
//! the cluster, perhaps with one node stopped. So the first status waits until this node and all
//! reachable peers have met: from then on its store counts if it can, its clock is confirmed, and
//! the others have links to it.

use cluster::ReplicaState;
use peer::{Contact, LinkState, LinkStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long after its start a node holds an answer at most. A peer may be up and fail to
/// confirm for any reason, and an operator must see the status then.
const HOLD_MAX: Duration = Duration::from_secs(2);

/// Holds answers until the node has started, once.
pub(crate) struct StartHold {
    /// On the monotonic clock.
    until: Duration,
    is_over: AtomicBool,
}

impl StartHold {
    /// The hold of a node that starts to serve now, on the monotonic clock.
    pub(super) fn new(now: Duration) -> Self {
        Self {
            until: now.saturating_add(HOLD_MAX),
            is_over: AtomicBool::new(false),
        }
    }

    /// Whether the node has started for all those who wait for it, given the replica state of its
    /// store and its links to the other nodes. Once it has, it stays so.
    pub(crate) fn is_over(
        &self,
        now: Duration,
        own: ReplicaState,
        links: impl Iterator<Item = LinkStatus>,
    ) -> bool {
        if self.is_over.load(Ordering::Relaxed) {
            return true;
        }
        let is_over = now >= self.until || has_met_peers(own, links);
        if is_over {
            self.is_over.store(true, Ordering::Relaxed);
        }
        is_over
    }
}

/// Whether the node and the peers that can be reached have met, and, if that is all of them,
/// each knows whether its store counts: a new store waits for all peers.
fn has_met_peers(own: ReplicaState, links: impl Iterator<Item = LinkStatus>) -> bool {
    let is_settled = |replica_state: ReplicaState| replica_state != ReplicaState::Starting;
    let (mut are_all_up, mut are_settled) = (true, is_settled(own));
    for link in links {
        match link.state {
            LinkState::Connecting => return false,
            LinkState::Up if link.contact != Some(Contact::FULL) => return false,
            LinkState::Up => are_settled &= link.replica_state.is_some_and(is_settled),
            LinkState::Suspected | LinkState::Down => are_all_up = false,
        }
    }
    are_settled || !are_all_up
}

#[cfg(test)]
mod tests {
    use super::*;
    use LinkState::{Connecting, Down, Suspected, Up};
    use ReplicaState::{Learner, Starting, Voter};

    fn link(state: LinkState, replica_state: Option<ReplicaState>, contact: Contact) -> LinkStatus {
        LinkStatus {
            state,
            replica_state,
            contact: (state == Up).then_some(contact),
            ..LinkStatus::default()
        }
    }

    #[test]
    fn a_node_has_started_once_the_peers_that_can_be_reached_have_met_it() {
        let met = link(Up, Some(Voter), Contact::FULL);
        let unsettled = link(Up, Some(Starting), Contact::FULL);
        let unreached = link(
            Up,
            Some(Voter),
            Contact {
                reaches: false,
                ..Contact::FULL
            },
        );
        let unserved = link(
            Up,
            Some(Voter),
            Contact {
                serves: false,
                ..Contact::FULL
            },
        );
        let away = link(Down, None, Contact::default());
        let silent = link(Suspected, None, Contact::default());
        let connecting = link(Connecting, None, Contact::default());
        for (own, links, expected) in [
            // Alone, or the first one to be started.
            (Voter, &[][..], true),
            (Starting, &[&away, &away], true),
            (Starting, &[&away, &connecting], false),
            (Starting, &[&away, &unreached], false),
            (Starting, &[&away, &unserved], false),
            // Neither can count before the last one is there.
            (Starting, &[&away, &unsettled], true),
            (Starting, &[&silent, &unsettled], true),
            // The last one.
            (Starting, &[&met, &met], false),
            (Voter, &[&met, &unsettled], false),
            (Voter, &[&met, &unreached], false),
            (Voter, &[&met, &met], true),
            (Learner, &[&met, &met], true),
        ] {
            assert_eq!(
                has_met_peers(own, links.iter().copied().cloned()),
                expected,
                "{own:?} {links:?}"
            );
        }
    }

    #[test]
    fn the_hold_ends_in_time_and_does_not_begin_again() {
        let awaited = || [link(Connecting, None, Contact::default())].into_iter();
        let begin = Duration::from_secs(7);
        let hold = StartHold::new(begin);
        let late = begin + HOLD_MAX;
        assert!(!hold.is_over(late - Duration::from_millis(1), Starting, awaited()));
        assert!(hold.is_over(late, Starting, awaited()));
        let hold = StartHold::new(begin);
        let met = || [link(Up, Some(Voter), Contact::FULL)].into_iter();
        assert!(!hold.is_over(begin, Voter, awaited()));
        assert!(hold.is_over(begin, Voter, met()));
        assert!(hold.is_over(begin, Voter, awaited()), "a peer is restarted");
    }
}
