//! Writes the records of a table to one file.
//!
//! The writer's memory holds a block of each kind, the top index, two thousand
//! expiries, and eight bytes a key for the filter, whose size is known only at the
//! end.

use super::TableSettings;
use super::block::frame::{Handle, Role};
use super::block::index::IndexEntry;
use super::block::writer::BlockWriter;
use super::block::{BlockBuilder, SINGLE_ENTRY_END_BYTES};
use super::expiries::Expiries;
use super::filter::{FilterShape, KeyHash};
use super::format::{FOOTER_BYTES, Footer, TableProperties};
use super::record::RecordBody;
use crate::disk::DiskFile;
use crate::error::Error;
#[cfg(debug_assertions)]
use crate::record::Record;
use crate::record::{BlobReference, RecordRef};
use base::{KEY_BYTES_MAX, Timestamp, VALUE_BYTES_MAX};
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;

/// The largest target size of a block. Even with the largest value added, lengths
/// and restarts fit the format's 32 bits and the compressor's bounds.
const BLOCK_BYTES_MAX: usize = 64 << 20;

/// Writes a table. A writer that is dropped before [`TableWriter::finish`] leaves a
/// file that no reader accepts as a table.
pub(crate) struct TableWriter {
    blocks: BlockWriter,
    block_bytes: usize,
    /// The size at which an index block is complete, before compression, in bytes.
    index_block_bytes: usize,
    filter_rate: Option<f64>,
    data: BlockBuilder,
    index: BlockBuilder,
    top_index: BlockBuilder,
    /// The greatest timestamp of the current data block.
    greatest_data_timestamp: Timestamp,
    /// The greatest timestamp of the data blocks in the current index block.
    greatest_index_timestamp: Timestamp,
    /// The hash of each key, once for all its versions.
    hashes: Vec<KeyHash>,
    properties: TableProperties,
    /// The data block that was written last.
    last_block: Handle,
    expiries: Expiries,
    #[cfg(debug_assertions)]
    last: Option<Record>,
    /// Whether the value of that one lies in a blob table.
    #[cfg(debug_assertions)]
    last_refers: bool,
}

impl TableWriter {
    /// Starts a table in an empty file; `path` names the file in errors.
    pub(crate) fn create(file: Arc<dyn DiskFile>, path: &Path, settings: &TableSettings) -> Self {
        Self {
            blocks: BlockWriter::new(file, path, settings.compression),
            block_bytes: settings.block_bytes.min(BLOCK_BYTES_MAX),
            index_block_bytes: settings.block_bytes.min(BLOCK_BYTES_MAX),
            last_block: Handle::default(),
            filter_rate: settings.filter_false_positive_rate,
            data: BlockBuilder::default(),
            index: BlockBuilder::default(),
            top_index: BlockBuilder::default(),
            greatest_data_timestamp: Timestamp::ZERO,
            greatest_index_timestamp: Timestamp::ZERO,
            hashes: Vec::new(),
            properties: TableProperties::empty(),
            expiries: Expiries::new(),
            #[cfg(debug_assertions)]
            last: None,
            #[cfg(debug_assertions)]
            last_refers: false,
        }
    }

    /// Puts each record into a block of its own, and leaves the filter out.
    pub(crate) fn with_single_records(mut self) -> Self {
        self.block_bytes = 1;
        self.without_filter()
    }

    /// Leaves the filter out.
    pub(crate) fn without_filter(mut self) -> Self {
        self.filter_rate = None;
        self
    }

    /// Lets the index miss the timestamps so far of the current block.
    #[cfg(test)]
    pub(super) fn forget_timestamps(&mut self) {
        self.greatest_data_timestamp = Timestamp::ZERO;
    }

    /// Leaves a hole before the first block, as if `bytes` bytes had been written.
    #[cfg(test)]
    pub(super) fn skip(&mut self, bytes: u64) {
        self.blocks.skip(bytes);
    }

    /// Adds a record, which must follow the previous one in [`RecordRef::order`].
    ///
    /// # Errors
    /// [`Error::Invalid`] for a key or a value that exceeds the format's limits,
    /// [`Error::Io`], [`Error::Sync`], [`Error::DiskFull`]. The table cannot be
    /// finished after an error.
    pub(crate) fn add(&mut self, record: RecordRef<'_>) -> Result<(), Error> {
        self.add_body(record, RecordBody::of(record))
    }

    /// Adds a record whose value lies in a blob table.
    ///
    /// # Errors
    /// As [`TableWriter::add`].
    pub(crate) fn add_reference(
        &mut self,
        record: RecordRef<'_>,
        reference: BlobReference,
    ) -> Result<(), Error> {
        // The value may be there, and its bytes are those of the reference.
        let record = RecordRef {
            sequence: record.sequence,
            entry: record.entry.without_value(),
        };
        self.add_body(record, RecordBody::referring(record, reference))
    }

    /// Where the record lies that was added last, if each has a block of its own.
    pub(crate) fn last_block(&self) -> (u64, u32) {
        (self.last_block.offset, self.last_block.bytes)
    }

    fn add_body(&mut self, record: RecordRef<'_>, body: RecordBody<'_>) -> Result<(), Error> {
        let entry = record.entry;
        let (key, value) = (entry.key(), entry.value_bytes());
        if key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            return Err(Error::Invalid(format!(
                "a key of {} or a value of {} bytes is too long for a table",
                key.len(),
                value.len()
            )));
        }
        #[cfg(debug_assertions)]
        {
            if let Some(last) = &self.last {
                // Without its value a record does not say where it belongs among its equals.
                let key = entry.key().cmp(last.entry.key());
                let timestamp = last.entry.timestamp().cmp(&entry.timestamp());
                let is_behind = last.lend().order(record).is_lt()
                    || self.last_refers
                    || body.reference().is_some();
                debug_assert!(
                    key.is_ge() && (key.is_gt() || timestamp.is_ge()) && is_behind,
                    "records out of order"
                );
            }
            self.last_refers = body.reference().is_some();
            self.last = Some(record.to_record());
        }
        // A value that fills a block is alone in its block, because readers of a
        // small neighbour would have to read the large value too.
        if key.len() + value.len() >= self.block_bytes {
            self.finish_data_block()?;
        }
        let is_first = self.properties.entries == 0;
        self.properties.add(record, body.reference());
        let elsewhere = body.reference().map_or(0, |it| u64::from(it.value_bytes));
        self.expiries
            .add(entry, entry.data_bytes() as u64 + elsewhere);
        self.greatest_data_timestamp = self.greatest_data_timestamp.max(entry.timestamp());
        if self.data.is_empty() {
            // The block is built where it is written from.
            self.data.begin_in(self.blocks.take_buffer());
        }
        // Such a value is alone in its block.
        let goes_around = value.len() >= self.block_bytes && self.blocks.goes_around(value);
        let is_repeated = self.data.add(key, |buffer| {
            if goes_around {
                body.encode_head(buffer);
            } else {
                body.encode(buffer);
            }
        });
        if (is_first || !is_repeated) && self.filter_rate.is_some() {
            self.hashes.push(KeyHash::of(key));
        }
        if goes_around {
            let (buffer, start) = self.data.finish_in_place();
            let handle = self
                .blocks
                .write_around(buffer, start, value, SINGLE_ENTRY_END_BYTES)?;
            self.note_data_block(handle)?;
        } else if self.data.bytes() >= self.block_bytes {
            self.finish_data_block()?;
        }
        Ok(())
    }

    /// The key of the record that was added last.
    pub(crate) fn last_key(&self) -> &[u8] {
        self.data.last_key()
    }

    /// Counts the last record that was added as a non-owned version of this timestamp.
    pub(crate) fn count_non_owned(&mut self, timestamp: Timestamp) {
        self.properties.add_non_owned(timestamp);
    }

    /// The bytes written so far, without the current block, the rest of the index
    /// and the filter.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.blocks.offset()
    }

    /// Writes the rest and syncs the file; the caller syncs the folder.
    ///
    /// # Errors
    /// [`Error::Sync`], [`Error::Io`], [`Error::DiskFull`]; [`Error::Invalid`] for a
    /// table without records, because it has no least and no greatest key.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        if self.properties.entries == 0 {
            return Err(Error::Invalid("a table needs a record".to_owned()));
        }
        self.finish_data_block()?;
        self.finish_index_block()?;
        let top_index = self
            .blocks
            .write_block(Role::TopIndex, self.top_index.finish())?;
        let (filter_offset, filter_bytes) = self.write_filter()?;
        self.properties.greatest_key = Bytes::copy_from_slice(self.data.last_key());
        let half = self.properties.entry_bytes.div_ceil(2);
        self.properties.half_expired = self.expiries.when_expired(half);
        let properties = self
            .blocks
            .write_block(Role::Properties, &self.properties.encode())?;
        let footer = Footer {
            properties,
            top_index,
            filter_offset,
            filter_bytes,
            file_bytes: self.blocks.offset() + FOOTER_BYTES as u64,
            version: self.properties.version(),
        };
        self.blocks.finish(&footer.encode())
    }

    fn finish_data_block(&mut self) -> Result<(), Error> {
        if self.data.is_empty() {
            return Ok(());
        }
        let (buffer, start) = self.data.finish_in_place();
        let handle = self.blocks.write_in_place(Role::Data, buffer, start)?;
        self.note_data_block(handle)
    }

    /// Adds the data block that was written last to the index.
    fn note_data_block(&mut self, handle: Handle) -> Result<(), Error> {
        self.last_block = handle;
        let entry = IndexEntry {
            handle,
            greatest_timestamp: std::mem::take(&mut self.greatest_data_timestamp),
        };
        self.greatest_index_timestamp = self.greatest_index_timestamp.max(entry.greatest_timestamp);
        self.index
            .add(self.data.last_key(), |buffer| entry.encode(buffer));
        if self.index.bytes() >= self.index_block_bytes {
            self.finish_index_block()?;
        }
        Ok(())
    }

    fn finish_index_block(&mut self) -> Result<(), Error> {
        if self.index.is_empty() {
            return Ok(());
        }
        let handle = self.blocks.write_block(Role::Index, self.index.finish())?;
        let entry = IndexEntry {
            handle,
            greatest_timestamp: std::mem::take(&mut self.greatest_index_timestamp),
        };
        self.top_index
            .add(self.index.last_key(), |buffer| entry.encode(buffer));
        self.index.clear();
        Ok(())
    }

    /// Writes the pages of the filter. Returns where they begin, and their length.
    fn write_filter(&mut self) -> Result<(u64, u64), Error> {
        let shape = self
            .filter_rate
            .and_then(|rate| FilterShape::new(self.hashes.len(), rate));
        let Some(shape) = shape else {
            return Ok((0, 0));
        };
        let start = self.blocks.offset();
        let pages = shape.build(&self.hashes);
        for page in pages.chunks(shape.page_bytes as usize) {
            self.blocks.write_block(Role::Filter, page)?;
        }
        self.properties.filter = Some(shape);
        Ok((start, self.blocks.offset() - start))
    }
}
