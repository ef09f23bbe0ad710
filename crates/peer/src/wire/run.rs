//! Runs: versions of a range in the order of their keys, as one long value.
//!
//! ```text
//! run   = n * entry
//! entry = as in `message/`, but its value is always whole
//! ```
//!
//! A run has at most [`RUN_BYTES_MAX`] bytes. It travels as long values do: in one
//! frame if it is short, or else in pieces between other frames.

use super::entry_fields::EntryFields;
use super::frame::RUN_BYTES_MAX;
use super::message;
use base::{ByteReader, Entry, EntryRef};
use bytes::Bytes;

/// The most bytes of key and value of a version in a run. A longer one goes as a
/// repair: it costs little for each of its bytes there, and a run always has room
/// for several versions.
pub const RUN_ENTRY_BYTES_MAX: usize = RUN_BYTES_MAX / 4;

/// The bytes of an entry before its key, at most.
const HEAD_BYTES_MAX: usize = 24;

/// Versions in the order of their keys, and what the sender says about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The versions, encoded.
    bytes: Bytes,
    /// Whether the sender has nothing more of what it was asked for.
    pub is_last: bool,
    /// How much of its store the sender has scanned in this session, about, in
    /// thousandths.
    pub position_permille: u16,
}

/// Encodes a run.
#[derive(Debug, Default)]
pub struct RunWriter {
    bytes: Vec<u8>,
}

impl RunWriter {
    /// Whether a run can carry this version at all.
    #[must_use]
    pub fn carries(entry: EntryRef<'_>) -> bool {
        entry.data_bytes() <= RUN_ENTRY_BYTES_MAX
    }

    /// Whether there is room for one more version that a run can carry.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.bytes.len() + HEAD_BYTES_MAX + RUN_ENTRY_BYTES_MAX <= RUN_BYTES_MAX
    }

    /// Appends a version, whose key is after all others.
    pub fn push(&mut self, entry: EntryRef<'_>) {
        if self.bytes.is_empty() {
            self.bytes.reserve(RUN_BYTES_MAX);
        }
        message::put_entry_head(&mut self.bytes, entry);
        self.bytes.extend_from_slice(entry.key());
        self.bytes.extend_from_slice(entry.value_bytes());
    }

    /// The run.
    #[must_use]
    pub fn finish(self, is_last: bool, position_permille: u16) -> Run {
        Run {
            bytes: self.bytes.into(),
            is_last,
            position_permille,
        }
    }
}

impl Run {
    /// A run that has arrived.
    pub(crate) fn new(bytes: Bytes, is_last: bool, position_permille: u16) -> Self {
        Self {
            bytes,
            is_last,
            position_permille,
        }
    }

    /// The versions, encoded.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The versions. Long ones share the memory of the run.
    ///
    /// # Errors
    /// What is wrong with the run. Neither the order of the keys nor which keys it
    /// has is checked here: only the node knows what it has asked for.
    pub fn entries(&self) -> Result<Vec<Entry>, &'static str> {
        let mut reader = ByteReader::new(&self.bytes);
        let mut entries = Vec::new();
        while !reader.rest().is_empty() {
            entries.push(self.next_entry(&mut reader)?);
        }
        Ok(entries)
    }

    fn next_entry(&self, reader: &mut ByteReader<'_>) -> Result<Entry, &'static str> {
        let EntryFields {
            flags: _,
            copies,
            key_bytes,
            timestamp,
            kind,
            value_bytes,
            expiry,
        } = EntryFields::read(reader, 0)?;
        let data_bytes = key_bytes.saturating_add(value_bytes as usize);
        if data_bytes > RUN_ENTRY_BYTES_MAX {
            return Err("an entry that is too long for a run");
        }
        let data = reader.bytes(data_bytes);
        let data = data.ok_or("a run that ends within an entry")?;
        let data = self.bytes.slice_ref(data);
        Ok(Entry::from_data(
            data, key_bytes, timestamp, kind, expiry, copies,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Expiry, Timestamp};

    fn entries() -> Vec<Entry> {
        let timestamp = Timestamp::from_u64;
        let long = vec![b'v'; RUN_ENTRY_BYTES_MAX - 1];
        vec![
            Entry::value(b"a", timestamp(1), b"", Expiry::NEVER, 3),
            Entry::tombstone(b"b", timestamp(u64::MAX), 2),
            Entry::value(b"c", timestamp(3), b"value", Expiry::at_unix_ms(7), 1),
            Entry::value(b"d", timestamp(4), &long, Expiry::at_unix_ms(7), 1),
        ]
    }

    fn run_of(entries: &[Entry]) -> Run {
        let mut writer = RunWriter::default();
        entries.iter().for_each(|entry| writer.push(entry.lend()));
        writer.finish(true, 7)
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(run_of(&entries()).entries(), Ok(entries()));
        assert_eq!(run_of(&[]).entries(), Ok(Vec::new()));
    }

    #[test]
    fn a_full_run_is_within_its_bound() {
        let longest = &entries()[3];
        assert!(RunWriter::carries(longest.lend()));
        let longer = [longest.value_bytes(), b"vv"].concat();
        let longer = Entry::value(b"d", longest.timestamp(), &longer, Expiry::NEVER, 1);
        assert!(!RunWriter::carries(longer.lend()));
        let mut writer = RunWriter::default();
        while writer.has_room() {
            writer.push(longest.lend());
        }
        let run = writer.finish(false, 0);
        assert!(run.bytes().len() <= RUN_BYTES_MAX);
        assert!(run.entries().is_ok_and(|entries| entries.len() >= 3));
    }

    #[test]
    fn a_run_that_is_cut_short_or_damaged_is_an_error_and_never_a_panic() {
        let sound = run_of(&entries()[..3]);
        for end in 1..sound.bytes().len() {
            let cut = Run::new(sound.bytes().slice(..end), true, 0);
            if let Ok(read) = cut.entries() {
                assert!(entries().starts_with(&read) && read.len() < 3);
            }
        }
        for bit in 0..sound.bytes().len() * 8 {
            let mut bytes = sound.bytes().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let damaged = Run::new(bytes.into(), true, 0);
            assert_ne!(damaged.entries(), Ok(entries()[..3].to_vec()));
        }
    }

    #[test]
    fn an_entry_that_no_node_writes_is_refused() {
        let head = |flags: u8, key_bytes: u16, value_bytes: u32| {
            let mut bytes = vec![flags, 3];
            bytes.extend_from_slice(&key_bytes.to_le_bytes());
            bytes.extend_from_slice(&[0; 8]);
            bytes.extend_from_slice(&value_bytes.to_le_bytes());
            bytes.resize(bytes.len() + RUN_BYTES_MAX, 0);
            Run::new(bytes.into(), true, 0).entries()
        };
        assert_eq!(head(4, 1, 0), Err("unknown flags"));
        assert_eq!(head(0, 0, 0), Err("a key that is empty or too long"));
        assert_eq!(head(0, 4097, 0), Err("a key that is empty or too long"));
        let tombstone = "a tombstone with a value or an expiry";
        assert_eq!(head(1, 1, 1), Err(tombstone));
        assert_eq!(head(3, 1, 0), Err(tombstone));
        let too_long = "an entry that is too long for a run";
        assert_eq!(head(0, 1, RUN_ENTRY_BYTES_MAX as u32), Err(too_long));
        assert_eq!(head(0, 1, u32::MAX), Err(too_long));
    }
}
