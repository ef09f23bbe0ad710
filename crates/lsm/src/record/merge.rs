//! Merging sorted streams of records into one.

use super::{BlobReference, Record, RecordCursor, RecordRef};
use crate::error::Error;
use std::cmp::Ordering;

/// The records of several cursors in [`RecordRef::order`]. Equal records come in the
/// order of their cursors. Nothing is read before the first call.
///
/// The cursors stand in a list in the order of their records, the one that is due at its
/// end. A cursor that has moved on takes its new place in the list. While it stays due,
/// which is usual where the streams hardly overlap, that takes a single comparison;
/// otherwise it is searched for. There are few cursors, and only their numbers move.
///
/// # Long values
///
/// Records may wait in the list for long, and there may be many cursors. Therefore the
/// merge drops a long value that its cursor can read again, until the record is due. The
/// rest of the record decides the order, unless another record has the same key,
/// timestamp, kind and expiry. Records that tie in this way keep their values. A record
/// that is due may lack its value: who needs it fetches it. A value in a blob table is there only
/// once it was fetched.
pub(crate) struct Merge<C> {
    cursors: Vec<C>,
    /// The numbers of the cursors that stand at a record; the one that is due comes last.
    waiting: Vec<usize>,
    /// The number of waiting cursors that lack their value.
    without_value: usize,
    has_begun: bool,
}

/// Reads the value of a record that ties with another one. Returns whether it lacked it and has it
/// now. Without a value, because that is corrupt, it ranks last: the other one is the same version
/// that has come again, and it is whole.
fn fetch_tied(cursor: &mut impl RecordCursor) -> Result<bool, Error> {
    if !cursor.lacks_value() {
        return Ok(false);
    }
    match cursor.fetch_value() {
        Ok(()) => Ok(true),
        Err(Error::Corrupt { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the order of two records may depend on their values.
fn ties(left: RecordRef<'_>, right: RecordRef<'_>) -> bool {
    let (left, right) = (left.entry, right.entry);
    left.timestamp() == right.timestamp()
        && left.key() == right.key()
        && left.kind() == right.kind()
        && left.expiry() == right.expiry()
}

impl<C: RecordCursor> Merge<C> {
    /// A merge of these cursors.
    pub(crate) fn new(cursors: Vec<C>) -> Self {
        Self {
            waiting: Vec::with_capacity(cursors.len()),
            cursors,
            without_value: 0,
            has_begun: false,
        }
    }

    /// How many cursors it merges.
    pub(crate) fn cursors(&self) -> usize {
        self.cursors.len()
    }

    /// Whether a cursor may hold a long value.
    pub(crate) fn has_long_value(&self) -> bool {
        let mut waiting = self.waiting.iter();
        waiting.any(|number| self.cursors[*number].can_drop_value())
    }

    /// Moves the cursor that is due to its next record.
    fn move_due(&mut self) -> Result<(), Error> {
        let Some(&due) = self.waiting.last() else {
            return Ok(());
        };
        let Some(cursor) = self.cursors.get_mut(due) else {
            return Ok(());
        };
        if self.without_value > 0 && cursor.lacks_value() {
            self.without_value -= 1;
        }
        if !cursor.advance()? {
            self.waiting.pop();
        } else if self.without_value > 0 || cursor.can_drop_value() || cursor.lacks_value() {
            self.without_value += usize::from(cursor.lacks_value());
            self.waiting.pop();
            self.settle_values(due)?;
            self.place(due);
        } else {
            self.place_due(due);
        }
        Ok(())
    }

    /// Moves the cursor that was due so far to the place that its new record has.
    fn place_due(&mut self, due: usize) {
        let end = self.waiting.len() - 1;
        let Some(next) = end.checked_sub(1).map(|before| self.waiting[before]) else {
            return;
        };
        if self.order(due, next).is_gt() {
            let rest = &self.waiting[..end - 1];
            let place = rest.partition_point(|other| self.order(*other, due).is_gt());
            self.waiting[place..].rotate_right(1);
        }
    }

    /// Moves each cursor to its first record.
    fn begin(&mut self) -> Result<(), Error> {
        self.has_begun = true;
        for number in 0..self.cursors.len() {
            if self.cursors[number].advance()? {
                self.without_value += usize::from(self.cursors[number].lacks_value());
                self.settle_values(number)?;
                self.place(number);
            }
        }
        Ok(())
    }

    /// The order in which two cursors are due.
    fn order(&self, left: usize, right: usize) -> Ordering {
        let (of_left, of_right) = (&self.cursors[left], &self.cursors[right]);
        of_left.key().cmp(of_right.key()).then_with(|| {
            let versions = of_left.record().order_of_versions(of_right.record());
            versions.then_with(|| left.cmp(&right))
        })
    }

    /// Lets a cursor wait that stands at a record.
    fn place(&mut self, number: usize) {
        let at = self.place_of(number);
        self.waiting.insert(at, number);
    }

    /// Where a cursor belongs among those that wait.
    fn place_of(&self, number: usize) -> usize {
        match self.waiting.split_last() {
            Some((due, rest)) if self.order(number, *due).is_gt() => {
                rest.partition_point(|other| self.order(*other, number).is_gt())
            }
            _ => self.waiting.len(),
        }
    }

    /// Before a cursor waits: fetches the values that its record ties with, and drops its
    /// own value or that of the record that was due so far, whichever will not be due.
    fn settle_values(&mut self, number: usize) -> Result<(), Error> {
        let mut is_tied = false;
        for other in &self.waiting {
            if self.tie(*other, number) {
                is_tied = true;
                self.without_value -= usize::from(fetch_tied(&mut self.cursors[*other])?);
            }
        }
        if is_tied {
            self.without_value -= usize::from(fetch_tied(&mut self.cursors[number])?);
        }
        let is_due = self.place_of(number) == self.waiting.len();
        if !is_due && !is_tied {
            self.drop_value(number);
        }
        if is_due && let Some(&due) = self.waiting.last() {
            let mut others = self.waiting.iter().chain(std::iter::once(&number));
            let is_tied = others.any(|other| *other != due && self.tie(*other, due));
            if !is_tied {
                self.drop_value(due);
            }
        }
        Ok(())
    }

    fn tie(&self, left: usize, right: usize) -> bool {
        ties(self.cursors[left].record(), self.cursors[right].record())
    }

    fn drop_value(&mut self, number: usize) {
        let cursor = &mut self.cursors[number];
        if cursor.can_drop_value() {
            cursor.drop_value();
            self.without_value += 1;
        }
    }

    /// The cursor that is due. Behind the last record it is any of them.
    fn due(&self) -> usize {
        self.waiting.last().copied().unwrap_or(0)
    }
}

impl<C: RecordCursor> RecordCursor for Merge<C> {
    fn advance(&mut self) -> Result<bool, Error> {
        let moved = if self.has_begun {
            self.move_due()
        } else {
            self.begin()
        };
        if let Err(error) = moved {
            // Without the cursor that failed, the records of the others could be wrong.
            self.waiting.clear();
            self.without_value = 0;
            return Err(error);
        }
        Ok(!self.waiting.is_empty())
    }

    fn record(&self) -> RecordRef<'_> {
        self.cursors[self.due()].record()
    }

    fn key(&self) -> &[u8] {
        self.cursors[self.due()].key()
    }

    fn data_bytes(&self) -> usize {
        self.cursors[self.due()].data_bytes()
    }

    fn lacks_value(&self) -> bool {
        self.cursors[self.due()].lacks_value()
    }

    fn fetch_value(&mut self) -> Result<(), Error> {
        let due = self.due();
        let cursor = &mut self.cursors[due];
        if !cursor.lacks_value() {
            return Ok(());
        }
        self.without_value -= 1;
        let fetched = cursor.fetch_value();
        if fetched.is_err() {
            self.waiting.clear();
            self.without_value = 0;
        }
        fetched
    }

    fn reference(&self) -> Option<BlobReference> {
        self.cursors[self.due()].reference()
    }

    fn take(&mut self) -> Record {
        let due = self.due();
        self.cursors[due].take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{ListCursor, NextRecord, no_record};
    use base::{Entry, Expiry, Timestamp};
    use std::path::Path;

    fn cursor(records: &[Record]) -> ListCursor {
        ListCursor::new(records.iter().cloned().map(Ok).collect())
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
        for cursors in 0..12 {
            let mut lists: Vec<Vec<Record>> = vec![Vec::new(); cursors];
            for _ in 0..cursors * 20 {
                let drawn = record(fastrand::u8(0..8), fastrand::u64(0..4), fastrand::u64(0..4));
                // Some cursors stay empty.
                lists[fastrand::usize(0..cursors.div_ceil(2))].push(drawn);
            }
            for list in &mut lists {
                list.sort_by(Record::order);
            }
            let mut expected = lists.concat();
            expected.sort_by(Record::order);

            let mut merge = Merge::new(lists.iter().map(|list| cursor(list)).collect());
            let mut merged = Vec::new();
            while let Some(record) = merge.next().unwrap() {
                merged.push(record);
            }
            assert_eq!(merged, expected);
            assert_eq!(merge.next().unwrap(), None);
        }
    }

    /// A cursor that can read its record again.
    struct Stored {
        records: std::vec::IntoIter<Record>,
        current: Record,
        whole: Record,
    }

    impl Stored {
        fn new(records: Vec<Record>) -> Self {
            Self {
                records: records.into_iter(),
                current: no_record(),
                whole: no_record(),
            }
        }
    }

    impl RecordCursor for Stored {
        fn advance(&mut self) -> Result<bool, Error> {
            let Some(record) = self.records.next() else {
                return Ok(false);
            };
            self.current = record.clone();
            self.whole = record;
            Ok(true)
        }

        fn record(&self) -> RecordRef<'_> {
            self.current.lend()
        }

        fn can_drop_value(&self) -> bool {
            // Short values are not dropped.
            self.current.entry.value_bytes().len() > 1
        }

        fn drop_value(&mut self) {
            self.current.entry = self.current.entry.without_value();
        }

        fn lacks_value(&self) -> bool {
            self.current != self.whole
        }

        fn fetch_value(&mut self) -> Result<(), Error> {
            self.current = self.whole.clone();
            Ok(())
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
    fn long_values_do_not_wait() {
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
            let mut merge = Merge::new(lists.into_iter().map(Stored::new).collect());
            for record in &expected {
                assert_eq!(merge.next().unwrap().as_ref(), Some(record));
                let waiting = || merge.waiting.iter().map(|number| &merge.cursors[*number]);
                for (place, cursor) in waiting().enumerate() {
                    let waits = cursor.record();
                    let is_due = place + 1 == merge.waiting.len();
                    let others = waiting().filter(|other| ties(waits, other.record()));
                    let is_tied = others.count() > 1;
                    assert!(is_due || is_tied || !cursor.can_drop_value(), "{waits:?}");
                }
                let lacking = waiting().filter(|cursor| cursor.lacks_value()).count();
                assert_eq!(merge.without_value, lacking);
                without_value += lacking;
            }
            assert_eq!(merge.next().unwrap(), None);
            assert_eq!(merge.without_value, 0);
        }
        assert!(without_value > 1000);
    }

    #[test]
    fn an_error_of_a_cursor_ends_the_merge() {
        for sound in 0..3_u8 {
            let mut records: Vec<_> = (0..sound).map(|key| Ok(record(key, 1, 1))).collect();
            records.push(Err(Error::corrupt(Path::new("table"), 0, "damage")));
            let failing = ListCursor::new(records);
            let others = [record(0, 1, 1), record(1, 1, 1), record(2, 1, 1)];
            let mut merge = Merge::new(vec![cursor(&others), failing]);
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
