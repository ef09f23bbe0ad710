//! Records: entries with their sequence numbers, and sorted streams of them.

use base::Entry;

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
    #[must_use]
    pub(crate) fn order(&self, other: &Self) -> std::cmp::Ordering {
        self.entry
            .key()
            .cmp(other.entry.key())
            .then_with(|| self.order_of_versions(other))
    }

    /// The order of two records of one key: the winner first.
    pub(crate) fn order_of_versions(&self, other: &Self) -> std::cmp::Ordering {
        let by_rank = other.entry.rank().cmp(&self.entry.rank());
        by_rank.then_with(|| self.sequence.cmp(&other.sequence))
    }
}

/// A sorted stream of records: a memtable, a table or a merge of them.
pub(crate) trait RecordSource: Send {
    /// The next record in [`Record::order`], or `None` after the last. What a source
    /// returns after an error is undefined.
    ///
    /// # Errors
    /// Those of reading: [`Error::Corrupt`](crate::Error::Corrupt) and
    /// [`Error::Io`](crate::Error::Io).
    fn next(&mut self) -> Result<Option<Record>, crate::Error>;

    /// Whether the last record has a long value that [`RecordSource::reread`] can read
    /// again. A caller that needs the record later may drop it in the meantime.
    fn is_rereadable(&self) -> bool {
        false
    }

    /// The last record again; `None` if the source cannot read it again.
    ///
    /// # Errors
    /// As [`RecordSource::next`].
    fn reread(&mut self) -> Result<Option<Record>, crate::Error> {
        Ok(None)
    }
}

/// A source that tests make of a list; an error in the list is the source's.
#[cfg(test)]
pub(crate) struct ListSource(pub(crate) std::vec::IntoIter<Result<Record, crate::Error>>);

#[cfg(test)]
impl RecordSource for ListSource {
    fn next(&mut self) -> Result<Option<Record>, crate::Error> {
        self.0.next().transpose()
    }
}
