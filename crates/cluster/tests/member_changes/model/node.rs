//! A node of the model, and what it keeps of the key.

use base::{Entry, Expiry, NewerVersion, Timestamp};
use cluster::NodeSet;
use cluster::layout::{Epoch, MemberReport};

/// All versions that a store was sent, with what it held when each first arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    versions: Vec<(u64, NewerVersion)>,
}

impl Store {
    /// Stores a version; returns the newer-version check of its first arrival.
    pub(crate) fn put(&mut self, version: u64) -> NewerVersion {
        if let Some((_, first)) = self.versions.iter().find(|(it, _)| *it == version) {
            return *first;
        }
        let newer = Some(self.newest()).filter(|newest| *newest > version);
        let newer = newer.map_or(NewerVersion::None, |newest| {
            NewerVersion::At(Timestamp::from_u64(newest))
        });
        self.versions.push((version, newer));
        newer
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
