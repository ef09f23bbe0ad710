//! A node of the model, and what it keeps of the key.

use base::{Entry, Expiry, NewerVersion, Timestamp};
use cluster::layout::{Epoch, MemberReport};
use cluster::{Met, NodeSet};

/// All versions that a store was sent, with what it held when each first arrived, and what it has
/// promised.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    versions: Vec<(u64, NewerVersion)>,
    pub(crate) promise: Option<Promise>,
    /// The greatest ballot that it has promised.
    greatest_ballot: u64,
    /// It promises no ballot of an earlier list than this one.
    promised_by: Epoch,
}

/// A promise that a store keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub(crate) ballot: u64,
    /// The list of the request; the first one if it is not known any more.
    epoch: Epoch,
}

/// What a store answers to a prepare.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Prepared {
    Promised { newest: u64, met: Met },
    Differs { newest: u64 },
    Busy { with: u64 },
}

impl Store {
    /// Stores a version; returns the newer-version check of its first arrival, or [`None`] if it has
    /// to wait for a promise.
    pub(crate) fn put(&mut self, version: u64) -> Option<NewerVersion> {
        let is_below = |promise: Promise| version < promise.ballot;
        let is_held = self.promise.is_some_and(is_below);
        (!is_held).then(|| self.store(version))
    }

    fn store(&mut self, version: u64) -> NewerVersion {
        if self.promise.is_some_and(|it| it.ballot <= version) {
            self.promise = None;
        }
        if let Some((_, first)) = self.versions.iter().find(|(it, _)| *it == version) {
            return *first;
        }
        let newest = self.newest();
        let newer = Timestamp::from_u64(newest);
        let newer_version = if newest <= version {
            NewerVersion::None
        } else if self.greatest_ballot > version {
            NewerVersion::Overtaken(newer)
        } else {
            NewerVersion::At(newer)
        };
        self.versions.push((version, newer_version));
        newer_version
    }

    /// Promises a ballot, if the newest version is `base`; by force where there is none. [`None`] if
    /// it has promised ballots of a later list.
    pub(crate) fn prepare(
        &mut self,
        ballot: u64,
        base: Option<u64>,
        epoch: Epoch,
    ) -> Option<Prepared> {
        if epoch < self.promised_by {
            return None;
        }
        let newest = self.newest();
        if let Some(kept) = self.promise
            && (base.is_some() || kept.ballot >= ballot)
        {
            return Some(Prepared::Busy { with: kept.ballot });
        }
        if newest >= ballot || base.is_some_and(|base| base != newest) {
            return Some(Prepared::Differs { newest });
        }
        if ballot <= self.greatest_ballot {
            let with = self.greatest_ballot;
            return Some(Prepared::Busy { with });
        }
        let met = match self.promise {
            None => Met::Nothing,
            Some(kept) if kept.epoch < epoch => Met::EarlierList,
            Some(_) => Met::SameList,
        };
        self.greatest_ballot = ballot;
        self.promised_by = epoch;
        self.promise = Some(Promise { ballot, epoch });
        Some(Prepared::Promised { newest, met })
    }

    /// Returns whether it has accepted.
    pub(crate) fn accept(&mut self, ballot: u64, version: u64) -> bool {
        let is_kept = self.promise.is_some_and(|it| it.ballot == ballot);
        if is_kept {
            self.promise = None;
            self.store(version);
        }
        is_kept
    }

    pub(crate) fn release(&mut self, ballot: u64) {
        if self.promise.is_some_and(|it| it.ballot == ballot) {
            self.promise = None;
        }
    }

    /// Its node has this list durably.
    pub(crate) fn restart(&mut self, epoch: Epoch) {
        self.promised_by = epoch;
        if let Some(promise) = &mut self.promise {
            promise.epoch = Epoch::default();
        }
    }

    /// Every list is as good as every other one: a bug.
    pub(crate) fn forget_lists(&mut self) {
        self.promised_by = Epoch::default();
        if let Some(promise) = &mut self.promise {
            promise.epoch = Epoch::default();
        }
    }

    /// The newest version; 0 if there is none.
    pub(crate) fn newest(&self) -> u64 {
        let versions = self.versions.iter().map(|(version, _)| *version);
        versions.max().unwrap_or(0)
    }
}

/// The entry of a version.
pub(crate) fn entry_of(version: u64, copies: u8) -> Option<Entry> {
    let at = Timestamp::from_u64(version);
    (version > 0).then(|| Entry::value(b"key", at, b"", Expiry::NEVER, copies))
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) store: Store,
    /// Whether its reads and acks count.
    pub(crate) is_voter: bool,
    pub(crate) is_up: bool,
    /// The list that it has adopted.
    pub(crate) epoch: Epoch,
    /// It serves no request of an earlier list.
    pub(crate) floor: Epoch,
    /// How often it has crashed.
    pub(crate) life: u32,
    /// How often its store was lost.
    pub(crate) losses: u32,
    /// The facts of its present store.
    pub(crate) change: Epoch,
    pub(crate) equal_with: NodeSet,
}

impl Node {
    /// A node with an empty store that knows this list.
    pub(crate) fn new(epoch: Epoch) -> Self {
        Self {
            store: Store::default(),
            is_voter: true,
            is_up: true,
            epoch,
            floor: epoch,
            life: 0,
            losses: 0,
            change: Epoch::default(),
            equal_with: NodeSet::default(),
        }
    }

    /// What it reports if its oldest request is of this list.
    pub(crate) fn report(&self, oldest: Option<Epoch>) -> MemberReport {
        MemberReport {
            epoch: oldest.map_or(self.epoch, |oldest| oldest.min(self.epoch)),
            change: self.change,
            equal_with: self.equal_with,
        }
    }
}
