//! The order of a memtable's records in its B-trees. Most comparisons of a search
//! need nothing but the B-tree's nodes.

use crate::record::Record;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::collections::btree_set::Range;
use std::ops::Bound;

/// A record as the B-trees order it.
#[derive(Clone)]
pub(super) struct OrderedRecord {
    /// The first bytes of the key. They decide most comparisons of a search, without
    /// a look at the entry behind its pointer.
    prefix: Prefix,
    pub(super) record: Record,
}

impl OrderedRecord {
    pub(super) fn new(record: Record) -> Self {
        Self {
            prefix: prefix(record.entry.key()),
            record,
        }
    }
}

/// The versions of a key in a B-tree, the winner first.
pub(super) fn versions<'a>(
    records: &'a BTreeSet<OrderedRecord>,
    key: &[u8],
) -> Range<'a, OrderedRecord> {
    between(records, Position::Before(key), Position::After(key))
}

/// The last version of a record's key that wins over the record, or is the same
/// version with a lower sequence number.
pub(super) fn last_not_after<'a>(
    records: &'a BTreeSet<OrderedRecord>,
    record: &Record,
) -> Option<&'a OrderedRecord> {
    let key = record.entry.key();
    between(records, Position::Before(key), Position::At(record)).next_back()
}

fn between<'a>(
    records: &'a BTreeSet<OrderedRecord>,
    after: Position<'_>,
    before: Position<'_>,
) -> Range<'a, OrderedRecord> {
    let after: &dyn HasPosition = &SearchKey::at(after);
    let before: &dyn HasPosition = &SearchKey::at(before);
    records.range::<dyn HasPosition, _>((Bound::Excluded(after), Bound::Excluded(before)))
}

/// The first sixteen bytes of a key, padded with zeros. If two prefixes differ, they are in
/// the order of their keys.
type Prefix = u128;

/// How many bytes of a key its prefix holds.
const PREFIX_BYTES: usize = size_of::<Prefix>();

fn prefix(key: &[u8]) -> Prefix {
    let mut bytes = [0; PREFIX_BYTES];
    let length = key.len().min(bytes.len());
    bytes[..length].copy_from_slice(&key[..length]);
    Prefix::from_be_bytes(bytes)
}

/// The order of two keys with the same prefix. If both keys fit the prefix, one is
/// the other with zeros appended, so their lengths decide.
fn order_of_keys(left: &[u8], right: &[u8]) -> Ordering {
    if left.len() <= PREFIX_BYTES && right.len() <= PREFIX_BYTES {
        left.len().cmp(&right.len())
    } else {
        left.cmp(right)
    }
}

/// A position to seek in a B-tree.
pub(super) struct SearchKey<'a> {
    prefix: Prefix,
    position: Position<'a>,
}

impl<'a> SearchKey<'a> {
    pub(super) fn at(position: Position<'a>) -> Self {
        Self {
            prefix: prefix(position.key()),
            position,
        }
    }
}

/// A position in the order of records.
#[derive(Clone, Copy)]
pub(super) enum Position<'a> {
    /// Before every record of the key.
    Before(&'a [u8]),
    /// At the record.
    At(&'a Record),
    /// After every record of the key.
    After(&'a [u8]),
}

impl<'a> Position<'a> {
    fn key(self) -> &'a [u8] {
        match self {
            Self::Before(key) | Self::After(key) => key,
            Self::At(record) => record.entry.key(),
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

    /// The order of two positions whose keys have the same prefix.
    fn order(self, other: Self) -> Ordering {
        order_of_keys(self.key(), other.key()).then_with(|| match (self, other) {
            (Self::At(left), Self::At(right)) => left.order_of_versions(right),
            (left, right) => left.side().cmp(&right.side()),
        })
    }
}

/// A record or a search key. It allows searching a B-tree by a borrowed key, without
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
        Position::At(&self.record)
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
    left.prefix()
        .cmp(&right.prefix())
        .then_with(|| left.position().order(right.position()))
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
