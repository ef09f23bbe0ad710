//! The records of a memtable, in order, for scans and for the flush.

use super::Memtable;
use super::order::{OrderedRecord, Position};
use crate::error::Error;
use crate::locks::lock;
use crate::record::{Record, RecordCursor, RecordRef, no_record};
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

/// How many records a cursor copies at first. With fewer, a short scan copies fewer records
/// that it does not need.
const BATCH_MIN: usize = 16;

/// The most that it copies at a time. With fewer, the lock is held shorter; with more, seeks
/// are rarer.
const BATCH_MAX: usize = 64;

/// A cursor over the records of a memtable. It may meet records that are added while
/// it is read.
pub(crate) struct MemtableCursor {
    memtable: Arc<Memtable>,
    /// Where it continues after the batch.
    next: Start,
    /// The record at which it stands, and those that follow.
    batch: VecDeque<OrderedRecord>,
    batch_max: usize,
    /// Whether it stands at the first record of the batch, and not before it.
    is_begun: bool,
    /// Whether nothing followed the batch.
    is_ended: bool,
}

/// Where a cursor continues.
enum Start {
    Key(Box<[u8]>),
    AfterKey(Box<[u8]>),
    After(OrderedRecord),
}

impl Memtable {
    /// The records from `start` on.
    pub(crate) fn cursor(self: &Arc<Self>, start: Bound<&[u8]>) -> MemtableCursor {
        let next = match start {
            Bound::Included(key) => Start::Key(key.into()),
            Bound::Excluded(key) => Start::AfterKey(key.into()),
            Bound::Unbounded => Start::Key(Box::default()),
        };
        MemtableCursor {
            memtable: Arc::clone(self),
            next,
            batch: VecDeque::new(),
            batch_max: BATCH_MIN,
            is_begun: false,
            is_ended: false,
        }
    }
}

impl RecordCursor for MemtableCursor {
    fn advance(&mut self) -> Result<bool, Error> {
        if std::mem::replace(&mut self.is_begun, true) {
            self.batch.pop_front();
        }
        if self.batch.is_empty() && !self.is_ended {
            self.read_on();
        }
        Ok(!self.batch.is_empty())
    }

    fn record(&self) -> RecordRef<'_> {
        let first = self.batch.front();
        first.map_or(RecordRef::NONE, |ordered| ordered.record.lend())
    }

    /// Shares the memory of key and value with the memtable's own record.
    fn take(&mut self) -> Record {
        let first = self.batch.front();
        first.map_or_else(no_record, |ordered| ordered.record.clone())
    }
}

impl MemtableCursor {
    /// Copies the next batch.
    fn read_on(&mut self) {
        let position = match &self.next {
            Start::Key(key) => Position::Before(key),
            Start::AfterKey(key) => Position::After(key),
            Start::After(ordered) => Position::At(ordered),
        };
        let batch_max = self.batch_max;
        lock(&self.memtable.tree).visit_after(position, |following| {
            let wanted = following.len().min(batch_max - self.batch.len());
            for ordered in &following[..wanted] {
                ordered.record.entry.prefetch();
            }
            self.batch.extend(following[..wanted].iter().cloned());
            self.batch.len() < batch_max
        });
        self.is_ended = self.batch.len() < batch_max;
        self.batch_max = BATCH_MAX;
        if let Some(last) = self.batch.back() {
            self.next = Start::After(last.clone());
        }
    }
}
