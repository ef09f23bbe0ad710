//! A replica of the model: versions in the order of their arrival, and at most one promise.

use base::{Entry, Kind, NewerVersion, Timestamp};
use cluster::{Base, Newest};

/// A bug to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// What lies below the promised ballot is stored all the same.
    StoresBelowPromise,
    /// What lies below the promised ballot is refused, as if something newer were there.
    HeldIsNewer,
    /// A write that a conditional write has overtaken counts as written just before it.
    OvertakenIsNewer,
    /// A version is accepted although another ballot was promised since.
    AcceptsWithoutPromise,
    /// A ballot is promised whatever the newest version is.
    PromisesWhatDiffers,
    /// Replicas that settle are released without the current version.
    ReleasesWithout,
    /// Answers of stores that have lost data count.
    LearnersCount,
    /// A restart forgets promises.
    RestartForgets,
    /// A ballot is promised below one that was promised before.
    ForgetsBallots,
    /// One replica less than a majority is enough for a conditional write.
    MinorityIsEnough,
    /// To lack a value is the same, whatever was deleted.
    DeletesAreEqual,
    /// Who settles does not wait for replicas beyond a majority.
    SettlesHastily,
    /// Who settles writes nothing anew, although a replica is silent.
    NothingAnew,
}

/// What a replica answers to a prepare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Prepared {
    Promised {
        newest: Option<Entry>,
        has_met: bool,
    },
    Differs {
        newest: Newest,
    },
    Busy {
        with: Timestamp,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub(crate) bug: Option<Bug>,
    /// Whether it counts: it has lost nothing, or was rebuilt.
    pub(crate) is_voter: bool,
    /// The ballot that it has promised, until the promise is gone.
    pub(crate) promise: Option<Timestamp>,
    /// The greatest ballot that it has ever promised.
    greatest_ballot: Timestamp,
    /// All versions, in the order of arrival, each with the answer for its first arrival.
    versions: Vec<(Entry, NewerVersion)>,
}

impl Replica {
    pub(crate) fn new(bug: Option<Bug>) -> Self {
        Self {
            bug,
            is_voter: true,
            promise: None,
            greatest_ballot: Timestamp::ZERO,
            versions: Vec::new(),
        }
    }

    pub(crate) fn newest(&self) -> Option<&Entry> {
        let entries = self.versions.iter().map(|(entry, _)| entry);
        entries.max_by_key(|entry| entry.timestamp())
    }

    /// The version with this timestamp.
    pub(crate) fn version(&self, timestamp: Timestamp) -> Option<&Entry> {
        let mut entries = self.versions.iter().map(|(entry, _)| entry);
        entries.find(|entry| entry.timestamp() == timestamp)
    }

    fn newest_timestamp(&self) -> Timestamp {
        self.newest().map_or(Timestamp::ZERO, Entry::timestamp)
    }

    /// A write, a hint or a repair; [`None`] if it has to wait for a promise.
    pub(crate) fn put(&mut self, entry: &Entry) -> Option<NewerVersion> {
        if let Some(ballot) = self.promise
            && entry.timestamp() < ballot
        {
            match self.bug {
                Some(Bug::StoresBelowPromise) => {}
                Some(Bug::HeldIsNewer) => return Some(NewerVersion::At(ballot)),
                _ => return None,
            }
        }
        Some(self.store(entry))
    }

    fn store(&mut self, entry: &Entry) -> NewerVersion {
        if self
            .promise
            .is_some_and(|ballot| ballot <= entry.timestamp())
        {
            self.promise = None;
        }
        if let Some((_, first)) = self.versions.iter().find(|(held, _)| held == entry) {
            return *first;
        }
        let newest = self.newest_timestamp();
        let newer_version = if newest <= entry.timestamp() {
            NewerVersion::None
        } else if self.greatest_ballot > entry.timestamp()
            && self.bug != Some(Bug::OvertakenIsNewer)
        {
            NewerVersion::Overtaken(newest)
        } else {
            NewerVersion::At(newest)
        };
        self.versions.push((entry.clone(), newer_version));
        newer_version
    }

    pub(crate) fn prepare(&mut self, ballot: Timestamp, base: Option<Base>) -> Prepared {
        let newest = self.newest().cloned();
        let found = Newest {
            timestamp: newest.as_ref().map(Entry::timestamp),
            is_value: newest
                .as_ref()
                .is_some_and(|newest| newest.kind() == Kind::Value),
        };
        let is_forced = base.is_none();
        if let Some(with) = self.promise
            && (!is_forced || with > ballot)
        {
            return Prepared::Busy { with };
        }
        if self.newest_timestamp() >= ballot {
            return Prepared::Differs { newest: found };
        }
        if ballot <= self.greatest_ballot && self.bug != Some(Bug::ForgetsBallots) {
            let with = self.greatest_ballot;
            return Prepared::Busy { with };
        }
        let is_expected = base.is_none_or(|base| base.is(found));
        if !is_expected && self.bug != Some(Bug::PromisesWhatDiffers) {
            return Prepared::Differs { newest: found };
        }
        let has_met = self.promise.is_some();
        self.greatest_ballot = ballot;
        self.promise = Some(ballot);
        Prepared::Promised { newest, has_met }
    }

    /// Returns whether it has accepted.
    pub(crate) fn accept(&mut self, ballot: Timestamp, entry: &Entry) -> bool {
        if self.promise != Some(ballot) && self.bug != Some(Bug::AcceptsWithoutPromise) {
            return false;
        }
        self.promise = None;
        self.store(entry);
        true
    }

    pub(crate) fn release(&mut self, ballot: Timestamp) {
        if self.promise == Some(ballot) {
            self.promise = None;
        }
    }

    pub(crate) fn restart(&mut self) {
        if self.bug == Some(Bug::RestartForgets) {
            self.promise = None;
        }
    }
}
