//! The entry point for fuzzing the log: for arbitrary bytes it must neither panic
//! nor loop, nor take more memory than a multiple of the bytes' length.

use super::group::{SegmentFormat, checksum};
use super::segment_reader::read_segment;
use super::{SEGMENT_HEADER_BYTES, segment_tag};
use base::ByteReader;
use std::path::Path;

/// Decodes `bytes` as a segment, unchanged and with the right tags and checksums,
/// because hardly any arbitrary bytes get past the first checksum.
pub fn fuzz_segment(bytes: &[u8]) {
    let (secret, segment) = (1, 1);
    let mut fixed = bytes.to_vec();
    fix_checksums(&mut fixed, segment_tag(secret, segment));
    for bytes in [bytes, &fixed] {
        if let Ok(read) = read_segment(bytes, secret, segment, Path::new("fuzzed")) {
            assert!(read.end + read.torn_bytes <= bytes.len() as u64);
        }
    }
}

/// Writes the right tag and checksums into the header and everything that begins
/// like a group.
fn fix_checksums(bytes: &mut [u8], tag: u64) {
    if let Some(header) = bytes.get_mut(..SEGMENT_HEADER_BYTES) {
        header[16..24].copy_from_slice(&tag.to_le_bytes());
        let crc = base::crc32c_append(base::crc32c(&header[..12]), &header[16..]);
        header[12..16].copy_from_slice(&crc.to_le_bytes());
    }
    for format in SegmentFormat::ALL {
        let groups = memchr::memmem::find_iter(bytes, format.group_magic());
        let groups: Vec<usize> = groups.collect();
        for at in groups {
            let Some((header, rest)) =
                bytes[at..].split_at_mut_checked(format.group_header_bytes())
            else {
                break;
            };
            header[8..16].copy_from_slice(&tag.to_le_bytes());
            if let Some(records) = rest.get_mut(..u32_at(header, 24)) {
                match format {
                    SegmentFormat::V1 => fix_record_checksums(records),
                    SegmentFormat::V2 => {
                        header[32..40].copy_from_slice(&checksum(records, tag).to_le_bytes());
                    }
                }
            }
            let crc = base::crc32c(&header[8..]);
            header[4..8].copy_from_slice(&crc.to_le_bytes());
        }
    }
}

/// Writes the right checksum into each record of a group of version 1.
fn fix_record_checksums(mut records: &mut [u8]) {
    let header_bytes = SegmentFormat::V1.record_header_bytes();
    while records.len() >= header_bytes {
        let end = header_bytes.saturating_add(u32_at(records, 4));
        let Some((record, rest)) = records.split_at_mut_checked(end) else {
            return;
        };
        let crc = base::crc32c(&record[4..]);
        record[..4].copy_from_slice(&crc.to_le_bytes());
        records = rest;
    }
}

/// The number at `at`; 0 if the bytes end before.
fn u32_at(bytes: &[u8], at: usize) -> usize {
    let field = bytes
        .get(at..)
        .and_then(|bytes| ByteReader::new(bytes).u32());
    field.unwrap_or(0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_with_fixed_checksums_pass_every_check() {
        let fixtures = [
            &include_bytes!("../../tests/fixtures/log-v1.wal")[..],
            include_bytes!("../../tests/fixtures/log-v2.wal"),
        ];
        for fixture in fixtures {
            let sound = read_segment(fixture, 0x5ec2e7, 1, Path::new("sound")).unwrap();
            let mut bytes = fixture.to_vec();
            fix_checksums(&mut bytes, segment_tag(1, 1));
            let fixed = read_segment(&bytes, 1, 1, Path::new("fixed")).unwrap();
            assert!(fixed.sealed);
            assert_eq!(fixed, sound);
        }
    }
}
