//! A set of nodes.

use super::NodeId;

/// A set of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeSet([u64; 4]);

impl NodeSet {
    /// The number of bytes of a set.
    pub const BYTES: usize = 32;

    /// Adds a node.
    pub fn insert(&mut self, node: NodeId) {
        let (word, bit) = (node.index() / 64, node.index() % 64);
        self.0[word] |= 1 << bit;
    }

    /// Whether a node is in the set.
    #[must_use]
    pub fn contains(self, node: NodeId) -> bool {
        let (word, bit) = (node.index() / 64, node.index() % 64);
        self.0[word] >> bit & 1 == 1
    }

    /// Takes a node out.
    pub fn remove(&mut self, node: NodeId) {
        let (word, bit) = (node.index() / 64, node.index() % 64);
        self.0[word] &= !(1 << bit);
    }

    /// The nodes of both sets.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        let mut both = self;
        for (word, more) in both.0.iter_mut().zip(other.0) {
            *word |= more;
        }
        both
    }

    /// The nodes that are not in the other set.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        let mut rest = self;
        for (word, less) in rest.0.iter_mut().zip(other.0) {
            *word &= !less;
        }
        rest
    }

    /// Whether no node is in the set.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == [0; 4]
    }

    /// The nodes, by ascending IDs.
    pub fn iter(self) -> impl Iterator<Item = NodeId> {
        let all = (0..=u8::MAX).map(NodeId::new);
        all.filter(move |node| self.contains(*node))
    }

    /// The set as bytes, a bit for each node.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (word, bytes) in self.0.iter().zip(bytes.chunks_mut(8)) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The set that these bytes say.
    #[must_use]
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let mut words = [0; 4];
        for (index, byte) in bytes.into_iter().enumerate() {
            words[index / 8] |= u64::from(byte) << (index % 8 * 8);
        }
        Self(words)
    }
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<T: IntoIterator<Item = NodeId>>(nodes: T) -> Self {
        let mut set = Self::default();
        nodes.into_iter().for_each(|node| set.insert(node));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_nodes_is_its_bytes() {
        let nodes = [0, 7, 8, 63, 64, 200, 254].map(NodeId::new);
        let set: NodeSet = nodes.into_iter().collect();
        assert_eq!(NodeSet::from_bytes(set.to_bytes()), set);
        for number in 0..=u8::MAX {
            let node = NodeId::new(number);
            assert_eq!(set.contains(node), nodes.contains(&node), "{number}");
        }
        assert_eq!(set.to_bytes()[0], 0b1000_0001);
        assert_eq!(set.iter().collect::<Vec<_>>(), nodes);
    }

    #[test]
    fn sets_are_joined_and_taken_apart() {
        let set = |ids: &[u8]| -> NodeSet { ids.iter().copied().map(NodeId::new).collect() };
        let (one, other) = (set(&[0, 3, 254]), set(&[3, 64]));
        assert_eq!(one.union(other), set(&[0, 3, 64, 254]));
        assert_eq!(one.without(other), set(&[0, 254]));
        assert!(one.without(one).is_empty() && !one.is_empty());
        let mut less = one;
        less.remove(NodeId::new(254));
        assert_eq!(less, set(&[0, 3]));
    }
}
