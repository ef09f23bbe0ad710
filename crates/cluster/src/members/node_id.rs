//! The ID of a node in memory.

use std::fmt;

/// The most nodes that a cluster can have.
pub const NODES_MAX: usize = u8::MAX as usize;

/// The number of a node, which it is given once: those that form a cluster by the order of their
/// names, and one that joins later the next number.
///
/// It is the same on all nodes of a cluster, and means nothing outside of it. Files and
/// handshakes name a node instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u8);

impl NodeId {
    /// The node with this number, counted from 0.
    #[must_use]
    pub const fn new(index: u8) -> Self {
        Self(index)
    }

    /// The number, to look the node up in a table.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
