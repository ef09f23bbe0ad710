//! How the nodes of a cluster are told apart in memory.

use std::fmt;

/// The most nodes that a cluster can have.
pub const NODES_MAX: usize = u8::MAX as usize;

/// A node's place in the list of all nodes' names, sorted bytewise.
///
/// It is the same on every node of a cluster and means nothing outside of it:
/// what is stored or sent names a node by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeNumber(u8);

impl NodeNumber {
    /// The node at this place, counted from 0.
    #[must_use]
    pub const fn new(place: u8) -> Self {
        Self(place)
    }

    /// The place, to look the node up in a list.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for NodeNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
