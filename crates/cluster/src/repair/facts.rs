//! What full sessions show about a change of the members: which of the nodes that gain keys have
//! what which of the old members had.
//!
//! A **fact** says that a full session of a change has brought a gaining node all that an old
//! member has. Both take part only after they have reported the change, so from then on
//! the old member acknowledges nothing by the old list alone: the gaining node has all that it had
//! acknowledged so. That stays true, so facts of several sessions and days add up. They are facts
//! about the store of the gaining node: one that loses something loses its facts, and not those of
//! others.

use crate::comparison::Incarnation;
use crate::layout::Epoch;
use crate::members::{NodeId, NodeSet};

/// The facts about the store of a gaining node. They are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The change: the epoch that it began with.
    pub change: Epoch,
    /// The store.
    pub incarnation: Incarnation,
    /// The members whose data it has.
    pub equal_with: NodeSet,
}

impl Facts {
    /// What is known once a session has shown `self`, of what was `known` before.
    #[must_use]
    pub fn added_to(self, known: Option<Self>) -> Self {
        let before = known
            .filter(|known| known.change == self.change && known.incarnation == self.incarnation);
        let before = before.map_or_else(NodeSet::default, |known| known.equal_with);
        Self {
            equal_with: before.union(self.equal_with),
            ..self
        }
    }

    /// Whether they still hold: for a store that has lost something since they do not.
    #[must_use]
    pub fn hold_for(&self, incarnation: Incarnation) -> bool {
        self.incarnation == incarnation
    }
}

/// Those of the missing facts, each of a gaining node and an old member, that a session can show
/// now: both nodes are up.
pub fn facts_to_make(
    missing: &[(NodeId, NodeId)],
    is_up: impl Fn(NodeId) -> bool,
) -> impl Iterator<Item = (NodeId, NodeId)> {
    let missing = missing.iter().copied();
    missing.filter(move |(gaining, old)| is_up(*gaining) && is_up(*old))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: Incarnation = Incarnation {
        store_id: 1,
        last_loss: 0,
    };

    fn nodes(ids: &[u8]) -> NodeSet {
        ids.iter().copied().map(NodeId::new).collect()
    }

    fn facts(change: u64, incarnation: Incarnation, ids: &[u8]) -> Facts {
        Facts {
            change: Epoch::new(change),
            incarnation,
            equal_with: nodes(ids),
        }
    }

    #[test]
    fn facts_of_one_change_and_one_store_add_up() {
        let known = facts(3, STORE, &[0]).added_to(None);
        assert_eq!(known, facts(3, STORE, &[0]));
        let known = facts(3, STORE, &[2]).added_to(Some(known));
        assert_eq!(known, facts(3, STORE, &[0, 2]));
        // Another change has other facts, and so has a store that has lost something.
        assert_eq!(
            facts(5, STORE, &[1]).added_to(Some(known)),
            facts(5, STORE, &[1])
        );
        let lossy = Incarnation {
            last_loss: 9,
            ..STORE
        };
        assert!(known.hold_for(STORE) && !known.hold_for(lossy));
        assert_eq!(
            facts(3, lossy, &[1]).added_to(Some(known)),
            facts(3, lossy, &[1])
        );
        let other = Incarnation {
            store_id: 2,
            ..STORE
        };
        assert!(!known.hold_for(other));
    }

    #[test]
    fn a_session_can_show_the_facts_of_nodes_that_are_up() {
        let missing =
            [(3, 0), (3, 1), (4, 0)].map(|(gaining, old)| (NodeId::new(gaining), NodeId::new(old)));
        let of = |down: u8| {
            let is_up = |node: NodeId| node != NodeId::new(down);
            facts_to_make(&missing, is_up).collect::<Vec<_>>()
        };
        assert_eq!(of(9), missing);
        assert_eq!(of(0), missing[1..2]);
        assert_eq!(of(3), missing[2..]);
    }
}
