//! Entries that borrow their bytes.

use crate::entry::{Entry, Expiry, Kind, Rank};
use crate::timestamp::Timestamp;

/// One version of a key, as an [`Entry`], but its key and value are lent: by an entry, or by a
/// block of a table that holds them. Who reads much and keeps little copies nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRef<'a> {
    key: &'a [u8],
    value: &'a [u8],
    timestamp: Timestamp,
    expiry: Expiry,
    kind: Kind,
    copies: u8,
}

impl<'a> EntryRef<'a> {
    /// A version from its parts, for decoders.
    #[inline]
    #[must_use]
    pub const fn new(
        key: &'a [u8],
        timestamp: Timestamp,
        kind: Kind,
        value: &'a [u8],
        expiry: Expiry,
        copies: u8,
    ) -> Self {
        Self {
            key,
            value,
            timestamp,
            expiry,
            kind,
            copies,
        }
    }

    /// The key.
    #[inline]
    #[must_use]
    pub fn key(self) -> &'a [u8] {
        self.key
    }

    /// The value's bytes, as [`Entry::value_bytes`].
    #[inline]
    #[must_use]
    pub fn value_bytes(self) -> &'a [u8] {
        self.value
    }

    /// Whether the version is a value or a tombstone.
    #[inline]
    #[must_use]
    pub fn kind(self) -> Kind {
        self.kind
    }

    /// The number of copies that the version was written for.
    #[inline]
    #[must_use]
    pub fn copies(self) -> u8 {
        self.copies
    }

    /// The timestamp of the write.
    #[inline]
    #[must_use]
    pub fn timestamp(self) -> Timestamp {
        self.timestamp
    }

    /// When the version expires, as [`Entry::expiry`].
    #[inline]
    #[must_use]
    pub fn expiry(self) -> Expiry {
        self.expiry
    }

    /// The length of key and value together, in bytes.
    #[inline]
    #[must_use]
    pub fn data_bytes(self) -> usize {
        self.key.len() + self.value.len()
    }

    /// What decides which of two versions of a key wins.
    #[inline]
    #[must_use]
    pub fn rank(self) -> Rank<'a> {
        Rank {
            timestamp: self.timestamp,
            tombstone: self.kind == Kind::Tombstone,
            expiry: self.expiry,
            value: self.value,
            copies: self.copies,
        }
    }

    /// The same version as a tombstone, as [`Entry::suppressed`].
    #[must_use]
    pub fn suppressed(self) -> Self {
        Self {
            value: &[],
            expiry: Expiry::NEVER,
            kind: Kind::Tombstone,
            ..self
        }
    }

    /// The same version with an empty value, as [`Entry::without_value`].
    #[must_use]
    pub fn without_value(self) -> Self {
        Self { value: &[], ..self }
    }

    /// A copy in memory of its own.
    #[must_use]
    pub fn to_entry(self) -> Entry {
        Entry::new(
            self.key,
            self.timestamp,
            self.kind,
            self.value,
            self.expiry,
            self.copies,
        )
    }
}

impl Entry {
    /// The same version, lent.
    #[inline]
    #[must_use]
    pub fn lend(&self) -> EntryRef<'_> {
        EntryRef {
            key: self.key(),
            value: self.value_bytes(),
            timestamp: self.timestamp(),
            expiry: self.expiry(),
            kind: self.kind(),
            copies: self.copies(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_is_the_same_version() {
        let expiry = Expiry::at_unix_ms(7);
        let value = Entry::value(b"key", Timestamp::from_u64(5), b"value", expiry, 3);
        let tombstone = Entry::tombstone(b"key", Timestamp::from_u64(9), 2);
        for entry in [value, tombstone] {
            let lent = entry.lend();
            assert_eq!(lent.to_entry(), entry);
            assert_eq!(lent.rank(), entry.rank());
            assert_eq!(lent.data_bytes(), entry.data_bytes());
            assert_eq!(lent.suppressed().to_entry(), entry.suppressed());
            assert_eq!(lent.without_value().to_entry(), entry.without_value());
        }
    }
}
