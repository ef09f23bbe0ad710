//! The entry point for fuzzing the manifest: arbitrary bytes must neither
//! panic nor loop nor take memory beyond a multiple of their own length.

use super::{CHECKSUM_BYTES, Manifest};
use std::path::Path;

/// Takes `bytes` for a manifest, as they are and with a checksum that fits:
/// what passes is what is written again.
pub fn fuzz_manifest(bytes: &[u8]) {
    let mut fixed = bytes.to_vec();
    if let Some((content, checksum)) = fixed.split_last_chunk_mut::<CHECKSUM_BYTES>() {
        *checksum = crc32c::crc32c(content).to_le_bytes();
    }
    for bytes in [bytes, &fixed] {
        if let Ok(manifest) = Manifest::decode(Path::new("fuzzed"), bytes) {
            assert_eq!(manifest.encode(), bytes);
        }
    }
}
