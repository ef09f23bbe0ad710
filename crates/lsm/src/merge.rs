//! Merging sorted streams of records into one.

use crate::error::Error;
use crate::record::{Record, RecordSource};
use base::{Entry, Timestamp};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// The records of several sources in [`Record::order`]. Equal records come in the
/// order of their sources. Nothing is read before the first call.
///
/// A heap holds the next record of each source. Replacing the top in place costs few
/// comparisons while the same source stays on top, which is usual when sources
/// hardly overlap.
///
/// # Long values
///
/// Records may wait in the heap for long, and there may be many sources. Therefore
/// the heap drops a long value that its source can read again, and reads it again
/// when the record is due. The rest of the record decides the order, unless another
/// record has the same key, timestamp, kind and expiry. Records that tie in this way
/// keep their values.
pub(crate) struct Merge {
    /// The sources before their first record was read; empty afterwards.
    unread: Vec<Box<dyn RecordSource>>,
    heads: BinaryHeap<Head>,
    /// The number of heads in the heap without their value.
    heads_without_value: usize,
}

/// A source and its next record.
struct Head {
    record: Record,
    /// The length of the key and the value, even if the value was dropped.
    bytes: usize,
    state: HeadRecord,
    number: usize,
    source: Box<dyn RecordSource>,
}

/// What a head holds of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadRecord {
    /// The whole record.
    Whole,
    /// The record without its value, which has to be read again.
    WithoutValue,
    /// Nothing: the caller took the record, and the next one was not read yet. Only
    /// the top can be in this state, and it is before all other heads.
    Taken,
}

/// Whether the order of two records may depend on their values.
fn ties(left: &Record, right: &Record) -> bool {
    let (left, right) = (&left.entry, &right.entry);
    left.timestamp() == right.timestamp()
        && left.key() == right.key()
        && left.kind() == right.kind()
        && left.expiry() == right.expiry()
}

impl Head {
    /// Sets the next record of the source, with its value.
    fn set(&mut self, record: Record) {
        self.bytes = record.entry.data_bytes();
        self.record = record;
        self.state = HeadRecord::Whole;
    }

    /// Drops the value. [`Head::fetch`] reads it again.
    fn drop_value(&mut self) {
        self.record.entry = self.record.entry.without_value();
        self.state = HeadRecord::WithoutValue;
    }

    /// Whether it holds a long value that its source can read again.
    fn can_drop_value(&self) -> bool {
        self.state == HeadRecord::Whole && self.source.is_rereadable()
    }

    /// Reads a record again whose value was dropped.
    fn fetch(&mut self) -> Result<(), Error> {
        let Some(record) = self.source.reread()? else {
            let what = "a source of records cannot read a record again, although it said so";
            return Err(Error::Invalid(what.to_owned()));
        };
        self.record = record;
        self.state = HeadRecord::Whole;
        Ok(())
    }
}

impl Merge {
    /// A merge of these sources, each of them sorted.
    pub(crate) fn new(sources: Vec<Box<dyn RecordSource>>) -> Self {
        Self {
            heads: BinaryHeap::with_capacity(sources.len()),
            unread: sources,
            heads_without_value: 0,
        }
    }

    /// Reads the first record of each source.
    fn read_heads(&mut self) -> Result<(), Error> {
        for (number, mut source) in std::mem::take(&mut self.unread).into_iter().enumerate() {
            if let Some(record) = source.next()? {
                let head = Head {
                    bytes: record.entry.data_bytes(),
                    record,
                    state: HeadRecord::Whole,
                    number,
                    source,
                };
                let is_top = self.heads.peek().is_none_or(|top| head > *top);
                if is_top {
                    self.drop_top_value();
                }
                self.push(head, is_top)?;
            }
        }
        Ok(())
    }

    /// Replaces a record that the caller has taken by the next one of its source.
    fn advance(&mut self) -> Result<(), Error> {
        let Some(mut top) = self.heads.peek_mut() else {
            return Ok(());
        };
        if top.state != HeadRecord::Taken {
            return Ok(());
        }
        let Some(record) = top.source.next()? else {
            PeekMut::pop(top);
            return Ok(());
        };
        if self.heads_without_value == 0 && !top.source.is_rereadable() {
            top.set(record);
            return Ok(());
        }
        let mut head = PeekMut::pop(top);
        head.set(record);
        let is_top = self.heads.peek().is_none_or(|top| head > *top);
        self.push(head, is_top)
    }

    /// Adds a head with its value. The value is dropped if it can be read again, unless
    /// the head is the top, and so is due next, or ties with another.
    fn push(&mut self, mut head: Head, is_top: bool) -> Result<(), Error> {
        let tied = |other: &Head| ties(&head.record, &other.record);
        if self.heads.iter().any(tied) {
            let mut heads = std::mem::take(&mut self.heads).into_vec();
            for tied in heads.iter_mut().filter(|other| tied(other)) {
                if tied.state == HeadRecord::WithoutValue {
                    tied.fetch()?;
                    self.heads_without_value -= 1;
                }
            }
            self.heads = heads.into();
        } else if !is_top && head.can_drop_value() {
            head.drop_value();
            self.heads_without_value += 1;
        }
        self.heads.push(head);
        Ok(())
    }

    /// Drops the value of the top, before another head becomes the top.
    fn drop_top_value(&mut self) {
        let Some(top) = self.heads.peek() else { return };
        let tied = self
            .heads
            .iter()
            .filter(|other| ties(&top.record, &other.record));
        if tied.count() == 1
            && top.can_drop_value()
            && let Some(mut top) = self.heads.peek_mut()
        {
            top.drop_value();
            self.heads_without_value += 1;
        }
    }

    /// The next record and the length of its key and value. The record lacks its value
    /// if the value was dropped.
    ///
    /// # Errors
    /// As [`RecordSource::next`].
    pub(crate) fn peek(&mut self) -> Result<Option<(&Record, usize)>, Error> {
        if let Err(error) = self.read_heads().and_then(|()| self.advance()) {
            self.end();
            return Err(error);
        }
        Ok(self.heads.peek().map(|top| (&top.record, top.bytes)))
    }

    /// Ends the merge after an error: without the source that failed, the records of
    /// the others could be wrong.
    fn end(&mut self) {
        self.unread.clear();
        self.heads.clear();
        self.heads_without_value = 0;
    }

    /// Takes the record of the top.
    fn take_top(&mut self) -> Result<Option<Record>, Error> {
        let Some(mut top) = self.heads.peek_mut() else {
            return Ok(None);
        };
        if top.state == HeadRecord::WithoutValue {
            top.fetch()?;
            self.heads_without_value -= 1;
        }
        top.state = HeadRecord::Taken;
        let nothing = Record {
            sequence: 0,
            entry: Entry::tombstone(&[], Timestamp::ZERO, 0),
        };
        Ok(Some(std::mem::replace(&mut top.record, nothing)))
    }
}

impl RecordSource for Merge {
    fn next(&mut self) -> Result<Option<Record>, Error> {
        let result = self
            .read_heads()
            .and_then(|()| self.advance())
            .and_then(|()| self.take_top());
        if result.is_err() {
            self.end();
        }
        result
    }
}

impl Ord for Head {
    /// The head with the least record is the greatest, because the heap's top is its
    /// greatest element.
    fn cmp(&self, other: &Self) -> Ordering {
        let is_taken = |head: &Self| head.state == HeadRecord::Taken;
        is_taken(self)
            .cmp(&is_taken(other))
            .then_with(|| other.record.order(&self.record))
            .then_with(|| other.number.cmp(&self.number))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ListSource;
    use base::Expiry;
    use std::path::Path;

    fn source(records: &[Record]) -> Box<dyn RecordSource> {
        let records: Vec<_> = records.iter().cloned().map(Ok).collect();
        Box::new(ListSource(records.into_iter()))
    }

    fn record(key: u8, timestamp: u64, sequence: u64) -> Record {
        Record {
            sequence,
            entry: Entry::tombstone(&[key], Timestamp::from_u64(timestamp), 1),
        }
    }

    #[test]
    fn all_records_come_in_order() {
        fastrand::seed(7);
        for sources in 0..12 {
            let mut lists: Vec<Vec<Record>> = vec![Vec::new(); sources];
            for _ in 0..sources * 20 {
                let drawn = record(fastrand::u8(0..8), fastrand::u64(0..4), fastrand::u64(0..4));
                // Some sources stay empty.
                lists[fastrand::usize(0..sources.div_ceil(2))].push(drawn);
            }
            for list in &mut lists {
                list.sort_by(Record::order);
            }
            let mut expected = lists.concat();
            expected.sort_by(Record::order);

            let mut merge = Merge::new(lists.iter().map(|list| source(list)).collect());
            let mut merged = Vec::new();
            while let Some(record) = merge.next().unwrap() {
                merged.push(record);
            }
            assert_eq!(merged, expected);
            assert_eq!(merge.next().unwrap(), None);
        }
    }

    /// A source that can read its last record again.
    struct Stored {
        records: Vec<Record>,
        given: usize,
    }

    impl RecordSource for Stored {
        fn next(&mut self) -> Result<Option<Record>, Error> {
            self.given += 1;
            Ok(self.records.get(self.given - 1).cloned())
        }

        fn is_rereadable(&self) -> bool {
            // Short values are not dropped.
            let last = self.records.get(self.given - 1);
            last.is_some_and(|record| record.entry.value_bytes().len() > 1)
        }

        fn reread(&mut self) -> Result<Option<Record>, Error> {
            Ok(self.records.get(self.given - 1).cloned())
        }
    }

    /// A random value or tombstone. With few choices many records tie.
    fn drawn(random: &mut fastrand::Rng) -> Record {
        let timestamp = Timestamp::from_u64(random.u64(0..3));
        let key = [random.u8(0..4)];
        let entry = if random.u8(0..5) == 0 {
            Entry::tombstone(&key, timestamp, 1)
        } else {
            let value = vec![random.u8(0..3); random.usize(0..4)];
            let expiry = Expiry::at_unix_ms(random.u64(0..2));
            Entry::value(&key, timestamp, &value, expiry, random.u8(0..2))
        };
        Record {
            sequence: random.u64(0..3),
            entry,
        }
    }

    #[test]
    fn long_values_do_not_wait_in_the_heap() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut without_value = 0;
        for round in 0..200 {
            let mut lists: Vec<Vec<Record>> = Vec::new();
            for _ in 0..1 + round % 6 {
                let mut list: Vec<_> = (0..20).map(|_| drawn(&mut random)).collect();
                list.sort_by(Record::order);
                lists.push(list);
            }
            let mut expected = lists.concat();
            expected.sort_by(Record::order);
            let stored =
                |records| -> Box<dyn RecordSource> { Box::new(Stored { records, given: 0 }) };
            let mut merge = Merge::new(lists.into_iter().map(stored).collect());
            for record in &expected {
                assert_eq!(merge.next().unwrap().as_ref(), Some(record));
                for head in &merge.heads {
                    let is_long = head.record.entry.value_bytes().len() > 1;
                    // A record that ties with the one just taken is due right after it.
                    let tied = |other: &Record| ties(&head.record, other);
                    let others = merge.heads.iter().map(|other| &other.record);
                    let is_tied = tied(record) || others.filter(|other| tied(other)).count() > 1;
                    assert!(!is_long || is_tied, "{:?} waits", head.record);
                }
                without_value += merge.heads_without_value;
            }
            assert_eq!(merge.next().unwrap(), None);
            assert_eq!(merge.heads_without_value, 0);
        }
        assert!(without_value > 1000);
    }

    #[test]
    fn an_error_of_a_source_ends_the_merge() {
        for sound in 0..3_u8 {
            let mut records: Vec<_> = (0..sound).map(|key| Ok(record(key, 1, 1))).collect();
            records.push(Err(Error::corrupt(Path::new("table"), 0, "damage")));
            let failing = Box::new(ListSource(records.into_iter()));
            let others = [record(0, 1, 1), record(1, 1, 1), record(2, 1, 1)];
            let mut merge = Merge::new(vec![source(&others), failing]);
            let mut given = 0;
            let error = loop {
                match merge.next() {
                    Ok(Some(_)) => given += 1,
                    Ok(None) => panic!("the error was swallowed"),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, Error::Corrupt { .. }));
            assert!(
                given <= 2 * usize::from(sound),
                "{given} records before the error"
            );
            assert_eq!(merge.next().unwrap(), None);
        }
    }
}
