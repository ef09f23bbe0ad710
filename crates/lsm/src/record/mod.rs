//! Records: entries with their sequence numbers, and cursors over sorted streams of them.

pub(crate) mod merge;
mod reference;

pub(crate) use reference::BlobReference;

use base::{Entry, EntryRef, Expiry, Kind, Timestamp};
use std::cmp::Ordering;

/// An entry with its sequence number: its position in this store's order of commits.
///
/// The timestamp decides which version wins. The sequence number decides which
/// versions a snapshot sees. The engine always sorts records by key (ascending), rank
/// (descending, so that the winner is first) and sequence number (ascending).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The sequence number: greater than that of every record that was committed
    /// before, or 0 if the record is older than every open snapshot.
    pub(crate) sequence: u64,
    /// The version.
    pub(crate) entry: Entry,
}

impl Record {
    /// The order of records in memtables, tables and merges.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        self.lend().order(other.lend())
    }

    /// The order of two records of one key: the winner first.
    pub(crate) fn order_of_versions(&self, other: &Self) -> Ordering {
        self.lend().order_of_versions(other.lend())
    }

    /// The same record, lent.
    #[inline]
    pub(crate) fn lend(&self) -> RecordRef<'_> {
        RecordRef {
            sequence: self.sequence,
            entry: self.entry.lend(),
        }
    }
}

/// A [`Record`] whose key and value are lent, usually by the block of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordRef<'a> {
    /// As [`Record::sequence`].
    pub(crate) sequence: u64,
    /// The version.
    pub(crate) entry: EntryRef<'a>,
}

impl RecordRef<'_> {
    /// The record of a cursor that stands nowhere.
    pub(crate) const NONE: Self = RecordRef {
        sequence: 0,
        entry: EntryRef::new(&[], Timestamp::ZERO, Kind::Tombstone, &[], Expiry::NEVER, 0),
    };

    /// The order of records in memtables, tables and merges.
    #[inline]
    #[must_use]
    pub(crate) fn order(self, other: RecordRef<'_>) -> Ordering {
        self.entry
            .key()
            .cmp(other.entry.key())
            .then_with(|| self.order_of_versions(other))
    }

    /// The order of two records of one key: the winner first.
    pub(crate) fn order_of_versions(self, other: RecordRef<'_>) -> Ordering {
        let by_rank = other.entry.rank().cmp(&self.entry.rank());
        by_rank.then_with(|| self.sequence.cmp(&other.sequence))
    }

    /// A copy in memory of its own.
    pub(crate) fn to_record(self) -> Record {
        Record {
            sequence: self.sequence,
            entry: self.entry.to_entry(),
        }
    }
}

/// A cursor over a sorted stream of records: a memtable, a table or a merge of them. It
/// stands at one record and lends it, so that whoever only reads a record, or writes it
/// elsewhere, copies nothing and allocates nothing.
pub(crate) trait RecordCursor: Send {
    /// Moves to the next record in [`RecordRef::order`], at the first call to the first one.
    /// Returns whether there is one. What a cursor does after an error is undefined.
    ///
    /// # Errors
    /// Those of reading: [`Error::Corrupt`](crate::Error::Corrupt) and
    /// [`Error::Io`](crate::Error::Io).
    fn advance(&mut self) -> Result<bool, crate::Error>;

    /// The record at which the cursor stands; without its value if
    /// [`lacks_value`](Self::lacks_value). Undefined before the first and behind the last.
    fn record(&self) -> RecordRef<'_>;

    /// The key of that record. It decides most comparisons, and lending it alone costs less.
    fn key(&self) -> &[u8] {
        self.record().entry.key()
    }

    /// The length of the record's key and value, in bytes, even if it lacks its value.
    fn data_bytes(&self) -> usize {
        self.record().entry.data_bytes()
    }

    /// Whether the record has a long value that the cursor can drop and read again, so
    /// that the value is not in memory while the record waits for others.
    fn can_drop_value(&self) -> bool {
        false
    }

    /// Drops the value of the record, if it [can](Self::can_drop_value).
    fn drop_value(&mut self) {}

    /// Whether the value of the record was dropped, or lies in a blob table and was not fetched.
    fn lacks_value(&self) -> bool {
        false
    }

    /// Reads the value if the record lacks it.
    ///
    /// # Errors
    /// As [`RecordCursor::advance`].
    fn fetch_value(&mut self) -> Result<(), crate::Error> {
        Ok(())
    }

    /// Where the value of the record lies, if that is a blob table; also if it was fetched.
    fn reference(&self) -> Option<BlobReference> {
        None
    }

    /// The record as the caller's own. A long value is handed over and not copied, so the
    /// record is undefined until the cursor moves.
    fn take(&mut self) -> Record {
        self.record().to_record()
    }
}

/// [`RecordRef::NONE`] as one's own.
pub(crate) fn no_record() -> Record {
    RecordRef::NONE.to_record()
}

/// A cursor of one of two kinds. A merge of these knows its cursors at compile time, because
/// it asks them for each comparison.
pub(crate) enum EitherCursor<A, B> {
    First(A),
    Second(B),
}

impl<A: RecordCursor, B: RecordCursor> RecordCursor for EitherCursor<A, B> {
    fn advance(&mut self) -> Result<bool, crate::Error> {
        match self {
            Self::First(cursor) => cursor.advance(),
            Self::Second(cursor) => cursor.advance(),
        }
    }

    fn record(&self) -> RecordRef<'_> {
        match self {
            Self::First(cursor) => cursor.record(),
            Self::Second(cursor) => cursor.record(),
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        match self {
            Self::First(cursor) => cursor.key(),
            Self::Second(cursor) => cursor.key(),
        }
    }

    fn data_bytes(&self) -> usize {
        match self {
            Self::First(cursor) => cursor.data_bytes(),
            Self::Second(cursor) => cursor.data_bytes(),
        }
    }

    fn can_drop_value(&self) -> bool {
        match self {
            Self::First(cursor) => cursor.can_drop_value(),
            Self::Second(cursor) => cursor.can_drop_value(),
        }
    }

    fn drop_value(&mut self) {
        match self {
            Self::First(cursor) => cursor.drop_value(),
            Self::Second(cursor) => cursor.drop_value(),
        }
    }

    fn lacks_value(&self) -> bool {
        match self {
            Self::First(cursor) => cursor.lacks_value(),
            Self::Second(cursor) => cursor.lacks_value(),
        }
    }

    fn reference(&self) -> Option<BlobReference> {
        match self {
            Self::First(cursor) => cursor.reference(),
            Self::Second(cursor) => cursor.reference(),
        }
    }

    fn fetch_value(&mut self) -> Result<(), crate::Error> {
        match self {
            Self::First(cursor) => cursor.fetch_value(),
            Self::Second(cursor) => cursor.fetch_value(),
        }
    }

    fn take(&mut self) -> Record {
        match self {
            Self::First(cursor) => cursor.take(),
            Self::Second(cursor) => cursor.take(),
        }
    }
}

/// A cursor that tests make of a list; an error in the list is the cursor's.
#[cfg(test)]
pub(crate) struct ListCursor {
    records: std::vec::IntoIter<Result<Record, crate::Error>>,
    current: Record,
}

#[cfg(test)]
impl ListCursor {
    pub(crate) fn new(records: Vec<Result<Record, crate::Error>>) -> Self {
        Self {
            records: records.into_iter(),
            current: no_record(),
        }
    }
}

#[cfg(test)]
impl RecordCursor for ListCursor {
    fn advance(&mut self) -> Result<bool, crate::Error> {
        match self.records.next().transpose()? {
            Some(record) => {
                self.current = record;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn record(&self) -> RecordRef<'_> {
        self.current.lend()
    }
}

/// The records of a cursor one by one, for tests.
#[cfg(test)]
pub(crate) trait NextRecord: RecordCursor {
    /// The next record, with its value.
    fn next(&mut self) -> Result<Option<Record>, crate::Error> {
        if !self.advance()? {
            return Ok(None);
        }
        self.fetch_value()?;
        Ok(Some(self.take()))
    }
}

#[cfg(test)]
impl<C: RecordCursor> NextRecord for C {}
