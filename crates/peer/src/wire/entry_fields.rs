//! The fields before the key of an entry, in a frame, a run or a page.

use base::{ByteReader, Expiry, KEY_BYTES_MAX, Kind, Timestamp};

/// The flag of an entry that is a tombstone.
pub(crate) const FLAG_TOMBSTONE: u8 = 1;
/// The flag of an entry that expires.
pub(crate) const FLAG_EXPIRES: u8 = 2;

const TOO_SHORT: &str = "an entry that is too short";

/// The fields of an entry before its key, which are checked.
pub(crate) struct EntryFields {
    pub(crate) flags: u8,
    pub(crate) copies: u8,
    pub(crate) key_bytes: usize,
    pub(crate) timestamp: Timestamp,
    pub(crate) kind: Kind,
    pub(crate) value_bytes: u32,
    pub(crate) expiry: Expiry,
}

impl EntryFields {
    /// Reads what [`put_entry_head`](crate::wire::message::put_entry_head) writes, perhaps with more flags.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn read(reader: &mut ByteReader<'_>, more_flags: u8) -> Result<Self, &'static str> {
        let [flags, copies, k0, k1] = reader.array().ok_or(TOO_SHORT)?;
        if flags & !(FLAG_TOMBSTONE | FLAG_EXPIRES | more_flags) != 0 {
            return Err("unknown flags");
        }
        let timestamp = Timestamp::from_u64(reader.u64().ok_or(TOO_SHORT)?);
        let value_bytes = reader.u32().ok_or(TOO_SHORT)?;
        let expiry = match flags & FLAG_EXPIRES {
            0 => Expiry::NEVER,
            _ => Expiry::at_unix_ms(reader.u64().ok_or(TOO_SHORT)?),
        };
        let kind = match flags & FLAG_TOMBSTONE {
            0 => Kind::Value,
            _ => Kind::Tombstone,
        };
        if kind == Kind::Tombstone && (value_bytes > 0 || expiry != Expiry::NEVER) {
            return Err("a tombstone with a value or an expiry");
        }
        let key_bytes = usize::from(u16::from_le_bytes([k0, k1]));
        if !(1..=KEY_BYTES_MAX).contains(&key_bytes) {
            return Err("a key that is empty or too long");
        }
        Ok(Self {
            flags,
            copies,
            key_bytes,
            timestamp,
            kind,
            value_bytes,
            expiry,
        })
    }
}
