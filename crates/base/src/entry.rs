//! Entries: the versions of keys, and the order that decides which version wins.

use crate::timestamp::Timestamp;
use bytes::Bytes;

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 4096;

/// The longest value that the formats can hold, in bytes. Nodes usually accept less.
pub const VALUE_BYTES_MAX: usize = 1 << 30;

/// When a version expires, in milliseconds since the Unix epoch.
///
/// The order decides between versions with equal timestamps: a later expiry is
/// greater, and [`Expiry::NEVER`] is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expiry(u64);

impl Expiry {
    /// The version does not expire.
    pub const NEVER: Self = Self(u64::MAX);

    /// Expires at this millisecond since the Unix epoch; `u64::MAX` is [`Expiry::NEVER`].
    #[must_use]
    pub const fn at_unix_ms(unix_ms: u64) -> Self {
        Self(unix_ms)
    }

    /// The millisecond since the Unix epoch, `u64::MAX` for [`Expiry::NEVER`].
    #[must_use]
    pub const fn unix_ms(self) -> u64 {
        self.0
    }

    /// Whether a version with this expiry has expired at `now_unix_ms`.
    #[must_use]
    pub fn has_passed(self, now_unix_ms: u64) -> bool {
        self != Self::NEVER && self.0 <= now_unix_ms
    }
}

/// What a version says about its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The key has a value.
    Value,
    /// The key was deleted.
    Tombstone,
}

/// One version of a key: a put or a delete writes it, a get returns it.
///
/// Key and value share one allocation of the entry's own, so an entry does not keep
/// a network buffer or a table's block alive. The exception is a value that fills a
/// block alone: its entry may keep the block, which has hardly any other bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key's bytes, then the value's.
    data: Bytes,
    key_bytes: u32,
    kind: Kind,
    /// The number of copies that the version was written for. The engine only stores it.
    copies: u8,
    timestamp: Timestamp,
    expiry: Expiry,
}

impl Entry {
    /// A version that holds `value` until `expiry`.
    #[must_use]
    pub fn value(
        key: &[u8],
        timestamp: Timestamp,
        value: &[u8],
        expiry: Expiry,
        copies: u8,
    ) -> Self {
        Self::new(key, timestamp, Kind::Value, value, expiry, copies)
    }

    /// A version that holds a value. `data` has the key, of `key_bytes` bytes, and behind
    /// it the value. The entry keeps `data`, so that a long value is not copied again.
    /// A `key_bytes` beyond the end of `data` stands for all of it.
    #[must_use]
    pub fn value_in(
        data: Vec<u8>,
        key_bytes: usize,
        timestamp: Timestamp,
        expiry: Expiry,
        copies: u8,
    ) -> Self {
        Self {
            key_bytes: key_bytes.min(data.len()) as u32,
            data: Bytes::from(data),
            kind: Kind::Value,
            copies,
            timestamp,
            expiry,
        }
    }

    /// A version that says that the key was deleted.
    #[must_use]
    pub fn tombstone(key: &[u8], timestamp: Timestamp, copies: u8) -> Self {
        Self::new(key, timestamp, Kind::Tombstone, &[], Expiry::NEVER, copies)
    }

    /// A version from its parts, for decoders.
    pub fn new(
        key: &[u8],
        timestamp: Timestamp,
        kind: Kind,
        value: &[u8],
        expiry: Expiry,
        copies: u8,
    ) -> Self {
        let mut data = Vec::with_capacity(key.len() + value.len());
        data.extend_from_slice(key);
        data.extend_from_slice(value);
        Self::from_data(data.into(), key.len(), timestamp, kind, expiry, copies)
    }

    /// A version whose key, of `key_bytes` bytes, and value are contiguous in `data`. The
    /// allocation behind `data` should hold little else, because the entry keeps it.
    pub fn from_data(
        data: Bytes,
        key_bytes: usize,
        timestamp: Timestamp,
        kind: Kind,
        expiry: Expiry,
        copies: u8,
    ) -> Self {
        debug_assert!(key_bytes <= data.len());
        Self {
            key_bytes: key_bytes as u32,
            data,
            kind,
            copies,
            timestamp,
            expiry,
        }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.data[..self.key_bytes as usize]
    }

    /// The value's bytes; none for a tombstone. An expired value still has its bytes.
    #[must_use]
    pub fn value_bytes(&self) -> &[u8] {
        &self.data[self.key_bytes as usize..]
    }

    /// The value as a handle that shares the entry's allocation.
    #[must_use]
    pub fn value_handle(&self) -> Bytes {
        self.data.slice(self.key_bytes as usize..)
    }

    /// Whether the version is a value or a tombstone.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The number of copies that the version was written for.
    #[must_use]
    pub fn copies(&self) -> u8 {
        self.copies
    }

    /// The timestamp of the write.
    #[must_use]
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// When the version expires; [`Expiry::NEVER`] for a tombstone.
    #[must_use]
    pub fn expiry(&self) -> Expiry {
        self.expiry
    }

    /// Whether a reader at `now_unix_ms` sees a value: neither a tombstone nor expired.
    #[must_use]
    pub fn is_live(&self, now_unix_ms: u64) -> bool {
        self.kind == Kind::Value && !self.expiry.has_passed(now_unix_ms)
    }

    /// The same version with an empty value, for callers that need only the rest of it.
    pub fn without_value(&self) -> Self {
        Self::new(
            self.key(),
            self.timestamp,
            self.kind,
            &[],
            self.expiry,
            self.copies,
        )
    }

    /// The same with another timestamp, which shares the memory of key and value.
    #[must_use]
    pub fn restamped(&self, timestamp: Timestamp) -> Self {
        Self {
            timestamp,
            ..self.clone()
        }
    }

    /// The same version as a tombstone, which replaces a version that has expired.
    pub fn buried(&self) -> Self {
        Self::tombstone(self.key(), self.timestamp, self.copies)
    }

    /// What decides which of two versions of a key wins.
    #[must_use]
    pub fn rank(&self) -> Rank<'_> {
        Rank {
            timestamp: self.timestamp,
            tombstone: self.kind == Kind::Tombstone,
            expiry: self.expiry,
            value: self.value_bytes(),
            copies: self.copies,
        }
    }

    /// The length of key and value together, in bytes.
    #[must_use]
    pub fn data_bytes(&self) -> usize {
        self.data.len()
    }
}

/// The order of the versions of one key. The greatest version wins, wherever the
/// versions are stored and in whatever order they arrived.
///
/// The derived order is the rule: the higher timestamp; at equal timestamps a
/// tombstone, then the later expiry, then the larger value (bytewise), then the larger
/// number of copies. Versions of equal rank are the same version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank<'a> {
    pub(crate) timestamp: Timestamp,
    pub(crate) tombstone: bool,
    pub(crate) expiry: Expiry,
    pub(crate) value: &'a [u8],
    pub(crate) copies: u8,
}
