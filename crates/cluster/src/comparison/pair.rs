//! Two nodes that are compared.

use super::digest::Digest;
use crate::members::NodeId;

/// Two nodes, the lower ID first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// The node of the lower ID.
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

/// The digests that a node made of a range, one for each node by ID.
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
}
