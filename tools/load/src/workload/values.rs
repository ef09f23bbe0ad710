//! Values with a checksum, which can be verified.
//!
//! ```text
//! crc32c (4 bytes, little endian) of key and rest | rest: random bytes
//! ```
//!
//! The checksum covers the key, so a value of another key is wrong too. An
//! older value of the same key is accepted, because the generator does not know
//! which of its writes came first. Random bytes cannot be compressed, so a
//! store keeps their full length. A value of up to four bytes consists of a
//! part of the checksum only.

use crc_fast::{CrcAlgorithm, Digest};

/// The bytes of the checksum.
const CHECKSUM_BYTES: usize = 4;

/// The crc32c of a key, to which more can be added.
fn checksum_of(key: &[u8]) -> Digest {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(key);
    digest
}

/// Appends a value of `bytes` bytes for `key`.
pub(crate) fn write(key: &[u8], bytes: usize, random: &mut fastrand::Rng, to: &mut Vec<u8>) {
    let start = to.len();
    to.resize(start + bytes, 0);
    let value = &mut to[start..];
    random.fill(value);
    let (claim, rest) = value.split_at_mut(bytes.min(CHECKSUM_BYTES));
    let mut checksum = checksum_of(key);
    checksum.update(rest);
    let checksum = (checksum.finalize() as u32).to_le_bytes();
    claim.copy_from_slice(&checksum[..claim.len()]);
}

/// Verifies a value that arrives in pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verifier {
    /// The checksum that the value claims: its first bytes.
    claimed: [u8; CHECKSUM_BYTES],
    /// How many bytes of it have arrived.
    claimed_bytes: usize,
    checksum: Digest,
}

impl Verifier {
    /// Creates a verifier for a value of `key`.
    pub(crate) fn new(key: &[u8]) -> Self {
        Self {
            claimed: [0; CHECKSUM_BYTES],
            claimed_bytes: 0,
            checksum: checksum_of(key),
        }
    }

    /// Takes the next piece.
    pub(crate) fn take(&mut self, piece: &[u8]) {
        let missing = CHECKSUM_BYTES - self.claimed_bytes;
        let (claim, rest) = piece.split_at(missing.min(piece.len()));
        self.claimed[self.claimed_bytes..][..claim.len()].copy_from_slice(claim);
        self.claimed_bytes += claim.len();
        if !rest.is_empty() {
            self.checksum.update(rest);
        }
    }

    /// Whether the value, now complete, was put under the key. An empty value
    /// is right only if `may_be_empty`.
    pub(crate) fn is_right(&self, may_be_empty: bool) -> bool {
        let claimed = &self.claimed[..self.claimed_bytes];
        let is_empty = claimed.is_empty();
        let checksum = self.checksum.finalize() as u32;
        (!is_empty || may_be_empty) && checksum.to_le_bytes().starts_with(claimed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_right(key: &[u8], value: &[u8], piece_bytes: usize) -> bool {
        let mut verifier = Verifier::new(key);
        for piece in value.chunks(piece_bytes) {
            verifier.take(piece);
        }
        verifier.is_right(false)
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let mut value = Vec::new();
        write(b"key", 20, &mut fastrand::Rng::with_seed(1), &mut value);
        for piece_bytes in [1, 3, 4, 7, 20] {
            assert!(is_right(b"key", &value, piece_bytes));
        }
        for bit in 0..value.len() * 8 {
            value[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_right(b"key", &value, 20), "bit {bit}");
            value[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_value_of_another_key_and_a_part_of_a_value_are_wrong() {
        let mut value = Vec::new();
        write(b"key", 20, &mut fastrand::Rng::with_seed(1), &mut value);
        assert!(!is_right(b"kex", &value, 20));
        for bytes in 0..20 {
            assert!(!is_right(b"key", &value[..bytes], 20), "{bytes}");
        }
    }

    #[test]
    fn short_values_are_right_under_their_own_key_only() {
        for bytes in 1..=4 {
            let mut value = Vec::new();
            write(b"key", bytes, &mut fastrand::Rng::with_seed(1), &mut value);
            assert_eq!(value.len(), bytes);
            assert!(is_right(b"key", &value, 1), "{bytes}");
            assert!(!is_right(b"kex", &value, 4), "{bytes}");
            value[bytes - 1] ^= 1;
            assert!(!is_right(b"key", &value, 4), "{bytes}");
        }
        let empty = Verifier::new(b"key");
        assert!(empty.is_right(true) && !empty.is_right(false));
    }
}
