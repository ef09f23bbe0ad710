//! The entries of a scan's batch, which share a little memory.
//!
//! An allocation of its own for each key and value costs about as much as to read them, above
//! all where another thread frees it. So short ones are copied behind each other. That memory
//! is freed with the last entry of the batch that lies in it.

use crate::record::RecordCursor;
use base::Entry;
use bytes::BytesMut;

/// The longest key and value that are copied, in bytes. Longer ones are handed over if possible.
const COPIED_BYTES_MAX: usize = 4 << 10;

/// The least and the most memory that is allocated at a time, in bytes: as much as the batch
/// has taken so far.
const ROOM_BYTES_MIN: usize = 1 << 10;
const ROOM_BYTES_MAX: usize = 32 << 10;

/// The entries of a batch.
#[derive(Default)]
pub(super) struct ScanBatch {
    entries: Vec<Entry>,
    /// Memory for the next ones.
    room: BytesMut,
    copied_bytes: usize,
}

impl ScanBatch {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds the entry of the record at which a cursor stands. The record is undefined until
    /// the cursor moves.
    pub(super) fn take(&mut self, records: &mut impl RecordCursor) {
        let entry = records.record().entry;
        let bytes = entry.data_bytes();
        if bytes > COPIED_BYTES_MAX {
            self.entries.push(records.take().entry);
            return;
        }
        if self.room.capacity() < bytes {
            let room = self.copied_bytes.clamp(ROOM_BYTES_MIN, ROOM_BYTES_MAX);
            self.room = BytesMut::with_capacity(room.max(bytes));
        }
        self.copied_bytes += bytes;
        self.room.extend_from_slice(entry.key());
        self.room.extend_from_slice(entry.value_bytes());
        self.entries.push(Entry::from_data(
            self.room.split().freeze(),
            entry.key().len(),
            entry.timestamp(),
            entry.kind(),
            entry.expiry(),
            entry.copies(),
        ));
    }

    pub(super) fn into_entries(self) -> Vec<Entry> {
        self.entries
    }
}
