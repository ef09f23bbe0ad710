//! How long a session lets writes settle before its scan.

use super::incremental::{Begun, IncrementalSession};
use crate::session::worker::RepairWorker;
use cluster::NodeId;
use std::time::Duration;

/// How often a node looks whether a session is due.
pub(in crate::session) const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// How long a session waits at most until the writes from before its cut have
/// arrived. Those that have not make work, no harm.
const SETTLING_MAX: Duration = Duration::from_secs(30);

/// How long an incremental session waits, where requests have this deadline.
fn settling_of_incremental(timeout: Duration) -> Duration {
    // By then a write from before the cut has arrived, or it is a hint.
    (2 * timeout).min(SETTLING_MAX)
}

/// How long a full session waits that is to rebuild a store. That store may have acknowledged
/// a write before it was lost whose second ack was still to come from a node that the session
/// scans. By the deadline of such a write that node has it, or the write has failed.
fn settling_of_rebuild(timeout: Duration) -> Duration {
    settling_of_incremental(timeout).max(timeout)
}

impl IncrementalSession {
    /// Waits until the writes from before the cut have arrived, unless a full session is due
    /// meanwhile. If a node was lost or has returned by then, all begin again: one that was
    /// restarted knows nothing of the session, and one that was away can take part.
    pub(super) async fn let_writes_arrive(
        &mut self,
        begun: Vec<Begun>,
        is_full_due: &dyn Fn() -> bool,
    ) -> Option<Vec<Begun>> {
        let before = self.worker.connections();
        let timeout = self.worker.sessions.environment.timeout;
        let mut left = settling_of_incremental(timeout);
        while !left.is_zero() {
            let part = left.min(LOOK_PERIOD);
            tokio::time::sleep(part).await;
            left -= part;
            if is_full_due() {
                return None;
            }
        }
        if self.worker.connections() == before {
            Some(begun)
        } else {
            Some(self.ask_to_begin().await)
        }
    }
}

impl RepairWorker {
    /// Waits until no write is left that may count an ack of a lost store, if one has to be
    /// rebuilt. A store is lost with a restart of its node, hence the wait begins anew with each
    /// new connection.
    pub(super) async fn outlast_writes(&self) {
        if self.are_all_voters() {
            return;
        }
        let length = settling_of_rebuild(self.sessions.environment.timeout);
        let (mut left, mut before) = (length, self.connections());
        while !left.is_zero() {
            let part = left.min(LOOK_PERIOD);
            tokio::time::sleep(part).await;
            left -= part;
            let now = self.connections();
            if is_any_new(&before, &now) {
                left = length;
            }
            before = now;
        }
    }

    /// Whether the stores of all nodes are known to count.
    fn are_all_voters(&self) -> bool {
        let layout = self.peers.layout();
        let mut nodes = layout.members().ids();
        nodes.all(|node| {
            let state = self.replica_state_of(node);
            state.is_some_and(cluster::ReplicaState::is_voter)
        })
    }

    /// The nodes that are up, and which connection to each of them this is.
    fn connections(&self) -> Vec<(NodeId, u64)> {
        let connects = |node| {
            let status = self.peers.status(node);
            status.map_or(0, |status| status.counts.connects)
        };
        let nodes = self.nodes_up().into_iter();
        nodes.map(|node| (node, connects(node))).collect()
    }
}

/// Whether a node is there by another connection than before.
fn is_any_new(before: &[(NodeId, u64)], now: &[(NodeId, u64)]) -> bool {
    now.iter().any(|connected| !before.contains(connected))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    #[test]
    fn an_incremental_session_does_not_wait_long_and_a_rebuild_outlasts_every_request() {
        let timeout = Duration::from_secs(5);
        assert_eq!(settling_of_incremental(timeout), 2 * timeout);
        assert_eq!(settling_of_incremental(DAY), SETTLING_MAX);
        assert_eq!(settling_of_rebuild(timeout), 2 * timeout);
        assert_eq!(settling_of_rebuild(DAY), DAY);
    }

    #[test]
    fn a_node_that_connects_again_is_new_and_one_that_is_gone_is_not() {
        let node = NodeId::new;
        let before = [(node(0), 0), (node(1), 4)];
        assert!(!is_any_new(&before, &before));
        assert!(!is_any_new(&before, &before[..1]));
        assert!(is_any_new(&before, &[(node(0), 0), (node(1), 5)]));
        assert!(is_any_new(&before[..1], &before));
    }
}
