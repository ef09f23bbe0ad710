//! What readers may still hold although it was replaced.

mod removed;

use crate::executor::{Executor, JobClass};
use crate::locks::lock;
use crate::memtable::{Memtable, Remains};
use crate::options::Environment;
use crate::table::Table;
use crate::table_id::TableId;
use removed::RemovedFiles;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// How many records a job frees: half a millisecond's work.
const STEP_RECORDS: usize = 4_000;

/// How long the next job waits, so that requests have their turn.
const STEP_REST: Duration = Duration::from_millis(1);

/// What running merges have written and removed files that wait to be freed take together at most
/// this part of what live tables take, or removed files are freed faster: who watches how full a
/// disk gets counts on what the store says that it holds.
const OVERHEAD_DIVISOR: u64 = 10;

/// In a small store they may take as much as so many tables of the size at which compaction
/// starts the next one: a compaction has about that many inputs, and to free those at once is what
/// the pace avoids.
const OVERHEAD_TABLES_MIN: u64 = 4;

/// What the disk holds of tables that are not live, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverheadBytes {
    /// What compactions under way have written.
    pub unfinished: u64,
    /// Tables that were replaced, and that scans or backups still read.
    pub held: u64,
    /// Removed tables whose space is freed a little at a time.
    pub removed: u64,
}

impl OverheadBytes {
    /// All of it.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.unfinished + self.held + self.removed
    }
}

/// How many bytes unfinished and removed tables may take in a store with so many bytes in live
/// ones.
pub(super) fn overhead_max(live_bytes: u64, table_bytes: u64) -> u64 {
    (live_bytes / OVERHEAD_DIVISOR).max(table_bytes.saturating_mul(OVERHEAD_TABLES_MIN))
}

/// Memtables that were flushed, and tables that were merged or dropped. Whoever lets go of the
/// last handle of a memtable is held up, because it has many records to free. That could be a
/// commit. And a reader may have to open the file of a table again, so the file stays where it is
/// for as long as somebody has the table. So the set keeps a handle until no reader has one.
pub(super) struct Retired {
    held: Mutex<HeldByReaders>,
    /// The files of tables that are free.
    removed: RemovedFiles,
    /// Frees memtables, a few records at a time.
    executor: Weak<dyn Executor>,
}

#[derive(Default)]
struct HeldByReaders {
    memtables: Vec<Arc<Memtable>>,
    tables: Vec<RetiredTable>,
}

struct RetiredTable {
    table: Arc<Table>,
    /// Whether its file is removed once it is free. If not, the operator keeps what is in it.
    is_useless: bool,
}

impl Retired {
    pub(super) fn new(environment: &Environment) -> Self {
        Self {
            held: Mutex::default(),
            removed: RemovedFiles::new(environment),
            executor: Arc::downgrade(&environment.executor),
        }
    }

    pub(super) fn add_memtable(&self, memtable: Arc<Memtable>) {
        lock(&self.held).memtables.push(memtable);
    }

    /// Adds a table. Its file is removed once it is free, if it `is_useless`.
    pub(super) fn add_table(&self, table: Arc<Table>, is_useless: bool) {
        let retired = RetiredTable { table, is_useless };
        lock(&self.held).tables.push(retired);
    }

    /// Removes the file of a table that is not live, once nobody has the table any more.
    pub(super) fn discard(&self, id: TableId, bytes: u64) {
        let is_held = {
            let mut held = lock(&self.held);
            let mut tables = held.tables.iter_mut();
            let table = tables.find(|retired| retired.table.id() == id);
            table.map(|retired| retired.is_useless = true).is_some()
        };
        if !is_held {
            self.removed.add(id, bytes);
        }
    }

    /// What is held of tables.
    pub(super) fn overhead(&self) -> OverheadBytes {
        let held = lock(&self.held);
        let held = held.tables.iter().map(|retired| retired.table.file_bytes());
        OverheadBytes {
            unfinished: 0,
            held: held.sum(),
            removed: self.removed.bytes(),
        }
    }

    /// Frees what no reader holds any more: some of it at once, and the rest from now on, faster
    /// while more than `waiting_max` bytes of tables wait.
    pub(super) fn free(&self, waiting_max: u64) {
        // A table that goes may have been the last one to hold blob tables.
        while self.free_some(waiting_max) {}
    }

    fn free_some(&self, waiting_max: u64) -> bool {
        self.removed.set_max(waiting_max);
        fn is_free<T>(held: &mut Arc<T>) -> bool {
            Arc::strong_count(held) == 1
        }
        let (memtables, tables) = {
            let mut held = lock(&self.held);
            let memtables: Vec<_> = held.memtables.extract_if(.., is_free).collect();
            let is_free = |retired: &mut RetiredTable| is_free(&mut retired.table);
            let tables: Vec<_> = held.tables.extract_if(.., is_free).collect();
            (memtables, tables)
        };
        for memtable in memtables.into_iter().filter_map(Arc::into_inner) {
            free_in_steps(memtable.into_remains(), &self.executor);
        }
        let has_freed = !tables.is_empty();
        for RetiredTable { table, is_useless } in tables {
            let (id, bytes) = (table.id(), table.file_bytes());
            // Its file is closed before.
            drop(table);
            if is_useless {
                self.removed.add(id, bytes);
            }
        }
        has_freed
    }

    /// Frees at once what waits of the files of tables. Returns whether anything did.
    pub(super) fn free_removed(&self) -> bool {
        self.removed.free_all()
    }

    /// Frees at once what waits of the files of tables, and removes none from then on: the next
    /// start does.
    pub(super) fn close(&self) {
        self.removed.close();
    }
}

/// Frees a few records, and has the others freed by jobs. An executor that stops drops its
/// job, and with it all that is left.
fn free_in_steps(mut remains: Remains, executor: &Weak<dyn Executor>) {
    if !remains.free(STEP_RECORDS) {
        return;
    }
    let Some(running) = executor.upgrade() else {
        return;
    };
    let executor = Weak::clone(executor);
    let next = Box::new(move || free_in_steps(remains, &executor));
    running.spawn(JobClass::Flush, STEP_REST, next);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::testing::{MemoryDisk, StepExecutor, environment};
    use base::{Entry, Expiry, Kind, Timestamp};
    use bytes::Bytes;

    fn retired() -> (Retired, Arc<StepExecutor>) {
        let (environment, executor) = environment(Arc::new(MemoryDisk::new()));
        (Retired::new(&environment), executor)
    }

    /// A memtable, and clones of its entries.
    fn memtable(records: usize, bytes: usize) -> (Arc<Memtable>, Vec<Entry>) {
        let memtable = Memtable::new(1, bytes);
        let add = |number: usize| {
            let (key, timestamp) = (number.to_string(), Timestamp::from_u64(1));
            let entry = Entry::value(key.as_bytes(), timestamp, &[], Expiry::NEVER, 1);
            let sequence = number as u64;
            let record = Record { sequence, entry };
            memtable.insert(&record);
            record.entry
        };
        let entries = (0..records).map(add).collect();
        (Arc::new(memtable), entries)
    }

    /// Key and value of an entry, and what tells whether they are still there.
    struct LongData(
        Vec<u8>,
        #[expect(dead_code, reason = "it is counted")] Arc<()>,
    );

    impl AsRef<[u8]> for LongData {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    /// How many the memtable holds.
    fn living(entries: &[Entry]) -> usize {
        entries.iter().filter(|entry| entry.is_shared()).count()
    }

    #[test]
    fn a_memtable_is_freed_a_few_records_at_a_time() {
        let (retired, executor) = retired();
        let (memtable, entries) = memtable(10_000, 1 << 20);
        retired.add_memtable(Arc::clone(&memtable));
        retired.free(u64::MAX);
        executor.run_until_idle();
        assert_eq!(living(&entries), 10_000, "a reader holds it");
        drop(memtable);
        retired.free(u64::MAX);
        let mut before = living(&entries);
        while executor.next_due().is_some() {
            executor.run_for(STEP_REST);
            let now = living(&entries);
            assert!(before - now <= STEP_RECORDS, "{before} and then {now}");
            before = now;
        }
        assert_eq!(before, 0);
    }

    #[test]
    fn a_sparse_hash_table_is_freed_in_steps_too() {
        let (retired, executor) = retired();
        // Each record is released by its tree and by the hash table, whose chunks are many.
        let (memtable, entries) = memtable(STEP_RECORDS / 2, 64 << 20);
        retired.add_memtable(memtable);
        retired.free(u64::MAX);
        assert_ne!(living(&entries), 0);
        executor.run_until_idle();
        assert_eq!(living(&entries), 0);
    }

    #[test]
    fn a_memtable_of_long_values_is_freed_at_once() {
        let (retired, _executor) = retired();
        let memtable = Memtable::new(1, 1 << 20);
        let holders = Arc::new(());
        for sequence in 1..=64 {
            let data = Bytes::from_owner(LongData(vec![0; 1 << 20], Arc::clone(&holders)));
            let (at, never) = (Timestamp::from_u64(sequence), Expiry::NEVER);
            let entry = Entry::from_data(data, 1, at, Kind::Value, never, 1);
            memtable.insert(&Record { sequence, entry });
        }
        assert_eq!(Arc::strong_count(&holders), 65);
        retired.add_memtable(Arc::new(memtable));
        retired.free(u64::MAX);
        assert_eq!(Arc::strong_count(&holders), 1);
    }

    #[test]
    fn an_executor_that_stops_frees_all_that_is_left() {
        let (retired, executor) = retired();
        let (memtable, entries) = memtable(10_000, 1 << 20);
        retired.add_memtable(memtable);
        retired.free(u64::MAX);
        assert_ne!(living(&entries), 0);
        executor.stop();
        assert_eq!(living(&entries), 0);
    }
}
