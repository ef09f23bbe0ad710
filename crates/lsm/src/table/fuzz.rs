//! Entry points for fuzzing the decoders: for arbitrary bytes they must neither
//! panic nor loop, nor take more memory than a multiple of the bytes' length.

use super::block::BlockCursor;
use super::block::frame;
use super::block::frame::{Handle, Role};
use super::block::index::IndexEntry;
use super::filter::{FilterShape, KeyHash};
use super::format::{
    CHECKSUM_AT, FOOTER_BYTES, Footer, TableProperties, VERSION, VERSION_MIN, footer_checksum,
};
use super::record::{DataBlock, RecordBody};
use super::{DiskAccess, Purpose, Table};
use crate::cache::{Block, BlockCache};
use crate::disk::DiskFile;
use crate::error::Error;
use crate::record::RecordCursor;
use crate::table_id::TableId;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// Decodes `bytes` as a frame of every role, with and without its checksum, and as
/// the payload of a block; walks and searches the blocks that open.
pub fn fuzz_block(bytes: &[u8]) {
    let roles = [
        Role::Data,
        Role::Index,
        Role::TopIndex,
        Role::Filter,
        Role::Properties,
    ];
    for role in roles {
        let opened = [
            frame::unpack(role, bytes.into(), 0..bytes.len(), 0, &mut Arc::default()),
            frame::unpack_covered(role, bytes.into(), 0..bytes.len(), &mut Arc::default()),
        ];
        for block in opened.into_iter().flatten() {
            fuzz_payload(&block, bytes);
        }
    }
    fuzz_payload(&Block::from(bytes), bytes);
    if let Ok(DataBlock::SingleRecord(record)) = DataBlock::open(Block::from(bytes)) {
        assert!(record.entry.data_bytes() <= bytes.len());
    }
}

/// Decodes `bytes` as a footer, unchanged and with the right checksum and length,
/// and as the payload of the properties.
pub fn fuzz_footer(bytes: &[u8]) {
    if let Some(last) = bytes.last_chunk::<FOOTER_BYTES>() {
        let mut fixed = *last;
        fixed[40..48].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        let checksum = footer_checksum(&fixed);
        fixed[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&checksum.to_le_bytes());
        for last in [*last, fixed] {
            if let Ok(footer) = Footer::decode(&last, bytes.len() as u64) {
                assert_eq!(footer.encode(), last);
            }
        }
    }
    // The oldest version is read only.
    let _read_or_refused = TableProperties::decode(bytes, VERSION_MIN);
    if let Ok(properties) = TableProperties::decode(bytes, VERSION) {
        let again = TableProperties::decode(&properties.encode(), VERSION);
        assert_eq!(again.as_ref(), Ok(&properties));
    }
}

/// A file in memory that can only be read.
struct ReadOnly(Vec<u8>);

impl DiskFile for ReadOnly {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let read = usize::try_from(offset).ok().and_then(|begin| {
            let end = begin.checked_add(buffer.len())?;
            self.0.get(begin..end)
        });
        buffer.copy_from_slice(read.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn write_all_at(&self, _bytes: &[u8], _offset: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn allocate(&self, _offset: u64, _bytes: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_len(&self, _bytes: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Opens `bytes` as the file of a table.
fn open(bytes: &[u8]) -> Result<Table, Error> {
    let file: Arc<dyn DiskFile> = Arc::new(ReadOnly(bytes.to_vec()));
    let cache = Arc::new(BlockCache::new(64 << 10));
    Table::open(file, Path::new("/table"), TableId(1), cache, Some(0))
}

/// Opens `bytes` as the file of a table, unchanged and with the right checksums,
/// walks the table and gets the keys that it has.
pub fn fuzz_table(bytes: &[u8]) {
    let mut fixed = bytes.to_vec();
    fix_checksums(&mut fixed);
    for bytes in [bytes, &fixed] {
        let Ok(table) = open(bytes) else { continue };
        let table = Arc::new(table);
        let mut keys = vec![
            table.properties().least_key.to_vec(),
            table.properties().greatest_key.to_vec(),
            Vec::new(),
        ];
        let mut records = table.cursor(Bound::Unbounded, Purpose::Compaction);
        while let Ok(true) = records.advance() {
            let entry = records.record().entry;
            let greatest = table.properties().greatest_timestamp;
            assert!(entry.timestamp() <= greatest);
            if keys.len() < WALKED_KEYS_MAX {
                keys.push(entry.key().to_vec());
            }
        }
        for key in keys {
            for access in [DiskAccess::Cached, DiskAccess::MayRead, DiskAccess::Cached] {
                if let Ok(Some(found)) = table.get(&key, KeyHash::of(&key), access) {
                    assert_eq!(found.key(), key);
                }
            }
            let purpose = Purpose::Scan { keep_data: true };
            let mut records = table.cursor(Bound::Excluded(&key), purpose);
            let _ = records.advance();
        }
    }
}

/// How many of the keys that a walk finds are used for gets.
const WALKED_KEYS_MAX: usize = 50;

/// The largest number of frames whose checksums are fixed. A file could hold as many
/// handles as it has bytes.
const FIXED_FRAMES_MAX: usize = 1000;

/// Writes the right checksums into the footer and the frames that it leads to.
fn fix_checksums(bytes: &mut [u8]) {
    let file_bytes = bytes.len() as u64;
    let Some(last) = bytes.last_chunk_mut::<FOOTER_BYTES>() else {
        return;
    };
    last[40..48].copy_from_slice(&file_bytes.to_le_bytes());
    let checksum = footer_checksum(last);
    last[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&checksum.to_le_bytes());
    let Ok(footer) = Footer::decode(last, file_bytes) else {
        return;
    };
    frame::fix_checksum(bytes, footer.properties);
    let mut handles = vec![footer.top_index];
    for role in [Role::TopIndex, Role::Index] {
        let mut below = Vec::new();
        for handle in handles {
            frame::fix_checksum(bytes, handle);
            below.extend(handles_in(bytes, handle, role));
            below.truncate(FIXED_FRAMES_MAX);
        }
        handles = below;
    }
    for handle in handles {
        frame::fix_checksum(bytes, handle);
    }
}

/// The handles in an index block, up to the first that cannot be read.
fn handles_in(file: &[u8], handle: Handle, role: Role) -> Vec<Handle> {
    let mut handles = Vec::new();
    let frame = usize::try_from(handle.offset)
        .ok()
        .and_then(|start| file.get(start..start.checked_add(handle.bytes as usize)?));
    let block = frame.and_then(|frame| {
        let (bytes, spare) = (frame.into(), &mut Arc::default());
        frame::unpack(role, bytes, 0..frame.len(), handle.offset, spare).ok()
    });
    if let Some(block) = block
        && let Ok(mut cursor) = BlockCursor::new::<IndexEntry>(&block, &[])
    {
        while let Ok(Some((_, entry))) = cursor.next::<IndexEntry>() {
            handles.push(entry.handle);
        }
    }
    handles
}

fn fuzz_payload(block: &Block, bytes: &[u8]) {
    let middle = bytes.len() / 2;
    let targets = [
        &[][..],
        &bytes[..middle.min(16)],
        &bytes[middle..],
        &[0xff; 9],
    ];
    for target in targets {
        if let Ok(mut cursor) = BlockCursor::new::<IndexEntry>(block, target) {
            while let Ok(Some(_)) = cursor.next::<IndexEntry>() {}
        }
        if let Ok(mut cursor) = BlockCursor::new::<RecordBody<'_>>(block, target) {
            while let Ok(Some((key, body))) = cursor.next::<RecordBody<'_>>() {
                let _ = body.with_key(key).to_entry();
            }
        }
    }
    let shape = FilterShape {
        pages: 1,
        page_bytes: 1,
        probes: 7,
    };
    shape.admits(block.payload(), KeyHash::of(bytes));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this the fuzzer would never get past a checksum.
    #[test]
    fn a_table_with_fixed_checksums_opens_and_is_walked() {
        fix_and_walk(include_bytes!("../../tests/fixtures/table-v5.sst"));
        fix_and_walk(include_bytes!("../../tests/fixtures/table-v6.sst"));
    }

    fn fix_and_walk(fixture: &[u8]) {
        let mut bytes = fixture.to_vec();
        let footer = bytes.last_chunk::<FOOTER_BYTES>().unwrap();
        let footer = Footer::decode(footer, bytes.len() as u64).unwrap();
        let index = handles_in(&bytes, footer.top_index, Role::TopIndex)[0];
        let data = handles_in(&bytes, index, Role::Index)[0];
        // A frame ends with its checksum.
        for handle in [footer.properties, footer.top_index, index, data] {
            let end = handle.offset as usize + handle.bytes as usize;
            bytes[end - 1] ^= 1;
        }
        fix_checksums(&mut bytes);
        let mut records =
            Arc::new(open(&bytes).unwrap()).cursor(Bound::Unbounded, Purpose::Compaction);
        let mut walked = 0;
        while records.advance().unwrap() {
            walked += 1;
        }
        assert!(walked > 60, "{walked}");
    }
}
