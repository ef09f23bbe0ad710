//! The records that the hash table points to.

use crate::record::Record;
use crate::sync::lock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

/// The number of records in a chunk, which takes a page of memory.
const CHUNK: usize = 256;

/// A list that only grows, by a page at a time: a list that doubles holds up the write
/// that comes when it does, for the milliseconds in which the system finds its memory.
/// Reads take no lock.
pub(super) struct RecordList {
    added: AtomicUsize,
    chunks: boxcar::Vec<Box<[OnceLock<Arc<Record>>]>>,
    /// Held while a chunk is added.
    growth: Mutex<()>,
}

impl RecordList {
    pub(super) fn new() -> Self {
        Self {
            added: AtomicUsize::new(0),
            chunks: boxcar::Vec::new(),
            growth: Mutex::default(),
        }
    }

    /// Adds a record and returns its number. Numbers begin at 0.
    pub(super) fn push(&self, record: Arc<Record>) -> usize {
        let number = self.added.fetch_add(1, Relaxed);
        let place = number / CHUNK;
        if self.chunks.get(place).is_none() {
            let _growth = lock(&self.growth);
            while self.chunks.count() <= place {
                self.chunks
                    .push((0..CHUNK).map(|_| OnceLock::new()).collect());
            }
        }
        // Nobody else has this number, so the place is empty.
        let _ = self.chunks[place][number % CHUNK].set(record);
        number
    }

    /// The record with a number that [`RecordList::push`] has returned.
    pub(super) fn get(&self, number: usize) -> Option<&Record> {
        let chunk = self.chunks.get(number / CHUNK)?;
        chunk[number % CHUNK].get().map(|record| &**record)
    }

    /// The records in their order.
    pub(super) fn into_records(self) -> impl Iterator<Item = Arc<Record>> + Send {
        let chunks = self.chunks.into_iter();
        chunks.flat_map(|chunk| chunk.into_iter().filter_map(OnceLock::into_inner))
    }
}
