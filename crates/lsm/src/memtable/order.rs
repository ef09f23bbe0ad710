//! The order of a memtable's records. Most comparisons need nothing but what the tree holds
//! beside the pointer to an entry: to follow it is a cache miss.

use crate::record::Record;
use base::Timestamp;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::hint::black_box;

/// A record as the tree orders it.
#[derive(Clone)]
pub(super) struct OrderedRecord {
    prefix: Prefix,
    /// That of the record.
    timestamp: Timestamp,
    pub(super) record: Record,
}

impl OrderedRecord {
    pub(super) fn new(record: Record) -> Self {
        Self {
            prefix: Prefix::of(record.entry.key()),
            timestamp: record.entry.timestamp(),
            record,
        }
    }

    /// Reads from the record and does not wait for what it reads: there is no instruction for
    /// that in safe Rust.
    pub(super) fn prefetch(&self) {
        black_box(self.timestamp);
    }

    /// The order of the versions of one key, the winner first.
    fn order_of_versions(&self, other: &Self) -> Ordering {
        let by_timestamp = other.timestamp.cmp(&self.timestamp);
        by_timestamp.then_with(|| self.record.order_of_versions(&other.record))
    }
}

/// How many bytes of a key its prefix holds.
const PREFIX_BYTES: usize = 15;

/// The first bytes of a key, padded with zeros, and in the last byte the key's length, at most
/// one more than fits. If two prefixes differ, they are in the order of their keys: if only the
/// lengths differ, the longer key begins with the shorter one. Two halves, because a `u128`
/// would make a record larger by its alignment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Prefix(u64, u64);

impl Prefix {
    fn of(key: &[u8]) -> Self {
        let mut bytes = [0; PREFIX_BYTES + 1];
        let held = key.len().min(PREFIX_BYTES);
        bytes[..held].copy_from_slice(&key[..held]);
        bytes[PREFIX_BYTES] = key.len().min(PREFIX_BYTES + 1) as u8;
        let number = u128::from_be_bytes(bytes);
        Self((number >> 64) as u64, number as u64)
    }

    /// Whether only one key has this prefix.
    fn is_key(self) -> bool {
        self.1 as u8 as usize <= PREFIX_BYTES
    }
}

/// A position in the order of records.
#[derive(Clone, Copy)]
pub(super) enum Position<'a> {
    /// Before every record of the key.
    Before(&'a [u8]),
    /// At the record.
    At(&'a OrderedRecord),
    /// After every record of the key.
    After(&'a [u8]),
}

impl<'a> Position<'a> {
    fn key(self) -> &'a [u8] {
        match self {
            Self::Before(key) | Self::After(key) => key,
            Self::At(ordered) => ordered.record.entry.key(),
        }
    }

    /// Whether the position is before, at or after the records of its key.
    fn side(self) -> i8 {
        match self {
            Self::Before(_) => -1,
            Self::At(_) => 0,
            Self::After(_) => 1,
        }
    }

    /// The order of two positions of one key.
    fn order_of_versions(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::At(left), Self::At(right)) => left.order_of_versions(right),
            (left, right) => left.side().cmp(&right.side()),
        }
    }
}

/// A position to seek in the tree.
pub(super) struct SearchKey<'a> {
    prefix: Prefix,
    position: Position<'a>,
}

impl<'a> From<Position<'a>> for SearchKey<'a> {
    fn from(position: Position<'a>) -> Self {
        let prefix = match position {
            Position::Before(key) | Position::After(key) => Prefix::of(key),
            Position::At(ordered) => ordered.prefix,
        };
        Self { prefix, position }
    }
}

/// A record or a search key. It allows searching the tree by a borrowed key, without
/// creating a record for the search.
pub(super) trait HasPosition {
    fn prefix(&self) -> Prefix;
    fn position(&self) -> Position<'_>;
}

impl HasPosition for OrderedRecord {
    fn prefix(&self) -> Prefix {
        self.prefix
    }

    fn position(&self) -> Position<'_> {
        Position::At(self)
    }
}

impl HasPosition for SearchKey<'_> {
    fn prefix(&self) -> Prefix {
        self.prefix
    }

    fn position(&self) -> Position<'_> {
        self.position
    }
}

fn compare<L: HasPosition + ?Sized, R: HasPosition + ?Sized>(left: &L, right: &R) -> Ordering {
    let by_prefix = left.prefix().cmp(&right.prefix());
    by_prefix.then_with(|| {
        let (left, is_key, right) = (left.position(), left.prefix().is_key(), right.position());
        let by_key = if is_key {
            Ordering::Equal
        } else {
            left.key().cmp(right.key())
        };
        by_key.then_with(|| left.order_of_versions(right))
    })
}

impl PartialEq for OrderedRecord {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for OrderedRecord {}

impl PartialOrd for OrderedRecord {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OrderedRecord {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self, other)
    }
}

impl<'a> Borrow<dyn HasPosition + 'a> for OrderedRecord {
    fn borrow(&self) -> &(dyn HasPosition + 'a) {
        self
    }
}

impl PartialEq for dyn HasPosition + '_ {
    fn eq(&self, other: &Self) -> bool {
        compare(self, other) == Ordering::Equal
    }
}

impl Eq for dyn HasPosition + '_ {}

impl PartialOrd for dyn HasPosition + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn HasPosition + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self, other)
    }
}
