//! What a store names with its answers to reads, once it has a fence.

use super::Arrival;
use crate::NodeId;
use base::Timestamp;

/// Which start of which store. A store lacks something that it once had only after
/// another start, so that answers and repairs name the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreStart {
    /// The id of the store.
    pub store_id: u64,
    /// The number of the start.
    pub start: u64,
}

/// What a store names with its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedBounds {
    /// F: what is dead below it may be gone.
    pub forgotten: Timestamp,
    /// The store that answers.
    pub store: StoreStart,
}

/// The store that has answered a read with a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answerer {
    /// Its node.
    pub node: NodeId,
    /// The store.
    pub store: StoreStart,
    /// The forget bound that it named.
    pub forgotten: Timestamp,
}

impl Answerer {
    /// How a repair with the version comes to another store.
    #[must_use]
    pub fn arrival(self) -> Arrival {
        Arrival::Answered {
            by: self.store,
            forgotten: self.forgotten,
        }
    }
}
