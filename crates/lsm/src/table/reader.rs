//! Reading a table: finds the winning version of a key.

use super::ahead::ReadAhead;
use super::block::frame;
use super::block::frame::{Handle, Role, TRAILER_BYTES};
use super::block::index::IndexEntry;
use super::block::malformed::Malformed;
use super::block::{Body, FoundEntry, SortedBlock};
use super::damage::DamageState;
use super::filter::pinned::PinnedFilter;
use super::filter::{FilterShape, KeyHash};
use super::format::{FOOTER_BYTES, Footer, TableProperties};
use super::record::{DataBlock, RecordBody};
use super::set_aside::SetAside;
use super::{DiskAccess, Interrupt, Purpose};
use crate::cache::{Block, BlockCache, CountsStripe};
use crate::disk::{CachedFile, DiskFile};
use crate::error::Error;
use crate::manifest::SetAsidePart;
use crate::record::BlobReference;
use crate::table_id::TableId;
use base::{Entry, EntryRef, Kind, Reservation, Timestamp};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// An open table. Only its properties are in memory, and the filter if it is
/// pinned. Everything else comes through the cache.
pub(crate) struct Table {
    pub(super) id: TableId,
    pub(super) file: CachedFile,
    pub(super) path: Arc<Path>,
    pub(super) footer: Footer,
    pub(super) properties: TableProperties,
    pub(super) pinned_filter: Option<PinnedFilter>,
    pub(super) cache: Arc<BlockCache>,
    pub(super) damage: DamageState,
    /// Whether it was written through the system's memory since the last start, and so is
    /// likely to be there.
    pub(super) is_recent: bool,
    /// The sequence number with which the table was ingested; 0 if it was not, or before
    /// the last start.
    pub(super) ingested_as: AtomicU64,
    /// Why it does not open, if it does not. All of it is damaged then.
    pub(super) lost: Option<Error>,
    /// What of it is not part of the store any more.
    pub(super) set_aside: SetAside,
    /// The blob tables that its values lie in, by their numbers, once it is a part of the store.
    pub(super) blobs: OnceLock<Vec<Arc<Self>>>,
}

/// A frame of at least this many bytes may take much memory when it is unpacked.
const LONG_FRAME_BYTES: usize = 16 << 10;

/// How to fetch a block, and what to remember of it.
#[derive(Clone, Copy)]
struct Fetch<'a> {
    access: DiskAccess,
    /// Whether the block comes from the disk even if the cache has it.
    bypasses_cache: bool,
    /// Whether the cache keeps the block if it was read.
    keep: bool,
    /// Whether a long block waits for its turn. Compaction does not wait: only a few
    /// run at a time, and their threads have a low priority, so they would block others
    /// for long during their turns.
    takes_turns: bool,
    /// The counters for the fetch, if it is counted.
    counts: Option<&'a CountsStripe>,
}

/// The winner of a key in a table.
pub(crate) struct Found {
    /// Without its value if that lies in a blob table.
    entry: Entry,
    /// Where its value lies, if that is a blob table.
    reference: Option<BlobReference>,
}

impl Found {
    /// Its timestamp.
    pub(crate) fn timestamp(&self) -> Timestamp {
        self.entry.timestamp()
    }

    /// The version, or itself if its value lies in a blob table and has to be fetched.
    pub(crate) fn into_entry(self) -> Result<Entry, Self> {
        match self.reference {
            None => Ok(self.entry),
            Some(_) => Err(self),
        }
    }
}

/// What a table holds of a key, without the value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// The timestamp of the winner.
    pub(crate) timestamp: Timestamp,
    /// Whether it is a tombstone.
    pub(crate) kind: Kind,
    /// The bytes of its key and its value, wherever that lies.
    pub(crate) data_bytes: usize,
}

impl Table {
    /// Checks a timestamp in or below a block against the block's index entry.
    #[inline]
    pub(super) fn check(&self, entry: IndexEntry, timestamp: Timestamp) -> Result<(), Error> {
        entry
            .check(timestamp)
            .map_err(|malformed| self.corrupt(entry.handle.offset, malformed))
    }

    /// The table's number.
    pub(crate) fn id(&self) -> TableId {
        self.id
    }

    /// Lets all records of the table count as committed with this sequence number,
    /// because they arrive only now. Called before any reader has the table. No file
    /// says so: no snapshot survives a restart.
    pub(crate) fn ingest_as(&self, sequence: u64) {
        self.ingested_as.store(sequence, Relaxed);
    }

    /// The sequence number that every record of the table has at least.
    pub(super) fn least_sequence(&self) -> u64 {
        self.ingested_as.load(Relaxed)
    }

    /// Notes what of the table is set aside. Walks that have begun pass over it as well.
    pub(crate) fn set_aside(&self, parts: Vec<SetAsidePart>) {
        self.set_aside.set(parts, &self.properties);
    }

    /// The table, for whoever reads what is kept of the parts that are set aside.
    pub(crate) fn showing_kept(mut self, parts: Vec<SetAsidePart>) -> Self {
        self.set_aside(parts);
        self.set_aside.shows_kept = true;
        self
    }

    /// Whether the table did not open when the store was opened.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Fills `buffer` with what its file has from `offset` on, whatever that is.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the file ends before, [`Error::Io`].
    pub(crate) fn read_file(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        read(&*self.opened()?, &self.path, buffer, offset)
    }

    /// The file, opened if it is not. That it does not open says something about the process and
    /// not about the table, so it is no failed read of the table.
    fn opened(&self) -> Result<Arc<dyn DiskFile>, Error> {
        let opened = self.file.opened();
        opened.map_err(|source| Error::io("open", &self.path, source))
    }

    /// What the table holds.
    pub(crate) fn properties(&self) -> &TableProperties {
        #[cfg(test)]
        super::tests::touched::note();
        &self.properties
    }

    /// The length of the table's file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.footer.file_bytes
    }

    /// Whether `key` lies between the least and the greatest key.
    pub(crate) fn admits(&self, key: &[u8]) -> bool {
        let properties = self.properties();
        *properties.least_key <= *key && *key <= *properties.greatest_key
    }

    /// Lets the table hold the blob tables that its values lie in, so that they stay for as long as
    /// anybody has it. One that `find` does not have is missed by who reads a value in it.
    pub(crate) fn link_blobs(&self, find: impl Fn(TableId) -> Option<Arc<Self>>) {
        self.blobs.get_or_init(|| {
            self.properties
                .blobs
                .keys()
                .filter_map(|id| find(*id))
                .collect()
        });
    }

    /// The blob tables that its values lie in, by their numbers.
    pub(crate) fn blobs(&self) -> &[Arc<Self>] {
        self.blobs.get().map_or(&[], Vec::as_slice)
    }

    /// The winner among the table's versions of `key`, whose hash is `hash`, without those that
    /// are set aside.
    ///
    /// A get that returned [`Interrupt::WouldBlock`] counts its filter checks again
    /// when it is repeated.
    ///
    /// # Errors
    /// [`Interrupt::WouldBlock`], only with [`DiskAccess::Cached`]; [`Error::Corrupt`],
    /// [`Error::Io`].
    pub(crate) fn get(
        &self,
        key: &[u8],
        hash: KeyHash,
        access: DiskAccess,
    ) -> Result<Option<Entry>, Interrupt> {
        let found = self.find_version(key, hash, access)?;
        let fetched = found.map(|found| self.fetch(found, hash, access));
        fetched.transpose()
    }

    /// The winner that [`Table::get`] returns, whose value is not fetched yet.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub(crate) fn find_version(
        &self,
        key: &[u8],
        hash: KeyHash,
        access: DiskAccess,
    ) -> Result<Option<Found>, Interrupt> {
        self.look_up(key, hash, self.fetch_of_key(hash, access))
    }

    /// The version that was found, with its value.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub(crate) fn fetch(
        &self,
        found: Found,
        hash: KeyHash,
        access: DiskAccess,
    ) -> Result<Entry, Interrupt> {
        match found.reference {
            None => Ok(found.entry),
            Some(reference) => {
                let fetch = self.fetch_of_key(hash, access);
                self.referred(reference, found.entry.lend(), fetch)
            }
        }
    }

    /// What it holds of a key: [`Table::get`] without reading a value in a blob table.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub(crate) fn held(
        &self,
        key: &[u8],
        hash: KeyHash,
        access: DiskAccess,
    ) -> Result<Option<Held>, Interrupt> {
        let found = self.find_version(key, hash, access)?;
        Ok(found.map(|Found { entry, reference }| Held {
            timestamp: entry.timestamp(),
            kind: entry.kind(),
            data_bytes: entry.data_bytes() + reference.map_or(0, |it| it.value_bytes as usize),
        }))
    }

    fn fetch_of_key(&self, hash: KeyHash, access: DiskAccess) -> Fetch<'_> {
        let is_for_reader = access != DiskAccess::Compaction;
        Fetch {
            access,
            bypasses_cache: false,
            keep: is_for_reader,
            takes_turns: is_for_reader,
            counts: is_for_reader.then(|| self.cache.counters().stripe(hash.as_u64())),
        }
    }

    fn look_up(
        &self,
        key: &[u8],
        hash: KeyHash,
        fetch: Fetch<'_>,
    ) -> Result<Option<Found>, Interrupt> {
        if !self.admits(key) {
            return Ok(None);
        }
        let counts = fetch.counts;
        let Some(shape) = self.properties.filter else {
            return self.find(key, fetch);
        };
        let admits = match &self.pinned_filter {
            Some(filter) => filter.admits(shape, hash),
            None => self.filter_admits(shape, hash, fetch)?,
        };
        if !admits {
            if let Some(counts) = counts {
                counts.count_filter_negative();
            }
            return Ok(None);
        }
        let found = self.find(key, fetch)?;
        match (counts, &found) {
            (Some(counts), Some(_)) => counts.count_filter_true_positive(),
            (Some(counts), None) => counts.count_filter_false_positive(),
            (None, _) => {}
        }
        Ok(found)
    }

    /// Whether the filter admits a key, according to the key's page in the cache.
    fn filter_admits(
        &self,
        shape: FilterShape,
        hash: KeyHash,
        fetch: Fetch<'_>,
    ) -> Result<bool, Interrupt> {
        let handle = self.footer.filter_page(shape, shape.page(hash));
        let handle = handle.ok_or_else(|| {
            let what = Malformed("the filter is shorter than its shape says");
            self.corrupt(self.footer.properties.offset, what)
        })?;
        let page = self.block(handle, Role::Filter, fetch, None)?;
        Ok(shape.admits(page.payload(), hash))
    }

    /// [`Table::look_up`] without the filter.
    fn find(&self, key: &[u8], fetch: Fetch<'_>) -> Result<Option<Found>, Interrupt> {
        let found = self.find_any(key, fetch)?;
        // What it outranks is no newer, so it is set aside as well.
        let hides = |entry: &Entry| self.set_aside.hides(entry.key(), entry.timestamp());
        Ok(found.filter(|found| !self.set_aside.hides_some() || !hides(&found.entry)))
    }

    /// [`Table::find`] among all versions of the table.
    fn find_any(&self, key: &[u8], fetch: Fetch<'_>) -> Result<Option<Found>, Interrupt> {
        let top = self.block(self.footer.top_index, Role::TopIndex, fetch, None)?;
        let Some(index) = self.seek::<IndexEntry>(&top, self.footer.top_index, key)? else {
            return Ok(None);
        };
        let index = index.body;
        let block = self.block(index.handle, Role::Index, fetch, None)?;
        let Some(data) = self.seek::<IndexEntry>(&block, index.handle, key)? else {
            return Ok(None);
        };
        let data = data.body;
        let block = self.block(data.handle, Role::Data, fetch, None)?;
        let block = match self.data_block(block, data.handle)? {
            DataBlock::Sorted(block) => block,
            DataBlock::SingleRecord(record) => {
                self.check(data, record.entry.timestamp())?;
                let entry = record.entry;
                return Ok((entry.key() == key).then_some(Found {
                    entry,
                    reference: None,
                }));
            }
        };
        let found = self.seek::<RecordBody<'_>>(&block, data.handle, key)?;
        let Some(found) = found.filter(|found| found.is_target) else {
            return Ok(None);
        };
        self.check(data, found.body.timestamp())?;
        Ok(Some(Found {
            entry: found.body.with_key(key).to_entry(),
            reference: found.body.reference(),
        }))
    }

    /// The version of this key and timestamp with its value, which lies in a blob table.
    fn referred(
        &self,
        reference: BlobReference,
        entry: EntryRef<'_>,
        fetch: Fetch<'_>,
    ) -> Result<Entry, Interrupt> {
        let blob = self.blob(reference)?;
        let block = blob.block(handle_of(reference), Role::Data, fetch, None)?;
        Ok(blob.referred_entry(block, reference, entry)?)
    }

    /// The blob table of a reference.
    fn blob(&self, reference: BlobReference) -> Result<&Arc<Self>, Error> {
        let blobs = self.blobs();
        let place = blobs.binary_search_by_key(&reference.table, |blob| blob.id);
        let blob = place.ok().and_then(|place| blobs.get(place));
        blob.ok_or_else(|| {
            let what = Malformed("a value lies in a blob table that the store does not have");
            self.corrupt(self.footer.properties.offset, what)
        })
    }

    /// The only entry of a block, which has to be this version.
    fn referred_entry(
        &self,
        block: Block,
        reference: BlobReference,
        entry: EntryRef<'_>,
    ) -> Result<Entry, Error> {
        let found = match self.data_block(block, handle_of(reference))? {
            DataBlock::SingleRecord(record) => Some(record.entry),
            DataBlock::Sorted(block) => {
                let found =
                    self.seek::<RecordBody<'_>>(&block, handle_of(reference), entry.key())?;
                found.map(|found| found.body.with_key(entry.key()).to_entry())
            }
        };
        let is_it = |found: &Entry| {
            found.key() == entry.key()
                && found.timestamp() == entry.timestamp()
                && found.value_bytes().len() == reference.value_bytes as usize
        };
        found.filter(is_it).ok_or_else(|| {
            let what = Malformed("the block does not hold the value that refers to it");
            self.corrupt(reference.offset, what)
        })
    }

    /// The version of this key and timestamp with its value, which lies in a blob table, for a
    /// walk over this table. `purpose` is that of the walk.
    pub(super) fn referred_for(
        &self,
        purpose: Purpose,
        reference: BlobReference,
        entry: EntryRef<'_>,
    ) -> Result<Entry, Error> {
        let blob = self.blob(reference)?;
        let result = blob
            .fetch_for(purpose, handle_of(reference), Role::Data, None)
            .and_then(|block| blob.referred_entry(block, reference, entry));
        result.inspect_err(|error| blob.note_unread(purpose, reference.offset, error))
    }

    /// Says that a value will be read soon.
    pub(super) fn will_need(&self, reference: BlobReference) {
        let Ok(blob) = self.blob(reference) else {
            return;
        };
        let is_inside = !blob.is_lost() && blob.check_bounds(handle_of(reference)).is_ok();
        if let Some(file) = blob.file.opened().ok().filter(|_| is_inside) {
            file.will_need(reference.offset, u64::from(reference.bytes));
        }
    }

    /// Whether a walk passes over a value because the part of the blob table is damaged.
    pub(super) fn passes_over_value(&self, purpose: Purpose, reference: BlobReference) -> bool {
        let Ok(blob) = self.blob(reference) else {
            return false;
        };
        match purpose {
            Purpose::Comparison { .. } => blob.is_unread(reference.offset),
            Purpose::RewriteSound => blob.is_noted(reference.offset),
            Purpose::Scan { .. } | Purpose::Compaction | Purpose::Rewrite => false,
        }
    }

    /// Whether the part of a blob table is damaged that a value lies in.
    pub(super) fn is_value_noted(&self, reference: BlobReference) -> bool {
        self.blob(reference)
            .is_ok_and(|blob| blob.is_noted(reference.offset))
    }

    fn seek<'a, B: Body<'a>>(
        &self,
        block: &'a Block,
        handle: Handle,
        key: &[u8],
    ) -> Result<Option<FoundEntry<B>>, Error> {
        SortedBlock::parse(block.payload())
            .and_then(|sorted| sorted.seek(key))
            .map_err(|malformed| self.corrupt(handle.offset, malformed))
    }

    /// Opens a data block. A record that is alone in a long block is taken out of it
    /// without a copy.
    fn data_block(&self, block: Block, handle: Handle) -> Result<DataBlock, Error> {
        if !block.is_long() {
            return Ok(DataBlock::Sorted(block));
        }
        DataBlock::open(block).map_err(|malformed| self.corrupt(handle.offset, malformed))
    }

    /// Where the parts of the file lie.
    pub(super) fn footer(&self) -> &Footer {
        &self.footer
    }

    /// The handle of the top index block.
    pub(super) fn top_index(&self) -> Handle {
        self.footer.top_index
    }

    /// A block for a walk over the table.
    pub(super) fn block_for(
        &self,
        purpose: Purpose,
        handle: Handle,
        role: Role,
    ) -> Result<Block, Error> {
        self.fetch_for(purpose, handle, role, None)
    }

    /// [`Table::block_for`], perhaps out of what the walk has read ahead.
    fn fetch_for(
        &self,
        purpose: Purpose,
        handle: Handle,
        role: Role,
        mut ahead: Option<&mut ReadAhead>,
    ) -> Result<Block, Error> {
        let fetch = match purpose {
            Purpose::Scan { keep_data } => Fetch {
                access: DiskAccess::MayRead,
                bypasses_cache: false,
                // A long block would push as much out of the cache as a long scan.
                keep: role != Role::Data || keep_data && (handle.bytes as usize) < LONG_FRAME_BYTES,
                takes_turns: true,
                counts: Some(self.cache.counters().stripe(self.id.0)),
            },
            Purpose::Comparison { checks_disk, .. } => Fetch {
                access: DiskAccess::MayRead,
                bypasses_cache: checks_disk,
                keep: false,
                takes_turns: true,
                counts: (!checks_disk).then(|| self.cache.counters().stripe(self.id.0)),
            },
            Purpose::Compaction | Purpose::Rewrite | Purpose::RewriteSound => Fetch {
                access: DiskAccess::Compaction,
                bypasses_cache: false,
                keep: false,
                takes_turns: false,
                counts: None,
            },
        };
        let mut tries = 1;
        loop {
            match self.block(handle, role, fetch, ahead.as_deref_mut()) {
                Ok(block) => return Ok(block),
                Err(Interrupt::Failed(Error::Io { .. })) if tries < Self::reads_max(purpose) => {
                    tries += 1;
                }
                Err(Interrupt::Failed(error)) => return Err(error),
                Err(Interrupt::WouldBlock) => unreachable!("the fetch may read"),
            }
        }
    }

    /// A data block for a walk over the table, or the single record of a long one. A walk
    /// of which the cache keeps nothing reads ahead.
    pub(super) fn data_block_for(
        &self,
        purpose: Purpose,
        handle: Handle,
        ahead: &mut ReadAhead,
    ) -> Result<DataBlock, Error> {
        let is_short = (handle.bytes as usize) < LONG_FRAME_BYTES;
        let ahead_bytes_max = purpose.ahead_bytes_max();
        let reads_ahead = is_short && ahead_bytes_max > 0;
        let ahead = reads_ahead.then(|| ahead.up_to(ahead_bytes_max));
        self.data_block(self.fetch_for(purpose, handle, Role::Data, ahead)?, handle)
    }

    /// A block from the cache or, if the fetch may read, from the disk.
    fn block(
        &self,
        handle: Handle,
        role: Role,
        fetch: Fetch<'_>,
        ahead: Option<&mut ReadAhead>,
    ) -> Result<Block, Interrupt> {
        if let Some(why) = &self.lost {
            return Err(Interrupt::Failed(why.clone()));
        }
        let cached = if fetch.bypasses_cache {
            None
        } else {
            self.cache.get(self.id, handle.offset)
        };
        if cached.is_none() && fetch.access == DiskAccess::Cached {
            return Err(Interrupt::WouldBlock);
        }
        if let Some(counts) = fetch.counts {
            counts.count_fetch(cached.is_some(), role == Role::Data);
        }
        if let Some(block) = cached {
            return Ok(block);
        }
        let block = {
            let _turn = if fetch.takes_turns {
                self.reserve_long_read(handle)?
            } else {
                None
            };
            match ahead {
                Some(ahead) => self.read_block_ahead(handle, role, ahead)?,
                None => self.read_block(handle, role)?,
            }
        };
        if fetch.keep {
            self.cache.insert(self.id, handle.offset, &block);
        }
        Ok(block)
    }

    /// A block from the disk. Allocates no memory for a handle that does not lie
    /// within the file.
    pub(super) fn read_block(&self, handle: Handle, role: Role) -> Result<Block, Error> {
        self.check_bounds(handle)?;
        let mut frame = frame::zeros(handle.bytes as usize);
        let room = Arc::get_mut(&mut frame).unwrap_or_default();
        self.read(room, handle.offset)?;
        self.unpack_block(frame, handle, role)
    }

    /// A block out of the bytes of its frame.
    pub(super) fn unpack_block(
        &self,
        frame: Arc<[u8]>,
        handle: Handle,
        role: Role,
    ) -> Result<Block, Error> {
        let all = 0..frame.len();
        frame::unpack(role, frame, all, handle.offset, &mut Arc::default())
            .map_err(|malformed| self.corrupt(handle.offset, malformed))
    }

    /// A block out of what a walk has read ahead. If more is needed and cannot be read,
    /// the block is read alone: then an error says which block it concerns.
    fn read_block_ahead(
        &self,
        handle: Handle,
        role: Role,
        ahead: &mut ReadAhead,
    ) -> Result<Block, Error> {
        self.check_bounds(handle)?;
        let index_end = self.footer.top_index.offset;
        match ahead.frame(&self.file, handle, index_end) {
            Some((bytes, frame)) => frame::unpack(role, bytes, frame, handle.offset, ahead.spare())
                .map_err(|malformed| self.corrupt(handle.offset, malformed)),
            None => self.read_block(handle, role),
        }
    }

    /// Waits for the memory to read a block that may take much. It reads the
    /// frame's trailer first, because a frame may unpack to many times its length.
    fn reserve_long_read(&self, handle: Handle) -> Result<Option<Reservation>, Error> {
        let bytes = handle.bytes as usize;
        if bytes < LONG_FRAME_BYTES {
            return Ok(None);
        }
        self.check_bounds(handle)?;
        let mut trailer = [0; TRAILER_BYTES];
        let trailer_offset = handle.offset + (bytes - TRAILER_BYTES) as u64;
        self.read(&mut trailer, trailer_offset)?;
        let bytes = bytes + frame::unpacked_bytes(trailer);
        Ok(self.cache.reserve_long_read(bytes))
    }

    /// Fills a buffer from the table's file, and notes if the file is too short.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        self.read_file(offset, buffer).inspect_err(|error| {
            if let Error::Corrupt { .. } = error {
                self.note_corruption(error, offset);
            }
        })
    }

    pub(super) fn check_bounds(&self, handle: Handle) -> Result<(), Error> {
        let blocks_end = self.footer.file_bytes - FOOTER_BYTES as u64;
        let end = handle.offset.checked_add(u64::from(handle.bytes));
        if end.is_none_or(|end| end > blocks_end) {
            let what = Malformed("the block lies outside the file");
            return Err(self.corrupt(handle.offset, what));
        }
        Ok(())
    }
}

fn handle_of(reference: BlobReference) -> Handle {
    Handle {
        offset: reference.offset,
        bytes: reference.bytes,
    }
}

pub(super) fn read(
    file: &dyn DiskFile,
    path: &Path,
    buffer: &mut [u8],
    offset: u64,
) -> Result<(), Error> {
    file.read_exact_at(buffer, offset)
        .map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => {
                Error::corrupt(path, offset, "the file was cut short while it was open")
            }
            _ => Error::io("read", path, source),
        })
}
