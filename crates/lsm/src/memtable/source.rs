//! The records of a memtable, in order, for scans and for the flush.

use super::order::{HasPosition, OrderedRecord, Position, SearchKey};
use super::{Memtable, SHARDS};
use crate::error::Error;
use crate::record::{Record, RecordSource};
use crate::sync::lock;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex};

/// The number of records that a source copies from a B-tree at a time. With fewer,
/// the lock is held shorter and a short scan copies fewer records that it does not
/// need; with more, seeks are rarer.
const BATCH: usize = 16;

/// The records of a memtable in order. It may include records that are added while
/// it is read.
pub(crate) struct MemtableSource {
    memtable: Arc<Memtable>,
    cursors: [ShardCursor; SHARDS],
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
    After(Arc<Record>),
}

impl Memtable {
    /// The records from `start` on.
    pub(crate) fn source(self: &Arc<Self>, start: Bound<&[u8]>) -> MemtableSource {
        let start = match start {
            Bound::Included(key) => Start::Key(key.into()),
            Bound::Excluded(key) => Start::AfterKey(key.into()),
            Bound::Unbounded => Start::Key(Arc::default()),
        };
        MemtableSource {
            memtable: Arc::clone(self),
            cursors: std::array::from_fn(|_| ShardCursor {
                next: start.clone(),
                batch: VecDeque::new(),
                is_ended: false,
            }),
        }
    }
}

impl RecordSource for MemtableSource {
    fn next(&mut self) -> Result<Option<Record>, Error> {
        for (cursor, shard) in self.cursors.iter_mut().zip(&self.memtable.shards) {
            if cursor.batch.is_empty() && !cursor.is_ended {
                cursor.refill(shard);
            }
        }
        let first = self
            .cursors
            .iter_mut()
            .filter(|cursor| !cursor.batch.is_empty())
            .min_by(|left, right| left.batch.front().cmp(&right.batch.front()));
        Ok(first
            .and_then(|cursor| cursor.batch.pop_front())
            .map(|first| Record::clone(&first.record)))
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
        self.batch.extend(
            shard
                .range::<dyn HasPosition, _>(after)
                .take(BATCH)
                .cloned(),
        );
        drop(shard);
        self.is_ended = self.batch.len() < BATCH;
        if let Some(last) = self.batch.back() {
            self.next = Start::After(Arc::clone(&last.record));
        }
    }
}
