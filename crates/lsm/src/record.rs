//! Records: entries with their sequence numbers, and sorted streams of them.

use base::Entry;

/// An entry with its sequence number: its position in this store's order of commits.
///
/// Timestamps decide which version wins; the sequence number decides which versions a
/// snapshot may see. Everywhere in the engine records are sorted by key
/// (ascending), rank (descending: the winner first), sequence number (ascending).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The sequence number: greater than that of every record committed before
    /// this one, or 0 for "before every snapshot that lives".
    pub sequence: u64,
    /// The version that came.
    pub entry: Entry,
}

impl Record {
    /// The order in which memtables and tables hold records and merges give them.
    #[must_use]
    pub fn order(&self, other: &Self) -> std::cmp::Ordering {
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
pub trait RecordSource: Send {
    /// The next record by [`Record::order`], or `None` after the last. An
    /// error is final: the source gives nothing of use after it.
    ///
    /// # Errors
    /// Those of reading: corruption or a failed disk.
    fn next(&mut self) -> Result<Option<Record>, crate::Error>;

    /// Whether the record that was given last has a long value that
    /// [`RecordSource::reread`] can give once more, so that who merely holds it
    /// may let it go meanwhile.
    fn is_rereadable(&self) -> bool {
        false
    }

    /// The record that was given last, once more, if the source can tell.
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
