//! The live tables as the manifest names them.

use super::encoding::{put_key, take_key};
use crate::table_id::TableId;
use base::ByteReader;
use bytes::Bytes;

/// The number of levels that tables lie on.
pub(crate) const LEVELS: usize = 7;

/// In place of a level: a table is a blob table.
pub(crate) const BLOB_LEVEL: usize = LEVELS;

/// The most bytes of a key that the manifest holds of a table.
const BOUND_BYTES_MAX: usize = 128;

/// A table that is part of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LiveTable {
    /// Its level, below [`LEVELS`], or [`BLOB_LEVEL`].
    pub(crate) level: u8,
    /// Its number.
    pub(crate) id: TableId,
    /// The length of its file in bytes.
    pub(crate) bytes: u64,
    /// The keys that it may hold.
    pub(crate) keys: KeyBounds,
}

/// Keys between two bounds, both included. Long keys are bounded by what they begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyBounds {
    /// No key is less.
    pub(crate) first: Bytes,
    /// No key is greater; `None` for the end of the key space.
    pub(crate) last: Option<Bytes>,
}

impl KeyBounds {
    /// The bounds of the keys from `first` to `last`.
    pub(crate) fn of(first: &[u8], last: &[u8]) -> Self {
        let first = &first[..first.len().min(BOUND_BYTES_MAX)];
        let last = match last.get(..BOUND_BYTES_MAX) {
            Some(begin) if last.len() > BOUND_BYTES_MAX => after_all_that_begin_with(begin),
            _ => Some(last.to_vec()),
        };
        Self {
            first: Bytes::copy_from_slice(first),
            last: last.map(Bytes::from),
        }
    }
}

/// The least key above all that begin with some bytes.
fn after_all_that_begin_with(begin: &[u8]) -> Option<Vec<u8>> {
    let kept = begin.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut after = begin[..=kept].to_vec();
    if let Some(last) = after.last_mut() {
        *last += 1;
    }
    Some(after)
}

impl LiveTable {
    /// Whether long values of other tables lie in it.
    pub(crate) fn is_blob(&self) -> bool {
        usize::from(self.level) == BLOB_LEVEL
    }

    pub(super) fn put(&self, bytes: &mut Vec<u8>) {
        bytes.push(self.level);
        bytes.extend_from_slice(&self.id.0.to_le_bytes());
        bytes.extend_from_slice(&self.bytes.to_le_bytes());
        put_key(bytes, Some(&self.keys.first));
        put_key(bytes, self.keys.last.as_ref());
    }

    pub(super) fn take(reader: &mut ByteReader<'_>) -> Option<Self> {
        Some(Self {
            level: reader.u8()?,
            id: TableId(reader.u64()?),
            bytes: reader.u64()?,
            keys: KeyBounds {
                first: take_key(reader)??,
                last: take_key(reader)?,
            },
        })
    }

    /// Checks that a store may hold the table, whose next one is `next`.
    pub(super) fn check(&self, next: TableId) -> Result<(), String> {
        let Self {
            level, id, keys, ..
        } = self;
        if usize::from(*level) > BLOB_LEVEL {
            return Err(format!("a table on level {level}"));
        }
        if *id >= next {
            return Err(format!("table {} is yet to come", id.0));
        }
        if keys.last.as_ref().is_some_and(|last| *last < keys.first) {
            return Err(format!("table {} is without a key", id.0));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_all_keys_and_are_short() {
        let long = |byte: u8, bytes: usize| vec![byte; bytes];
        let keys = [
            Vec::new(),
            b"a".to_vec(),
            long(b'a', BOUND_BYTES_MAX),
            long(b'a', BOUND_BYTES_MAX + 1),
            [long(b'a', BOUND_BYTES_MAX), long(0xff, 9)].concat(),
            [b"a".to_vec(), long(0xff, 4000)].concat(),
            long(0xff, BOUND_BYTES_MAX),
            long(0xff, 4096),
        ];
        for (index, first) in keys.iter().enumerate() {
            for last in &keys[index..] {
                let bounds = KeyBounds::of(first, last);
                assert!(bounds.first.len() <= BOUND_BYTES_MAX);
                assert!(bounds.first <= first.as_slice());
                if let Some(bound) = &bounds.last {
                    assert!(bound.len() <= BOUND_BYTES_MAX);
                    assert!(bound >= last.as_slice());
                }
                let is_short = |key: &Vec<u8>| key.len() <= BOUND_BYTES_MAX;
                assert_eq!(is_short(first), bounds.first == first.as_slice());
                assert_eq!(is_short(last), bounds.last.as_deref() == Some(last));
            }
        }
        assert_eq!(KeyBounds::of(b"", &long(0xff, 4096)).last, None);
    }
}
