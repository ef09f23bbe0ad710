//! Entry points for fuzzing the decoders: arbitrary bytes must neither panic
//! nor loop nor take memory beyond a multiple of their own length.

use super::block::BlockCursor;
use super::filter::{FilterShape, KeyHash};
use super::format::{CHECKSUM_AT, FOOTER_BYTES, Footer, TableProperties, footer_checksum};
use super::frame::{self, Block, Role};
use super::index::IndexEntry;
use super::record::{Lone, RecordBody};

/// Takes `bytes` for a frame of every role, with and without its checksum,
/// and for the payload of a block; walks and searches whatever opens.
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
            frame::unpack(role, bytes.into(), 0),
            frame::unpack_covered(role, bytes.into(), bytes.len()),
        ];
        for block in opened.into_iter().flatten() {
            fuzz_payload(&block, bytes);
        }
    }
    fuzz_payload(&Block::from(bytes), bytes);
    if let Ok(Lone::Record(record)) = Lone::take(Block::from(bytes)) {
        assert!(record.entry.data_bytes() <= bytes.len());
    }
}

/// Takes `bytes` for a footer, as it is and with a checksum and a length that
/// fit, and for the payload of the properties.
pub fn fuzz_footer(bytes: &[u8]) {
    if let Some(last) = bytes.last_chunk::<FOOTER_BYTES>() {
        let mut mended = *last;
        mended[40..48].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        let checksum = footer_checksum(&mended);
        mended[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&checksum.to_le_bytes());
        for last in [*last, mended] {
            if let Ok(footer) = Footer::decode(&last, bytes.len() as u64) {
                assert_eq!(footer.encode(), last);
            }
        }
    }
    if let Ok(properties) = TableProperties::decode(bytes) {
        let again = TableProperties::decode(&properties.encode());
        assert_eq!(again.as_ref(), Ok(&properties));
    }
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
                body.to_record(key);
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
