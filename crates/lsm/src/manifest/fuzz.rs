//! The entry point for fuzzing the manifest: for arbitrary bytes it must neither panic
//! nor loop, nor take more memory than a multiple of the bytes' length.

use super::{CHECKSUM_BYTES, Manifest};
use std::path::Path;

/// Where the version ends, after the magic.
const VERSION_END: usize = 12;

/// Decodes `bytes` as a manifest, unchanged and with the right checksum. A manifest that
/// is accepted has to encode to the same bytes, or to those of the same manifest in the
/// version that is written.
pub fn fuzz_manifest(bytes: &[u8]) {
    let mut fixed = bytes.to_vec();
    if let Some((content, checksum)) = fixed.split_last_chunk_mut::<CHECKSUM_BYTES>() {
        *checksum = base::crc32c(content).to_le_bytes();
    }
    for bytes in [bytes, &fixed] {
        if let Ok(manifest) = Manifest::decode(Path::new("fuzzed"), bytes) {
            let encoded = manifest.encode();
            if bytes.starts_with(&encoded[..VERSION_END]) {
                assert_eq!(encoded, bytes);
            } else {
                let again = Manifest::decode(Path::new("encoded"), &encoded);
                assert_eq!(again.ok(), Some(manifest));
            }
        }
    }
}
