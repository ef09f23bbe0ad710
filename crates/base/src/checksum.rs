//! The checksum of all formats and of scans: CRC-32C (Castagnoli), the one of iSCSI.

use crc_fast::{CrcAlgorithm, Digest};

/// The CRC-32C of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The CRC-32C of some bytes that have the checksum `checksum`, and then `bytes`.
#[must_use]
pub fn crc32c_append(checksum: u32, bytes: &[u8]) -> u32 {
    // The state between two parts is the checksum without its last inversion.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!checksum));
    digest.update(bytes);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, a bit at a time.
    fn bitwise(bytes: &[u8]) -> u32 {
        let mut state = u32::MAX;
        for byte in bytes {
            state ^= u32::from(*byte);
            for _ in 0..8 {
                let is_odd = state & 1 == 1;
                state >>= 1;
                if is_odd {
                    state ^= 0x82f6_3b78;
                }
            }
        }
        !state
    }

    #[test]
    fn it_is_the_checksum_of_iscsi() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[]), 0);
        let mut random = fastrand::Rng::with_seed(1);
        for bytes in (0..300).chain([1000, 4096, 5000, 70_000]) {
            let bytes: Vec<u8> = (0..bytes).map(|_| random.u8(..)).collect();
            let expected = bitwise(&bytes);
            assert_eq!(crc32c(&bytes), expected, "{} bytes", bytes.len());
            let (front, rest) = bytes.split_at(random.usize(0..=bytes.len()));
            assert_eq!(crc32c_append(crc32c(front), rest), expected);
        }
    }
}
