//! What fuzzers call: see `lsm::fuzzing`.

use bytes::Bytes;

/// Takes bytes as the body of a batch.
pub fn batch(bytes: &[u8]) {
    crate::http::fuzz_batch(bytes);
}

/// Takes bytes as a line of a batch. Returns whether it is an operation.
#[must_use]
pub fn operation(line: &[u8]) -> bool {
    crate::http::fuzz_operation(&Bytes::copy_from_slice(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What changes the meaning of JSON and of lines.
    const SIGNS: &[u8] = b"{}[]\",:\\\n \r0e9-u\xff\xc3=\0";

    #[test]
    fn the_lines_of_batches_survive_mutations() {
        let sound: [&[u8]; 3] = [
            include_bytes!("../tests/fixtures/batches/operations.ndjson"),
            include_bytes!("../tests/fixtures/batches/wrong.ndjson"),
            include_bytes!("../tests/fixtures/batches/long.ndjson"),
        ];
        let mut random = fastrand::Rng::with_seed(18);
        for sound in sound {
            batch(sound);
            for _ in 0..2_000 {
                let mut bytes = sound.to_vec();
                for _ in 0..random.usize(1..6) {
                    let at = random.usize(0..bytes.len());
                    let end = (at + random.usize(0..40)).min(bytes.len());
                    match random.u8(0..6) {
                        0 => drop(bytes.drain(at..end)),
                        1 => bytes.extend_from_within(at..end),
                        2 => bytes[at] = random.u8(..),
                        3 => bytes.insert(at, SIGNS[random.usize(0..SIGNS.len())]),
                        _ => bytes[at] = SIGNS[random.usize(0..SIGNS.len())],
                    }
                    if bytes.is_empty() {
                        break;
                    }
                }
                batch(&bytes);
            }
        }
    }
}
