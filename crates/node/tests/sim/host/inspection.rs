//! What can be seen of a process and its store without asking it as a client.

use super::Host;
use super::identity::key_bytes;
use base::{Entry, Timestamp};
use cluster::comparison::RepairKind;
use cluster::repair::Facts;
use lsm::KeptPromise;
use node::{ChangesStatus, GcStatus, RepairCounts};
use std::time::Duration;

impl Host {
    /// Whether the store here is a voter; `None` if no process runs.
    pub(crate) fn is_voter(&self) -> Option<bool> {
        let state = self.state.borrow();
        Some(state.process.as_ref()?.node.is_voter())
    }

    /// Whether the node here waits to join; `None` if no process runs.
    #[cfg(test)]
    pub(crate) fn waits(&self) -> Option<bool> {
        let state = self.state.borrow();
        Some(state.process.as_ref()?.node.member_changes().waits())
    }

    /// Whether the node here has waited to join, and is to be started as a member.
    #[cfg(test)]
    pub(crate) fn has_joined(&self) -> bool {
        let state = self.state.borrow();
        let process = state.process.as_ref();
        process.is_some_and(|process| process.node.member_changes().has_joined())
    }

    /// What the node here knows of changes of the list of members; `None` if no process runs.
    pub(crate) fn changes(&self) -> Option<ChangesStatus> {
        let state = self.state.borrow();
        Some(state.process.as_ref()?.node.member_changes().status())
    }

    /// How many hints wait here; `None` if no process runs.
    pub(crate) fn hints_waiting(&self) -> Option<u64> {
        let state = self.state.borrow();
        Some(state.process.as_ref()?.node.hints_waiting())
    }

    /// How many hints were dropped here, not counting those lost in crashes.
    pub(crate) fn hints_dropped(&self) -> u64 {
        let state = self.state.borrow();
        let process = state.process.as_ref();
        state.hints_dropped + process.map_or(0, |process| process.node.hints_dropped())
    }

    /// The hints that wait here on the disk.
    pub(crate) fn hints(&self) -> Vec<Entry> {
        let state = self.state.borrow();
        let process = state.process.as_ref();
        process.map_or_else(Vec::new, |process| process.node.hints())
    }

    /// How many requests of repairs the process has answered; `None` if no process runs.
    pub(crate) fn repair_requests(&self) -> Option<u64> {
        let state = self.state.borrow();
        Some(state.process.as_ref()?.node.repair_requests())
    }

    /// What the process has done for repair since it was started; `None` if none runs.
    pub(crate) fn repair_counts(&self) -> Option<RepairCounts> {
        let state = self.state.borrow();
        Some(state.process.as_ref()?.node.repair_status().counts)
    }

    /// What full sessions of a change of the members have shown about the store; `None` if nothing,
    /// or if no process runs.
    pub(crate) fn facts(&self) -> Option<Facts> {
        let state = self.state.borrow();
        state.process.as_ref()?.node.facts()
    }

    /// Whether a part of the store is known to be damaged; `None` if no process runs.
    pub(crate) fn has_damage(&self) -> Option<bool> {
        let state = self.state.borrow();
        Some(state.process.as_ref()?.node.has_damage())
    }

    /// How many full sessions the process has taken part in; 0 if none runs.
    pub(crate) fn full_repairs(&self) -> u64 {
        let state = self.state.borrow();
        let process = state.process.as_ref();
        process.map_or(0, |process| {
            let full = process.node.repair_status().ended[RepairKind::Full as usize];
            full.equal + full.incomplete
        })
    }

    /// The version of a key in the store; `None` if no process runs.
    pub(crate) fn held(&self, key: u64) -> Result<Option<Entry>, lsm::Error> {
        let state = self.state.borrow();
        match &state.process {
            Some(process) => process.node.engine().get(&key_bytes(key)),
            None => Ok(None),
        }
    }

    /// The promises of conditional writes that the store keeps, up to a hundred.
    pub(crate) fn all_promises_kept(&self) -> Vec<KeptPromise> {
        let state = self.state.borrow();
        state.process.as_ref().map_or_else(Vec::new, |it| {
            let engine = it.node.engine();
            engine.promises_kept_for(Duration::ZERO, b"", 100)
        })
    }

    /// All that the store holds; nothing if no process runs, or if it cannot be read.
    pub(crate) fn all_held(&self) -> Vec<Entry> {
        let state = self.state.borrow();
        let scan = state
            .process
            .as_ref()
            .map(|it| it.node.engine().scan(b"", None));
        let entries = scan.and_then(|mut scan| scan.next_batch(usize::MAX).ok());
        entries.unwrap_or_default()
    }

    /// The copy of a key that the store has set aside, and has not got back.
    pub(crate) fn set_aside(&self, key: u64) -> Option<Entry> {
        let state = self.state.borrow();
        let engine = state.process.as_ref()?.node.engine();
        let page = engine.copies_set_aside(&key_bytes(key), 1).unwrap();
        let mut copies = page.copies.into_iter();
        copies.find(|entry| entry.key() == key_bytes(key))
    }

    /// What the process would answer to a read of a key: its GC threshold, and the version. [`None`]
    /// if it does not count, or has none.
    pub(crate) fn answers_with(&self, key: u64) -> Option<(Timestamp, Entry)> {
        let counts = self.is_voter() == Some(true) && self.has_damage() == Some(false);
        let gc_threshold = self.gc_status()?.gc_threshold;
        let entry = self.held(key).ok().flatten()?;
        counts.then_some((gc_threshold, entry))
    }

    /// What the process knows of tombstone GC; `None` if none runs.
    pub(crate) fn gc_status(&self) -> Option<GcStatus> {
        let state = self.state.borrow();
        Some(state.process.as_ref()?.node.gc_status())
    }

    /// The bytes of the store's tables; 0 if no process runs.
    pub(crate) fn table_bytes(&self) -> u64 {
        let state = self.state.borrow();
        state.process.as_ref().map_or(0, |process| {
            process.node.engine().statistics().table_bytes()
        })
    }

    /// How many copies the store has dropped since the process began because they belong to
    /// other nodes.
    pub(crate) fn non_owned_dropped(&self) -> u64 {
        let state = self.state.borrow();
        let process = state.process.as_ref();
        process.map_or(0, |process| {
            process.node.engine().statistics().non_owned_dropped
        })
    }

    /// How often the store has compacted; 0 if no process runs.
    pub(crate) fn compactions(&self) -> u64 {
        let state = self.state.borrow();
        let process = state.process.as_ref();
        process.map_or(0, |process| process.node.engine().statistics().compactions)
    }
}
