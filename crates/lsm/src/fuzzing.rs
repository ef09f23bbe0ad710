//! What fuzzers call: each decoder as a function of arbitrary bytes.
//!
//! Each function returns, whatever the bytes; a panic, a loop or an allocation
//! out of proportion to them is a bug.

pub use crate::table::{fuzz_block, fuzz_footer};

use crate::manifest::Manifest;
use crate::wal::read_segment;
use std::path::Path;

/// Takes `bytes` for a log segment.
pub fn fuzz_log(bytes: &[u8]) {
    for secret in [0, 1] {
        let _ = read_segment(bytes, secret, 1, Path::new("fuzzed"));
    }
}

/// Takes `bytes` for a manifest.
pub fn fuzz_manifest(bytes: &[u8]) {
    if let Ok(manifest) = Manifest::decode(Path::new("fuzzed"), bytes) {
        assert_eq!(manifest.encode(), bytes);
    }
}
