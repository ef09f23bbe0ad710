//! Groups that are too long to be put together in memory: they hold long values, which are
//! in memory already and go to the file from there.

use super::PAGE_BYTES;
use super::group::{GroupSize, RecordOf, SegmentFormat, write_record_head};
use crate::disk::DiskFile;
use base::Entry;
use std::io;
use std::ops::Range;
use xxhash_rust::xxh3::Xxh3;

/// A group of more bytes than this is long. Up to it, one write of a copy costs less.
pub(super) const LONG_GROUP_BYTES: u64 = 1 << 20;

/// Bytes are gathered into writes of about this size.
const PIECE_BYTES: usize = 256 << 10;

/// Writes the records of a group to `file` piece by piece. The group is to begin where `space`
/// does, and zeros fill the rest of that. Returns its header: until that is written as well,
/// readers find no group there. `synced` is how many bytes of the segment are synced, `buffer` is
/// empty.
///
/// # Errors
/// Those of the file. Part of the records may be written.
pub(super) fn write_long_group<'a>(
    file: &dyn DiskFile,
    space: Range<u64>,
    size: GroupSize,
    entries: impl Iterator<Item = &'a Entry>,
    tag: u64,
    synced: u64,
    buffer: &mut Vec<u8>,
) -> io::Result<Vec<u8>> {
    let format = SegmentFormat::NEWEST;
    let mut header = vec![0; format.group_header_bytes()];
    buffer.extend_from_slice(&header);
    let mut records = Records {
        file,
        buffer,
        at: space.start,
        hashed: header.len(),
        hasher: Xxh3::with_seed(tag),
    };
    for entry in entries {
        write_record_head(entry, RecordOf::Version, records.buffer);
        records.add(entry.value_bytes())?;
    }
    let end = records.end();
    debug_assert_eq!(end, space.start + size.group_bytes());
    records.hash_up_to(records.buffer.len());
    let zeros = space.end.saturating_sub(end) as usize;
    records.buffer.resize(records.buffer.len() + zeros, 0);
    file.write_all_at(records.buffer, records.at)?;
    let written = size.header(synced, records.hasher.digest());
    written.write(format, tag, &mut header);
    Ok(header)
}

/// The records of a group on their way to the file. Each write ends where a page does: of a
/// segment that is used again, the system would read a page that is written in part.
struct Records<'a> {
    file: &'a dyn DiskFile,
    /// What is not written yet.
    buffer: &'a mut Vec<u8>,
    /// Where the buffer belongs in the file.
    at: u64,
    /// How many bytes of the buffer the hash has, or does not cover.
    hashed: usize,
    /// Computes [`checksum`](super::group::checksum).
    hasher: Xxh3,
}

impl Records<'_> {
    /// Where they end in the file.
    fn end(&self) -> u64 {
        self.at + self.buffer.len() as u64
    }

    fn add(&mut self, value: &[u8]) -> io::Result<()> {
        if value.len() < PIECE_BYTES {
            self.buffer.extend_from_slice(value);
            if self.buffer.len() >= PIECE_BYTES {
                self.write(self.buffer.len() - self.end() as usize % PAGE_BYTES)?;
            }
            return Ok(());
        }
        let page_end = self.end().next_multiple_of(PAGE_BYTES as u64);
        let (head, value) = value.split_at((page_end - self.end()) as usize);
        self.buffer.extend_from_slice(head);
        self.write(self.buffer.len())?;
        let (pages, tail) = value.split_at(value.len() / PAGE_BYTES * PAGE_BYTES);
        self.hasher.update(pages);
        self.file.write_all_at(pages, self.at)?;
        self.at += pages.len() as u64;
        self.buffer.extend_from_slice(tail);
        Ok(())
    }

    /// Writes the first bytes of the buffer.
    fn write(&mut self, bytes: usize) -> io::Result<()> {
        self.hash_up_to(bytes);
        self.file.write_all_at(&self.buffer[..bytes], self.at)?;
        self.at += bytes as u64;
        self.buffer.drain(..bytes);
        self.hashed = 0;
        Ok(())
    }

    fn hash_up_to(&mut self, bytes: usize) {
        self.hasher.update(&self.buffer[self.hashed..bytes]);
        self.hashed = bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Expiry, Timestamp};
    use std::sync::Mutex;

    /// Notes where it is written to.
    #[derive(Default)]
    struct Noting(Mutex<Vec<Range<u64>>>);

    impl DiskFile for Noting {
        fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
            let end = offset + bytes.len() as u64;
            self.0.lock().unwrap().push(offset..end);
            Ok(())
        }

        fn read_exact_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
            unreachable!("a group is only written")
        }

        fn allocate(&self, _: u64, _: u64) -> io::Result<()> {
            unreachable!("a group is only written")
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            unreachable!("a group is only written")
        }

        fn len(&self) -> io::Result<u64> {
            unreachable!("a group is only written")
        }

        fn sync(&self) -> io::Result<()> {
            unreachable!("a group is only written")
        }
    }

    #[test]
    fn each_write_begins_where_the_one_before_ends_and_that_is_where_a_page_does() {
        const PAGE: u64 = PAGE_BYTES as u64;
        let value = vec![7; 1_300_000];
        let put = |bytes: usize| {
            let timestamp = Timestamp::from_u64(1);
            Entry::value(b"key", timestamp, &value[..bytes], Expiry::NEVER, 1)
        };
        for lengths in [
            vec![1_300_000],
            vec![200_001; 9],
            vec![5, 300_000, 9, 900_000, 77],
        ] {
            let entries: Vec<Entry> = lengths.into_iter().map(put).collect();
            let size = GroupSize::of(entries.iter()).unwrap();
            for start in [0, 24, PAGE - 1, PAGE] {
                let end = (start + size.group_bytes()).next_multiple_of(PAGE);
                let file = Noting::default();
                let mut buffer = Vec::new();
                let all = entries.iter();
                write_long_group(&file, start..end, size, all, 1, 0, &mut buffer).unwrap();
                let writes = file.0.into_inner().unwrap();
                assert!(writes.len() > 1, "{writes:?}");
                let mut before = start;
                for write in writes {
                    assert_eq!(write.start, before);
                    assert!(write.end.is_multiple_of(PAGE), "{write:?}");
                    before = write.end;
                }
                assert_eq!(before, end);
            }
        }
    }
}
