//! Retention: which of the merged records a flush or a compaction writes.
//!
//! Three questions decide, in this order.
//!
//! **Which versions can still be seen?** A snapshot with the number `s` sees, of
//! each key, the highest-ranked version among those with `sequence <= s`. A reader
//! without a snapshot sees the highest-ranked of all. Retention walks the versions
//! of a key from the highest rank down, where `m` is the least sequence number that
//! it has kept so far. It keeps the first version, and a later one exactly if some
//! living snapshot has `sequence <= s < m`. (A version in between that was not kept
//! hides nothing more, because no `s` lies between its sequence number and `m`.)
//! Identical versions that came twice come here with the least sequence number
//! first, so the rule drops the later ones.
//!
//! A kept version that came before every living snapshot gets the sequence number
//! 0: all of these snapshots and all later ones see it. From it on, `m` is at or
//! below the least snapshot, so nothing of lower rank is kept beside it.
//!
//! **Has it expired?** If the winner of a key expired before the bound that the
//! caller gives, it is written as a tombstone of its timestamp: it hides what it hid
//! before, and its value is gone. The tombstone outranks everything that the value
//! outranked, so the order of the records stays. Older versions of the key are kept
//! only for snapshots, and are dropped with them. No other rule treats a version as
//! expired, because the clock may be wrong, and a value that is gone does not come
//! back.
//!
//! **Is a tombstone still needed?** It hides older versions, so it may be dropped
//! once it hides nothing, and nothing that it would hide can still arrive:
//! - its timestamp is below the drop bound, so no older write will arrive;
//! - no version of its key at or below its timestamp lies outside the inputs;
//! - no other version of its key was kept. Such a version would be kept only for a
//!   snapshot, and without the tombstone every other reader would see it.
//!
//! If all three hold, a reader that saw the tombstone finds nothing in its place, and
//! an older snapshot, which saw nothing, still sees nothing. Only the winner of its
//! key is dropped this way. A lower tombstone is kept for a snapshot, and is dropped
//! with it.
//!
//! A compaction that makes room on a full disk asks another question first: **does
//! a newer version elsewhere hide the key?** If no snapshot lives, no reader sees a
//! version that does not win its key, and every later snapshot sees the winner.

use crate::error::Error;
use crate::record::{Record, RecordSource};
use base::{Entry, Expiry, Kind, Timestamp};

#[cfg(test)]
mod tests;

/// Whether a version of this key with this timestamp or a lower one lies outside
/// the inputs: in a memtable, in another table, or in a write that waits for its
/// commit. It may wrongly say yes, but never wrongly no.
pub(crate) type OlderElsewhere = Box<dyn Fn(&[u8], Timestamp) -> bool + Send>;

/// Whether a version that outranks this one lies in a table outside the inputs. It
/// may wrongly say no, but never wrongly yes.
pub(crate) type NewerElsewhere = Box<dyn Fn(&Entry) -> bool + Send>;

/// What decides which records are kept.
pub(crate) struct Retention {
    /// The sequence numbers of the living snapshots, ascending. Snapshots that are
    /// taken later must see all records of the inputs.
    pub(crate) snapshots: Vec<u64>,
    /// A version that expired before this, in milliseconds since the Unix epoch, has
    /// expired by every clock; 0 if that is certain of none.
    pub(crate) expired_before_unix_ms: u64,
    /// Tombstones at or above this timestamp stay.
    pub(crate) drop_bound: Timestamp,
    /// Whether what a tombstone hides may lie elsewhere.
    pub(crate) older_elsewhere: OlderElsewhere,
    /// Whether a version elsewhere hides a key; `None` to skip that question.
    pub(crate) newer_elsewhere: Option<NewerElsewhere>,
}

impl Retention {
    /// What a flush keeps while these snapshots live: it drops older versions that no
    /// snapshot sees, and keeps tombstones. A snapshot that is taken later sees
    /// everything that a frozen memtable holds.
    pub(crate) fn of_flush(snapshots: Vec<u64>) -> Self {
        Self {
            snapshots,
            expired_before_unix_ms: 0,
            drop_bound: Timestamp::ZERO,
            older_elsewhere: Box::new(|_, _| true),
            newer_elsewhere: None,
        }
    }

    /// Whether a snapshot sees the version with this `sequence`, but none with a
    /// sequence number of `above` or more.
    fn is_seen(&self, sequence: u64, above: u64) -> bool {
        let first = self
            .snapshots
            .partition_point(|&snapshot| snapshot < sequence);
        self.snapshots
            .get(first)
            .is_some_and(|&snapshot| snapshot < above)
    }

    /// Sets the sequence number of a record to 0 if every living snapshot sees it.
    fn settle(&self, record: &mut Record) {
        if self
            .snapshots
            .first()
            .is_none_or(|&least| record.sequence <= least)
        {
            record.sequence = 0;
        }
    }

    /// Whether the winner of a key may be dropped, judging by it alone.
    fn may_drop(&self, entry: &Entry) -> bool {
        entry.timestamp() < self.drop_bound && entry.kind() == Kind::Tombstone
    }

    /// Replaces a value that has expired by a tombstone.
    fn bury(&self, entry: &mut Entry) {
        let has_expired = entry.expiry().unix_ms() < self.expired_before_unix_ms;
        if entry.kind() == Kind::Value && entry.expiry() != Expiry::NEVER && has_expired {
            *entry = entry.buried();
        }
    }
}

/// What reading one record of the source has led to.
pub(crate) enum Advance {
    /// This record is to be written.
    Kept(Record),
    /// A record was read and is not to be written, or not yet.
    Passed,
    /// All records were read.
    Ended,
}

/// The cost of reading a record on top of its key and value, in bytes.
const RECORD_BYTES: u64 = 16;

/// The cost of looking elsewhere for a newer version, in bytes.
const LOOKUP_BYTES: u64 = 512;

/// The records of a source that are worth writing, in their order.
pub(crate) struct Retained<S> {
    source: S,
    /// What was read of the source, in bytes.
    read_bytes: u64,
    retention: Retention,
    key: Option<Key>,
    /// The winner of the key, if it may be dropped and nothing else of the key was
    /// kept yet.
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
    least_sequence: u64,
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

    /// The cost of what was read of the source so far, in bytes.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Reads at most one record of the source, however many are dropped.
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

    /// Whether a version elsewhere hides the winner of a key from every reader.
    fn is_hidden(&mut self, entry: &Entry) -> bool {
        match &self.retention.newer_elsewhere {
            Some(newer_elsewhere) if self.retention.snapshots.is_empty() => {
                self.read_bytes += LOOKUP_BYTES;
                newer_elsewhere(entry)
            }
            _ => false,
        }
    }

    /// How many versions were dropped because no reader can see them.
    pub(crate) fn dropped_versions(&self) -> u64 {
        self.dropped_versions
    }

    /// How many tombstones were dropped because nothing is left to hide, including
    /// those of expired versions.
    pub(crate) fn dropped_tombstones(&self) -> u64 {
        self.dropped_tombstones
    }

    /// Decides about the held record once all versions of its key were read and no
    /// other was kept. Returns it if it stays.
    fn decide_held(&mut self) -> Option<Record> {
        let held = self.held.take()?;
        let entry = &held.entry;
        if (self.retention.older_elsewhere)(entry.key(), entry.timestamp()) {
            return Some(held);
        }
        self.dropped_tombstones += 1;
        None
    }

    /// Takes the next record of the source. Returns a record that can be written now.
    fn take(&mut self, mut record: Record) -> Option<Record> {
        match &mut self.key {
            Some(key) if *key.bytes == *record.entry.key() => {
                if !self.retention.is_seen(record.sequence, key.least_sequence) {
                    self.dropped_versions += 1;
                    return None;
                }
                key.least_sequence = record.sequence;
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
                    least_sequence: record.sequence,
                });
                if self.is_hidden(&record.entry) {
                    // The versions of the key that it outranks are hidden as well.
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
