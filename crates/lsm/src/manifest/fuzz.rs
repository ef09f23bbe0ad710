//! The entry point for fuzzing the manifest: for arbitrary bytes it must neither panic
//! nor loop, nor take more memory than a multiple of the bytes' length.

use super::{CHECKSUM_BYTES, Manifest};
use std::path::Path;

/// Decodes `bytes` as a manifest, unchanged and with the right checksum. A manifest that
/// is accepted has to encode to the same bytes.
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
