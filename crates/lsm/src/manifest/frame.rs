//! The frames of the manifest: its snapshot and its edits.
//!
//! ```text
//! frame: | start | length | complement of the length | crc32c | payload | end |
//!        |  u8   |  u32   |           u32            |  u32   |         | u8  |
//! ```
//!
//! The checksum is that of the offset of the frame in the file and of the payload, seeded with
//! what comes before: with the magic and the version for the snapshot, and with the snapshot's
//! checksum for an edit. So a frame of another file, or of another place, is none.
//!
//! **Torn or damaged.** Behind the last edit are zeros, which were written with the snapshot. A
//! frame that is not right is the last one, cut off by a crash and never acknowledged, or it is
//! damaged. What a disk loses of a write is whole sectors, or the end. So a torn frame has no
//! whole frame behind it, and it lacks a sector, its header, or its end. A damaged frame has all
//! of them, because its first and its last byte are never zero.

use std::ops::Range;

/// The bytes before the payload.
pub(super) const HEADER_BYTES: usize = 1 + 4 + 4 + 4;
const START: u8 = 0xb5;
const END: u8 = 0xe7;
/// What a disk writes wholly or not at all, in bytes. Larger units consist of these.
const SECTOR_BYTES: usize = 512;

/// A frame that is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Its payload's place in the file.
    pub(super) payload: Range<usize>,
    /// Its checksum.
    pub(super) checksum: u32,
}

impl Frame {
    /// Where the next frame begins.
    pub(super) fn end(&self) -> usize {
        self.payload.end + 1
    }

    /// Its place in the file.
    pub(super) fn place(&self) -> Range<usize> {
        self.payload.start - HEADER_BYTES..self.end()
    }
}

/// What is at some offset of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A frame.
    Frame(Frame),
    /// Nothing, and nothing behind.
    Nothing,
    /// A frame that was not written to its end, and nothing else behind.
    Torn,
    /// Bytes that no store leaves there.
    Damaged,
}

/// Appends the frame of a payload to bytes of which the first has this offset in the file. Returns
/// its checksum.
pub(super) fn put(bytes: &mut Vec<u8>, offset: u64, seed: u32, payload: &[u8]) -> u32 {
    let length = payload.len() as u32;
    let checksum = checksum(offset + bytes.len() as u64, seed, payload);
    bytes.push(START);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&(!length).to_le_bytes());
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes.push(END);
    checksum
}

/// The frame at an offset of a file, if it is right.
pub(super) fn read(file: &[u8], at: usize, seed: u32) -> Option<Frame> {
    let payload = extent(file, at)?;
    let bytes = file.get(payload.clone())?;
    let expected = u32_at(file, at + 9)?;
    let is_right =
        file.get(payload.end) == Some(&END) && checksum(at as u64, seed, bytes) == expected;
    is_right.then_some(Frame {
        payload,
        checksum: expected,
    })
}

/// What is at an offset of a file, behind its snapshot.
pub(super) fn find(file: &[u8], at: usize, seed: u32) -> Found {
    if let Some(frame) = read(file, at, seed) {
        return Found::Frame(frame);
    }
    let rest = file.get(at..).unwrap_or_default();
    let Some(last) = rest.iter().rposition(|byte| *byte != 0) else {
        return Found::Nothing;
    };
    let written = at..at + last + 1;
    let mut behind = written.clone().skip(1);
    if behind.any(|later| read(file, later, seed).is_some()) {
        return Found::Damaged;
    }
    let lacks_end = || extent(file, at).is_some_and(|payload| payload.end >= written.end);
    if written.len() < HEADER_BYTES || lacks_sector(file, &written) || lacks_end() {
        return Found::Torn;
    }
    Found::Damaged
}

/// Whether what a sector has of some bytes is all zero.
fn lacks_sector(file: &[u8], written: &Range<usize>) -> bool {
    let mut sectors = written.start / SECTOR_BYTES..written.end.div_ceil(SECTOR_BYTES);
    sectors.any(|sector| {
        let begin = (sector * SECTOR_BYTES).max(written.start);
        let end = ((sector + 1) * SECTOR_BYTES).min(written.end);
        let bytes = file.get(begin..end).unwrap_or_default();
        bytes.iter().all(|byte| *byte == 0)
    })
}

/// Where the payload of a frame lies by its header, which may be beyond the end of the file.
fn extent(file: &[u8], at: usize) -> Option<Range<usize>> {
    let (length, complement) = (u32_at(file, at + 1)?, u32_at(file, at + 5)?);
    let is_header = file.get(at) == Some(&START) && length == !complement;
    let begin = at + HEADER_BYTES;
    is_header.then(|| begin..begin + length as usize)
}

fn u32_at(file: &[u8], at: usize) -> Option<u32> {
    let bytes = file.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

fn checksum(offset: u64, seed: u32, payload: &[u8]) -> u32 {
    base::crc32c_append(base::crc32c_append(seed, &offset.to_le_bytes()), payload)
}
