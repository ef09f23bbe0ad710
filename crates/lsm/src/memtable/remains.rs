//! What is left of a memtable that nobody reads any more.

use super::Memtable;
use base::Entry;
use smallvec::SmallVec;
use std::sync::PoisonError;

/// So many bytes of long values take about as long to free as a short record does. A memtable
/// of a few long values is freed at once: its memory may be needed for the next ones.
const RECORD_BYTES: usize = 32 << 10;

/// To search and free a chunk of the hash table takes about as long as to free so many short
/// records.
const CHUNK_RECORDS: usize = 16;

/// How many entries are fetched from memory at the same time.
const BATCH: usize = 16;

/// The records of a memtable, to be freed in steps. To free all of them at once takes tens
/// of milliseconds, in which requests feel that a core is gone.
pub(crate) struct Remains {
    /// Nothing stands for a chunk of the hash table, which is freed.
    entries: Box<dyn Iterator<Item = Option<Entry>> + Send>,
}

impl Memtable {
    /// Nothing is freed before [`Remains::free`].
    pub(crate) fn into_remains(self) -> Remains {
        let tree = self.tree.into_inner();
        let ordered = tree.unwrap_or_else(PoisonError::into_inner).into_records();
        let ordered = ordered.map(|ordered| Some(ordered.record.entry));
        Remains {
            entries: Box::new(ordered.chain(self.by_hash.into_entries())),
        }
    }
}

impl Remains {
    /// Frees what takes as long as so many short records, or a little more. Returns whether
    /// anything is left.
    pub(crate) fn free(&mut self, records: usize) -> bool {
        let mut freed = 0;
        while freed < records {
            let batch = self.entries.by_ref().take(BATCH);
            let batch: SmallVec<[Option<Entry>; BATCH]> = batch.collect();
            for entry in batch.iter().flatten() {
                entry.prefetch();
            }
            if batch.len() < BATCH {
                return false;
            }
            let costs = batch
                .into_iter()
                .map(|entry| entry.map_or(CHUNK_RECORDS, release));
            freed += costs.sum::<usize>();
        }
        true
    }
}

/// Lets go of an entry, and says what that takes. The last one to do so frees it.
fn release(entry: Entry) -> usize {
    let cost = if entry.is_shared() {
        1
    } else {
        1 + entry.data_bytes() / RECORD_BYTES
    };
    drop(entry);
    cost
}
