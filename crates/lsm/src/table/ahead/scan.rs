//! What scans that follow each other have read ahead.

use super::read::ReadAhead;
use crate::locks::lock;
use crate::table_id::TableId;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The most memory of all pieces together, in bytes: those of walks over seven tables.
const BYTES_MAX: usize = 4 << 20;

/// What a scan has read ahead of where it ended, for the next scan, which goes on there.
///
/// A comparison reads a store in many scans, each of a short part: between them it holds neither a
/// snapshot nor a table. Each walk over a table begins with short reads, and the last one
/// has read more than it needed. With this, a walk goes on with the long piece of the one
/// before, so everything is read once.
///
/// It holds memory, of a few MiB at most, but no file: a table may be removed meanwhile. A
/// table's file never changes, so what was read of it stays true. It should be dropped with
/// what the scans are for: if one is to check the disk, it must not get what was read for
/// another reason.
///
/// Clones share what they hold.
#[derive(Clone, Default)]
pub struct ScanAhead {
    pieces: Arc<Mutex<Pieces>>,
}

#[derive(Default)]
struct Pieces {
    of_tables: BTreeMap<TableId, Piece>,
    bytes: usize,
}

/// What was read ahead of a table.
struct Piece {
    least_key: Bytes,
    ahead: ReadAhead,
}

impl ScanAhead {
    /// What was read ahead of a table by the last walk that has not come to its end.
    pub(in crate::table) fn take(&self, table: TableId) -> Option<ReadAhead> {
        let mut pieces = lock(&self.pieces);
        let Piece { ahead, .. } = pieces.of_tables.remove(&table)?;
        pieces.bytes -= ahead.memory_bytes();
        Some(ahead)
    }

    /// Keeps what a walk over a table has read ahead, if there is room for it.
    pub(in crate::table) fn keep(&self, table: TableId, least_key: &Bytes, mut ahead: ReadAhead) {
        ahead.close();
        let mut pieces = lock(&self.pieces);
        if pieces.bytes + ahead.memory_bytes() <= BYTES_MAX {
            pieces.bytes += ahead.memory_bytes();
            let least_key = least_key.clone();
            let before = pieces.of_tables.insert(table, Piece { least_key, ahead });
            pieces.bytes -= before.map_or(0, |before| before.ahead.memory_bytes());
        }
    }

    /// Gives up what it keeps of tables of which this does not hold. It gets the least key of
    /// each, too.
    pub(crate) fn retain(&self, is_kept: impl Fn(TableId, &[u8]) -> bool) {
        let mut pieces = lock(&self.pieces);
        let is_kept = |table: &TableId, piece: &mut Piece| is_kept(*table, &piece.least_key);
        pieces.of_tables.retain(is_kept);
        let left = pieces.of_tables.values();
        pieces.bytes = left.map(|piece| piece.ahead.memory_bytes()).sum();
    }

    /// How many tables it keeps something of.
    #[cfg(test)]
    pub(crate) fn tables(&self) -> usize {
        lock(&self.pieces).of_tables.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::ahead::read::of_bytes;

    #[test]
    fn it_keeps_what_there_is_room_for() {
        let ahead = ScanAhead::default();
        for table in 0..100 {
            ahead.keep(TableId(table), &Bytes::new(), of_bytes(BYTES_MAX / 8));
        }
        assert_eq!(ahead.tables(), 8);
        // What takes the place of another piece counts once, and what is taken not any more.
        for _ in 0..20 {
            let taken = ahead.take(TableId(3));
            assert_eq!(taken.map(|it| it.memory_bytes()), Some(BYTES_MAX / 8));
            ahead.keep(TableId(3), &Bytes::new(), of_bytes(BYTES_MAX / 16));
            ahead.keep(TableId(3), &Bytes::new(), of_bytes(BYTES_MAX / 16));
            ahead.keep(TableId(3), &Bytes::new(), of_bytes(BYTES_MAX / 8));
            ahead.take(TableId(3));
            ahead.keep(TableId(3), &Bytes::new(), of_bytes(BYTES_MAX / 8));
        }
        ahead.retain(|table, _| table == TableId(3));
        assert_eq!(ahead.tables(), 1);
        for table in 10..100 {
            ahead.keep(TableId(table), &Bytes::new(), of_bytes(BYTES_MAX / 8));
        }
        assert_eq!(ahead.tables(), 8);
    }
}
