//! Lists and keys in the manifest.

use base::{ByteReader, KEY_BYTES_MAX};
use bytes::Bytes;

const END_OF_KEYS: u16 = u16::MAX;

/// Appends what a list has, with its number.
pub(super) fn put_list<'a, T: 'a>(
    bytes: &mut Vec<u8>,
    list: impl IntoIterator<Item = &'a T, IntoIter: ExactSizeIterator>,
    put: impl Fn(&T, &mut Vec<u8>),
) {
    let list = list.into_iter();
    bytes.extend_from_slice(&(list.len() as u32).to_le_bytes());
    for item in list {
        put(item, bytes);
    }
}

/// Takes a list; `None` if one of it is malformed.
pub(super) fn take_list<T>(
    reader: &mut ByteReader<'_>,
    take: impl Fn(&mut ByteReader<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let count = reader.u32()?;
    let mut list = Vec::new();
    for _ in 0..count {
        list.push(take(reader)?);
    }
    Some(list)
}

/// Appends a key with its length; `None` is the end of the key space.
pub(super) fn put_key(bytes: &mut Vec<u8>, key: Option<&Bytes>) {
    let key_bytes = key.map_or(END_OF_KEYS, |key| key.len() as u16);
    bytes.extend_from_slice(&key_bytes.to_le_bytes());
    bytes.extend_from_slice(key.map_or(&[], |key| key));
}

/// Takes a key; within, `None` is the end of the key space.
pub(super) fn take_key(reader: &mut ByteReader<'_>) -> Option<Option<Bytes>> {
    let key_bytes = reader.u16()?;
    if key_bytes == END_OF_KEYS {
        return Some(None);
    }
    let key_bytes = usize::from(key_bytes);
    let key = (key_bytes <= KEY_BYTES_MAX).then(|| reader.bytes(key_bytes))??;
    Some(Some(Bytes::copy_from_slice(key)))
}
