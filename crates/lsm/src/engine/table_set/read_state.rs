//! What readers see: memtables and tables, as one immutable value that is
//! replaced as a whole.

use super::flushed::Flushed;
use super::tables::{Tables, newer};
use crate::memtable::Memtable;
use crate::table::{Access, Interrupt};
use base::Entry;
use std::sync::Arc;

/// The memtables and tables of one moment.
#[derive(Clone)]
pub(crate) struct ReadState {
    /// The memtable that takes the writes.
    pub(crate) active: Arc<Memtable>,
    /// The memtables that wait for their flush, the oldest first.
    pub(crate) frozen: Vec<Arc<Memtable>>,
    /// The live tables.
    pub(crate) tables: Arc<Tables>,
    /// The memtables that were flushed a moment ago, because versions that came with
    /// them may arrive again.
    pub(crate) flushed: Vec<Flushed>,
}

impl ReadState {
    /// The winning version of a key.
    pub(crate) fn newest(&self, key: &[u8], access: Access) -> Result<Option<Entry>, Interrupt> {
        let mut newest = self.active.newest(key);
        for memtable in &self.frozen {
            newest = newer(newest, memtable.newest(key));
        }
        self.tables.newest(key, newest, access)
    }

    /// All memtables.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        self.frozen.iter().chain([&self.active])
    }

    /// The least log segment that holds records which are in no table.
    pub(crate) fn least_segment(&self) -> u64 {
        self.frozen.first().unwrap_or(&self.active).segment()
    }
}
