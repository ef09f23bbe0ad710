//! Walks a table in order.

use super::Purpose;
use super::block::{BlockCursor, Body};
use super::frame::{Handle, Role};
use super::index::IndexEntry;
use super::malformed::Malformed;
use super::read_ahead::ReadAhead;
use super::reader::Table;
use super::record::{DataBlock, RecordBody};
use crate::cache::Block;
use crate::error::Error;
use crate::record::{Record, RecordSource};
use std::ops::Bound;
use std::sync::Arc;

/// The largest number of data blocks of one walk that the cache keeps.
const DATA_BLOCKS_KEPT: u32 = 16;

/// The records of a table from some key on. It holds the table, at most one block of
/// each level and what it has read ahead. It holds no data block for a record that was
/// alone in its block.
pub(crate) struct TableIterator {
    table: Arc<Table>,
    purpose: Purpose,
    /// The number of data blocks fetched so far.
    data_blocks: u32,
    /// Keys below this one are skipped; empty once that is done.
    from: Vec<u8>,
    state: IteratorState,
    /// The block of the last record, if the record was alone in it and is long.
    single_record: Option<Handle>,
    /// The sequence number that every record has at least.
    least_sequence: u64,
    /// Where the block begins that was read last.
    block_offset: u64,
    /// What was read of the blocks that come next.
    ahead: ReadAhead,
}

#[expect(
    clippy::large_enum_variant,
    reason = "an iterator is in its large variant nearly all the time"
)]
enum IteratorState {
    Fresh,
    Walking {
        top: Walk,
        /// The block, and what the top index says about it.
        index: Option<(Walk, IndexEntry)>,
        /// The block, and what the index says about it.
        data: Option<(Walk, IndexEntry)>,
    },
    Ended,
}

impl Table {
    /// The records from `start` on. Nothing is read before the first call of
    /// [`RecordSource::next`].
    pub(crate) fn iter(self: &Arc<Self>, start: Bound<&[u8]>, purpose: Purpose) -> TableIterator {
        TableIterator::new(Arc::clone(self), start, purpose)
    }
}

impl TableIterator {
    fn new(table: Arc<Table>, start: Bound<&[u8]>, purpose: Purpose) -> Self {
        let from = match start {
            Bound::Unbounded => Vec::new(),
            Bound::Included(key) => key.to_vec(),
            // No key lies between a key and the same key with a zero byte appended.
            Bound::Excluded(key) => [key, &[0]].concat(),
        };
        Self {
            least_sequence: table.least_sequence(),
            table,
            purpose,
            data_blocks: 0,
            from,
            state: IteratorState::Fresh,
            single_record: None,
            block_offset: 0,
            ahead: ReadAhead::default(),
        }
    }

    /// The next record; behind damage if the purpose of the walk allows that.
    fn advance(&mut self) -> Result<Option<Record>, Error> {
        loop {
            match self.advance_in_sound_parts() {
                Err(error)
                    if self
                        .table
                        .passes_damage(self.purpose, self.block_offset, &error) => {}
                result => return result,
            }
        }
    }

    /// After an error the walk stands behind the block that could not be read.
    fn advance_in_sound_parts(&mut self) -> Result<Option<Record>, Error> {
        self.single_record = None;
        if self.data_blocks >= DATA_BLOCKS_KEPT
            && let Purpose::Scan { keep_data } = &mut self.purpose
        {
            *keep_data = false;
        }
        let (table, purpose, from) = (&*self.table, self.purpose, &self.from);
        let is_passed_over =
            |handle: Handle| purpose.passes_over_noted() && table.is_noted(handle.offset);
        if let IteratorState::Fresh = self.state {
            let handle = table.top_index();
            self.state = IteratorState::Ended;
            self.block_offset = handle.offset;
            if is_passed_over(handle) {
                return Ok(None);
            }
            self.state = IteratorState::Walking {
                top: Walk::open(table, purpose, handle, Role::TopIndex, from)?,
                index: None,
                data: None,
            };
        }
        let IteratorState::Walking { top, index, data } = &mut self.state else {
            return Ok(None);
        };
        loop {
            if let Some((records, entry)) = data {
                match records.next_record(table, *entry) {
                    Ok(Some(record)) => {
                        self.from.clear();
                        return Ok(Some(record));
                    }
                    Ok(None) => *data = None,
                    Err(error) => {
                        self.block_offset = entry.handle.offset;
                        *data = None;
                        return Err(error);
                    }
                }
            }
            if let Some((blocks, above)) = index {
                let entry = match blocks.next::<IndexEntry>(table) {
                    Ok(entry) => entry.map(|(_, entry)| entry),
                    Err(error) => {
                        self.block_offset = above.handle.offset;
                        *index = None;
                        return Err(error);
                    }
                };
                if let Some(entry) = entry {
                    let handle = entry.handle;
                    self.block_offset = above.handle.offset;
                    table.check(*above, entry.greatest_timestamp)?;
                    if purpose.passes_over(entry.greatest_timestamp) || is_passed_over(handle) {
                        self.ahead.begin_anew();
                        continue;
                    }
                    self.data_blocks = self.data_blocks.saturating_add(1);
                    self.block_offset = handle.offset;
                    let block = match table.data_block_for(purpose, handle, &mut self.ahead)? {
                        DataBlock::Sorted(block) => block,
                        DataBlock::SingleRecord(record) => {
                            table.check(entry, record.entry.timestamp())?;
                            // According to the index no key of the block is below `from`.
                            self.from.clear();
                            self.single_record = Some(handle);
                            return Ok(Some(record));
                        }
                    };
                    let walk = Walk::new(table, &block, handle, Role::Data, from)?;
                    *data = Some((walk, entry));
                    continue;
                }
            }
            *index = None;
            let entry = match top.next::<IndexEntry>(table) {
                Ok(Some((_, entry))) => entry,
                Ok(None) => return Ok(None),
                Err(error) => {
                    self.block_offset = top.offset;
                    self.state = IteratorState::Ended;
                    return Err(error);
                }
            };
            if purpose.passes_over(entry.greatest_timestamp) || is_passed_over(entry.handle) {
                self.ahead.begin_anew();
                continue;
            }
            self.block_offset = entry.handle.offset;
            let walk = Walk::open(table, purpose, entry.handle, Role::Index, from)?;
            *index = Some((walk, entry));
        }
    }
}

impl RecordSource for TableIterator {
    fn next(&mut self) -> Result<Option<Record>, Error> {
        let mut result = self.advance();
        match &mut result {
            Ok(Some(record)) => record.sequence = record.sequence.max(self.least_sequence),
            _ => {
                let has_walked = !matches!(self.state, IteratorState::Ended);
                self.state = IteratorState::Ended;
                if self.purpose.checks_disk() && has_walked {
                    // Once in a pass: only one of its walks comes to the end.
                    self.table.check_rest();
                }
            }
        }
        result
    }

    fn is_rereadable(&self) -> bool {
        self.single_record.is_some()
    }

    fn reread(&mut self) -> Result<Option<Record>, Error> {
        let Some(handle) = self.single_record else {
            return Ok(None);
        };
        let ahead = &mut self.ahead;
        match self.table.data_block_for(self.purpose, handle, ahead)? {
            DataBlock::SingleRecord(mut record) => {
                record.sequence = record.sequence.max(self.least_sequence);
                Ok(Some(record))
            }
            DataBlock::Sorted(_) => {
                let what = Malformed("the block has changed since it was read");
                Err(self.table.corrupt(handle.offset, what))
            }
        }
    }
}

/// A cursor with the offset of its block, which errors name.
struct Walk {
    cursor: BlockCursor,
    offset: u64,
}

impl Walk {
    /// A walk over the block at `handle`, from the first key at or above `from`.
    fn open(
        table: &Table,
        purpose: Purpose,
        handle: Handle,
        role: Role,
        from: &[u8],
    ) -> Result<Self, Error> {
        let block = table.block_for(purpose, handle, role)?;
        Self::new(table, &block, handle, role, from)
    }

    /// A walk over a block that was read from `handle`.
    fn new(
        table: &Table,
        block: &Block,
        handle: Handle,
        role: Role,
        from: &[u8],
    ) -> Result<Self, Error> {
        let cursor = match role {
            Role::Data => BlockCursor::new::<RecordBody<'_>>(block, from),
            _ => BlockCursor::new::<IndexEntry>(block, from),
        };
        Ok(Self {
            cursor: cursor.map_err(|malformed| table.corrupt(handle.offset, malformed))?,
            offset: handle.offset,
        })
    }

    /// The next record of a data block, of which the index says `entry`.
    fn next_record(&mut self, table: &Table, entry: IndexEntry) -> Result<Option<Record>, Error> {
        let Some((key, body)) = self.next::<RecordBody<'_>>(table)? else {
            return Ok(None);
        };
        table.check(entry, body.timestamp())?;
        Ok(Some(body.to_record(key)))
    }

    fn next<'a, B: Body<'a>>(&'a mut self, table: &Table) -> Result<Option<(&'a [u8], B)>, Error> {
        let offset = self.offset;
        self.cursor
            .next()
            .map_err(|malformed| table.corrupt(offset, malformed))
    }
}
