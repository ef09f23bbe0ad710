//! What a conditional write knows of its ballot at a replica.

use super::condition::Newest;
use crate::replicas::{Fate, Miss};
use base::Timestamp;

/// What is known of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConditionalProgress {
    /// It was asked to promise.
    Asked,
    /// It has promised, and this is the timestamp of its newest version.
    Promised(Option<Timestamp>),
    /// It holds another version.
    Differs(Newest),
    /// It has promised another ballot.
    Busy { with: Timestamp, is_stale: bool },
    /// It has not promised.
    Unprepared(Miss),
    /// It was sent the version.
    Sent,
    /// It has accepted the version.
    Accepted,
    /// It has refused the version.
    Refused,
    /// It may have accepted the version.
    Unaccepted(Miss),
    /// It may lack the version, and a hint is being kept for it.
    Hinting,
    /// The same, and the hint is kept or could not be.
    Hinted,
}

impl ConditionalProgress {
    /// What became of the ballot.
    pub(super) fn fate(self) -> Fate {
        match self {
            Self::Accepted => Fate::Stored,
            Self::Unprepared(why) | Self::Unaccepted(why) => Fate::Missed(why),
            _ => Fate::Unanswered,
        }
    }

    /// The version or the ballot that the replica has named. The next ballot is to be above it.
    pub(super) fn named(self) -> Option<Timestamp> {
        match self {
            Self::Differs(newest) => newest.timestamp,
            Self::Promised(newest) => newest,
            Self::Busy { with, .. } => Some(with),
            _ => None,
        }
    }

    /// Whether it may lack the version, which is written, and is owed a hint.
    pub(super) fn needs_hint(self) -> bool {
        match self {
            Self::Unprepared(Miss::Learner | Miss::Obsolete { .. })
            | Self::Unaccepted(Miss::Learner | Miss::Obsolete { .. }) => false,
            // Those hold something newer, or promise something newer.
            Self::Refused | Self::Accepted | Self::Sent | Self::Hinting | Self::Hinted => false,
            _ => true,
        }
    }

    /// Whether it may have stored the version.
    pub(super) fn may_be_stored(self) -> bool {
        matches!(self, Self::Accepted | Self::Unaccepted(_))
    }
}
