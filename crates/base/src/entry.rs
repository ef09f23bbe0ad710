//! Entries: the versions of keys, and the order that decides which version wins.

use crate::timestamp::Timestamp;
use bytes::Bytes;
use smallvec::SmallVec;
use std::fmt;
use std::hint::black_box;
use triomphe::ThinArc;

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

/// The longest key and value together, in bytes, that an entry copies into its own
/// allocation.
const INLINE_BYTES_MAX: usize = 4096;

/// One version of a key: a put or a delete writes it, a get returns it.
///
/// An entry is one allocation with all of it. So a search that ends at a pointer to an entry
/// waits for memory once, and an entry keeps neither a network buffer nor a table's block
/// alive. Clones share it. The exception is an entry of more than 4 KiB: its key and value
/// are in an allocation of their own, which [`Entry::from_data`] takes over without a copy;
/// if the value fills a block alone, the entry may keep the block, which has hardly any other
/// bytes.
#[derive(Clone)]
pub struct Entry(ThinArc<Head, u8>);

/// What is in front of the bytes.
struct Head {
    timestamp: Timestamp,
    expiry: Expiry,
    /// The key's bytes, then the value's, of a long entry.
    long: Option<Box<Bytes>>,
    key_bytes: u32,
    kind: Kind,
    /// The number of copies that the version was written for. The engine only stores it.
    copies: u8,
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
    /// it the value. The entry keeps a long `data`, so that it is not copied again.
    /// If `key_bytes` is more than `data` has, all of `data` is the key.
    #[must_use]
    pub fn value_in(
        data: Vec<u8>,
        key_bytes: usize,
        timestamp: Timestamp,
        expiry: Expiry,
        copies: u8,
    ) -> Self {
        let key_bytes = key_bytes.min(data.len());
        if data.len() <= INLINE_BYTES_MAX {
            let (key, value) = data.split_at(key_bytes);
            return Self::value(key, timestamp, value, expiry, copies);
        }
        let data = Bytes::from(data);
        Self::from_data(data, key_bytes, timestamp, Kind::Value, expiry, copies)
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
        let head = Head {
            timestamp,
            expiry,
            long: None,
            key_bytes: key.len() as u32,
            kind,
            copies,
        };
        let bytes = key.len() + value.len();
        if bytes > INLINE_BYTES_MAX {
            let mut data = Vec::with_capacity(bytes);
            data.extend_from_slice(key);
            data.extend_from_slice(value);
            return Self::long(&head, data.into());
        }
        // The allocation is made from one slice, so the two are joined on the stack.
        let mut data = SmallVec::<[u8; INLINE_BYTES_MAX]>::new();
        data.extend_from_slice(key);
        data.extend_from_slice(value);
        Self(ThinArc::from_header_and_slice(head, &data))
    }

    /// A version whose key, of `key_bytes` bytes, and value are contiguous in `data`. If
    /// `data` is long, the allocation behind it should hold little else, because the entry
    /// keeps it.
    pub fn from_data(
        data: Bytes,
        key_bytes: usize,
        timestamp: Timestamp,
        kind: Kind,
        expiry: Expiry,
        copies: u8,
    ) -> Self {
        debug_assert!(key_bytes <= data.len());
        let head = Head {
            timestamp,
            expiry,
            long: None,
            key_bytes: key_bytes as u32,
            kind,
            copies,
        };
        if data.len() > INLINE_BYTES_MAX {
            Self::long(&head, data)
        } else {
            Self(ThinArc::from_header_and_slice(head, &data))
        }
    }

    fn long(head: &Head, data: Bytes) -> Self {
        let long = Some(Box::new(data));
        Self(ThinArc::from_header_and_slice(Head { long, ..*head }, &[]))
    }

    #[inline]
    fn head(&self) -> &Head {
        &self.0.header.header
    }

    #[inline]
    fn data(&self) -> &[u8] {
        match &self.head().long {
            None => &self.0.slice,
            Some(long) => long,
        }
    }

    /// The key.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.data()[..self.head().key_bytes as usize]
    }

    /// The value's bytes; none for a tombstone. An expired value still has its bytes.
    #[inline]
    #[must_use]
    pub fn value_bytes(&self) -> &[u8] {
        &self.data()[self.head().key_bytes as usize..]
    }

    /// The value as a handle that shares the entry's allocation.
    #[must_use]
    pub fn value_handle(&self) -> Bytes {
        match &self.head().long {
            None => Bytes::from_owner(ValueOf(self.clone())),
            Some(long) => long.slice(self.head().key_bytes as usize..),
        }
    }

    /// Whether the version is a value or a tombstone.
    #[inline]
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.head().kind
    }

    /// The number of copies that the version was written for.
    #[inline]
    #[must_use]
    pub fn copies(&self) -> u8 {
        self.head().copies
    }

    /// The timestamp of the write.
    #[inline]
    #[must_use]
    pub fn timestamp(&self) -> Timestamp {
        self.head().timestamp
    }

    /// When the version expires; [`Expiry::NEVER`] for a tombstone.
    #[inline]
    #[must_use]
    pub fn expiry(&self) -> Expiry {
        self.head().expiry
    }

    /// Whether a reader at `now_unix_ms` sees a value: neither a tombstone nor expired.
    #[must_use]
    pub fn is_live(&self, now_unix_ms: u64) -> bool {
        self.kind() == Kind::Value && !self.expiry().has_passed(now_unix_ms)
    }

    /// Whether there are clones, so that the memory stays when this handle goes. Another
    /// thread may make or drop one at the same moment.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        ThinArc::strong_count(&self.0) > 1
    }

    /// Begins to load the entry's memory into the processor's cache, without waiting for it. A
    /// caller that is about to use several entries prefetches all of them first, and so waits
    /// once.
    #[inline]
    pub fn prefetch(&self) {
        black_box(ThinArc::strong_count(&self.0));
    }

    /// The same version with an empty value, for callers that need only the rest of it.
    pub fn without_value(&self) -> Self {
        self.lend().without_value().to_entry()
    }

    /// The same with another timestamp; a long one shares the memory of key and value.
    #[must_use]
    pub fn pushed(&self, timestamp: Timestamp) -> Self {
        let head = self.head();
        let head = Head {
            timestamp,
            long: head.long.clone(),
            ..*head
        };
        Self(ThinArc::from_header_and_slice(head, &self.0.slice))
    }

    /// The same version as a tombstone, which replaces a version that has expired.
    pub fn suppressed(&self) -> Self {
        Self::tombstone(self.key(), self.timestamp(), self.copies())
    }

    /// What decides which of two versions of a key wins.
    #[must_use]
    pub fn rank(&self) -> Rank<'_> {
        self.lend().rank()
    }

    /// The length of key and value together, in bytes.
    #[inline]
    #[must_use]
    pub fn data_bytes(&self) -> usize {
        self.data().len()
    }

    /// What the entry takes in memory with the pointer to it, in bytes, but for what the
    /// allocator adds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        // In front of the bytes there are a count of the handles and the length, too.
        size_of::<Self>() + size_of::<Head>() + 2 * size_of::<usize>() + self.data_bytes()
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.lend() == other.lend()
    }
}

impl Eq for Entry {}

impl fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lend().fmt(formatter)
    }
}

/// Lends the value of an entry that it holds.
struct ValueOf(Entry);

impl AsRef<[u8]> for ValueOf {
    fn as_ref(&self) -> &[u8] {
        self.0.value_bytes()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_entries_say_the_same_and_share_their_memory() {
        let (at, expiry) = (Timestamp::from_u64(5), Expiry::at_unix_ms(7));
        for value_bytes in [0, 1, INLINE_BYTES_MAX - 3, INLINE_BYTES_MAX - 2, 1 << 20] {
            let value = vec![b'v'; value_bytes];
            let data = [b"key".as_slice(), &value].concat();
            let entry = Entry::value(b"key", at, &value, expiry, 2);
            assert_eq!(entry.key(), b"key");
            assert_eq!(entry.value_bytes(), value);
            assert_eq!(entry.data_bytes(), data.len());
            assert_eq!(entry.timestamp(), at);
            assert_eq!(entry.expiry(), expiry);
            assert_eq!((entry.kind(), entry.copies()), (Kind::Value, 2));
            let kept = Entry::value_in(data.clone(), 3, at, expiry, 2);
            assert_eq!(kept, entry);

            let handle = entry.value_handle();
            assert_eq!(handle, value);
            assert_eq!(handle.as_ptr(), entry.value_bytes().as_ptr());
            let later = entry.pushed(Timestamp::from_u64(6));
            assert_eq!(
                later,
                Entry::value(b"key", Timestamp::from_u64(6), &value, expiry, 2)
            );
            assert_ne!(later, entry);
            drop(entry);
            assert_eq!(handle, value, "a handle keeps what it shares");
        }
    }

    #[test]
    fn a_short_entry_does_not_keep_the_buffer_that_it_came_from() {
        let at = Timestamp::from_u64(5);
        for (value_bytes, keeps) in [(INLINE_BYTES_MAX - 3, false), (INLINE_BYTES_MAX - 2, true)] {
            let data = Bytes::from([b"key".as_slice(), &vec![b'v'; value_bytes]].concat());
            let buffer = data.clone();
            let entry = Entry::from_data(data, 3, at, Kind::Value, Expiry::NEVER, 2);
            assert_eq!(buffer.is_unique(), !keeps);
            assert_eq!(
                (entry.key(), entry.value_bytes().len()),
                (&b"key"[..], value_bytes)
            );
        }
    }

    #[test]
    fn a_short_entry_takes_little_more_than_its_bytes() {
        let entry = Entry::tombstone(b"key", Timestamp::from_u64(5), 2);
        assert_eq!(entry.memory_bytes(), 3 + 56);
    }

    #[test]
    fn an_entry_is_shared_while_it_has_clones() {
        let entry = Entry::tombstone(b"key", Timestamp::from_u64(5), 2);
        assert!(!entry.is_shared());
        let clone = entry.clone();
        assert!(entry.is_shared());
        drop(clone);
        assert!(!entry.is_shared());
    }
}
