//! The records of a memtable, in order, for scans and for the flush.

use super::order::{Place, Placed, Seek, Slot};
use super::{Memtable, SHARDS};
use crate::error::Error;
use crate::record::{Record, RecordSource};
use crate::sync::lock;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex};

/// How many records a source takes out of a B-tree at a time. Few enough that
/// its lock is held for a moment and that a short scan takes little in vain,
/// enough that seeking is rare.
const BATCH: usize = 16;

/// The records of a memtable in order. Those that come while it is read may be
/// among them.
pub(crate) struct MemtableSource {
    memtable: Arc<Memtable>,
    runs: [Run; SHARDS],
}

/// What a source has of one B-tree.
struct Run {
    /// Where it goes on after the batch.
    next: Start,
    batch: VecDeque<Slot>,
    /// Whether nothing came after the batch.
    is_ended: bool,
}

/// Where a run goes on.
#[derive(Clone)]
enum Start {
    Key(Arc<[u8]>),
    AfterKey(Arc<[u8]>),
    After(Arc<Record>),
}

impl MemtableSource {
    /// The records from the first of `start` on, or past the last of it.
    pub(super) fn new(memtable: Arc<Memtable>, start: Bound<&[u8]>) -> Self {
        let start = match start {
            Bound::Included(key) => Start::Key(key.into()),
            Bound::Excluded(key) => Start::AfterKey(key.into()),
            Bound::Unbounded => Start::Key(Arc::default()),
        };
        Self {
            memtable,
            runs: std::array::from_fn(|_| Run {
                next: start.clone(),
                batch: VecDeque::new(),
                is_ended: false,
            }),
        }
    }
}

impl RecordSource for MemtableSource {
    fn next(&mut self) -> Result<Option<Record>, Error> {
        for (run, shard) in self.runs.iter_mut().zip(&self.memtable.shards) {
            if run.batch.is_empty() && !run.is_ended {
                run.refill(shard);
            }
        }
        let first = self
            .runs
            .iter_mut()
            .filter(|run| !run.batch.is_empty())
            .min_by(|left, right| left.batch.front().cmp(&right.batch.front()));
        Ok(first
            .and_then(|run| run.batch.pop_front())
            .map(|slot| Record::clone(&slot.record)))
    }
}

impl Run {
    /// Takes what comes next.
    fn refill(&mut self, shard: &Mutex<BTreeSet<Slot>>) {
        let seek = match &self.next {
            Start::Key(key) => Seek::to(Place::Before(key)),
            Start::AfterKey(key) => Seek::to(Place::After(key)),
            Start::After(record) => Seek::to(Place::At(record)),
        };
        let seek: &dyn Placed = &seek;
        let after = (Bound::Excluded(seek), Bound::Unbounded);
        let shard = lock(shard);
        self.batch
            .extend(shard.range::<dyn Placed, _>(after).take(BATCH).cloned());
        drop(shard);
        self.is_ended = self.batch.len() < BATCH;
        if let Some(last) = self.batch.back() {
            self.next = Start::After(Arc::clone(&last.record));
        }
    }
}
