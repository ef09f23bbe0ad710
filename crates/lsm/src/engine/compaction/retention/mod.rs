//! What of the merged records a flush or a compaction writes.
//!
//! Three questions, in this order.
//!
//! **Which versions can still be seen?** A snapshot with number `s` sees, of
//! each key, the highest-ranked version among those with `sequence <= s`; a
//! reader without one sees the highest-ranked of all. Walking the versions of a
//! key from the highest rank down, with `m` the least sequence number kept so far: the
//! first is kept, and a later one is kept exactly if some living snapshot has
//! `sequence <= s < m`. (A version in between that was not kept hides nothing
//! more: no `s` lies between its sequence number and `m`.) Identical versions that
//! came twice come here with the least sequence number first, so that the rule drops
//! the later ones.
//!
//! A kept version that came before every living snapshot gets the sequence number 0: all
//! of them see it, as do all later ones, and `m` is at or below the least
//! snapshot from it on, so nothing of lower rank is kept beside it.
//!
//! **Has it expired?** The winner of a key that expired before the bound which
//! the caller gives is written as a tombstone of its timestamp: it hides what it
//! hid, and its value is gone. As a tombstone it outranks all that it outranked,
//! so it stays where it is in the order; what it outranks is kept for snapshots
//! only, and goes with them. Nothing else says that a version has expired: the
//! clock may be wrong, and what is gone does not come back.
//!
//! **Is a tombstone still needed?** It hides older versions, so it may go once
//! there is nothing left to hide and nothing to hide can come:
//! - its timestamp is below the drop bound: no older write will come;
//! - no version of its key at or below its timestamp lies outside the inputs;
//! - no other version of its key was kept. One is kept only for a snapshot, and
//!   would come to life for everyone else.
//!
//! Where all three hold, whoever saw the tombstone finds nothing in its place,
//! and whoever saw nothing, being older than it, still does. Only the winner of
//! its key is dropped so; a lower tombstone is kept for a snapshot, and goes
//! with it.
//!
//! A compaction for room asks another question first: **does a newer version
//! elsewhere hide the key?** Where no snapshot lives, nobody sees what does not
//! win its key, and whatever is taken later sees the winner.

use crate::error::Error;
use crate::record::{Record, RecordSource};
use base::{Entry, Expiry, Kind, Timestamp};

#[cfg(test)]
mod tests;

/// Tells whether a version of this key with this timestamp or a lower one lies
/// outside the inputs: in a memtable, in another table, or in a write that
/// waits for its commit. May say yes wrongly, never no.
pub(crate) type OlderElsewhere = Box<dyn Fn(&[u8], Timestamp) -> bool + Send>;

/// Tells whether a version that outranks this one lies in a table outside the
/// inputs. May say no wrongly, never yes.
pub(crate) type NewerElsewhere = Box<dyn Fn(&Entry) -> bool + Send>;

/// What decides which records are kept.
pub(crate) struct Retention {
    /// The sequence numbers up to which the living snapshots see, ascending. Snapshots
    /// that are taken later must see all records of the inputs.
    pub(crate) snapshots: Vec<u64>,
    /// What expired before it has expired for everyone, in milliseconds since
    /// the Unix epoch; 0 where nothing is known to have.
    pub(crate) expired_before_unix_ms: u64,
    /// Tombstones at or above it stay.
    pub(crate) drop_bound: Timestamp,
    /// Whether what a tombstone hides may lie elsewhere.
    pub(crate) older_elsewhere: OlderElsewhere,
    /// Whether a key is hidden from elsewhere; `None` where nobody looks.
    pub(crate) newer_elsewhere: Option<NewerElsewhere>,
}

impl Retention {
    /// What a flush keeps while these snapshots live: older versions that no
    /// snapshot sees end at the flush, and tombstones stay. A snapshot that is
    /// taken later sees everything that a frozen memtable holds.
    pub(crate) fn of_flush(snapshots: Vec<u64>) -> Self {
        Self {
            snapshots,
            expired_before_unix_ms: 0,
            drop_bound: Timestamp::ZERO,
            older_elsewhere: Box::new(|_, _| true),
            newer_elsewhere: None,
        }
    }

    /// Whether a snapshot sees past all versions with sequence numbers from `above`
    /// on, and down to the one that came at `sequence`.
    fn is_seen(&self, sequence: u64, above: u64) -> bool {
        let first = self
            .snapshots
            .partition_point(|&snapshot| snapshot < sequence);
        self.snapshots
            .get(first)
            .is_some_and(|&snapshot| snapshot < above)
    }

    /// Forgets when a record came, if no living snapshot came before it.
    fn settle(&self, record: &mut Record) {
        if self
            .snapshots
            .first()
            .is_none_or(|&least| record.sequence <= least)
        {
            record.sequence = 0;
        }
    }

    /// Whether the winner of a key may go, as far as it alone tells.
    fn may_drop(&self, entry: &Entry) -> bool {
        entry.timestamp() < self.drop_bound && entry.kind() == Kind::Tombstone
    }

    /// Leaves a tombstone of a value that has expired.
    fn bury(&self, entry: &mut Entry) {
        let has_expired = entry.expiry().unix_ms() < self.expired_before_unix_ms;
        if entry.kind() == Kind::Value && entry.expiry() != Expiry::NEVER && has_expired {
            *entry = entry.buried();
        }
    }
}

/// What came of asking for a record.
pub(crate) enum Advance {
    /// This one is to be written.
    Kept(Record),
    /// A record was read and is not to be written, or not yet.
    Passed,
    /// All records were read.
    Ended,
}

/// What a record costs to read on top of its key and value, in bytes.
const RECORD_BYTES: u64 = 16;

/// What it costs to look elsewhere for a newer version, in bytes.
const LOOKUP_BYTES: u64 = 512;

/// The records of a source that are worth writing, in their order.
pub(crate) struct Retained<S> {
    source: S,
    /// What was read of the source, in bytes.
    read_bytes: u64,
    retention: Retention,
    key: Option<Key>,
    /// The winner of the key, if it may go and nothing else of the key was kept yet.
    held: Option<Record>,
    /// A kept record that comes after the held one.
    ready: Option<Record>,
    dropped_versions: u64,
    dropped_tombstones: u64,
}

/// The key whose versions are being walked.
struct Key {
    /// A copy: a version of it could be long.
    bytes: Vec<u8>,
    /// The least sequence number among the versions kept so far, as it was on input.
    sequence_least: u64,
}

impl<S: RecordSource> Retained<S> {
    /// What `retention` keeps of `source`.
    pub(crate) fn new(source: S, retention: Retention) -> Self {
        debug_assert!(
            retention.snapshots.is_sorted(),
            "snapshots come in ascending order"
        );
        Self {
            source,
            read_bytes: 0,
            retention,
            key: None,
            held: None,
            ready: None,
            dropped_versions: 0,
            dropped_tombstones: 0,
        }
    }

    /// The source, once it is not needed any more.
    pub(crate) fn into_source(self) -> S {
        self.source
    }

    /// What was read of the source so far, in bytes, and what cost as much.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Reads one record of the source at most, however many are dropped.
    ///
    /// # Errors
    /// Those of the source.
    pub(crate) fn advance(&mut self) -> Result<Advance, Error> {
        if let Some(record) = self.ready.take() {
            return Ok(Advance::Kept(record));
        }
        Ok(match self.source.next()? {
            Some(record) => {
                self.read_bytes += record.entry.data_bytes() as u64 + RECORD_BYTES;
                self.take(record).map_or(Advance::Passed, Advance::Kept)
            }
            None => self.decide_held().map_or(Advance::Ended, Advance::Kept),
        })
    }

    /// Whether snapshots lived that may see more than the winners.
    pub(crate) fn has_snapshots(&self) -> bool {
        !self.retention.snapshots.is_empty()
    }

    /// Whether nobody can see the winner of a key, because of what lies elsewhere.
    fn is_hidden(&mut self, entry: &Entry) -> bool {
        match &self.retention.newer_elsewhere {
            Some(newer_elsewhere) if self.retention.snapshots.is_empty() => {
                self.read_bytes += LOOKUP_BYTES;
                newer_elsewhere(entry)
            }
            _ => false,
        }
    }

    /// How many versions went because nobody can see them.
    pub(crate) fn dropped_versions(&self) -> u64 {
        self.dropped_versions
    }

    /// How many tombstones went because nothing is left to hide, those of
    /// expired versions among them.
    pub(crate) fn dropped_tombstones(&self) -> u64 {
        self.dropped_tombstones
    }

    /// Decides about the held record once all of its key was seen and nothing
    /// else was kept; gives it if it stays.
    fn decide_held(&mut self) -> Option<Record> {
        let held = self.held.take()?;
        let entry = &held.entry;
        if (self.retention.older_elsewhere)(entry.key(), entry.timestamp()) {
            return Some(held);
        }
        self.dropped_tombstones += 1;
        None
    }

    /// Takes the next record of the source; gives a record that can be written now.
    fn take(&mut self, mut record: Record) -> Option<Record> {
        match &mut self.key {
            Some(key) if *key.bytes == *record.entry.key() => {
                if !self.retention.is_seen(record.sequence, key.sequence_least) {
                    self.dropped_versions += 1;
                    return None;
                }
                key.sequence_least = record.sequence;
                self.retention.settle(&mut record);
                match self.held.take() {
                    None => Some(record),
                    Some(held) => {
                        self.ready = Some(record);
                        Some(held)
                    }
                }
            }
            _ => {
                let previous = self.decide_held();
                let mut bytes = self.key.take().map_or_else(Vec::new, |key| key.bytes);
                bytes.clear();
                bytes.extend_from_slice(record.entry.key());
                self.key = Some(Key {
                    bytes,
                    sequence_least: record.sequence,
                });
                if self.is_hidden(&record.entry) {
                    // So are the versions of the key that it outranks.
                    self.dropped_versions += 1;
                    return previous;
                }
                self.retention.settle(&mut record);
                self.retention.bury(&mut record.entry);
                if self.retention.may_drop(&record.entry) {
                    self.held = Some(record);
                    return previous;
                }
                match previous {
                    None => Some(record),
                    Some(_) => {
                        self.ready = Some(record);
                        previous
                    }
                }
            }
        }
    }
}

impl<S: RecordSource> RecordSource for Retained<S> {
    fn next(&mut self) -> Result<Option<Record>, Error> {
        loop {
            match self.advance()? {
                Advance::Kept(record) => return Ok(Some(record)),
                Advance::Passed => {}
                Advance::Ended => return Ok(None),
            }
        }
    }
}
