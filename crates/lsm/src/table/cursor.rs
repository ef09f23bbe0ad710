//! Walks a table in order.

use super::Purpose;
use super::ahead::{ReadAhead, ScanAhead, ValuesAhead};
use super::block::BlockCursor;
use super::block::frame::{Handle, Role};
use super::block::index::IndexEntry;
use super::block::malformed::Malformed;
use super::reader::Table;
use super::record::{DataBlock, RecordWalk};
use crate::cache::Block;
use crate::error::Error;
use crate::record::{BlobReference, Record, RecordCursor, RecordRef, no_record};
use std::ops::Bound;
use std::sync::Arc;

/// The largest number of data blocks of one walk that the cache keeps.
const DATA_BLOCKS_KEPT: u32 = 16;

/// A cursor over the records of a table from some key on. It holds the table, at most one
/// block of each level and what it has read ahead. It lends records out of the data block.
pub(crate) struct TableCursor {
    table: Arc<Table>,
    purpose: Purpose,
    /// The number of data blocks fetched so far.
    data_blocks: u32,
    /// Keys below this one are skipped; empty once that is done.
    from: Vec<u8>,
    state: CursorState,
    /// The sequence number that every record has at least.
    least_sequence: u64,
    /// Where the block begins that was read last.
    block_offset: u64,
    /// What was read of the blocks that come next.
    ahead: ReadAhead,
    /// The record at which it stands, if its value lies in a blob table and was fetched.
    fetched: Option<Record>,
    /// Which of the values of the block that lie in blob tables were asked for.
    values_ahead: Option<ValuesAhead<RecordWalk>>,
    /// How many bytes of values the last block had asked for at most in the end.
    values_ahead_bytes: u64,
}

#[expect(
    clippy::large_enum_variant,
    reason = "a cursor is in its large variant nearly all the time"
)]
enum CursorState {
    Fresh,
    Walking {
        top: Walk,
        /// The block, and what the top index says about it.
        index: Option<(Walk, IndexEntry)>,
        data: Data,
    },
    Ended,
}

/// Where a cursor stands among the data blocks.
enum Data {
    /// Before the next block.
    Between,
    /// In a block of which the index says this.
    Sorted(RecordWalk, IndexEntry),
    /// At a record that is alone in its block, and long.
    Single(SingleRecord),
}

/// A record that is alone in its block, and long. It holds the block's memory.
struct SingleRecord {
    handle: Handle,
    record: Record,
    /// The length of key and value, even if the value was dropped.
    data_bytes: usize,
    lacks_value: bool,
}

impl Table {
    /// A cursor over the records from `start` on. Nothing is read before the first call of
    /// [`RecordCursor::advance`].
    pub(crate) fn cursor(self: &Arc<Self>, start: Bound<&[u8]>, purpose: Purpose) -> TableCursor {
        TableCursor::new(Arc::clone(self), start, purpose)
    }
}

impl TableCursor {
    fn new(table: Arc<Table>, start: Bound<&[u8]>, purpose: Purpose) -> Self {
        let from = match start {
            Bound::Unbounded => Vec::new(),
            Bound::Included(key) => key.to_vec(),
            // No key lies between a key and the same key with a zero byte appended.
            Bound::Excluded(key) => [key, &[0]].concat(),
        };
        let mut ahead = ReadAhead::default();
        if purpose.reads_directly() && !table.is_recent {
            ahead.enable_direct_reads();
        }
        Self {
            least_sequence: table.least_sequence(),
            table,
            purpose,
            data_blocks: 0,
            from,
            state: CursorState::Fresh,
            block_offset: 0,
            ahead,
            fetched: None,
            values_ahead: None,
            values_ahead_bytes: 0,
        }
    }

    /// Goes on with what the walk before has read ahead of the table.
    pub(crate) fn take_ahead(&mut self, from: &ScanAhead) {
        if let Some(ahead) = from.take(self.table.id()) {
            self.ahead = ahead;
        }
    }

    /// Leaves what it has read ahead to the next walk over the table, unless it has come to the
    /// end or failed: what could not be read is to be read again. It is not to be used any more.
    pub(crate) fn leave_ahead(&mut self, to: &ScanAhead) {
        if !matches!(self.state, CursorState::Ended) {
            // A block may hold the memory of the piece.
            self.state = CursorState::Ended;
            let least_key = &self.table.properties().least_key;
            to.keep(self.table.id(), least_key, std::mem::take(&mut self.ahead));
        }
    }

    /// Leaves the block of which that became, and moves to the next record behind it; behind
    /// damage if the purpose of the walk allows that.
    fn leave_block(&mut self, ended: Result<bool, Error>) -> Result<bool, Error> {
        if let CursorState::Walking { data, .. } = &mut self.state {
            if let Data::Sorted(_, entry) = data {
                self.block_offset = entry.handle.offset;
            }
            // Before the next block is read: what is read ahead may take this one's memory.
            *data = Data::Between;
            if let Some(ahead) = self.values_ahead.take() {
                self.values_ahead_bytes = ahead.bytes_max();
            }
        }
        let mut result = ended.and_then(|_| self.enter_next_block());
        while let Err(error) = &result
            && self
                .table
                .passes_damage(self.purpose, self.block_offset, error)
        {
            result = self.enter_next_block();
        }
        result
    }

    /// Moves to the first record of the next data block that has one to give. After an error
    /// the walk stands behind the block that could not be read.
    fn enter_next_block(&mut self) -> Result<bool, Error> {
        if self.data_blocks >= DATA_BLOCKS_KEPT
            && let Purpose::Scan { keep_data } = &mut self.purpose
        {
            *keep_data = false;
        }
        let (table, purpose, from) = (&*self.table, self.purpose, &self.from);
        let is_passed_over =
            |handle: Handle| purpose.passes_over_noted() && table.is_noted(handle.offset);
        let is_too_old =
            |greatest| purpose.passes_over(greatest) || table.set_aside.hides_all_up_to(greatest);
        if let CursorState::Fresh = self.state {
            let handle = table.top_index();
            self.state = CursorState::Ended;
            self.block_offset = handle.offset;
            if is_passed_over(handle) {
                return Ok(false);
            }
            self.state = CursorState::Walking {
                top: Walk::open(table, purpose, handle, Role::TopIndex, from)?,
                index: None,
                data: Data::Between,
            };
        }
        let CursorState::Walking { top, index, data } = &mut self.state else {
            return Ok(false);
        };
        loop {
            if let Some((blocks, above)) = index {
                let entry = match blocks.next(table) {
                    Ok(entry) => entry,
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
                    let greatest = entry.greatest_timestamp;
                    if is_too_old(greatest) || is_passed_over(handle) {
                        self.ahead.begin_anew();
                        continue;
                    }
                    self.data_blocks = self.data_blocks.saturating_add(1);
                    self.block_offset = handle.offset;
                    match table.data_block_for(purpose, handle, &mut self.ahead)? {
                        DataBlock::Sorted(block) => {
                            let walk = RecordWalk::open(&block, from, self.least_sequence);
                            let mut walk =
                                walk.map_err(|malformed| table.corrupt(handle.offset, malformed))?;
                            if !walk.advance(table, entry)? {
                                continue;
                            }
                            if purpose.asks_for_values() && !table.blobs().is_empty() {
                                self.values_ahead = walk_ahead(table, &block, from, entry)?
                                    .map(|walk| ValuesAhead::new(walk, self.values_ahead_bytes));
                            }
                            *data = Data::Sorted(walk, entry);
                        }
                        DataBlock::SingleRecord(record) => {
                            table.check(entry, record.entry.timestamp())?;
                            // According to the index no key of the block is below `from`.
                            *data = Data::Single(SingleRecord {
                                handle,
                                data_bytes: record.entry.data_bytes(),
                                record: at_least(record, self.least_sequence),
                                lacks_value: false,
                            });
                        }
                    }
                    self.from.clear();
                    return Ok(true);
                }
            }
            *index = None;
            let entry = match top.next(table) {
                Ok(Some(entry)) => entry,
                Ok(None) => return Ok(false),
                Err(error) => {
                    self.block_offset = top.offset;
                    self.state = CursorState::Ended;
                    return Err(error);
                }
            };
            if is_too_old(entry.greatest_timestamp) || is_passed_over(entry.handle) {
                self.ahead.begin_anew();
                continue;
            }
            self.block_offset = entry.handle.offset;
            let walk = Walk::open(table, purpose, entry.handle, Role::Index, from)?;
            *index = Some((walk, entry));
        }
    }

    /// Moves to the next record of the table.
    fn advance_to_any(&mut self) -> Result<bool, Error> {
        if let Some(ahead) = &mut self.values_ahead {
            let passed = match &self.state {
                CursorState::Walking {
                    data: Data::Sorted(records, _),
                    ..
                } => records.reference(),
                _ => None,
            };
            ahead.pass(passed);
        }
        let in_block = match &mut self.state {
            CursorState::Walking {
                data: Data::Sorted(records, entry),
                ..
            } => records.advance(&self.table, *entry),
            _ => Ok(false),
        };
        // Nearly always.
        if matches!(in_block, Ok(true)) {
            return Ok(true);
        }
        let result = self.leave_block(in_block);
        if !matches!(result, Ok(true)) {
            let has_walked = !matches!(self.state, CursorState::Ended);
            self.state = CursorState::Ended;
            if self.purpose.checks_disk() && has_walked {
                // Once in a pass: only one of its walks comes to the end.
                self.table.check_rest();
            }
        }
        result
    }

    /// Whether the record is passed over.
    #[inline]
    fn is_hidden(&self) -> bool {
        let set_aside = &self.table.set_aside;
        set_aside.hides_some() && {
            let entry = self.record().entry;
            set_aside.hides(entry.key(), entry.timestamp())
        }
    }

    /// Where the value of the record lies, if that is a blob table.
    #[inline]
    fn referred(&self) -> Option<BlobReference> {
        match &self.state {
            CursorState::Walking {
                data: Data::Sorted(records, _),
                ..
            } => records.reference(),
            _ => None,
        }
    }

    /// Whether the record is passed over because of where its value lies: the part of the blob
    /// table is damaged.
    fn is_value_lost(&mut self, reference: BlobReference) -> Result<bool, Error> {
        if self.purpose == Purpose::Rewrite && self.table.is_value_noted(reference) {
            return match self.fetch_referred(reference) {
                Ok(()) => Ok(false),
                Err(Error::Corrupt { .. } | Error::Io { action: "read", .. }) => Ok(true),
                Err(error) => Err(error),
            };
        }
        Ok(self.table.passes_over_value(self.purpose, reference))
    }

    /// Asks the system for the values that come next behind this one.
    fn ask_for_values(&mut self, taken: BlobReference) {
        let CursorState::Walking {
            data: Data::Sorted(_, entry),
            ..
        } = &self.state
        else {
            return;
        };
        if let Some(ahead) = &mut self.values_ahead {
            let (table, entry) = (&*self.table, *entry);
            ahead.take(
                taken,
                // The walk that takes the values meets the error, too.
                |walk| {
                    let has_next = matches!(walk.advance(table, entry), Ok(true));
                    has_next.then(|| walk.reference())
                },
                |reference| table.will_need(reference),
            );
        }
    }

    fn fetch_referred(&mut self, reference: BlobReference) -> Result<(), Error> {
        self.ask_for_values(reference);
        let record = self.record();
        let sequence = record.sequence;
        let entry = self
            .table
            .referred_for(self.purpose, reference, record.entry)?;
        self.fetched = Some(Record { sequence, entry });
        Ok(())
    }

    fn single(&self) -> Option<&SingleRecord> {
        match &self.state {
            CursorState::Walking {
                data: Data::Single(single),
                ..
            } => Some(single),
            _ => None,
        }
    }

    fn single_mut(&mut self) -> Option<&mut SingleRecord> {
        match &mut self.state {
            CursorState::Walking {
                data: Data::Single(single),
                ..
            } => Some(single),
            _ => None,
        }
    }
}

impl RecordCursor for TableCursor {
    fn advance(&mut self) -> Result<bool, Error> {
        loop {
            self.fetched = None;
            if !self.advance_to_any()? {
                return Ok(false);
            }
            if self.is_hidden() {
                continue;
            }
            match self.referred() {
                Some(reference) if self.is_value_lost(reference)? => {}
                _ => return Ok(true),
            }
        }
    }

    fn record(&self) -> RecordRef<'_> {
        if let Some(fetched) = &self.fetched {
            return fetched.lend();
        }
        match &self.state {
            CursorState::Walking {
                data: Data::Sorted(records, _),
                ..
            } => records.record(),
            CursorState::Walking {
                data: Data::Single(single),
                ..
            } => single.record.lend(),
            _ => RecordRef::NONE,
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        match &self.state {
            CursorState::Walking {
                data: Data::Sorted(records, _),
                ..
            } => records.key(),
            _ => self.record().entry.key(),
        }
    }

    fn data_bytes(&self) -> usize {
        match (self.single(), self.referred()) {
            (Some(single), _) => single.data_bytes,
            (None, Some(reference)) => self.key().len() + reference.value_bytes as usize,
            (None, None) => self.record().entry.data_bytes(),
        }
    }

    fn can_drop_value(&self) -> bool {
        self.fetched.is_some() || self.single().is_some_and(|single| !single.lacks_value)
    }

    fn drop_value(&mut self) {
        self.fetched = None;
        if let Some(single) = self.single_mut() {
            single.record.entry = single.record.entry.without_value();
            single.lacks_value = true;
        }
    }

    fn lacks_value(&self) -> bool {
        match self.single() {
            Some(single) => single.lacks_value,
            None => self.fetched.is_none() && self.referred().is_some(),
        }
    }

    fn fetch_value(&mut self) -> Result<(), Error> {
        if let Some(reference) = self.referred().filter(|_| self.fetched.is_none()) {
            return self.fetch_referred(reference);
        }
        let Some(handle) = self.single().filter(|single| single.lacks_value) else {
            return Ok(());
        };
        let handle = handle.handle;
        let block = self
            .table
            .data_block_for(self.purpose, handle, &mut self.ahead)?;
        let DataBlock::SingleRecord(record) = block else {
            let what = Malformed("the block has changed since it was read");
            return Err(self.table.corrupt(handle.offset, what));
        };
        let least_sequence = self.least_sequence;
        if let Some(single) = self.single_mut() {
            single.record = at_least(record, least_sequence);
            single.lacks_value = false;
        }
        Ok(())
    }

    fn reference(&self) -> Option<BlobReference> {
        self.referred()
    }

    fn take(&mut self) -> Record {
        if let Some(fetched) = &mut self.fetched {
            return std::mem::replace(fetched, no_record());
        }
        match self.single_mut() {
            Some(single) => std::mem::replace(&mut single.record, no_record()),
            None => self.record().to_record(),
        }
    }
}

/// Another walk over a block, which stands at the first record at or above `from`.
fn walk_ahead(
    table: &Table,
    block: &Block,
    from: &[u8],
    entry: IndexEntry,
) -> Result<Option<RecordWalk>, Error> {
    let walk = RecordWalk::open(block, from, 0);
    let mut walk = walk.map_err(|malformed| table.corrupt(entry.handle.offset, malformed))?;
    Ok(walk.advance(table, entry)?.then_some(walk))
}

fn at_least(record: Record, least_sequence: u64) -> Record {
    Record {
        sequence: record.sequence.max(least_sequence),
        ..record
    }
}

/// A cursor over an index block, with the block's offset, which errors name.
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
        let block: Block = table.block_for(purpose, handle, role)?;
        let cursor = BlockCursor::new::<IndexEntry>(&block, from);
        Ok(Self {
            cursor: cursor.map_err(|malformed| table.corrupt(handle.offset, malformed))?,
            offset: handle.offset,
        })
    }

    /// The next block.
    fn next(&mut self, table: &Table) -> Result<Option<IndexEntry>, Error> {
        let next = self.cursor.next::<IndexEntry>();
        next.map(|next| next.map(|(_, entry)| entry))
            .map_err(|malformed| table.corrupt(self.offset, malformed))
    }
}
