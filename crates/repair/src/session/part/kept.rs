//! Versions that are kept as they are scanned, so that a node that streams does not read them again.
//!
//! A node keeps them only while others ask it for runs, and no longer than for the range that is
//! compared and what was scanned ahead of it. What was not kept is read from the store.

use base::{EntryRef, Expiry, Kind, Timestamp};
use peer::{RUN_ENTRY_BYTES_MAX, RunWriter};

/// For how many ranges a node that was asked for a run keeps what it scans. Several nodes may have
/// what another one lacks, and take turns.
const RANGES_KEPT: u32 = 8;

/// What a node keeps in a session of what it has scanned.
#[derive(Default)]
pub(super) struct Kept {
    /// Of the range that is compared.
    range: Versions,
    /// Of what was scanned ahead of it.
    ahead: Versions,
    /// For how many ranges more it keeps what it scans.
    ranges_left: u32,
}

/// Versions in the order of their keys.
#[derive(Default)]
struct Versions {
    /// The bytes of each key, and of the value behind it.
    data: Vec<u8>,
    heads: Vec<Head>,
}

/// What is known of a version besides its bytes.
#[derive(Clone, Copy)]
struct Head {
    begin: usize,
    key_bytes: usize,
    value_bytes: usize,
    timestamp: Timestamp,
    expiry: Expiry,
    kind: Kind,
    copies: u8,
}

impl Kept {
    /// Another node has asked for a run: what is scanned from now on may be sent as well.
    pub(super) fn asked(&mut self) {
        self.ranges_left = RANGES_KEPT;
    }

    /// Takes the next entry of a scan, of a session whose ranges have about so many bytes at most.
    pub(super) fn scanned(&mut self, entry: EntryRef<'_>, range_bytes_max: usize) {
        // The scan ahead ends after half of a range, and with its last entry.
        let bytes_max = range_bytes_max / 2 + RUN_ENTRY_BYTES_MAX;
        let has_room = self.ahead.data.len() + entry.data_bytes() <= bytes_max;
        if self.ranges_left > 0 && has_room && RunWriter::carries(entry) {
            // Once, and no more than that.
            let data = &mut self.ahead.data;
            data.reserve_exact(bytes_max - data.len());
            self.ahead.push(entry);
        }
    }

    /// The next range ends at `end`, or at the end of all keys for [`None`]; the one before is over.
    pub(super) fn end_range(&mut self, end: Option<&[u8]>) {
        self.ranges_left = self.ranges_left.saturating_sub(1);
        if self.ranges_left == 0 && self.ahead.heads.is_empty() {
            self.give_up();
            return;
        }
        std::mem::swap(&mut self.range, &mut self.ahead);
        // The memory of the range before is used again.
        self.ahead.clear();
        if let Some(end) = end {
            self.range.move_from(end, &mut self.ahead);
        }
    }

    /// Keeps nothing any more, until a node asks for a run.
    pub(super) fn give_up(&mut self) {
        *self = Self::default();
    }

    /// What it has of the range that is compared, from a key on.
    pub(super) fn of_range_from(&self, key: &[u8]) -> impl Iterator<Item = EntryRef<'_>> {
        let first = self.range.first_from(key);
        let heads = &self.range.heads[first..];
        heads.iter().map(|head| self.range.entry(head))
    }

    /// The memory for keys and values that it holds, in bytes.
    #[cfg(test)]
    pub(super) fn data_bytes(&self) -> usize {
        self.range.data.capacity() + self.ahead.data.capacity()
    }
}

impl Versions {
    fn push(&mut self, entry: EntryRef<'_>) {
        self.heads.push(Head {
            begin: self.data.len(),
            key_bytes: entry.key().len(),
            value_bytes: entry.value_bytes().len(),
            timestamp: entry.timestamp(),
            expiry: entry.expiry(),
            kind: entry.kind(),
            copies: entry.copies(),
        });
        self.data.extend_from_slice(entry.key());
        self.data.extend_from_slice(entry.value_bytes());
    }

    /// Moves the versions from a key on to others, behind those.
    fn move_from(&mut self, key: &[u8], to: &mut Self) {
        let first = self.first_from(key);
        let end = self.heads.get(first).map(|head| head.begin);
        let end = end.unwrap_or(self.data.len());
        to.data.reserve_exact(self.data.len() - end);
        for head in &self.heads[first..] {
            to.push(self.entry(head));
        }
        self.data.truncate(end);
        self.heads.truncate(first);
    }

    fn clear(&mut self) {
        self.data.clear();
        self.heads.clear();
    }

    /// The index of the first version whose key is not before this one.
    fn first_from(&self, key: &[u8]) -> usize {
        self.heads
            .partition_point(|head| self.entry(head).key() < key)
    }

    fn entry(&self, head: &Head) -> EntryRef<'_> {
        let value_begin = head.begin + head.key_bytes;
        let value_end = value_begin + head.value_bytes;
        EntryRef::new(
            &self.data[head.begin..value_begin],
            head.timestamp,
            head.kind,
            &self.data[value_begin..value_end],
            head.expiry,
            head.copies,
        )
    }
}
