//! The records of a memtable, in order, for scans and for the flush.

use super::order::{HasPosition, OrderedRecord, Position, SearchKey};
use super::{Memtable, SHARDS};
use crate::error::Error;
use crate::record::{Record, RecordCursor, RecordRef, no_record};
use crate::sync::lock;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex};

/// The number of records that a cursor copies from a B-tree at a time. With fewer,
/// the lock is held shorter and a short scan copies fewer records that it does not
/// need; with more, seeks are rarer.
const BATCH: usize = 16;

/// A cursor over the records of a memtable. It may meet records that are added while
/// it is read.
pub(crate) struct MemtableCursor {
    memtable: Arc<Memtable>,
    shards: [ShardCursor; SHARDS],
    /// The B-tree of the record at which the cursor stands; none before the first.
    current: Option<usize>,
}

/// The records of one B-tree.
struct ShardCursor {
    /// Where it continues after the batch.
    next: Start,
    batch: VecDeque<OrderedRecord>,
    /// Whether nothing followed the batch.
    is_ended: bool,
}

/// Where a cursor continues.
#[derive(Clone)]
enum Start {
    Key(Arc<[u8]>),
    AfterKey(Arc<[u8]>),
    After(Record),
}

impl Memtable {
    /// The records from `start` on.
    pub(crate) fn cursor(self: &Arc<Self>, start: Bound<&[u8]>) -> MemtableCursor {
        let start = match start {
            Bound::Included(key) => Start::Key(key.into()),
            Bound::Excluded(key) => Start::AfterKey(key.into()),
            Bound::Unbounded => Start::Key(Arc::default()),
        };
        MemtableCursor {
            memtable: Arc::clone(self),
            current: None,
            shards: std::array::from_fn(|_| ShardCursor {
                next: start.clone(),
                batch: VecDeque::new(),
                is_ended: false,
            }),
        }
    }
}

impl RecordCursor for MemtableCursor {
    fn advance(&mut self) -> Result<bool, Error> {
        if let Some(current) = self.current {
            self.shards[current].batch.pop_front();
        }
        for (cursor, shard) in self.shards.iter_mut().zip(&self.memtable.shards) {
            if cursor.batch.is_empty() && !cursor.is_ended {
                cursor.refill(shard);
            }
        }
        let fronts = self.shards.iter().enumerate();
        let fronts = fronts.filter_map(|(number, cursor)| Some((number, cursor.batch.front()?)));
        let first = fronts.min_by(|(_, left), (_, right)| left.cmp(right));
        self.current = first.map(|(number, _)| number);
        Ok(self.current.is_some())
    }

    fn record(&self) -> RecordRef<'_> {
        let current = self
            .current
            .and_then(|current| self.shards[current].batch.front());
        current.map_or(RecordRef::NONE, |ordered| ordered.record.lend())
    }

    /// Shares the memory of key and value with the memtable's own record.
    fn take(&mut self) -> Record {
        let current = self
            .current
            .and_then(|current| self.shards[current].batch.front());
        current.map_or_else(no_record, |ordered| ordered.record.clone())
    }
}

impl ShardCursor {
    /// Copies the next batch.
    fn refill(&mut self, shard: &Mutex<BTreeSet<OrderedRecord>>) {
        let seek = match &self.next {
            Start::Key(key) => SearchKey::at(Position::Before(key)),
            Start::AfterKey(key) => SearchKey::at(Position::After(key)),
            Start::After(record) => SearchKey::at(Position::At(record)),
        };
        let seek: &dyn HasPosition = &seek;
        let after = (Bound::Excluded(seek), Bound::Unbounded);
        let shard = lock(shard);
        let records = shard.range::<dyn HasPosition, _>(after).take(BATCH);
        for ordered in records.clone() {
            ordered.record.entry.prefetch();
        }
        self.batch.extend(records.cloned());
        drop(shard);
        self.is_ended = self.batch.len() < BATCH;
        if let Some(last) = self.batch.back() {
            self.next = Start::After(last.record.clone());
        }
    }
}
