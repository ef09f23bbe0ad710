//! Whether this node's store is a witness: whether all is in it that it has
//! ever acknowledged, as far as its peers can tell.
//!
//! A node whose disk was lost comes back with an empty store, one whose folder
//! was restored from a copy with an old one. Were its reads to count, a quorum
//! with it could miss acknowledged writes. Were its acks to count, a write
//! could be acknowledged below one that only the lost disk had. Such a store is
//! **unfilled**. It cannot tell by itself that it lacks anything, but its peers
//! can. Each start of a store draws a random number, the store keeps the
//! numbers of its starts, and peers remember the last one that they met: what a
//! peer remembers last must be among the store's starts ([`judge`]).
//!
//! ```text
//!      all peers remember this store           all peers were heard, or are away
//!   Unconfirmed ------------------> Witness <---------------------- Returning
//!        |                          |    ^                              |
//!        |     a peer remembers a start that this store has not         |
//!        '--------------------.     |    |     .------------------------'
//!                             v     v    |     v
//!                                Unfilled
//!                                   |    |
//!         an operator accepts (at a start)
//!                                   v    | at the start after all peers have heard of it
//!                                Accepted
//! ```
//!
//! - A new store waits for **all** peers, once. Were a majority enough, then a
//!   peer that was not among them could not tell that one of them lost its
//!   disk, and might make a majority with it.
//! - A store that was a witness before waits at each start until each peer was
//!   heard or found away: one that is there and knows better is asked first.
//! - A word against the store outweighs any for it, also later: a peer that was
//!   away may be the only one that knows.
//!
//! A store without the start that a peer remembers of it is **outdated** to that
//! peer: an older state, or a copy. It may give the stamps that the store has
//! given since, or that another process still gives. So it stamps nothing, and
//! the peer does nothing for it, until it is accepted. Of a store and a copy
//! that is started beside it the one stays that is connected.
//!
//! What this cannot see: that a store was rolled back while the only peers that
//! remember a later start are away; and that a folder was put back as it was
//! earlier in the very start that peers remember.

use crate::NodeNumber;
use std::collections::BTreeSet;

/// So many of a store's starts are kept and told, the latest. A peer that was
/// away for more of them takes the store for another, which is safe: it is
/// unfilled then, until an operator accepts it. In the other direction none is
/// needed that is older than what the peer met last.
pub const STARTS_MAX: usize = 1024;

/// How a store stands with its peers, in a word: for its peers and for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its peers have yet to say.
    Unconfirmed = 0,
    /// Its reads and acks count.
    Witness = 1,
    /// They count because an operator says so, though the store lost data.
    Accepted = 2,
    /// It lacks what it once acknowledged, so they do not.
    Unfilled = 3,
}

impl Standing {
    /// All there are.
    pub const ALL: [Self; 4] = [
        Self::Unconfirmed,
        Self::Witness,
        Self::Accepted,
        Self::Unfilled,
    ];

    /// That of a code. One that this release does not know says nothing, and
    /// nothing but what people are told depends on it.
    pub fn of_code(code: u8) -> Self {
        match code {
            1 => Self::Witness,
            2 => Self::Accepted,
            3 => Self::Unfilled,
            _ => Self::Unconfirmed,
        }
    }

    /// The word for it on the status page.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unconfirmed => "unconfirmed",
            Self::Witness => "witness",
            Self::Accepted => "accepted",
            Self::Unfilled => "unfilled",
        }
    }

    /// Whether reads and acks of the store count.
    pub fn is_witness(self) -> bool {
        matches!(self, Self::Witness | Self::Accepted)
    }
}

/// What one node remembers of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// Its store.
    pub store_id: u64,
    /// The last start of that store.
    pub start: u64,
}

/// What it means for a store that a node remembers something of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The two have not met.
    New,
    /// The store has been there ever since.
    Same,
    /// It is the store, but without the start: an older state of it, or a copy.
    /// It may give the stamps that the store has given since, or still gives.
    Outdated,
    /// It is another store.
    Another,
}

impl Judgement {
    /// Whether the store lacks what a peer remembers.
    pub fn is_against(self) -> bool {
        matches!(self, Self::Outdated | Self::Another)
    }
}

/// Judges a store, given what a node remembers of it. Both sides of a
/// handshake ask this of the same hellos, so that they agree.
pub fn judge(remembered: Option<Remembered>, store_id: u64, starts: &[u64]) -> Judgement {
    match remembered {
        None => Judgement::New,
        Some(known) if known.store_id != store_id => Judgement::Another,
        Some(known) if starts.contains(&known.start) => Judgement::Same,
        Some(_) => Judgement::Outdated,
    }
}

/// How this node's own store stands, and who has yet to say what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// The store is new.
    Unconfirmed {
        /// The peers that durably remember it.
        remembered_by: BTreeSet<NodeNumber>,
    },
    /// The store was a witness before this start.
    Returning {
        /// The peers that were heard in this start, or found away.
        asked: BTreeSet<NodeNumber>,
    },
    /// Nobody knows anything against the store.
    Witness,
    /// An operator has accepted the store as it is.
    Accepted {
        /// The peers that have yet to hear of it.
        unaware: BTreeSet<NodeNumber>,
        /// Those that had at the beginning of this start. Their words against
        /// the store do not count until the next one: one from before they
        /// heard may still be on its way.
        were_unaware: BTreeSet<NodeNumber>,
    },
    /// A peer remembers what this store has not.
    Unfilled {
        /// A peer takes it for an older state of a store, or a copy: then it
        /// must give no stamp, since the store may have given the same.
        is_outdated: bool,
    },
}

impl Confirmation {
    /// That of a store that was never a witness, in a cluster of `nodes`. A
    /// lone node has nobody to ask, and nobody whom it could mislead.
    pub fn new(nodes: u8) -> Self {
        match nodes {
            1 => Self::Witness,
            _ => Self::Unconfirmed {
                remembered_by: BTreeSet::new(),
            },
        }
    }

    /// That of a store that was a witness when it was last open.
    pub fn returning(nodes: u8) -> Self {
        match nodes {
            1 => Self::Witness,
            _ => Self::Returning {
                asked: BTreeSet::new(),
            },
        }
    }

    /// That of a store that an operator has accepted, of which these peers
    /// have yet to hear.
    pub fn accepted(unaware: BTreeSet<NodeNumber>) -> Self {
        Self::Accepted {
            were_unaware: unaware.clone(),
            unaware,
        }
    }

    /// A peer, one of `peers`, has said what it remembers.
    pub fn hear(&mut self, peer: NodeNumber, judgement: Judgement, peers: usize) {
        match (&mut *self, judgement) {
            (Self::Accepted { were_unaware, .. }, Judgement::Outdated | Judgement::Another)
                if were_unaware.contains(&peer) => {}
            (_, Judgement::Outdated) => *self = Self::Unfilled { is_outdated: true },
            (Self::Unfilled { .. }, Judgement::Another) => {}
            (_, Judgement::Another) => *self = Self::Unfilled { is_outdated: false },
            // What a peer tells it remembers durably.
            (Self::Unconfirmed { .. }, Judgement::Same) => self.remembered(peer, peers),
            (Self::Returning { .. }, _) => self.asked(peer, peers),
            (_, Judgement::New | Judgement::Same) => {}
        }
    }

    /// A peer durably remembers the present start.
    pub fn remembered(&mut self, peer: NodeNumber, peers: usize) {
        match self {
            Self::Unconfirmed { remembered_by } => {
                remembered_by.insert(peer);
                if remembered_by.len() == peers {
                    *self = Self::Witness;
                }
            }
            Self::Accepted { unaware, .. } => {
                unaware.remove(&peer);
            }
            Self::Returning { .. } | Self::Witness | Self::Unfilled { .. } => {}
        }
    }

    /// A peer was heard, or cannot be reached.
    pub fn asked(&mut self, peer: NodeNumber, peers: usize) {
        if let Self::Returning { asked } = self {
            asked.insert(peer);
            if asked.len() == peers {
                *self = Self::Witness;
            }
        }
    }

    /// Whether a peer takes the store for an older state of one, or a copy.
    pub fn is_outdated(&self) -> bool {
        matches!(self, Self::Unfilled { is_outdated: true })
    }

    /// The word for it.
    pub fn standing(&self) -> Standing {
        match self {
            Self::Unconfirmed { .. } | Self::Returning { .. } => Standing::Unconfirmed,
            Self::Witness => Standing::Witness,
            Self::Accepted { .. } => Standing::Accepted,
            Self::Unfilled { .. } => Standing::Unfilled,
        }
    }

    /// What the file says of it, for the next start.
    pub fn stored(&self) -> Standing {
        match self {
            Self::Returning { .. } => Standing::Witness,
            Self::Accepted { unaware, .. } if unaware.is_empty() => Standing::Witness,
            _ => self.standing(),
        }
    }

    /// The peers that are to be told that an operator has accepted the store.
    pub fn unaware(&self) -> Option<&BTreeSet<NodeNumber>> {
        match self {
            Self::Accepted { unaware, .. } => Some(unaware),
            _ => None,
        }
    }

    /// Whether a peer is one of [`Confirmation::unaware`].
    pub fn is_unaware(&self, peer: NodeNumber) -> bool {
        self.unaware()
            .is_some_and(|unaware| unaware.contains(&peer))
    }
}
