//! Whether a node's store holds what its peers take it to hold.
//!
//! A node whose disk was lost comes back with an empty store. Were it to answer
//! reads, a quorum with it could miss acknowledged writes and nobody would
//! notice. It cannot tell by itself that it has lost anything, but its peers
//! can: they remember the id of the store that it had.
//!
//! ```text
//!                    majority met, none remembers another store
//!      Unconfirmed ------------------------------------------> Confirmed
//!           |                                                      |
//!           | a peer remembers another store                       | the same
//!           v                                                      |
//!       Replaced <-------------------------------------------------+
//!           |
//!           | an operator accepts (at a start)
//!           v
//!       Accepted ---- all peers remember this store: from the next start --> Confirmed
//! ```
//!
//! A word against the store outweighs any for it, also later: a peer that was
//! away may be the only one that knows, and a disk that was thought lost may be
//! put back after another has taken its place.
//!
//! What this cannot see: a node of a new cluster that never met the node whose
//! disk was lost cannot remember it, and a majority of such nodes confirms what
//! it finds. It ends when one that remembers is met.

use cluster::NodeNumber;
use std::collections::BTreeSet;

/// How the store of this node stands with its peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The store may be new in the place of another.
    Unconfirmed {
        /// The peers that were met and remember no other store.
        met: BTreeSet<NodeNumber>,
    },
    /// The store is the one that this node has always had.
    Confirmed,
    /// The store began empty in the place of another, and an operator has
    /// accepted that. Peers are told, and remember it in the other's place.
    Accepted {
        /// The peers that are known to do so.
        known_by: BTreeSet<NodeNumber>,
    },
    /// The store is new in the place of another, and lacks what that held.
    Replaced,
}

/// What a peer remembers of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remembered {
    /// Nothing: the two have not met.
    Nothing,
    /// The store that this node has.
    ThisStore,
    /// Another store.
    AnotherStore,
}

impl Remembered {
    /// What it is to remember `remembered` of a node that has `store_id`.
    pub(crate) fn of(remembered: Option<u64>, store_id: u64) -> Self {
        match remembered {
            None => Self::Nothing,
            Some(remembered) if remembered == store_id => Self::ThisStore,
            Some(_) => Self::AnotherStore,
        }
    }
}

impl Standing {
    /// That of a store of which nothing is known, in a cluster of `nodes`. A
    /// lone node has nobody to ask, and nobody whom it could mislead.
    pub(crate) fn new(nodes: u8) -> Self {
        if nodes == 1 {
            Self::Confirmed
        } else {
            Self::Unconfirmed {
                met: BTreeSet::new(),
            }
        }
    }

    /// An operator accepts that the store began empty. This says nothing where
    /// peers know the store as this node's own.
    pub(crate) fn accept(&mut self) {
        match self {
            Self::Unconfirmed { .. } | Self::Replaced => {
                *self = Self::Accepted {
                    known_by: BTreeSet::new(),
                };
            }
            Self::Confirmed | Self::Accepted { .. } => {}
        }
    }

    /// A peer was met that remembers this of the node, in a cluster of `nodes`.
    pub(crate) fn meet(&mut self, peer: NodeNumber, remembered: Remembered, nodes: u8) {
        match (&mut *self, remembered) {
            (Self::Unconfirmed { .. } | Self::Confirmed, Remembered::AnotherStore) => {
                *self = Self::Replaced;
            }
            (Self::Unconfirmed { met }, _) => {
                met.insert(peer);
                let majority = usize::from(nodes / 2 + 1);
                // With the node itself.
                if met.len() + 1 >= majority {
                    *self = Self::Confirmed;
                }
            }
            (Self::Accepted { known_by }, Remembered::ThisStore) => {
                known_by.insert(peer);
            }
            (Self::Confirmed | Self::Accepted { .. } | Self::Replaced, _) => {}
        }
    }

    /// Whether reads of this store count.
    pub(crate) fn is_witness(&self) -> bool {
        matches!(self, Self::Confirmed | Self::Accepted { .. })
    }

    /// What to begin the next start with. Not before that does a store that all
    /// peers remember count as confirmed: an introduction from before they did
    /// may still be on its way, and would be a word against it.
    pub(crate) fn at_next_start(&self, nodes: u8) -> Self {
        match self {
            Self::Accepted { known_by } if known_by.len() + 1 >= usize::from(nodes) => {
                Self::Confirmed
            }
            standing => standing.clone(),
        }
    }
}

/// What to remember of a peer that has `store_id`, where `remembered` was
/// before. Another store in the place of one that is remembered does not take
/// that place unless an operator has accepted it: the peer is to hear of it.
pub(crate) fn to_remember(remembered: Option<u64>, store_id: u64, is_accepted: bool) -> u64 {
    match remembered {
        Some(remembered) if !is_accepted => remembered,
        _ => store_id,
    }
}
