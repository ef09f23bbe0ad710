//! Merging sorted streams of records into one.

use crate::entry::{Record, RecordSource};
use crate::error::Error;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// The records of several sources in [`Record::order`]; of equal records,
/// those of the earlier source come first. Nothing is read before the first call.
///
/// A heap holds the next record of each source. Replacing its top where it
/// stands costs two comparisons while one source keeps winning, as it does
/// when sources hardly overlap.
pub(crate) struct Merge {
    /// Sources of which no record was read yet; empty once the first was given.
    unread: Vec<Box<dyn RecordSource>>,
    heads: BinaryHeap<Head>,
}

/// A source and its next record.
struct Head {
    record: Record,
    number: usize,
    source: Box<dyn RecordSource>,
}

impl Merge {
    /// A merge of these sources, each of them sorted.
    pub(crate) fn new(sources: Vec<Box<dyn RecordSource>>) -> Self {
        Self {
            heads: BinaryHeap::with_capacity(sources.len()),
            unread: sources,
        }
    }

    fn read_heads(&mut self) -> Result<(), Error> {
        for (number, mut source) in std::mem::take(&mut self.unread).into_iter().enumerate() {
            if let Some(record) = source.next()? {
                self.heads.push(Head {
                    record,
                    number,
                    source,
                });
            }
        }
        Ok(())
    }

    fn take_least(&mut self) -> Result<Option<Record>, Error> {
        let Some(mut least) = self.heads.peek_mut() else {
            return Ok(None);
        };
        match least.source.next()? {
            Some(record) => {
                debug_assert!(
                    least.record.order(&record) != Ordering::Greater,
                    "a source is not sorted"
                );
                Ok(Some(std::mem::replace(&mut least.record, record)))
            }
            None => Ok(Some(PeekMut::pop(least).record)),
        }
    }
}

impl RecordSource for Merge {
    fn next(&mut self) -> Result<Option<Record>, Error> {
        let result = match self.read_heads() {
            Ok(()) => self.take_least(),
            Err(error) => Err(error),
        };
        if result.is_err() {
            // What the other sources hold is no answer without the failed one.
            self.heads.clear();
        }
        result
    }
}

impl Ord for Head {
    /// The least record is the greatest head, since the heap gives its greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .record
            .order(&self.record)
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
    use crate::entry::Entry;
    use crate::timestamp::Timestamp;
    use std::path::Path;

    struct Listed(std::vec::IntoIter<Result<Record, Error>>);

    impl RecordSource for Listed {
        fn next(&mut self) -> Result<Option<Record>, Error> {
            self.0.next().transpose()
        }
    }

    fn source(records: &[Record]) -> Box<dyn RecordSource> {
        let records: Vec<_> = records.iter().cloned().map(Ok).collect();
        Box::new(Listed(records.into_iter()))
    }

    fn record(key: u8, timestamp: u64, arrival: u64) -> Record {
        Record {
            arrival,
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

    #[test]
    fn an_error_of_a_source_ends_the_merge() {
        for sound in 0..3_u8 {
            let mut records: Vec<_> = (0..sound).map(|key| Ok(record(key, 1, 1))).collect();
            records.push(Err(Error::corrupt(Path::new("table"), 0, "damage")));
            let failing = Box::new(Listed(records.into_iter()));
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
