//! How many replicas a request has, and the possible outcomes at one of them.

use base::Timestamp;
use std::str::FromStr;

/// How many replicas a key has for a request, and how many of them must
/// answer: `1 <= ack <= from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// How many must answer.
    pub ack: u8,
    /// How many there are.
    pub from: u8,
}

impl Replicas {
    /// The pair, or [`None`] unless `1 <= ack <= from`.
    #[must_use]
    pub const fn new(ack: u8, from: u8) -> Option<Self> {
        if 1 <= ack && ack <= from {
            Some(Self { ack, from })
        } else {
            None
        }
    }

    /// The least majority of `from` replicas, of which there is at least one.
    #[must_use]
    pub const fn quorum(from: u8) -> Self {
        Self {
            ack: from / 2 + 1,
            from,
        }
    }

    /// The replicas of the key, in the order of its preference list.
    pub fn indexes(self) -> impl Iterator<Item = ReplicaIndex> + use<> {
        (0..self.from).map(ReplicaIndex)
    }

    /// Whether any two requests of this pair have a replica in common.
    #[must_use]
    pub const fn overlap(self) -> bool {
        2 * self.ack as u16 > self.from as u16
    }
}

/// A text is no pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write ack/from, such as 2/3: how many replicas have to answer, and of how many")]
pub struct ReplicasError;

impl FromStr for Replicas {
    type Err = ReplicasError;

    fn from_str(text: &str) -> Result<Self, ReplicasError> {
        let pair = text.split_once('/').and_then(|(ack, from)| {
            let [ack, from] = [ack, from].map(|number| number.parse().ok());
            Self::new(ack?, from?)
        });
        pair.ok_or(ReplicasError)
    }
}

/// Which of a key's replicas: its index in the key's preference list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaIndex(u8);

impl ReplicaIndex {
    /// The replica with this index.
    #[must_use]
    pub const fn new(index: u8) -> Self {
        Self(index)
    }

    /// The index.
    #[must_use]
    pub const fn as_u8(self) -> u8 {
        self.0
    }

    /// The index, for a list of what belongs to each replica.
    #[must_use]
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }
}

/// Why a replica did not do as it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Miss {
    /// It did not answer by the deadline.
    Timeout,
    /// It has been silent for a while, so it was not asked, or is no longer waited for.
    Suspected,
    /// It cannot be reached, or refused the request.
    Refused,
    /// It is of an older release, which does not know the request.
    Unsupported,
    /// Its list of members is a later one, which the sender has to adopt first.
    OtherEpoch,
    /// It has too much to do.
    Overloaded,
    /// Its disk is full.
    Full,
    /// Its store cannot.
    Failed,
    /// Its store is no voter, because what it once acknowledged may be missing from it.
    /// It has stored what it was sent, but neither its acks nor its reads count.
    Learner,
    /// The version is old, and its store does not know yet whether a repair session has raised the
    /// GC threshold above it. It may take the version once it does: see
    /// [`repair`](crate::repair).
    Undecided,
    /// The version is older than what its store still takes, and will never be stored
    /// there: see [`repair`](crate::repair).
    Obsolete {
        /// The closed timestamp or the GC threshold of the store, which the version is below.
        below: Timestamp,
    },
}

/// What became of a request at one replica: a line of the receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It has stored the write.
    Stored,
    /// It has answered with a value, which may have expired.
    Value,
    /// It has answered for its part of a scan.
    Answered,
    /// It has answered that it has no version of the key, or a tombstone.
    Absent,
    /// The request was decided before it was asked, or before it answered.
    Unanswered,
    /// It has not done as asked.
    Missed(Miss),
}

impl Fate {
    /// The word for it in receipts and metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Value => "value",
            Self::Answered => "answered",
            Self::Absent => "absent",
            Self::Unanswered => "unanswered",
            Self::Missed(Miss::Timeout) => "timeout",
            Self::Missed(Miss::Suspected) => "suspected",
            Self::Missed(Miss::Refused | Miss::OtherEpoch) => "refused",
            Self::Missed(Miss::Unsupported) => "unsupported",
            Self::Missed(Miss::Overloaded) => "overloaded",
            Self::Missed(Miss::Full) => "full",
            Self::Missed(Miss::Failed) => "failed",
            Self::Missed(Miss::Learner) => "learner",
            Self::Missed(Miss::Undecided) => "undecided",
            Self::Missed(Miss::Obsolete { .. }) => "obsolete",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quorum_is_the_least_that_overlaps() {
        for from in 1..=u8::MAX {
            let Replicas { ack, .. } = Replicas::quorum(from);
            assert!(Replicas { ack, from }.overlap(), "{ack}/{from}");
            let less = Replicas::new(ack - 1, from);
            assert!(less.is_none_or(|less| !less.overlap()), "{ack}/{from}");
        }
        assert_eq!(Replicas::new(0, 1), None);
        assert_eq!(Replicas::new(2, 1), None);
        assert_eq!(Replicas::new(2, 3), Some(Replicas::quorum(3)));
        assert_eq!("2/3".parse(), Ok(Replicas::quorum(3)));
        for wrong in ["", "3", "3/2", "0/1", "2/3/4", "2/256", "-1/3", "2 / 3"] {
            assert_eq!(wrong.parse::<Replicas>(), Err(ReplicasError), "{wrong}");
        }
    }
}
