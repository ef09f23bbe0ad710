//! Reports of damage: where tables say which of their blocks are not what was written.
//!
//! A table reports in the midst of a read, on any thread. A job of the engine takes the
//! reports later and finds out which keys are concerned.

use crate::locks::lock;
use crate::table_id::TableId;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock};

/// The most reports that wait. One that is lost comes again with the next read of its
/// block.
const REPORTS_MAX: usize = 1024;

/// Wakes the job that takes the reports.
type Wake = Box<dyn Fn() + Send + Sync>;

/// The reports that wait. Its locks are held briefly, and no other lock is taken meanwhile.
#[derive(Default)]
pub(crate) struct DamageReports {
    waiting: Mutex<BTreeSet<(TableId, u64)>>,
    /// How often anything was reported, known or not.
    reported: AtomicU64,
    /// The tables that were found damaged since the start, but for those that are gone.
    damaged: Mutex<BTreeSet<TableId>>,
    wake: OnceLock<Wake>,
}

impl DamageReports {
    /// Has `wake` called after each new report, and now if there are any.
    pub(crate) fn start(&self, wake: Wake) {
        let wake = self.wake.get_or_init(|| wake);
        if !lock(&self.waiting).is_empty() {
            wake();
        }
    }

    /// Reports a table whose file is damaged at `offset`.
    pub(crate) fn report(&self, table: TableId, offset: u64) {
        self.reported.fetch_add(1, SeqCst);
        let is_new = {
            let mut waiting = lock(&self.waiting);
            waiting.len() < REPORTS_MAX && waiting.insert((table, offset))
        };
        if is_new && let Some(wake) = self.wake.get() {
            wake();
        }
    }

    /// Notes that a table is damaged.
    pub(crate) fn note_damaged(&self, table: TableId) {
        lock(&self.damaged).insert(table);
    }

    /// Notes that a table is gone.
    pub(crate) fn note_gone(&self, table: TableId) {
        lock(&self.damaged).remove(&table);
    }

    /// The tables that were found damaged. One that could not be read may be readable again.
    pub(crate) fn damaged(&self) -> Vec<TableId> {
        lock(&self.damaged).iter().copied().collect()
    }

    /// How often damage was met that was not noted yet. A scan that passed over such damage
    /// has raised it.
    pub(crate) fn reported(&self) -> u64 {
        self.reported.load(SeqCst)
    }

    /// Takes the reports: the tables, each with an offset in its file.
    pub(crate) fn take(&self) -> BTreeSet<(TableId, u64)> {
        std::mem::take(&mut lock(&self.waiting))
    }

    /// Puts reports back that could not be dealt with.
    pub(crate) fn put_back(&self, reports: BTreeSet<(TableId, u64)>) {
        lock(&self.waiting).extend(reports);
    }
}
