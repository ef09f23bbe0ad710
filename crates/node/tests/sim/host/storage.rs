//! The faults of a host's disk.

use super::Host;
use super::identity::FOLDER;
use crate::dice::Dice;
use base::{Entry, Timestamp};
use lsm::disk::replace_file;
use lsm::{Disk, Outbox, Outcome};
use lsm_testing::{Fault, MemoryDisk};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::time::Instant;

/// The outbox of writes whose outcomes nobody waits for.
struct NobodyWaits;

/// A copy of a disk at one moment.
pub(crate) struct Copy(MemoryDisk);

impl Host {
    /// Cuts the power in the middle of the `calls`-th call of the disk from now.
    pub(crate) fn cut_power_in_call(&self, calls: u64) {
        if let Some(process) = &self.state.borrow().process {
            let fault = Fault::at(calls, io::ErrorKind::Other);
            process.disk.arm(fault.lasting().with_short_writes());
        }
    }

    /// Undoes [`Host::cut_power_in_call`] if the power has not failed yet.
    pub(crate) fn keep_power(&self) {
        if let Some(process) = &self.state.borrow().process {
            process.disk.heal();
        }
    }

    /// Whether the disk has room, its syncs work, and nothing on it is damaged,
    /// so that a node must start.
    pub(crate) fn is_disk_sound(&self) -> bool {
        self.state.borrow().disk_faults == 0
    }

    /// Gives the disk this much more room than it uses, in bytes.
    pub(crate) fn limit_disk(&self, room_bytes: u64) {
        let mut state = self.state.borrow_mut();
        state.disk_faults += 1;
        let used_bytes = state.disk.used_bytes();
        state
            .disk
            .set_capacity(used_bytes.saturating_add(room_bytes));
    }

    /// Removes the limit of the disk.
    pub(crate) fn unlimit_disk(&self) {
        let mut state = self.state.borrow_mut();
        state.disk_faults -= 1;
        state.disk.set_capacity(u64::MAX);
    }

    /// Makes all syncs of the disk fail, or work again. A process that had a failed sync
    /// has to be restarted.
    pub(crate) fn fail_syncs(&self, fail: bool) {
        let mut state = self.state.borrow_mut();
        if fail {
            state.disk_faults += 1;
        } else {
            state.disk_faults -= 1;
        }
        state.disk.fail_syncs(fail);
    }

    /// Puts a version into the store, past the other nodes, if a process runs.
    pub(crate) fn store(&self, entry: Entry) -> Result<(), lsm::Error> {
        let outbox = Arc::new(NobodyWaits) as Arc<dyn Outbox>;
        match &self.state.borrow().process {
            Some(process) => process.node.engine().submit(entry, &outbox, 0),
            None => Ok(()),
        }
    }

    /// Copies everything on the disk, also what is not synced.
    pub(crate) fn copy_disk(&self) -> Copy {
        Copy(self.state.borrow().disk.crash_clone(&mut |_| true))
    }

    /// Replaces the disk while no process runs.
    pub(crate) fn replace_disk(&self, copy: Copy) {
        let mut state = self.state.borrow_mut();
        assert!(state.process.is_none(), "a process has the disk");
        // A fault that limits the old disk does not limit this one.
        copy.0.set_capacity(u64::MAX);
        state.disk = Arc::new(copy.0);
        self.replaced.set(Some(Instant::now()));
    }

    /// Writes a file `TOMBSTONE_GC` with this closed timestamp and GC threshold, while no process
    /// runs.
    pub(crate) fn set_gc_threshold(&self, bound: Timestamp) {
        let mut bytes = b"kvorumfg\x04\0\0\0".to_vec();
        let bound = bound.as_u64();
        for number in [bound, bound, bound, 0, 0, 0, 0, 0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&base::crc32c(&bytes).to_le_bytes());
        let state = self.state.borrow();
        assert!(state.process.is_none(), "a process has the disk");
        replace_file(&*state.disk, Path::new(FOLDER), "TOMBSTONE_GC", &bytes).unwrap();
    }

    /// Changes a byte of a table on the disk, which is not sound afterwards. Returns whether
    /// there was a table.
    pub(crate) fn rot(&self) -> bool {
        self.rot_where(any_table, |dice, bytes| dice.below(bytes))
    }

    /// As [`Host::rot`], at this offset.
    pub(crate) fn rot_at(&self, offset: u64) -> bool {
        self.rot_where(any_table, |_, _| offset)
    }

    /// As [`Host::rot_at`], in the table that was written last.
    pub(crate) fn rot_last_at(&self, offset: u64) -> bool {
        let last = |_: &Dice, tables: &[String]| tables.iter().max().cloned();
        self.rot_where(last, |_, _| offset)
    }

    fn rot_where(
        &self,
        choose: impl FnOnce(&Dice, &[String]) -> Option<String>,
        offset: impl FnOnce(&Dice, u64) -> u64,
    ) -> bool {
        let mut state = self.state.borrow_mut();
        let folder = Path::new(FOLDER);
        let mut tables = state.disk.list(folder).unwrap_or_default();
        tables.retain(|name| name.ends_with(".sst"));
        let Some(table) = choose(&self.dice, &tables) else {
            return false;
        };
        let path = folder.join(table);
        let bytes = state.disk.open(&path).and_then(|file| file.len());
        let offset = offset(&self.dice, bytes.unwrap_or(1).max(1));
        let flip = 1 << self.dice.below(8);
        let is_damaged = state.disk.corrupt(&path, offset, flip).is_ok();
        state.disk_faults += usize::from(is_damaged);
        state.rots += usize::from(is_damaged);
        drop(state);
        self.trace.note(format_args!(
            "host {} rots: {} at {offset}",
            self.number,
            path.display()
        ));
        is_damaged
    }

    /// Records that a node could start with the damage, or has another disk.
    pub(crate) fn forget_rot(&self) {
        let mut state = self.state.borrow_mut();
        state.disk_faults -= std::mem::take(&mut state.rots);
    }
}

fn any_table(dice: &Dice, tables: &[String]) -> Option<String> {
    (!tables.is_empty()).then(|| dice.pick(tables).clone())
}

impl Outbox for NobodyWaits {
    fn deliver(&self, _outcomes: Vec<Outcome>) {}
}

impl Copy {
    /// What a power cut leaves of a disk.
    pub(crate) fn synced(disk: &MemoryDisk) -> Self {
        Self(disk.clone_synced())
    }

    /// An empty disk.
    pub(crate) fn empty() -> Self {
        Self(MemoryDisk::new())
    }
}
