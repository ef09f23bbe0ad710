//! What a read knows of a replica.

use crate::replicas::{Fate, Miss};

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
