//! What fuzzers call: each decoder as a function of arbitrary bytes.
//!
//! Each function returns, whatever the bytes; a panic, a loop or an allocation
//! out of proportion to them is a bug. Where a checksum stands in front of a
//! decoder, the function also tries the bytes with one that fits: nothing but
//! chance would lead past it.

mod operations;

pub use crate::manifest::fuzz_manifest;
pub use crate::table::{fuzz_block, fuzz_footer, fuzz_table};
pub use crate::wal::fuzz_segment as fuzz_log;
pub use operations::fuzz_operations;

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that stand at the edges of the numbers that formats are made of.
    const EDGES: [u8; 5] = [0, 1, 0x7f, 0x80, 0xff];

    /// A few bytes wrong, a piece gone, a piece there twice: what is left of
    /// `sound` by bad memory, bad software or a lost page.
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
    fn every_decoder_survives_mutations_of_what_is_sound() {
        let log = include_bytes!("../tests/fixtures/log-v1.wal");
        let manifest = include_bytes!("../tests/fixtures/manifest-v2");
        let table = include_bytes!("../tests/fixtures/table-v3.sst");
        let mut random = fastrand::Rng::with_seed(19);
        let decoders = [
            (fuzz_log as fn(&[u8]), &log[..]),
            (fuzz_manifest, &manifest[..]),
            (fuzz_block, &table[..]),
            (fuzz_footer, &table[..]),
            (fuzz_table, &table[..]),
        ];
        for (decode, sound) in decoders {
            for _ in 0..3_000 {
                decode(&mutated(sound, &mut random));
            }
        }
    }

    #[test]
    fn a_store_survives_any_operations() {
        let mut random = fastrand::Rng::with_seed(23);
        for _ in 0..100 {
            let mut bytes = vec![0; random.usize(0..1000)];
            random.fill(&mut bytes);
            fuzz_operations(&bytes);
        }
    }
}
