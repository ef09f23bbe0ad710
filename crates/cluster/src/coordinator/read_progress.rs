//! What a read knows about its replicas.

use crate::layout::Quorum;
use crate::placement::REPLICAS_INLINE;
use crate::replicas::{Fate, Miss, ReplicaIndex};
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
    /// Whether it was asked and has not answered.
    pub(super) fn is_asked(&self) -> bool {
        matches!(self, Self::Asked)
    }

    /// Whether it has answered.
    pub(super) fn is_answer(&self) -> bool {
        matches!(
            self,
            Self::Answered { .. } | Self::Repairing { .. } | Self::Unrepaired(_)
        )
    }

    /// Whether its answer counts: one that could not be repaired does not, unless there is nothing
    /// to repair it with.
    pub(super) fn counts(&self, is_collected: bool) -> bool {
        match self {
            Self::Answered { .. } | Self::Repairing { .. } => true,
            Self::Unrepaired(_) => is_collected,
            Self::Untried | Self::Asked | Self::Missed(_) => false,
        }
    }

    /// Whether it has answered with an older version, and its store can take no other one: its disk is
    /// full or fails, or the version is below its closed timestamp, so that its write ended long ago.
    ///
    /// Any other replica that was not repaired may hold a version above this one, for which the write
    /// of this one takes a second timestamp: then two reads might return it, with another version
    /// in between. The same is possible if a disk has filled up within this read, after
    /// both came in; that is the price of reads on a full disk.
    pub(super) fn is_unable(&self) -> bool {
        matches!(
            self,
            Self::Unrepaired(Miss::Full | Miss::Failed | Miss::Undecided | Miss::Obsolete { .. })
        )
    }

    /// Whether it is being repaired.
    pub(super) fn is_repairing(&self) -> bool {
        matches!(self, Self::Repairing { .. })
    }

    /// Whether it holds the freshest version.
    pub(super) fn is_fresh(&self) -> bool {
        matches!(
            self,
            Self::Answered {
                holds: Version::Freshest,
                ..
            }
        )
    }

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
    pub(super) fn new(quorum: &Quorum) -> Self {
        let nodes = usize::from(quorum.nodes());
        Self(SmallVec::from_elem(ReadProgress::Untried, nodes))
    }

    pub(super) fn get_mut(&mut self, replica: ReplicaIndex) -> Option<&mut ReadProgress> {
        self.0.get_mut(replica.as_usize())
    }

    pub(super) fn as_slice(&self) -> &[ReadProgress] {
        &self.0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ReadProgress> {
        self.0.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut ReadProgress> {
        self.0.iter_mut()
    }

    /// Whether a replica is still to answer, or to store a repair.
    pub(super) fn is_underway(&self) -> bool {
        let mut all = self.0.iter();
        all.any(|progress| progress.is_asked() || progress.is_repairing())
    }
}
