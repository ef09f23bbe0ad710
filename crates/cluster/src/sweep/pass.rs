//! A pass: one walk over the key space, and what it has found about each pair of nodes.

use super::digest::Digest;
use crate::members::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// Which pass a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PassId(pub u64);

/// What a pass compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassKind {
    /// What can have changed since the pair was last found equal.
    Recent,
    /// Everything, and every block is read and its checksum verified.
    Full,
}

impl PassKind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Recent, Self::Full];

    /// The word for it in metrics, on the status page and in reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Recent => "incremental",
            Self::Full => "full",
        }
    }
}

/// Two nodes, the lower number first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// The node of the lower number.
    pub lower: NodeId,
    /// The other one.
    pub upper: NodeId,
}

impl Pair {
    /// The pair of two different nodes.
    #[must_use]
    pub fn of(one: NodeId, other: NodeId) -> Self {
        Self {
            lower: one.min(other),
            upper: one.max(other),
        }
    }

    /// The other of the two; [`None`] for a node that is neither.
    #[must_use]
    pub fn other_than(self, node: NodeId) -> Option<NodeId> {
        match node {
            _ if node == self.lower => Some(self.upper),
            _ if node == self.upper => Some(self.lower),
            _ => None,
        }
    }
}

/// The digests that a node made of a range, one for each node by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDigests {
    /// Whose they are.
    pub node: NodeId,
    /// What it keeps in common with each node.
    pub with: Vec<Digest>,
}

/// The pairs that keep different things, of all pairs of the nodes that have
/// made digests of a range.
#[must_use]
pub fn differing(digests: &[NodeDigests]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (index, one) in digests.iter().enumerate() {
        for other in &digests[index + 1..] {
            if one.with.get(other.node.index()) != other.with.get(one.node.index()) {
                pairs.push(Pair::of(one.node, other.node));
            }
        }
    }
    pairs
}

/// A store, and its last loss of data. What a pass shows of a node holds for the
/// incarnation that has shown it: a store that was replaced, or has lost something since,
/// is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incarnation {
    /// The number that was drawn when the store was created.
    pub store_id: u64,
    /// A random number that was drawn when it last lost data; 0 if it never has. A
    /// count would repeat: a copy of the folder that is restored brings an earlier one
    /// back.
    pub last_loss: u64,
}

/// A node that takes part in a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakingPart {
    /// The store with which it began.
    pub incarnation: Incarnation,
    /// The versions counted so far of which it has the only copy.
    pub single_copies: u64,
}

/// What a pass has shown so far.
///
/// A pair is **clean** if every range was found equal, or made equal, and is durable. The
/// two were compared directly, so this holds whatever becomes of other pairs. If each node
/// is a replica of all that it keeps, no two holders of a key miss each other: of two
/// versions one names all the replicas that the other does, so the nodes that hold them
/// when they scan compare the key.
///
/// What is sent makes new holders, which were compared before. A node may get an older
/// version from one peer while another has a newer one of fewer copies, of which the node is
/// no replica; and a surplus copy is offered only to the replicas of its own version, one of
/// which may get a newer one later. So a pass is **conclusive**, and shows that no node is
/// left with an older version than another, only if all pairs of all members are clean, and
/// every range was compared once more after something had been sent in it, until nothing was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassProgress {
    taking_part: BTreeMap<NodeId, TakingPart>,
    unclean: BTreeSet<Pair>,
    is_conclusive: bool,
}

impl PassProgress {
    /// A pass that has just begun, with the nodes that take part and their stores.
    #[must_use]
    pub fn new(nodes: impl IntoIterator<Item = (NodeId, Incarnation)>) -> Self {
        let taking_part = |(node, incarnation)| {
            let single_copies = 0;
            let taking_part = TakingPart {
                incarnation,
                single_copies,
            };
            (node, taking_part)
        };
        Self {
            taking_part: nodes.into_iter().map(taking_part).collect(),
            unclean: BTreeSet::new(),
            is_conclusive: true,
        }
    }

    /// What a pass had shown when it was stored.
    #[must_use]
    pub fn restored(
        taking_part: BTreeMap<NodeId, TakingPart>,
        unclean: BTreeSet<Pair>,
        is_conclusive: bool,
    ) -> Self {
        Self {
            taking_part,
            unclean,
            is_conclusive,
        }
    }

    /// The nodes that still take part.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.taking_part.keys().copied()
    }

    /// The nodes that still take part, with what is known of each.
    #[must_use]
    pub fn taking_part(&self) -> &BTreeMap<NodeId, TakingPart> {
        &self.taking_part
    }

    /// The pairs of which a range was not made equal.
    #[must_use]
    pub fn unclean(&self) -> &BTreeSet<Pair> {
        &self.unclean
    }

    /// Whether nothing so far keeps the pass from being conclusive, but for unclean pairs
    /// and nodes that are missing.
    #[must_use]
    pub fn may_be_conclusive(&self) -> bool {
        self.is_conclusive
    }

    /// A range of a pair was not made equal.
    pub fn spoil(&mut self, pair: Pair) {
        self.unclean.insert(pair);
    }

    /// Something was sent in a range that was not compared again.
    pub fn leave_unsettled(&mut self) {
        self.is_conclusive = false;
    }

    /// A node did not answer, or does not know the pass any more: none of its pairs can
    /// be clean in this pass.
    pub fn lose(&mut self, node: NodeId) {
        self.taking_part.remove(&node);
    }

    /// What a node has shown so far is durable in this store. If it is another one than
    /// the one that the node began with, the node is [lost](PassProgress::lose).
    pub fn durable_in(&mut self, node: NodeId, incarnation: Incarnation) {
        if !self.began_with(node, incarnation) {
            self.lose(node);
        }
    }

    /// Whether a node takes part with this store.
    #[must_use]
    pub fn began_with(&self, node: NodeId, incarnation: Incarnation) -> bool {
        let taking_part = self.taking_part.get(&node);
        taking_part.is_some_and(|began| began.incarnation == incarnation)
    }

    /// A node has the only copy of so many versions of a range.
    pub fn count_single_copies(&mut self, node: NodeId, versions: u64) {
        if let Some(taking_part) = self.taking_part.get_mut(&node) {
            taking_part.single_copies += versions;
        }
    }

    /// The pairs that are clean so far; at the end of the pass, those that are.
    #[must_use]
    pub fn clean(&self) -> Vec<Pair> {
        let mut pairs = Vec::new();
        for one in self.nodes() {
            for other in self.nodes().filter(|other| *other > one) {
                let pair = Pair::of(one, other);
                if !self.unclean.contains(&pair) {
                    pairs.push(pair);
                }
            }
        }
        pairs
    }

    /// At the end of a full pass: whether it is conclusive, in a cluster of `members`.
    #[must_use]
    pub fn is_conclusive(&self, members: usize) -> bool {
        self.is_conclusive
            && self.taking_part.len() == members
            && self.clean().len() == members * members.saturating_sub(1) / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u8) -> NodeId {
        NodeId::new(number)
    }

    fn digest(sum: u128) -> Digest {
        Digest { items: 1, sum }
    }

    #[test]
    fn a_pair_differs_where_its_two_digests_do() {
        // Nodes 0 and 1 agree, node 2 lacks something that 1 shares with it.
        let digests = [
            NodeDigests {
                node: node(0),
                with: vec![digest(0), digest(5), digest(6)],
            },
            NodeDigests {
                node: node(1),
                with: vec![digest(5), digest(0), digest(7)],
            },
            NodeDigests {
                node: node(2),
                with: vec![digest(6), digest(8), digest(0)],
            },
        ];
        assert_eq!(differing(&digests), [Pair::of(node(2), node(1))]);
        assert_eq!(differing(&digests[..2]), []);
    }

    fn store(last_loss: u64) -> Incarnation {
        let store_id = 7;
        Incarnation {
            store_id,
            last_loss,
        }
    }

    fn progress() -> PassProgress {
        PassProgress::new((0..3).map(|number| (node(number), store(0))))
    }

    #[test]
    fn a_pair_stays_clean_unless_it_is_spoilt_or_a_node_is_lost() {
        let mut progress = progress();
        assert_eq!(progress.clean().len(), 3);
        progress.spoil(Pair::of(node(1), node(0)));
        assert_eq!(
            progress.clean(),
            [Pair::of(node(0), node(2)), Pair::of(node(1), node(2))]
        );
        progress.lose(node(2));
        assert_eq!(progress.clean(), []);
        assert_eq!(progress.nodes().collect::<Vec<_>>(), [node(0), node(1)]);
    }

    #[test]
    fn what_a_store_has_shown_does_not_count_for_another() {
        let mut progress = progress();
        progress.durable_in(node(1), store(0));
        assert_eq!(progress.clean().len(), 3);
        progress.durable_in(node(1), store(1));
        assert_eq!(progress.clean(), [Pair::of(node(0), node(2))]);
        // The store cannot come back into the pass either.
        progress.durable_in(node(1), store(0));
        assert_eq!(progress.clean().len(), 1);
    }

    #[test]
    fn a_pass_is_conclusive_if_all_pairs_of_all_members_are_clean() {
        assert!(progress().is_conclusive(3));
        assert!(!progress().is_conclusive(4), "a member did not take part");
        let mut spoilt = progress();
        spoilt.spoil(Pair::of(node(0), node(1)));
        assert!(!spoilt.is_conclusive(3));
        let mut without_one = progress();
        without_one.lose(node(2));
        assert!(!without_one.is_conclusive(3));
        let mut unsettled = progress();
        unsettled.leave_unsettled();
        assert!(!unsettled.is_conclusive(3));
        assert_eq!(unsettled.clean().len(), 3);
    }
}
