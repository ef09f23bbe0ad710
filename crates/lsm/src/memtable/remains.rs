//! What is left of a memtable that nobody reads any more.

use super::Memtable;
use crate::record::Record;
use std::sync::{Arc, PoisonError};

/// So many bytes of long values take about as long to free as a short record does. A memtable
/// of a few long values is freed at once: its memory may be needed for the next ones.
const RECORD_BYTES: usize = 32 << 10;

/// The records of a memtable, to be freed in steps. To free all of them at once takes tens
/// of milliseconds, in which requests feel that a core is gone.
pub(crate) struct Remains {
    /// Each step frees something, and says how many records' time that takes.
    steps: Box<dyn Iterator<Item = usize> + Send>,
}

impl Memtable {
    /// Nothing is freed before [`Remains::free`].
    pub(crate) fn into_remains(self) -> Remains {
        let trees = self.shards.into_iter();
        let trees =
            trees.flat_map(|tree| tree.into_inner().unwrap_or_else(PoisonError::into_inner));
        let ordered = trees.map(|ordered| cost(ordered.record));
        let (chunks, records) = self.by_hash.into_parts();
        Remains {
            steps: Box::new(ordered.chain(records.map(cost)).chain(chunks.map(|_| 1))),
        }
    }
}

/// What it takes to let go of a record. The last one to do so frees its data.
fn cost(record: Arc<Record>) -> usize {
    Arc::into_inner(record).map_or(1, |record| 1 + record.entry.data_bytes() / RECORD_BYTES)
}

impl Remains {
    /// Frees what takes as long as so many short records, or a little more. Returns whether
    /// anything is left.
    pub(crate) fn free(&mut self, records: usize) -> bool {
        let mut freed = 0;
        while freed < records {
            match self.steps.next() {
                Some(cost) => freed += cost,
                None => return false,
            }
        }
        true
    }
}
