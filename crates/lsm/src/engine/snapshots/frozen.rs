//! The memtables that the snapshot of a store waits for.

use crate::locks::lock;
use crate::table::Table;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// For the segment of each frozen memtable: the table that it was flushed to, once it was.
pub(in crate::engine) type Flushes = BTreeMap<u64, Option<Arc<Table>>>;

/// Which memtables a snapshot waits for. Its lock is held briefly; of the others only the commit
/// lock is taken before it.
#[derive(Default)]
pub(in crate::engine) struct FrozenMemtables {
    awaited: Mutex<Option<Flushes>>,
}

impl FrozenMemtables {
    /// What is awaited; [`None`] if there is no snapshot.
    pub(in crate::engine) fn lock(&self) -> MutexGuard<'_, Option<Flushes>> {
        lock(&self.awaited)
    }

    /// A memtable was flushed to a table, which is live.
    pub(in crate::engine) fn note_flush(&self, segment: u64, table: Arc<Table>) {
        let mut awaited = self.lock();
        let awaited = awaited.as_mut().and_then(|it| it.get_mut(&segment));
        if let Some(flushed) = awaited {
            *flushed = Some(table);
        }
    }
}
