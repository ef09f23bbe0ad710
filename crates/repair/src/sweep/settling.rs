//! How long a pass lets writes settle between its begin and its scan.

use super::PASS_IDLE_MAX;
use super::driver::{Begun, Drive};
use super::schedule::LOOK_PERIOD;
use cluster::NodeId;
use cluster::sweep::Incarnation;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a recent pass waits at most until the writes from before its cut have
/// arrived. Those that have not make work, no harm.
const SETTLING_MAX: Duration = Duration::from_secs(30);

/// After how long a full pass that waits begins again, lest the nodes forget it.
const PART_MAX: Duration = Duration::from_secs(PASS_IDLE_MAX.as_secs() / 4);

/// How long a recent pass waits, where requests have this deadline.
fn settling_of_recent(timeout: Duration) -> Duration {
    // By then a write from before the cut has arrived, or it is a hint.
    (2 * timeout).min(SETTLING_MAX)
}

/// How the wait of a recent pass has ended.
pub(super) enum Settled {
    /// These nodes take part.
    With(Vec<Begun>),
    /// A full pass is due. These nodes have begun this one.
    Outdone(Vec<Begun>),
}

impl Drive {
    /// Waits until the writes from before the cut have arrived, unless a full pass is due meanwhile.
    /// If a node was lost or has returned by then, all begin again: one that was restarted knows
    /// nothing of the pass, and one that was away can take part.
    pub(super) async fn let_writes_arrive(
        &mut self,
        begun: Vec<Begun>,
        is_full_due: &dyn Fn() -> bool,
    ) -> Settled {
        let before = self.connections();
        let mut left = settling_of_recent(self.sweeper.sweeps.environment.timeout);
        while !left.is_zero() {
            let part = left.min(LOOK_PERIOD);
            tokio::time::sleep(part).await;
            left -= part;
            if is_full_due() {
                return Settled::Outdone(begun);
            }
        }
        if self.connections() == before {
            Settled::With(begun)
        } else {
            Settled::With(self.ask_to_begin(self.nodes_up(), false).await)
        }
    }

    /// The nodes that are up, and which connection to each of them this is.
    fn connections(&self) -> Vec<(NodeId, u64)> {
        let connects = |node| {
            let status = self.sweeper.peers.status(node);
            status.map_or(0, |status| status.counts.connects)
        };
        let nodes = self.nodes_up().into_iter();
        nodes.map(|node| (node, connects(node))).collect()
    }

    /// Waits until no write is left that may count an ack of a lost store; see
    /// [`Settling`]. Gives what all nodes answer afterwards.
    pub(super) async fn outlast_writes(&mut self, mut begun: Vec<Begun>) -> Vec<Begun> {
        let timeout = self.sweeper.sweeps.environment.timeout;
        let mut settling = Settling::new(timeout, begun.iter().map(Begun::store));
        while let Some(part) = settling.next_part() {
            tokio::time::sleep(part).await;
            begun = self.ask_to_begin(self.nodes_up(), false).await;
            if settling.begun_again(begun.iter().map(Begun::store)) {
                self.cut = self.cut_above(&begun);
            }
        }
        begun
    }
}

/// The wait of a full pass while a store does not count. That store may have acknowledged
/// a write before it was lost whose second ack was still to come from a node that the pass
/// scans. By the deadline of such a write that node has it, or the write has failed. So
/// the wait lasts as long as a request may, counted from when all stores that take part
/// were last seen to be other ones than before.
struct Settling {
    length: Duration,
    left: Duration,
    stores: BTreeMap<NodeId, Incarnation>,
}

impl Settling {
    /// A wait that begins now that these stores take part, where requests have this
    /// deadline.
    fn new(timeout: Duration, stores: impl Iterator<Item = (NodeId, Incarnation)>) -> Self {
        let length = settling_of_recent(timeout).max(timeout);
        Self {
            length,
            left: length,
            stores: stores.collect(),
        }
    }

    /// How long to wait until all nodes are to begin again; [`None`] once the wait is over.
    fn next_part(&mut self) -> Option<Duration> {
        let part = self.left.min(PART_MAX);
        self.left -= part;
        (!part.is_zero()).then_some(part)
    }

    /// These stores have begun again. Returns whether one of them was not there before:
    /// then the wait begins anew.
    fn begun_again(&mut self, stores: impl Iterator<Item = (NodeId, Incarnation)>) -> bool {
        let mut is_any_new = false;
        for (node, incarnation) in stores {
            is_any_new |= self.stores.insert(node, incarnation) != Some(incarnation);
        }
        if is_any_new {
            self.left = self.length;
        }
        is_any_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn store(last_loss: u64) -> impl Iterator<Item = (NodeId, Incarnation)> {
        let incarnation = Incarnation {
            store_id: 4,
            last_loss,
        };
        std::iter::once((NodeId::new(1), incarnation))
    }

    fn rest_of(settling: &mut Settling) -> Duration {
        let mut waited = Duration::ZERO;
        while let Some(part) = settling.next_part() {
            assert!(part < PASS_IDLE_MAX);
            waited += part;
            assert!(!settling.begun_again(store(0)));
        }
        waited
    }

    #[test]
    fn a_recent_pass_does_not_wait_long() {
        let settling = settling_of_recent(Duration::from_secs(5));
        assert_eq!(settling, Duration::from_secs(10));
        assert_eq!(settling_of_recent(DAY), SETTLING_MAX);
    }

    #[test]
    fn a_full_pass_outlasts_every_request_and_no_node_forgets_it_meanwhile() {
        for timeout in [5, 15, 16, 31, 121].map(Duration::from_secs) {
            let waited = rest_of(&mut Settling::new(timeout, store(0)));
            assert!(waited >= timeout, "{waited:?} {timeout:?}");
        }
        assert_eq!(rest_of(&mut Settling::new(DAY, store(0))), DAY);
    }

    #[test]
    fn a_store_that_is_lost_meanwhile_makes_the_wait_begin_anew() {
        let mut settling = Settling::new(DAY, store(1));
        settling.next_part();
        assert!(settling.begun_again(store(0)));
        assert_eq!(rest_of(&mut settling), DAY);
        // A node that was away for a while, with the same store, does not.
        let mut settling = Settling::new(DAY, store(0));
        let part = settling.next_part().unwrap();
        assert!(!settling.begun_again(std::iter::empty()));
        assert!(!settling.begun_again(store(0)));
        assert_eq!(rest_of(&mut settling), DAY - part);
    }
}
