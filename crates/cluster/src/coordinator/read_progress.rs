//! What a read knows about its replicas.

use crate::placement::REPLICAS_INLINE;
use crate::replicas::{Fate, Miss, ReplicaIndex, Replicas};
use smallvec::SmallVec;

/// What is known of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadProgress {
    /// It was not asked.
    Untried,
    /// It was asked and has not answered.
    Asked,
    /// It has answered `said`, and holds this version.
    Answered { holds: Version, said: Fate },
    /// It has answered `said`, and is being repaired with this version.
    Repairing { with: Version, said: Fate },
    /// It has answered, with an older version, and could not be repaired.
    Unrepaired(Miss),
    /// It has not answered.
    Missed(Miss),
}

/// A version of the key, compared with all answers so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// The freshest version of all.
    Freshest,
    /// An older version, or none.
    Older,
}

impl ReadProgress {
    /// Whether it holds an older version and is not being repaired.
    pub(super) fn is_stale(&self) -> bool {
        matches!(
            self,
            Self::Answered {
                holds: Version::Older,
                ..
            }
        )
    }
}

/// What is known of all replicas, in the order of the preference list.
#[derive(Clone, Debug)]
pub(super) struct AllProgress(SmallVec<[ReadProgress; REPLICAS_INLINE]>);

impl AllProgress {
    /// No replica was asked.
    pub(super) fn new(replicas: Replicas) -> Self {
        let from = usize::from(replicas.from);
        Self(SmallVec::from_elem(ReadProgress::Untried, from))
    }

    pub(super) fn get_mut(&mut self, replica: ReplicaIndex) -> Option<&mut ReadProgress> {
        self.0.get_mut(replica.as_usize())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ReadProgress> {
        self.0.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut ReadProgress> {
        self.0.iter_mut()
    }

    /// How many are asked and have not answered.
    pub(super) fn asked(&self) -> u8 {
        self.count(|progress| matches!(progress, ReadProgress::Asked))
    }

    /// How many have answered.
    pub(super) fn answers(&self) -> u8 {
        self.count(|progress| {
            matches!(
                progress,
                ReadProgress::Answered { .. }
                    | ReadProgress::Repairing { .. }
                    | ReadProgress::Unrepaired(_)
            )
        })
    }

    /// How many have answered with an older version, and could not be repaired.
    pub(super) fn unrepaired(&self) -> u8 {
        self.count(|progress| matches!(progress, ReadProgress::Unrepaired(_)))
    }

    /// How many are being repaired.
    pub(super) fn repairing(&self) -> u8 {
        self.count(|progress| matches!(progress, ReadProgress::Repairing { .. }))
    }

    /// How many hold the freshest version.
    pub(super) fn fresh(&self) -> u8 {
        self.count(|progress| {
            matches!(
                progress,
                ReadProgress::Answered {
                    holds: Version::Freshest,
                    ..
                }
            )
        })
    }

    fn count(&self, is: impl Fn(&ReadProgress) -> bool) -> u8 {
        // There are `from` replicas, which is a u8.
        self.0.iter().filter(|progress| is(progress)).count() as u8
    }
}
