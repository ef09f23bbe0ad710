//! A write.

use super::Verdict;
use crate::placement::REPLICAS_INLINE;
use crate::replicas::{Fate, Miss, Replicas};
use lsm::Timestamp;
use smallvec::SmallVec;

/// Which stamp of a write is meant: there are at most two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// The stamp that the write began with.
    First,
    /// The stamp above what the replicas held.
    Second,
}

/// What has happened to a write. `place` is a replica's place in the key's ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteEvent {
    /// A replica has stored it.
    Stored {
        /// Of which stamp.
        round: Round,
        /// Which replica.
        place: u8,
        /// The greatest timestamp among the replica's other versions of the
        /// key, as far as it reports them; certainly when not below the stamp.
        newest_held: Option<Timestamp>,
    },
    /// A replica has not stored it, or its answer was lost.
    Missed {
        /// Of which stamp.
        round: Round,
        /// Which replica.
        place: u8,
        /// Why.
        why: Miss,
    },
    /// A hint is kept, or could not be: hints are best effort.
    HintKept {
        /// Of which stamp.
        round: Round,
        /// For which replica.
        place: u8,
    },
    /// The clock gives no stamp above what the replicas hold.
    NoStamp,
    /// The request's time is over.
    Deadline,
}

/// What to do for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteAction {
    /// Send it to a replica; `Stored` or `Missed` is to follow.
    Send {
        /// Of which stamp.
        round: Round,
        /// Which replica.
        place: u8,
    },
    /// Keep a hint for a replica; `HintKept` is to follow.
    Hint {
        /// Of which stamp.
        round: Round,
        /// For which replica.
        place: u8,
    },
    /// Stamp it once more, and call [`Write::restamped`].
    Restamp {
        /// What the new stamp must be above.
        above: Timestamp,
    },
    /// Answer the client.
    Reply(Verdict),
    /// Nothing is left to do.
    Done,
}

/// What a step gives to do, in this order.
pub type WriteActions = SmallVec<[WriteAction; REPLICAS_INLINE + 2]>;

/// The coordination of one write.
#[derive(Clone, Debug)]
pub struct Write {
    replicas: Replicas,
    stamp: Timestamp,
}

impl Write {
    /// Begins a write with this stamp, and says whom to send it.
    #[must_use]
    pub fn start(
        replicas: Replicas,
        stamp: Timestamp,
        is_down: impl Fn(u8) -> bool,
        actions: &mut WriteActions,
    ) -> Self {
        let _ = (is_down, actions);
        Self { replicas, stamp }
    }

    /// Goes on with a second stamp.
    pub fn restamped(
        &mut self,
        stamp: Timestamp,
        is_down: impl Fn(u8) -> bool,
        actions: &mut WriteActions,
    ) {
        let _ = (is_down, actions);
        self.stamp = stamp;
    }

    /// Takes note of an event, and says what to do.
    pub fn step(&mut self, event: WriteEvent, actions: &mut WriteActions) {
        let _ = (event, actions);
    }

    /// The stamp of the round that the write is in.
    #[must_use]
    pub fn stamp(&self) -> Timestamp {
        self.stamp
    }

    /// What became of it at each replica, in the order of the ranking.
    pub fn fates(&self) -> impl Iterator<Item = Fate> {
        (0..self.replicas.from).map(|_| Fate::Missed(Miss::Timeout))
    }
}
