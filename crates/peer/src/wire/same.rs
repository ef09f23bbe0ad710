//! Lets a replica answer "the same version" instead of sending a long value again.
//!
//! A read asks several replicas for one version, and most often all have the same. So a read
//! that holds a version with a value of at least [`SAME_BYTES_MIN`] bytes sends its head and a
//! hash of its value with the question, and a replica that holds it answers in a few bytes.
//!
//! The hash has 128 bits and a seed that the asker draws for each connection, so nobody can
//! prepare two values that are taken for one. The head has the rest of what decides which
//! version wins ([`base::Rank`]).

use base::{Entry, Expiry, Kind, Timestamp};
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// From which length of its value on a version is asked for in this way, in bytes. A shorter
/// one is sent as fast as it is hashed twice.
pub const SAME_BYTES_MIN: usize = 4 << 10;

/// A hash of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueHash {
    seed: u64,
    hash: u128,
}

impl ValueHash {
    /// The bytes of an encoded hash.
    pub(crate) const BYTES: usize = 24;

    /// The hash of a value.
    pub(crate) fn of(value: &[u8], seed: u64) -> Self {
        let hash = xxh3_128_with_seed(value, seed);
        Self { seed, hash }
    }

    /// Whether this is the hash of a value.
    fn is_of(self, value: &[u8]) -> bool {
        Self::of(value, self.seed) == self
    }

    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.seed.to_le_bytes());
        out.extend_from_slice(&self.hash.to_le_bytes());
    }

    pub(crate) fn decode(bytes: [u8; Self::BYTES]) -> Self {
        let [s0, s1, s2, s3, s4, s5, s6, s7, hash @ ..] = bytes;
        Self {
            seed: u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]),
            hash: u128::from_le_bytes(hash),
        }
    }
}

/// A version that the asker holds, without its key and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldVersion {
    pub(crate) timestamp: Timestamp,
    pub(crate) kind: Kind,
    pub(crate) expiry: Expiry,
    pub(crate) copies: u8,
    pub(crate) value_bytes: usize,
    pub(crate) hash: ValueHash,
}

impl HeldVersion {
    /// Whether an entry of the same key is this version.
    pub(crate) fn is(self, entry: &Entry) -> bool {
        entry.timestamp() == self.timestamp
            && entry.kind() == self.kind
            && entry.expiry() == self.expiry
            && entry.copies() == self.copies
            && entry.value_bytes().len() == self.value_bytes
            && self.hash.is_of(entry.value_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::{Decoder, PAYLOAD_BYTES_MAX};
    use crate::wire::message::{self, Message};
    use std::time::Duration;

    fn version(timestamp: u64, value: &[u8], expires: u64, copies: u8) -> Entry {
        let at = Timestamp::from_u64(timestamp);
        Entry::value(b"key", at, value, Expiry::at_unix_ms(expires), copies)
    }

    /// The version as the other side of a connection gets it.
    fn sent(held: &Entry) -> HeldVersion {
        let mut bytes = Vec::new();
        message::put_read_unless_same(&mut bytes, 7, Duration::from_secs(1), held, 5);
        let mut decoder = Decoder::new(&bytes, PAYLOAD_BYTES_MAX);
        let frame = decoder.next().unwrap().unwrap();
        match Message::decode(frame).unwrap() {
            Message::ReadUnlessSame { held, hash, .. } => {
                assert_eq!(held.key, b"key");
                held.with_hash(hash)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn whatever_decides_which_version_wins_makes_another_version() {
        for value_bytes in [SAME_BYTES_MIN, 1 << 20] {
            let value = vec![1; value_bytes];
            let mut other = value.clone();
            other[value_bytes / 2] ^= 1;
            let held = sent(&version(9, &value, 5, 3));
            for (entry, is_same) in [
                (version(9, &value, 5, 3), true),
                (version(8, &value, 5, 3), false),
                (version(9, &other, 5, 3), false),
                (version(9, &value[1..], 5, 3), false),
                (version(9, &value, 6, 3), false),
                (version(9, &value, 5, 2), false),
                (Entry::tombstone(b"key", Timestamp::from_u64(9), 3), false),
            ] {
                assert_eq!(held.is(&entry), is_same, "{:?}", entry.timestamp());
            }
        }
    }

    #[test]
    fn hashes_of_two_connections_differ() {
        let value = vec![1; SAME_BYTES_MIN];
        let (one, other) = (ValueHash::of(&value, 1), ValueHash::of(&value, 2));
        assert_ne!(one.hash, other.hash);
        assert!(one.is_of(&value) && other.is_of(&value));
    }
}
