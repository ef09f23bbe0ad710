//! The entry point for fuzzing the manifest: for arbitrary bytes it must neither panic
//! nor loop, nor take more memory than a multiple of the bytes' length.

use super::file::HEAD_BYTES;
use super::frame;
use super::snapshot::Manifest;
use std::path::Path;

/// Decodes `bytes` as a manifest, unchanged and with frames that are right. A manifest that is
/// accepted has to be the same once it is encoded and decoded.
pub fn fuzz_manifest(bytes: &[u8]) {
    for bytes in [bytes, &repaired(bytes)] {
        if let Ok(decoded) = Manifest::decode_log(Path::new("fuzzed"), bytes) {
            let encoded = decoded.manifest.encode();
            if decoded.last_edit.is_none() {
                assert!(bytes.starts_with(&encoded), "one snapshot, one encoding");
            }
            let again = Manifest::decode(Path::new("encoded"), &encoded);
            assert_eq!(again.ok(), Some(decoded.manifest));
        }
    }
}

/// The bytes with right frames as long as their lengths say.
fn repaired(bytes: &[u8]) -> Vec<u8> {
    let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else {
        return bytes.to_vec();
    };
    let mut repaired = head.to_vec();
    let mut seed = base::crc32c(head);
    let mut rest = &bytes[HEAD_BYTES..];
    let mut is_snapshot = true;
    while let Some((payload, behind)) = payload_of(rest) {
        let checksum = frame::put(&mut repaired, 0, seed, payload);
        if is_snapshot {
            seed = checksum;
            is_snapshot = false;
        }
        rest = behind;
    }
    repaired.extend_from_slice(rest);
    repaired
}

/// The payload of the frame that some bytes begin with, by its length, and what is behind.
fn payload_of(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (header, rest) = bytes.split_at_checked(frame::HEADER_BYTES)?;
    let length = u32::from_le_bytes(*header[1..].first_chunk()?);
    let (payload, rest) = rest.split_at_checked(length as usize)?;
    Some((payload, rest.get(1..)?))
}
