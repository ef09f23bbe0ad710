//! How nodes are numbered.

/// A node's place in the list of all names of its cluster, sorted bytewise.
/// All nodes give the same numbers, as long as their lists hold the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeNumber(u8);

impl NodeNumber {
    /// The node at this place, counted from 0.
    #[must_use]
    pub const fn new(place: u8) -> Self {
        Self(place)
    }

    /// Its place, counted from 0.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}
