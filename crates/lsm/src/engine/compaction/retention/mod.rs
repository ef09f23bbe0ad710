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
//! - its timestamp is below the GC threshold, so no older write will arrive;
//! - no version of its key at or below its timestamp lies outside the inputs;
//! - no other version of its key was kept. Such a version would be kept only for a
//!   snapshot, and without the tombstone every other reader would see it.
//!
//! If all three hold, a reader that saw the tombstone finds nothing in its place, and
//! an older snapshot, which saw nothing, still sees nothing. Only the winner of its
//! key is dropped this way. A lower tombstone is kept for a snapshot, and is dropped
//! with it.
//!
//! **Does it belong to other stores only?** Such a version is non-owned. If it is below the
//! bound for them, which is no greater than the GC threshold, the winner of a key is dropped if
//! nothing older lies outside the inputs: without it, that would be seen instead. Unlike a
//! tombstone it can be seen itself, so it stays while a snapshot lives, and nothing else of its
//! key is kept. A scan that begins while a compaction is under way may miss a non-owned version
//! that the compaction drops.
//!
//! A compaction that makes room on a full disk asks another question first: **does
//! a newer version elsewhere hide the key?** If no snapshot lives, no reader sees a
//! version that does not win its key, and every later snapshot sees the winner.

use super::gc_thresholds::GcThresholds;
use crate::error::Error;
use crate::options::NonOwned;
use crate::record::{BlobReference, Record, RecordCursor, RecordRef};
use crate::table_id::TableId;
use base::{EntryRef, Expiry, Kind, Timestamp};
use std::collections::BTreeSet;

#[cfg(test)]
mod non_owned_tests;
#[cfg(test)]
mod tests;

/// Whether a version of this key with this timestamp or a lower one lies outside
/// the inputs: in a memtable, in another table, or in a write that waits for its
/// commit. It may wrongly say yes, but never wrongly no.
pub(crate) type OlderElsewhere = Box<dyn Fn(&[u8], Timestamp) -> bool + Send>;

/// Whether a version of this key with a later timestamp lies in a table outside the inputs. It
/// may wrongly say no, but never wrongly yes.
pub(crate) type NewerElsewhere = Box<dyn Fn(&[u8], Timestamp) -> bool + Send>;

/// What decides which records are kept.
pub(crate) struct Retention {
    /// The sequence numbers of the living snapshots, ascending. Snapshots that are
    /// taken later must see all records of the inputs.
    pub(crate) snapshots: Vec<u64>,
    /// A version that expired before this, in milliseconds since the Unix epoch, has
    /// expired by every clock; 0 if that is certain of none.
    pub(crate) expired_before_unix_ms: u64,
    /// What stays.
    pub(crate) gc_thresholds: GcThresholds,
    /// Which versions belong to other stores only.
    pub(crate) non_owned: Option<NonOwned>,
    /// Whether what a tombstone hides may lie elsewhere.
    pub(crate) older_elsewhere: OlderElsewhere,
    /// Whether a version elsewhere hides a key; `None` to skip that question.
    pub(crate) newer_elsewhere: Option<NewerElsewhere>,
    /// The blob tables whose values are to be written to others.
    pub(crate) emptied_blobs: BTreeSet<TableId>,
}

impl Retention {
    /// What a flush keeps while these snapshots live: it drops older versions that no
    /// snapshot sees, and keeps tombstones. A snapshot that is taken later sees
    /// everything that a frozen memtable holds.
    pub(crate) fn of_flush(snapshots: Vec<u64>) -> Self {
        Self {
            snapshots,
            expired_before_unix_ms: 0,
            gc_thresholds: GcThresholds::NONE,
            non_owned: None,
            older_elsewhere: Box::new(|_, _| true),
            newer_elsewhere: None,
            emptied_blobs: BTreeSet::new(),
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

    /// The sequence number with which a record is written: 0 if every living snapshot sees
    /// it.
    fn settled(&self, sequence: u64) -> u64 {
        match self.snapshots.first() {
            Some(&least) if sequence > least => sequence,
            _ => 0,
        }
    }

    /// Whether the winner of a key may be dropped, judging by it alone.
    fn may_drop(&self, entry: EntryRef<'_>) -> bool {
        entry.timestamp() < self.gc_thresholds.tombstones && entry.kind() == Kind::Tombstone
    }

    /// Whether the winner of a key is dropped because it belongs to other stores only. Then
    /// nothing else of the key is kept.
    fn drops_non_owned(&self, entry: EntryRef<'_>) -> bool {
        entry.timestamp() < self.gc_thresholds.non_owned
            && self.snapshots.is_empty()
            && self
                .non_owned
                .as_ref()
                .is_some_and(|it| it.includes(entry) && it.may_go(entry.timestamp()))
            && !(self.older_elsewhere)(entry.key(), entry.timestamp())
    }

    /// Whether a version is a value that has expired, so that a tombstone replaces it.
    fn is_suppressed(&self, entry: EntryRef<'_>) -> bool {
        let has_expired = entry.expiry().unix_ms() < self.expired_before_unix_ms;
        entry.kind() == Kind::Value && entry.expiry() != Expiry::NEVER && has_expired
    }
}

/// What reading one record has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The record that [`RecordCursor::record`] lends is to be written.
    Kept,
    /// A record was read and is not to be written, or not yet.
    Passed,
    /// All records were read.
    Ended,
}

/// The cost of reading a record on top of its key and value, in bytes.
const RECORD_BYTES: u64 = 16;

/// The cost of looking elsewhere for a newer version, in bytes.
const LOOKUP_BYTES: u64 = 512;

/// The records of a cursor that are worth writing, in their order. It lends them from the
/// cursor, but for the winners that it held until the rest of their key was read.
pub(crate) struct Retained<C> {
    records: C,
    /// What was read of the records, in bytes.
    read_bytes: u64,
    retention: Retention,
    key: Option<Key>,
    /// The winner of the key, if it may be dropped and nothing else of the key was
    /// kept yet.
    held: Option<Record>,
    /// A record that was held and is to be written: the one that is lent, if there is one.
    released: Option<Record>,
    /// Whether the record at which the cursor stands is to be written, after a released one.
    is_ready: bool,
    /// How the record is written at which the cursor stands.
    settled: Settled,
    dropped_versions: u64,
    dropped_tombstones: u64,
    dropped_non_owned: u64,
    /// The greatest timestamp of those that were dropped as non-owned.
    greatest_non_owned: Option<Timestamp>,
}

/// How a record that is kept is written.
#[derive(Clone, Copy, Debug, Default)]
struct Settled {
    sequence: u64,
    /// Whether it is written as a tombstone.
    is_suppressed: bool,
}

impl Settled {
    fn apply(self, record: RecordRef<'_>) -> RecordRef<'_> {
        RecordRef {
            sequence: self.sequence,
            entry: if self.is_suppressed {
                record.entry.suppressed()
            } else {
                record.entry
            },
        }
    }
}

/// The key whose versions are being walked.
#[derive(Default)]
struct Key {
    /// A copy: a version of it could be long.
    bytes: Vec<u8>,
    /// The least sequence number among the versions kept so far, as it was on input.
    least_sequence: u64,
}

impl<C: RecordCursor> Retained<C> {
    /// What `retention` keeps of `records`.
    pub(crate) fn new(records: C, retention: Retention) -> Self {
        debug_assert!(
            retention.snapshots.is_sorted(),
            "snapshots come in ascending order"
        );
        Self {
            records,
            read_bytes: 0,
            retention,
            key: None,
            held: None,
            released: None,
            is_ready: false,
            settled: Settled::default(),
            dropped_versions: 0,
            dropped_tombstones: 0,
            dropped_non_owned: 0,
            greatest_non_owned: None,
        }
    }

    /// The cursor whose records these are.
    pub(crate) fn records(&self) -> &C {
        &self.records
    }

    /// The cursor, once it is not needed any more.
    pub(crate) fn into_records(self) -> C {
        self.records
    }

    /// The cost of what was read of the records so far, in bytes.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Reads at most one record, however many are dropped.
    ///
    /// # Errors
    /// Those of the cursor.
    pub(crate) fn step(&mut self) -> Result<Step, Error> {
        self.released = None;
        if std::mem::take(&mut self.is_ready) {
            return self.keep();
        }
        if self.records.advance()? {
            let bytes = match self.stays_at() {
                Some(_) => self.records.key().len(),
                None => self.records.data_bytes(),
            };
            self.read_bytes += bytes as u64 + RECORD_BYTES;
            return self.judge();
        }
        Ok(if self.release_if_needed() {
            Step::Kept
        } else {
            Step::Ended
        })
    }

    /// Where the value of the record at which the cursor stands lies and stays.
    fn stays_at(&self) -> Option<BlobReference> {
        let reference = self.records.reference()?;
        let is_emptied = self.retention.emptied_blobs.contains(&reference.table);
        (!is_emptied).then_some(reference)
    }

    /// Whether snapshots lived that may see more than the winners.
    pub(crate) fn has_snapshots(&self) -> bool {
        !self.retention.snapshots.is_empty()
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

    /// How many versions were dropped that belong to other stores only.
    pub(crate) fn dropped_non_owned(&self) -> u64 {
        self.dropped_non_owned
    }

    /// Whether all versions that were dropped as non-owned might still be.
    pub(crate) fn may_drop_non_owned(&self) -> bool {
        let non_owned = self.retention.non_owned.as_ref();
        self.greatest_non_owned
            .zip(non_owned)
            .is_none_or(|(greatest, non_owned)| non_owned.may_go(greatest))
    }

    /// Whether a version elsewhere hides the winner of a key, at which the cursor stands,
    /// from every reader.
    fn is_hidden(&mut self) -> bool {
        match &self.retention.newer_elsewhere {
            Some(newer_elsewhere) if self.retention.snapshots.is_empty() => {
                self.read_bytes += LOOKUP_BYTES;
                let entry = self.records.record().entry;
                newer_elsewhere(entry.key(), entry.timestamp())
            }
            _ => false,
        }
    }

    /// Decides about the held record once all versions of its key were read and no
    /// other was kept. Returns whether it stays, and is lent from then on.
    fn release_if_needed(&mut self) -> bool {
        let Some(held) = self.held.take() else {
            return false;
        };
        let entry = &held.entry;
        if (self.retention.older_elsewhere)(entry.key(), entry.timestamp()) {
            self.released = Some(held);
            return true;
        }
        self.dropped_tombstones += 1;
        false
    }

    /// Lends the record at which the cursor stands; a released one comes first.
    fn keep(&mut self) -> Result<Step, Error> {
        if self.released.is_some() {
            self.is_ready = true;
        } else if !self.settled.is_suppressed && self.stays_at().is_none() {
            self.records.fetch_value()?;
        }
        Ok(Step::Kept)
    }

    /// Judges the record at which the cursor stands.
    fn judge(&mut self) -> Result<Step, Error> {
        let record = self.records.record();
        match &mut self.key {
            Some(key) if *key.bytes == *record.entry.key() => {
                if !self.retention.is_seen(record.sequence, key.least_sequence) {
                    self.dropped_versions += 1;
                    return Ok(Step::Passed);
                }
                key.least_sequence = record.sequence;
                self.settled = Settled {
                    sequence: self.retention.settled(record.sequence),
                    is_suppressed: false,
                };
                self.released = self.held.take();
                self.keep()
            }
            _ => self.judge_winner(),
        }
    }

    /// Judges the first record of a key.
    fn judge_winner(&mut self) -> Result<Step, Error> {
        let has_released = self.release_if_needed();
        let passed = if has_released {
            Step::Kept
        } else {
            Step::Passed
        };
        let record = self.records.record();
        let key = self.key.get_or_insert_default();
        key.bytes.clear();
        key.bytes.extend_from_slice(record.entry.key());
        key.least_sequence = record.sequence;
        if self.is_hidden() {
            // The versions of the key that it outranks are hidden as well.
            self.dropped_versions += 1;
            return Ok(passed);
        }
        let record = self.records.record();
        self.settled = Settled {
            sequence: self.retention.settled(record.sequence),
            is_suppressed: self.retention.is_suppressed(record.entry),
        };
        let record = self.settled.apply(record);
        if self.retention.may_drop(record.entry) {
            self.held = Some(record.to_record());
            return Ok(passed);
        }
        if self.retention.drops_non_owned(record.entry) {
            self.dropped_non_owned += 1;
            self.greatest_non_owned = self.greatest_non_owned.max(Some(record.entry.timestamp()));
            return Ok(passed);
        }
        self.keep()
    }
}

impl<C: RecordCursor> RecordCursor for Retained<C> {
    fn advance(&mut self) -> Result<bool, Error> {
        loop {
            match self.step()? {
                Step::Kept => return Ok(true),
                Step::Passed => {}
                Step::Ended => return Ok(false),
            }
        }
    }

    fn record(&self) -> RecordRef<'_> {
        match &self.released {
            Some(released) => released.lend(),
            None => self.settled.apply(self.records.record()),
        }
    }

    /// Only of a value that stays where it is. One that is to be written elsewhere was fetched.
    fn reference(&self) -> Option<BlobReference> {
        let is_other = self.released.is_some() || self.settled.is_suppressed;
        self.stays_at().filter(|_| !is_other)
    }
}
