//! Groups that are too long to be put together in memory: they hold long values, which are
//! in memory already and go to the file from there.

use super::group::{GroupSize, SegmentFormat, write_record_head};
use crate::disk::DiskFile;
use base::Entry;
use std::io;
use xxhash_rust::xxh3::Xxh3;

/// A group of more bytes than this is long. Up to it, one write of a copy costs less.
pub(super) const LONG_GROUP_BYTES: u64 = 1 << 20;

/// Bytes are gathered into writes of about this size.
const PIECE_BYTES: usize = 256 << 10;

/// Writes the records of a group to `file`, which is to begin at `offset`, piece by piece.
/// Returns its header: until that is written as well, readers find no group there. `synced` is
/// how many bytes of the segment are synced, `buffer` is empty.
///
/// # Errors
/// Those of the file. Part of the records may be written.
pub(super) fn write_long_group<'a>(
    file: &dyn DiskFile,
    offset: u64,
    size: GroupSize,
    entries: impl Iterator<Item = &'a Entry>,
    tag: u64,
    synced: u64,
    buffer: &mut Vec<u8>,
) -> io::Result<Vec<u8>> {
    let format = SegmentFormat::NEWEST;
    let mut header = vec![0; format.group_header_bytes()];
    let mut records = Records {
        file,
        end: offset + header.len() as u64,
        hasher: Xxh3::with_seed(tag),
    };
    for entry in entries {
        write_record_head(entry, buffer);
        let value = entry.value_bytes();
        if value.len() < PIECE_BYTES {
            buffer.extend_from_slice(value);
        } else {
            records.write(buffer)?;
            buffer.clear();
            records.write(value)?;
        }
        if buffer.len() >= PIECE_BYTES {
            records.write(buffer)?;
            buffer.clear();
        }
    }
    records.write(buffer)?;
    debug_assert_eq!(records.end, offset + size.group_bytes());
    let written = size.header(synced, records.hasher.digest());
    written.write(format, tag, &mut header);
    Ok(header)
}

/// The records of a group, as far as they are written.
struct Records<'a> {
    file: &'a dyn DiskFile,
    /// Where they end in the file.
    end: u64,
    /// Computes [`checksum`](super::group::checksum).
    hasher: Xxh3,
}

impl Records<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.file.write_all_at(bytes, self.end)?;
        self.end += bytes.len() as u64;
        Ok(())
    }
}
