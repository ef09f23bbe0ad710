//! A pass: one walk over the key space, and what it has found about each pair of nodes.

use super::digest::Digest;
use crate::node_number::NodeNumber;
use std::collections::BTreeSet;

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
            Self::Recent => "recent",
            Self::Full => "full",
        }
    }
}

/// Two nodes, the lower number first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// The node of the lower number.
    pub lower: NodeNumber,
    /// The other one.
    pub upper: NodeNumber,
}

impl Pair {
    /// The pair of two different nodes.
    #[must_use]
    pub fn of(one: NodeNumber, other: NodeNumber) -> Self {
        Self {
            lower: one.min(other),
            upper: one.max(other),
        }
    }

    /// The other of the two; [`None`] for a node that is neither.
    #[must_use]
    pub fn other_than(self, node: NodeNumber) -> Option<NodeNumber> {
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
    pub node: NodeNumber,
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

/// What a pass has shown so far. A pair is **clean** if every range was found
/// equal, or made equal and durable. A participant that restarts forgets the pass, so it
/// is lost to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassProgress {
    /// The nodes that take part.
    members: Vec<NodeNumber>,
    unclean: BTreeSet<Pair>,
}

impl PassProgress {
    /// A pass that has just begun, with the nodes that take part.
    #[must_use]
    pub fn new(members: Vec<NodeNumber>) -> Self {
        Self {
            members,
            unclean: BTreeSet::new(),
        }
    }

    /// The nodes that still take part.
    pub fn nodes(&self) -> impl Iterator<Item = NodeNumber> + '_ {
        self.members.iter().copied()
    }

    /// A range of a pair was not made equal.
    pub fn spoil(&mut self, pair: Pair) {
        self.unclean.insert(pair);
    }

    /// A node did not answer, or does not know the pass any more: none of its pairs can
    /// be clean in this pass.
    pub fn lose(&mut self, node: NodeNumber) {
        self.members.retain(|member| *member != node);
    }

    /// The pairs that are clean so far; at the end of the pass, those that are.
    #[must_use]
    pub fn clean(&self) -> Vec<Pair> {
        let mut pairs = Vec::new();
        for (index, one) in self.members.iter().enumerate() {
            for other in &self.members[index + 1..] {
                let pair = Pair::of(*one, *other);
                if !self.unclean.contains(&pair) {
                    pairs.push(pair);
                }
            }
        }
        pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u8) -> NodeNumber {
        NodeNumber::new(number)
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

    #[test]
    fn a_pair_stays_clean_unless_it_is_spoilt_or_a_node_is_lost() {
        let mut progress = PassProgress::new(vec![node(0), node(1), node(2)]);
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
}
