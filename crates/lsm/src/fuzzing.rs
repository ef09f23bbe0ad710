//! The functions that fuzzers call: each decodes arbitrary bytes.
//!
//! Each function has to return, whatever the bytes are. A panic, an endless loop or an
//! allocation out of proportion to the bytes is a bug. If a decoder checks a checksum
//! first, the function also tries the bytes with the right checksum, because arbitrary
//! bytes would hardly ever have it.

pub use crate::manifest::fuzz_manifest;
pub use crate::table::{fuzz_block, fuzz_footer, fuzz_table};
pub use crate::wal::fuzz_segment as fuzz_log;

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes at the limits of the numbers in the formats.
    const EDGES: [u8; 5] = [0, 1, 0x7f, 0x80, 0xff];

    /// `sound` with wrong bytes and with missing or repeated pieces, as bad memory, bad
    /// software or a lost page may leave it.
    fn mutated(sound: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
        let mut bytes = sound.to_vec();
        for _ in 0..random.usize(1..6) {
            if bytes.is_empty() {
                break;
            }
            let at = random.usize(0..bytes.len());
            let end = random.usize(at..=bytes.len());
            match random.u8(0..8) {
                0 => bytes.truncate(end),
                1 => drop(bytes.drain(at..end)),
                2 => bytes.extend_from_within(at..end),
                3 => bytes[at..end].fill(0),
                4 => bytes[at] ^= 1 << random.u8(0..8),
                5 => bytes[at] = EDGES[random.usize(0..EDGES.len())],
                _ => bytes[at] = random.u8(..),
            }
        }
        bytes
    }

    #[test]
    fn every_decoder_survives_mutations_of_its_fixture() {
        let log = include_bytes!("../tests/fixtures/log-v2.wal");
        let old_log = include_bytes!("../tests/fixtures/log-v1.wal");
        let manifest = include_bytes!("../tests/fixtures/manifest-v5");
        let table = include_bytes!("../tests/fixtures/table-v5.sst");
        let with_blobs = include_bytes!("../tests/fixtures/manifest-v6");
        let referring = include_bytes!("../tests/fixtures/table-v6.sst");
        let mut random = fastrand::Rng::with_seed(19);
        let decoders = [
            (fuzz_log as fn(&[u8]), &log[..]),
            (fuzz_log, &old_log[..]),
            (fuzz_manifest, &manifest[..]),
            (fuzz_block, &table[..]),
            (fuzz_footer, &table[..]),
            (fuzz_table, &table[..]),
            (fuzz_manifest, &with_blobs[..]),
            (fuzz_table, &referring[..]),
        ];
        for (decode, sound) in decoders {
            for _ in 0..3_000 {
                decode(&mutated(sound, &mut random));
            }
        }
    }
}
