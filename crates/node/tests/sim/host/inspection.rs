//! What can be seen of a process and its store without asking it as a client.

use super::Host;
use super::identity::key_bytes;
use base::{Entry, Timestamp};
use cluster::comparison::RepairKind;
use node::GcStatus;

impl Host {
    /// Whether the store here is a voter; `None` if no process runs.
    pub(crate) fn is_voter(&self) -> Option<bool> {
        let state = self.state.borrow();
        Some(state.process.as_ref()?.node.is_voter())
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
            let levels = process.node.engine().statistics().levels;
            levels.iter().map(|level| level.bytes).sum()
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
