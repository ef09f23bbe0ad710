//! Frames: the form in which every block of a table lies in the file.
//!
//! ```text
//! +----------------+---------+----------------+--------------+------------+
//! | payload,       | role u8 | compression u8 | payload bytes| crc32c u32 |
//! | perhaps packed |         | 0 none, 1 LZ4  | unpacked u32 |            |
//! +----------------+---------+----------------+--------------+------------+
//! ```
//!
//! The checksum covers everything before it and then the frame's offset in the
//! file. So it also detects an intact block at the wrong place, which a misdirected
//! read or write leaves. The role says what the payload is, so that no handle can
//! lead from one structure into another.

use super::malformed::Malformed;
use crate::cache::{Block, LONG_BLOCK_BYTES};
use crate::options::Compression;
use crate::table::BUFFER_BYTES_KEPT;
use base::{ByteReader, put_varint};
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use std::ops::Range;
use std::sync::Arc;

/// What a frame adds to its payload, in bytes.
pub(in crate::table) const TRAILER_BYTES: usize = 10;

/// How much of a long payload is compressed first, to learn whether the payload
/// shrinks, in bytes.
const SAMPLE_BYTES: usize = 32 << 10;

/// After so many data blocks in a row that did not shrink, most of the next ones are not
/// even tried.
const FAILURES_MAX: u32 = 8;

/// How many data blocks are not tried then before one is.
const SKIPPED_MAX: u32 = 15;

/// LZ4 expands one byte to at most this many. A greater length is damage, and is
/// refused before memory is allocated for it.
const LZ4_RATIO_MAX: usize = 255;

/// What the payload of a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::table) enum Role {
    /// Records.
    Data,
    /// The last key and the handle of data blocks.
    Index,
    /// The last key and the handle of index blocks.
    TopIndex,
    /// A page of the filter.
    Filter,
    /// The properties.
    Properties,
}

impl Role {
    const ALL: [Self; 5] = [
        Self::Data,
        Self::Index,
        Self::TopIndex,
        Self::Filter,
        Self::Properties,
    ];

    /// The byte of the role in the file.
    fn byte(self) -> u8 {
        match self {
            Self::Data => 1,
            Self::Index => 2,
            Self::TopIndex => 3,
            Self::Filter => 4,
            Self::Properties => 5,
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.byte() == byte)
    }
}

/// Where a frame lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::table) struct Handle {
    /// Where the frame begins in the file.
    pub(in crate::table) offset: u64,
    /// The frame's length with its trailer, in bytes.
    pub(in crate::table) bytes: u32,
}

impl Handle {
    /// Appends the handle as index blocks hold it: two varints.
    pub(in crate::table) fn encode(self, buffer: &mut Vec<u8>) {
        put_varint(buffer, self.offset);
        put_varint(buffer, u64::from(self.bytes));
    }

    /// The handle at the front of `input`.
    pub(in crate::table) fn decode(input: &mut ByteReader<'_>) -> Option<Self> {
        Some(Self {
            offset: input.varint()?,
            bytes: u32::try_from(input.varint()?).ok()?,
        })
    }
}

/// A frame to be written: a body, and the trailer that follows it.
pub(in crate::table) struct Frame<'a> {
    /// The body, if it is the payload compressed; otherwise that is the payload itself.
    pub(in crate::table) packed: Option<&'a [u8]>,
    pub(in crate::table) trailer: [u8; TRAILER_BYTES],
}

/// Packs payloads into frames. It keeps the compressor's memory from one block to
/// the next.
pub(in crate::table) struct FramePacker {
    compression: Compression,
    table: CompressTable,
    /// Room for a packed payload, of which the last one may take only a part.
    packed: Vec<u8>,
    attempts: Attempts,
}

/// Which data blocks are worth an attempt to compress them. Values that do not shrink usually
/// come together, and to try them all takes more of a compaction's time than to read them.
#[derive(Default)]
struct Attempts {
    /// How many attempts in a row have failed.
    failures: u32,
    /// How many blocks were not tried since the last attempt.
    skipped: u32,
    /// Whether a sample of the next block shrinks, so that the block is tried.
    is_sampled: bool,
}

impl Attempts {
    /// Whether the next block is tried.
    fn is_due(&mut self) -> bool {
        let is_due = std::mem::take(&mut self.is_sampled)
            || self.failures < FAILURES_MAX
            || self.skipped == SKIPPED_MAX;
        self.skipped = if is_due { 0 } else { self.skipped + 1 };
        is_due
    }

    fn note(&mut self, has_shrunk: bool) {
        self.failures = if has_shrunk {
            0
        } else {
            self.failures.saturating_add(1)
        };
    }
}

impl FramePacker {
    /// A packer that compresses with `compression` where that saves enough.
    pub(in crate::table) fn new(compression: Compression) -> Self {
        Self {
            compression,
            table: CompressTable::default(),
            packed: Vec::new(),
            attempts: Attempts::default(),
        }
    }

    /// The frame of `payload` that will lie at `offset` in the file; `None` if it is
    /// too long for the format.
    pub(in crate::table) fn pack<'a>(
        &'a mut self,
        role: Role,
        payload: &[u8],
        offset: u64,
    ) -> Option<Frame<'a>> {
        let payload_bytes = u32::try_from(payload.len()).ok()?;
        let packed = match role {
            Role::Data if self.attempts.is_due() => {
                let packed = self.compress(payload);
                self.attempts.note(packed.is_some());
                packed
            }
            Role::Index | Role::TopIndex => self.compress(payload),
            Role::Data | Role::Filter | Role::Properties => None,
        };
        let packed = packed.map(|bytes| &self.packed[..bytes]);
        let body = packed.unwrap_or(payload);
        u32::try_from(body.len() + TRAILER_BYTES).ok()?;
        let checksum = base::crc32c(body);
        let trailer = trailer(role, packed.is_some(), payload_bytes, checksum, offset);
        Some(Frame { packed, trailer })
    }

    /// The trailer of a data block that will lie at `offset` as it is, and whose payload comes
    /// in parts; `None` if it is too long for the format.
    pub(in crate::table) fn trailer_of_parts(
        parts: &[&[u8]],
        offset: u64,
    ) -> Option<[u8; TRAILER_BYTES]> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        u32::try_from(bytes + TRAILER_BYTES).ok()?;
        let checksum = parts
            .iter()
            .fold(0, |checksum, part| base::crc32c_append(checksum, part));
        let is_packed = false;
        Some(trailer(
            Role::Data,
            is_packed,
            bytes as u32,
            checksum,
            offset,
        ))
    }

    /// Whether it would try to compress a data block with this long value, of which a sample
    /// shrinks.
    pub(in crate::table) fn may_shrink(&mut self, value: &[u8]) -> bool {
        if self.compression == Compression::None || !self.attempts.is_due() {
            return false;
        }
        let may_shrink = self.shrink_sample(value).is_some();
        if may_shrink {
            self.attempts.is_sampled = true;
        } else {
            self.attempts.note(false);
        }
        may_shrink
    }

    /// Frees the memory of a huge block, which the rest of the table does not need.
    pub(in crate::table) fn shrink(&mut self) {
        if self.packed.len() > BUFFER_BYTES_KEPT {
            self.packed = Vec::new();
        }
    }

    /// Compresses into `self.packed` and returns the number of bytes, if that saves at least
    /// an eighth. Less is not worth the unpacking at each read.
    fn compress(&mut self, payload: &[u8]) -> Option<usize> {
        if self.compression == Compression::None {
            return None;
        }
        if payload.len() >= 2 * LONG_BLOCK_BYTES {
            // A value whose middle does not shrink is a picture, an archive or
            // encrypted: to try all of it would only take memory.
            self.shrink_sample(payload)?;
        }
        self.shrink_to(payload)
    }

    /// Compresses the middle of a long payload.
    fn shrink_sample(&mut self, payload: &[u8]) -> Option<usize> {
        let middle = &payload[payload.len() / 2..];
        self.shrink_to(&middle[..SAMPLE_BYTES.min(middle.len())])
    }

    /// Compresses into `self.packed`, and returns the number of bytes if that saves enough.
    fn shrink_to(&mut self, payload: &[u8]) -> Option<usize> {
        let bytes_max = get_maximum_output_size(payload.len());
        if bytes_max > self.packed.len() {
            // The system provides large memory as zeros, page by page on the first
            // write, so what stays empty takes no memory.
            self.packed = vec![0; bytes_max];
        }
        let packed = compress_into_with_table(payload, &mut self.packed, &mut self.table);
        packed
            .ok()
            .filter(|bytes| *bytes <= payload.len() - payload.len() / 8)
    }
}

/// The trailer of a frame at `offset` whose body has this checksum.
fn trailer(
    role: Role,
    is_packed: bool,
    payload_bytes: u32,
    checksum: u32,
    offset: u64,
) -> [u8; TRAILER_BYTES] {
    let mut trailer = [0; TRAILER_BYTES];
    trailer[0] = role.byte();
    trailer[1] = u8::from(is_packed);
    trailer[2..6].copy_from_slice(&payload_bytes.to_le_bytes());
    let covered = base::crc32c_append(checksum, &trailer[..6]);
    trailer[6..].copy_from_slice(&checksum_at(covered, offset).to_le_bytes());
    trailer
}

/// The payload of the frame at `offset` in the file, if its bytes are those that
/// were written there as a `role`. The frame is `frame` of `bytes`, and must lie within them.
/// A payload that was compressed is unpacked into `spare` if that has room and nobody else
/// holds it; otherwise `spare` becomes the new memory.
pub(in crate::table) fn unpack(
    role: Role,
    bytes: Arc<[u8]>,
    frame: Range<usize>,
    offset: u64,
    spare: &mut Arc<[u8]>,
) -> Result<Block, Malformed> {
    let Some((covered, crc)) = bytes[frame.clone()].split_last_chunk() else {
        return Err(Malformed("the block is too short"));
    };
    if checksum_at(base::crc32c(covered), offset) != u32::from_le_bytes(*crc) {
        return Err(Malformed("the block's checksum does not match"));
    }
    let covered = frame.start..frame.start + covered.len();
    unpack_covered(role, bytes, covered, spare)
}

/// [`unpack`] without the check of the checksum, which covers `covered` of `bytes`.
pub(in crate::table) fn unpack_covered(
    role: Role,
    bytes: Arc<[u8]>,
    covered: Range<usize>,
    spare: &mut Arc<[u8]>,
) -> Result<Block, Malformed> {
    let Some((packed, &[role_byte, compression, ref payload_bytes @ ..])) =
        bytes[covered.clone()].split_last_chunk::<{ TRAILER_BYTES - 4 }>()
    else {
        return Err(Malformed("the block is too short"));
    };
    if Role::from_byte(role_byte) != Some(role) {
        return Err(Malformed("the block is not of the expected kind"));
    }
    let payload_bytes = u32::from_le_bytes(*payload_bytes) as usize;
    match compression {
        0 if payload_bytes == packed.len() => {
            let payload = covered.start..covered.start + payload_bytes;
            Ok(Block::new(bytes, payload))
        }
        1 if payload_bytes <= packed.len().saturating_mul(LZ4_RATIO_MAX) => {
            // A long value takes the memory of its block over, so nobody else may hold it.
            let mut own = Arc::default();
            let spare = if payload_bytes < LONG_BLOCK_BYTES {
                spare
            } else {
                &mut own
            };
            if Arc::get_mut(spare).is_none_or(|spare| spare.len() < payload_bytes) {
                *spare = zeros(payload_bytes);
            }
            let room = Arc::get_mut(spare).unwrap_or_default();
            let room = room.get_mut(..payload_bytes).unwrap_or_default();
            match lz4_flex::block::decompress_into(packed, room) {
                Ok(bytes) if bytes == payload_bytes => {
                    Ok(Block::new(Arc::clone(spare), 0..payload_bytes))
                }
                _ => Err(Malformed("the block does not decompress")),
            }
        }
        0 | 1 => Err(Malformed("the block's length is wrong")),
        _ => Err(Malformed("the block's compression is unknown")),
    }
}

/// Writes the right checksum into the frame at `handle` of a file's bytes; returns
/// `false` if the bytes have no room for it.
pub(in crate::table) fn fix_checksum(file: &mut [u8], handle: Handle) -> bool {
    let frame = usize::try_from(handle.offset)
        .ok()
        .and_then(|start| file.get_mut(start..start.checked_add(handle.bytes as usize)?));
    let Some((covered, crc)) = frame.and_then(|frame| frame.split_last_chunk_mut()) else {
        return false;
    };
    *crc = checksum_at(base::crc32c(covered), handle.offset).to_le_bytes();
    true
}

/// The checksum of a frame at `offset`, from the checksum of its bytes.
fn checksum_at(covered: u32, offset: u64) -> u32 {
    base::crc32c_append(covered, &offset.to_le_bytes())
}

/// How much memory [`unpack`] takes beside the frame, in bytes, according to a
/// trailer that is not verified yet.
pub(in crate::table) fn unpacked_bytes(trailer: [u8; TRAILER_BYTES]) -> usize {
    let [_, compression, payload_bytes @ .., _, _, _, _] = trailer;
    match compression {
        0 => 0,
        _ => u32::from_le_bytes(payload_bytes) as usize,
    }
}

/// Zeroed memory to read or unpack a block into.
pub(in crate::table) fn zeros(bytes: usize) -> Arc<[u8]> {
    std::iter::repeat_n(0, bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(compression: Compression, role: Role, payload: &[u8], offset: u64) -> Vec<u8> {
        let mut packer = FramePacker::new(compression);
        let frame = packer.pack(role, payload, offset).unwrap();
        [frame.packed.unwrap_or(payload), &frame.trailer].concat()
    }

    fn unpack(role: Role, frame: &[u8], offset: u64) -> Result<Block, Malformed> {
        let spare = &mut Arc::default();
        super::unpack(role, frame.into(), 0..frame.len(), offset, spare)
    }

    #[test]
    fn payloads_come_back() {
        let random: Vec<u8> = (0..5000u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        for payload in [&b""[..], b"x", &[7; 100_000], &random] {
            for compression in [Compression::None, Compression::Lz4] {
                for role in Role::ALL {
                    let frame = packed(compression, role, payload, 9);
                    assert_eq!(unpack(role, &frame, 9).unwrap().payload(), payload);
                }
            }
        }
    }

    #[test]
    fn only_blocks_that_shrink_are_compressed() {
        assert!(packed(Compression::Lz4, Role::Data, &[7; 4096], 0).len() < 100);
        assert_eq!(
            packed(Compression::None, Role::Data, &[7; 4096], 0).len(),
            4096 + TRAILER_BYTES
        );
        let mut random = vec![0; 4096];
        fastrand::Rng::with_seed(1).fill(&mut random);
        assert_eq!(
            packed(Compression::Lz4, Role::Data, &random, 0).len(),
            4096 + TRAILER_BYTES
        );
    }

    #[test]
    fn blocks_that_do_not_shrink_are_tried_now_and_then() {
        let mut random = vec![0; 4096];
        fastrand::Rng::with_seed(1).fill(&mut random);
        let mut packer = FramePacker::new(Compression::Lz4);
        let mut packs = |role, payload: &[u8]| {
            let frame = packer.pack(role, payload, 0).unwrap();
            frame.packed.is_some()
        };
        for _ in 0..100 {
            assert!(!packs(Role::Data, &random));
            assert!(packs(Role::Index, &[7; 4096]), "an index shrinks");
        }
        let mut shrinking = || packs(Role::Data, &[7; 4096]);
        let late = (0..100).take_while(|_| !shrinking()).count() as u32;
        assert!((1..=SKIPPED_MAX).contains(&late), "{late}");
        assert!((0..100).all(|_| shrinking()), "all are tried again");
        for _ in 0..100 {
            assert!(packs(Role::Data, &[7; 4096]), "in a mixture all are tried");
            assert!(!packs(Role::Data, &random));
        }
    }

    #[test]
    fn long_values_that_shrink_in_the_middle_only_are_tried_now_and_then() {
        let mut value = vec![0; 1 << 20];
        fastrand::Rng::with_seed(1).fill(&mut value);
        let middle = value.len() / 2;
        value[middle..middle + SAMPLE_BYTES].fill(0);
        let mut packer = FramePacker::new(Compression::Lz4);
        let mut tried = 0;
        for _ in 0..100 {
            if packer.may_shrink(&value) {
                tried += 1;
                assert!(packer.pack(Role::Data, &value, 0).unwrap().packed.is_none());
            }
        }
        let most = FAILURES_MAX + 100 / SKIPPED_MAX;
        assert!((FAILURES_MAX + 1..=most).contains(&tried), "{tried}");
        assert!(packer.attempts.failures >= tried);
    }

    #[test]
    fn a_block_from_another_place_or_of_another_kind_is_refused() {
        let frame = packed(Compression::Lz4, Role::Data, b"payload", 4096);
        assert!(unpack(Role::Data, &frame, 4096).is_ok());
        assert!(unpack(Role::Data, &frame, 8192).is_err());
        assert!(unpack(Role::Index, &frame, 4096).is_err());
    }

    #[test]
    fn every_flipped_bit_is_found() {
        for payload in [&b"small"[..], &[7; 1000]] {
            let frame = packed(Compression::Lz4, Role::Data, payload, 77);
            for bit in 0..frame.len() * 8 {
                let mut damaged = frame.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(unpack(Role::Data, &damaged, 77).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_length_that_lies_takes_no_memory() {
        let mut covered = vec![0; 16];
        covered.extend_from_slice(&[Role::Data.byte(), 1]);
        covered.extend_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(
            unpack_covered(
                Role::Data,
                covered.as_slice().into(),
                0..covered.len(),
                &mut Arc::default()
            )
            .unwrap_err(),
            Malformed("the block's length is wrong")
        );
    }

    #[test]
    fn handles_past_four_gigabytes_come_back() {
        for offset in [0, 1 << 32, (1 << 32) + 1, 5 << 40, u64::MAX] {
            let handle = Handle {
                offset,
                bytes: u32::MAX,
            };
            let mut buffer = Vec::new();
            handle.encode(&mut buffer);
            assert_eq!(Handle::decode(&mut ByteReader::new(&buffer)), Some(handle));
        }
    }
}
