//! A read.

use super::Verdict;
use crate::placement::REPLICAS_INLINE;
use crate::replicas::{Fate, Miss, Replicas};
use lsm::Entry;
use smallvec::SmallVec;

/// What has happened to a read. `place` is a replica's place in the key's ranking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadEvent {
    /// A replica has answered.
    Answered {
        /// Which replica.
        place: u8,
        /// Its version of the key, be it a tombstone or expired.
        entry: Option<Entry>,
    },
    /// A replica has not answered, or its answer was lost.
    Missed {
        /// Which replica.
        place: u8,
        /// Why.
        why: Miss,
    },
    /// A replica has stored the version that it was to be repaired with.
    Repaired {
        /// Which replica.
        place: u8,
    },
    /// A replica was not repaired, or its answer was lost.
    RepairMissed {
        /// Which replica.
        place: u8,
        /// Why.
        why: Miss,
    },
    /// A replica takes long, and there is the means to ask another one.
    Slow {
        /// Which replica.
        place: u8,
    },
    /// The request's time is over.
    Deadline,
}

/// What to do for a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAction {
    /// Ask a replica; `Answered` or `Missed` is to follow.
    Ask {
        /// Which replica.
        place: u8,
    },
    /// Write [`Read::freshest`], as it is now, to a replica; `Repaired` or
    /// `RepairMissed` is to follow.
    Repair {
        /// Which replica.
        place: u8,
    },
    /// Answer the client, with [`Read::freshest`] as it is now.
    Reply(Verdict),
    /// Nothing is left to do.
    Done,
}

/// What a step gives to do, in this order.
pub type ReadActions = SmallVec<[ReadAction; REPLICAS_INLINE + 2]>;

/// The coordination of one read.
#[derive(Clone, Debug)]
pub struct Read {
    replicas: Replicas,
    freshest: Option<Entry>,
}

impl Read {
    /// Begins a read. `preference` holds the places `0..from`, the first
    /// choice first and those known to be down last.
    #[must_use]
    pub fn start(
        replicas: Replicas,
        preference: impl IntoIterator<Item = u8>,
        actions: &mut ReadActions,
    ) -> Self {
        let _ = (preference.into_iter(), actions);
        Self {
            replicas,
            freshest: None,
        }
    }

    /// Takes note of an event, and says what to do.
    pub fn step(&mut self, event: ReadEvent, actions: &mut ReadActions) {
        let _ = (event, actions);
    }

    /// The freshest version that has been seen, be it a tombstone or expired.
    #[must_use]
    pub fn freshest(&self) -> Option<&Entry> {
        self.freshest.as_ref()
    }

    /// What became of it at each replica, in the order of the ranking. One
    /// that was not asked counts as one that has not answered in time.
    pub fn fates(&self) -> impl Iterator<Item = Fate> {
        (0..self.replicas.from).map(|_| Fate::Missed(Miss::Timeout))
    }
}
