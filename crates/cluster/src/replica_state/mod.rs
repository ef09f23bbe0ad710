//! Decides whether a store is a voter: whether it still has every write that it acknowledged, as
//! far as its peers know. The crate `membership` keeps what it decides by.
//!
//! A node whose disk was lost comes back with an empty store, and one whose folder was restored
//! from a copy comes back with an old store. If its reads counted, a quorum with it could miss
//! acknowledged writes. If its acks counted, a write could be acknowledged with a lower timestamp
//! than a write that only the lost disk had. Such a store is a **learner**.
//!
//! A store cannot know by itself that it lacks anything. Three rules detect it:
//!
//! - **Starts.** Each start of a store draws a random number, and the store keeps
//!   the numbers of its starts. Each peer remembers the last start that it met. That
//!   start must be among the store's own starts ([`judge`]).
//! - **Acknowledged writes.** The store counts the writes that it has committed. It
//!   tells its peers the part of the count that is durable, and they remember it. A
//!   store that opens with a lower count has lost durable writes ([`judge`]).
//! - **Power cuts.** If the last run did not sync its commits, a power cut loses the
//!   last of them, which no peer can notice. So a store that was not closed and
//!   opens under another boot of the kernel is a learner. The node decides that.
//!
//! ```text
//!      all peers remember this store         all peers were heard, or are unreachable
//!   Starting ------------------> Voter <---------------------- Returning
//!        |                          |    ^                              |
//!        |     a peer remembers a start, or acknowledged writes,        |
//!        |     that this store has not                                  |
//!        '--------------------.     |    |     .------------------------'
//!                             v     v    |     v
//!                                Learner ----.
//!                                   |    ^    | a full session has made it equal with
//!         an operator accepts       |    |    | the present stores of all peers
//!         (at a start)              v    |    v
//!                                Accepted     Voter
//!                                   |
//!                                   '--> Returning, at the start after all peers know of it
//! ```
//!
//! - A new store waits for **all** peers, once. If a majority were enough, a peer
//!   outside that majority would not know if one of its members lost its disk
//!   later, and the two could form a majority.
//! - A store that was a voter before waits at each start until each peer has answered or proved
//!   unreachable, so that a reachable peer that remembers a later start can say so first.
//! - One peer that contradicts the store outweighs all others, even later, because it may be the
//!   only one that remembers.
//! - A full session compares a learner with the **present** store of every
//!   peer, whatever the replica state of that store. So stores that are all learners
//!   become voters together, without an operator: what none of them has is gone
//!   in any case. The rebuilt store takes all starts that its peers have heard of
//!   over into its own, because it includes what is left of them. So a peer that is
//!   itself put back to an older state, and remembers an earlier one of these starts,
//!   has nothing to say against the store.
//! - If a peer's store is an older state of a store that this node remembers, its word
//!   that it remembers *another* store of this node is not believed ([`is_bygone`]).
//!
//! If a peer remembers a start of the store that the store does not have, or more acknowledged
//! writes, the store is **outdated** to that peer: it is an older state, or a copy. It could issue
//! timestamps that the store has issued since then, or that another process still issues. So this
//! node accepts no writes of its own until the store is rebuilt, and the peer serves it nothing but
//! what rebuilds it. While the later start is connected, the peer refuses the store altogether: of a
//! store and its running copy, only one counts.
//!
//! Two cases stay undetected: the only peers that remember a later start are
//! unavailable; or a folder is rolled back within the very start that the peers
//! remember, to a state with as many acknowledged writes as they have heard of.

mod possible_loss;
#[cfg(test)]
mod tests;

pub use possible_loss::{LostStore, PossibleLoss};

use crate::NodeId;
use std::collections::BTreeSet;

/// How many of its starts a store keeps and sends: the latest ones. To a peer that
/// was unavailable for more starts than that, the store looks outdated. That is
/// safe, because an outdated store does not count until a full session has rebuilt it.
pub const STARTS_MAX: usize = 1024;

/// How many starts of a peer's store a node remembers, for the store that may replace it: the
/// latest ones. If a peer remembers an earlier one of them, it speaks against that store, which
/// is safe.
pub const PEER_STARTS_MAX: usize = 256;

/// How a store stands with its peers, as peers and operators see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaState {
    /// Its peers have yet to say what they remember of it.
    Starting = 0,
    /// Its reads and acks count.
    Voter = 1,
    /// Its reads and acks count because an operator said so, although the store
    /// lost data.
    ForcedVoter = 2,
    /// It lacks data that it once acknowledged, so its reads and acks do not count.
    Learner = 3,
}

impl ReplicaState {
    /// All replica states.
    pub const ALL: [Self; 4] = [
        Self::Starting,
        Self::Voter,
        Self::ForcedVoter,
        Self::Learner,
    ];

    /// The replica state with a code. A code that this release does not know reads as
    /// starting; a peer's replica state is only shown, so nothing else depends on it.
    pub fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Voter,
            2 => Self::ForcedVoter,
            3 => Self::Learner,
            _ => Self::Starting,
        }
    }

    /// Whether the store may lack what others have.
    #[must_use]
    pub fn lacks(self) -> bool {
        matches!(self, Self::Learner | Self::ForcedVoter)
    }

    /// The word for it on the status page.
    pub fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Voter => "voter",
            Self::ForcedVoter => "forced_voter",
            Self::Learner => "learner",
        }
    }

    /// Whether the store's reads and acks count.
    pub fn is_voter(self) -> bool {
        matches!(self, Self::Voter | Self::ForcedVoter)
    }
}

/// What one node remembers of another node's store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// The id of the store.
    pub store_id: u64,
    /// The last start of that store that the node met.
    pub start: u64,
    /// The writes that the store had durably acknowledged when it last said so.
    pub acknowledged: u64,
}

impl Remembered {
    /// Whether it is this start of this store.
    pub fn is_start(self, store_id: u64, start: u64) -> bool {
        (self.store_id, self.start) == (store_id, start)
    }
}

/// What a store says of itself, by which it is judged.
#[derive(Clone, Copy, Debug)]
pub struct StoreClaim<'a> {
    /// The id of the store.
    pub store_id: u64,
    /// The numbers of its starts; the present one is the last.
    pub starts: &'a [u64],
    /// The writes that it had acknowledged when the present start opened it, or when a
    /// full session rebuilt it since. `None` for a release that does not count them.
    pub acknowledged: Option<u64>,
}

/// What it means for a store that a node remembers a start of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The node remembers no start.
    New,
    /// The store has the start, and the acknowledged writes.
    Same,
    /// It is the same store without the start, or without acknowledged writes: an
    /// older state or a copy. It may allocate timestamps that the store has issued since
    /// then, or still issues.
    Outdated,
    /// It is another store.
    Another,
}

impl Judgement {
    /// Whether the store lacks what is remembered.
    pub fn is_against(self) -> bool {
        matches!(self, Self::Outdated | Self::Another)
    }
}

/// Judges a store by what a node remembers of it. Both sides of a handshake judge
/// by the same two hellos, so they agree.
///
/// A store that was rebuilt has the starts of the store that it replaces, so the start
/// decides before the id does. What is remembered of the present start was said by
/// this very process, so its count proves nothing.
pub fn judge(remembered: Option<Remembered>, claim: StoreClaim<'_>) -> Judgement {
    let Some(known) = remembered else {
        return Judgement::New;
    };
    if !claim.starts.contains(&known.start) {
        return if known.store_id == claim.store_id {
            Judgement::Outdated
        } else {
            Judgement::Another
        };
    }
    let is_of_present_start = claim.starts.last() == Some(&known.start);
    match claim.acknowledged {
        Some(count) if count < known.acknowledged && !is_of_present_start => Judgement::Outdated,
        _ => Judgement::Same,
    }
}

/// Whether one side of a handshake speaks of a store that the other side has replaced since:
/// its own store is an `Outdated` state of what the other side remembers, and it remembers
/// another store of the other side. What it remembers is older than what it has lost, and
/// before that it has met the present store of the other side, and could have spoken against
/// it. So the other side does not believe it, and it remembers the present store of the other
/// side instead. Both know it by the same two hellos.
///
/// That a peer has a later start of the *same* store to name is believed in any case: after
/// it was put back, it may have met a start that the other side has lost since.
pub fn is_bygone(speaker: Judgement, listener: Judgement) -> bool {
    (speaker, listener) == (Judgement::Outdated, Judgement::Another)
}

/// How this node's own store stands, and which peers have yet to say what they
/// remember of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// The store is new.
    Starting {
        /// The peers that durably remember it.
        remembered_by: BTreeSet<NodeId>,
    },
    /// The store was a voter before this start.
    Returning {
        /// The peers that were heard in this start, or found unreachable.
        consulted: BTreeSet<NodeId>,
    },
    /// No peer speaks against the store.
    Voter,
    /// An operator has accepted the store as it is.
    ForcedVoter {
        /// The peers that have yet to learn of it.
        unaware: BTreeSet<NodeId>,
        /// The peers that had yet to learn of it when this start began. What they
        /// say against the store does not count during this start, because they
        /// may have said it before they learned of it.
        were_unaware: BTreeSet<NodeId>,
    },
    /// The store lacks writes that it has acknowledged.
    Learner {
        /// Whether a peer takes it for an older state of a store, or a copy. Then
        /// this node must allocate no timestamps, because the store may have issued
        /// the same ones.
        is_outdated: bool,
    },
}

impl Confirmation {
    /// The confirmation of a store that was never a voter, in a cluster of
    /// `nodes`. A node without peers has none to ask, and none to mislead.
    pub fn new(nodes: u8) -> Self {
        match nodes {
            1 => Self::Voter,
            _ => Self::Starting {
                remembered_by: BTreeSet::new(),
            },
        }
    }

    /// The confirmation of a store that was a voter when it was last open.
    pub fn returning(nodes: u8) -> Self {
        match nodes {
            1 => Self::Voter,
            _ => Self::Returning {
                consulted: BTreeSet::new(),
            },
        }
    }

    /// The confirmation of a store that an operator has accepted; `unaware` are
    /// the peers that have yet to learn of it.
    pub fn accepted(unaware: BTreeSet<NodeId>) -> Self {
        Self::ForcedVoter {
            were_unaware: unaware.clone(),
            unaware,
        }
    }

    /// Takes what a peer remembers of the store; `peers` are all of them.
    pub fn hear(&mut self, peer: NodeId, judgement: Judgement, peers: &[NodeId]) {
        match (&mut *self, judgement) {
            (Self::ForcedVoter { were_unaware, .. }, Judgement::Outdated | Judgement::Another)
                if were_unaware.contains(&peer) => {}
            (_, Judgement::Outdated) => *self = Self::Learner { is_outdated: true },
            (Self::Learner { .. }, Judgement::Another) => {}
            (_, Judgement::Another) => *self = Self::Learner { is_outdated: false },
            // What a peer's hello says, the peer durably remembers.
            (Self::Starting { .. }, Judgement::Same) => self.remembered_by(peer, peers),
            (Self::Returning { .. }, _) => self.consulted(peer, peers),
            (_, Judgement::New | Judgement::Same) => {}
        }
    }

    /// Notes that a peer durably remembers the present start.
    pub fn remembered_by(&mut self, peer: NodeId, peers: &[NodeId]) {
        match self {
            Self::Starting { remembered_by } => {
                remembered_by.insert(peer);
                self.settle(peers);
            }
            Self::ForcedVoter { unaware, .. } => {
                unaware.remove(&peer);
            }
            Self::Returning { .. } | Self::Voter | Self::Learner { .. } => {}
        }
    }

    /// Notes that the store was found, or made, equal with the present stores of all
    /// peers: what any of them has it has, too. Returns whether it was a learner; then it
    /// counts from now on.
    pub fn rebuilt(&mut self) -> bool {
        let is_learner = matches!(self, Self::Learner { .. });
        if is_learner {
            *self = Self::Voter;
        }
        is_learner
    }

    /// Notes that a peer was heard, or cannot be reached.
    pub fn consulted(&mut self, peer: NodeId, peers: &[NodeId]) {
        if let Self::Returning { consulted } = self {
            consulted.insert(peer);
            self.settle(peers);
        }
    }

    /// The store counts once it waits for none of its peers, who may be others than before: one
    /// that has left has no say.
    pub fn settle(&mut self, peers: &[NodeId]) {
        if let Self::Starting {
            remembered_by: heard,
        }
        | Self::Returning { consulted: heard } = self
            && peers.iter().all(|peer| heard.contains(peer))
        {
            *self = Self::Voter;
        }
    }

    /// Whether a peer takes the store for an older state of a store, or a copy.
    pub fn is_outdated(&self) -> bool {
        matches!(self, Self::Learner { is_outdated: true })
    }

    /// How the store stands now.
    pub fn replica_state(&self) -> ReplicaState {
        match self {
            Self::Starting { .. } | Self::Returning { .. } => ReplicaState::Starting,
            Self::Voter => ReplicaState::Voter,
            Self::ForcedVoter { .. } => ReplicaState::ForcedVoter,
            Self::Learner { .. } => ReplicaState::Learner,
        }
    }

    /// How the store stands for the next start, which is what the file says.
    pub fn stored(&self) -> ReplicaState {
        match self {
            Self::Returning { .. } => ReplicaState::Voter,
            Self::ForcedVoter { unaware, .. } if unaware.is_empty() => ReplicaState::Voter,
            _ => self.replica_state(),
        }
    }

    /// The peers that have yet to learn that an operator has accepted the store.
    pub fn unaware(&self) -> Option<&BTreeSet<NodeId>> {
        match self {
            Self::ForcedVoter { unaware, .. } => Some(unaware),
            _ => None,
        }
    }

    /// Whether a peer is one of [`Confirmation::unaware`].
    pub fn is_unaware(&self, peer: NodeId) -> bool {
        self.unaware()
            .is_some_and(|unaware| unaware.contains(&peer))
    }
}
