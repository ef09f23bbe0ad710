//! Opening a table.

use super::block::BlockCursor;
use super::block::frame::{Handle, Role};
use super::block::index::IndexEntry;
use super::block::malformed::Malformed;
use super::damage::DamageState;
use super::filter::pinned::PinnedFilter;
use super::format::{
    FOOTER_BYTES, Footer, FooterError, TABLE_VERSIONS, TableProperties, VERSION, VERSION_MIN,
};
use super::reader::{Table, read};
use super::set_aside::SetAside;
use crate::cache::{Block, BlockCache};
use crate::disk::{CachedFile, DiskFile};
use crate::error::Error;
use crate::manifest::DamagedRange;
use crate::table_id::TableId;
use base::{KEY_BYTES_MAX, Timestamp};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// The most that is read of the end of a file at once, in bytes.
const TAIL_BYTES_MAX: u64 = 16 << 10;

/// The end of a file, or the footer alone; or all pages of its filter.
struct Tail {
    bytes: Vec<u8>,
    /// Where it begins in the file.
    offset: u64,
}

impl Tail {
    fn read(
        file: &dyn DiskFile,
        path: &Path,
        file_bytes: u64,
        footer_offset: u64,
    ) -> Result<Self, Error> {
        let read_from = |offset: u64| {
            let mut bytes = vec![0; (file_bytes - offset) as usize];
            read(file, path, &mut bytes, offset).map(|()| Self { bytes, offset })
        };
        // What cannot be read may be a part that the table opens without.
        let offset = footer_offset.min(file_bytes.saturating_sub(TAIL_BYTES_MAX));
        read_from(offset).or_else(|_| read_from(footer_offset))
    }

    fn footer(&self) -> &[u8; FOOTER_BYTES] {
        const NONE: [u8; FOOTER_BYTES] = [0; FOOTER_BYTES];
        self.bytes.last_chunk().unwrap_or(&NONE)
    }

    /// The bytes of a block, if they are there.
    fn frame(&self, handle: Handle) -> Option<&[u8]> {
        let begin = usize::try_from(handle.offset.checked_sub(self.offset)?).ok()?;
        self.bytes
            .get(begin..begin.checked_add(handle.bytes as usize)?)
    }
}

impl Table {
    /// Opens a table; reads its footer, its properties and its top index, in one read if they are
    /// short. One that is `pinned_on` a level also reads its filter and keeps it in memory, if the
    /// cache has room for the filter of a table of that level.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unknown version, [`Error::Corrupt`], [`Error::Io`].
    pub(crate) fn open(
        file: impl Into<CachedFile>,
        path: &Path,
        id: TableId,
        cache: Arc<BlockCache>,
        pinned_on: Option<usize>,
    ) -> Result<Self, Error> {
        let file: CachedFile = file.into();
        let opened = file
            .opened()
            .map_err(|source| Error::io("open", path, source))?;
        let file_bytes = opened
            .len()
            .map_err(|source| Error::io("measure", path, source))?;
        let Some(footer_offset) = file_bytes.checked_sub(FOOTER_BYTES as u64) else {
            return Err(Error::corrupt(path, 0, "the file is too short for a table"));
        };
        let tail = Tail::read(&*opened, path, file_bytes, footer_offset)?;
        drop(opened);
        let bytes = tail.footer();
        let footer = Footer::decode(bytes, file_bytes).map_err(|error| match error {
            FooterError::Malformed(Malformed(what)) => Error::corrupt(path, footer_offset, what),
            FooterError::UnknownVersion(version) => Error::Invalid(format!(
                "{} is a table of version {version}; this program reads versions {VERSION_MIN} to {}",
                path.display(),
                TABLE_VERSIONS.end()
            )),
        })?;
        let mut table = Self {
            id,
            file,
            path: path.into(),
            footer,
            properties: TableProperties::empty(),
            pinned_filter: None,
            cache,
            damage: DamageState::default(),
            is_recent: false,
            ingested_as: AtomicU64::new(0),
            lost: None,
            set_aside: SetAside::default(),
            blobs: OnceLock::new(),
        };
        let block = table.block_in(&tail, footer.properties, Role::Properties)?;
        table.properties = TableProperties::decode(block.payload(), footer.version)
            .map_err(|malformed| table.corrupt(footer.properties.offset, malformed))?;
        table.check_greatest(&tail)?;
        table.pinned_filter = pinned_on.and_then(|level| table.read_filter(&tail, level));
        Ok(table)
    }

    /// A block out of the end of the file, or from the disk if it begins before that.
    fn block_in(&self, tail: &Tail, handle: Handle, role: Role) -> Result<Block, Error> {
        self.check_bounds(handle)?;
        match tail.frame(handle) {
            Some(frame) => self.unpack_block(frame.into(), handle, role),
            None => self.read_block(handle, role),
        }
    }

    /// Checks the greatest timestamp of the properties against the top index.
    fn check_greatest(&self, tail: &Tail) -> Result<(), Error> {
        let handle = self.footer.top_index;
        let top = self.block_in(tail, handle, Role::TopIndex)?;
        let greatest = || {
            let mut blocks = BlockCursor::new::<IndexEntry>(&top, &[])?;
            let mut greatest = Timestamp::ZERO;
            while let Some((_, entry)) = blocks.next::<IndexEntry>()? {
                greatest = greatest.max(entry.greatest_timestamp);
            }
            Ok(greatest)
        };
        let greatest = greatest().map_err(|malformed| self.corrupt(handle.offset, malformed))?;
        if greatest != self.properties.greatest_timestamp {
            let what = Malformed("the greatest timestamp is not that of the blocks");
            return Err(self.corrupt(self.footer.properties.offset, what));
        }
        Ok(())
    }

    /// A table that does not open because of `why`. Every read of it fails with that, walks
    /// for comparisons pass over it, and compaction takes it for one that may hold any version
    /// of the keys in `range` up to `greatest_timestamp`.
    pub(crate) fn lost(
        file: CachedFile,
        path: &Path,
        range: &DamagedRange,
        greatest_timestamp: Timestamp,
        cache: Arc<BlockCache>,
        why: Error,
    ) -> Self {
        let nowhere = Handle {
            offset: 0,
            bytes: 0,
        };
        let last_key = range.last_key.clone();
        Self {
            id: range.table,
            file,
            path: path.into(),
            footer: Footer {
                properties: nowhere,
                top_index: nowhere,
                filter_offset: 0,
                filter_bytes: 0,
                file_bytes: range.bytes.end,
                version: VERSION,
            },
            properties: TableProperties {
                least_timestamp: Timestamp::ZERO,
                greatest_timestamp,
                least_key: range.first_key.clone(),
                greatest_key: last_key.unwrap_or_else(|| vec![u8::MAX; KEY_BYTES_MAX].into()),
                ..TableProperties::empty()
            },
            pinned_filter: None,
            cache,
            damage: DamageState::default(),
            is_recent: false,
            ingested_as: AtomicU64::new(0),
            lost: Some(why),
            set_aside: SetAside::default(),
            blobs: OnceLock::new(),
        }
    }

    /// Says that it was just written through the system's memory.
    pub(crate) fn set_recent(&mut self) {
        self.is_recent = true;
    }

    /// All pages of the filter, out of the end of the file or in one read, if the cache has room
    /// for the filter of a table of this level. An error is not reported here: the gets that need
    /// the filter meet and report it.
    fn read_filter(&self, tail: &Tail, level: usize) -> Option<PinnedFilter> {
        let shape = self.properties.filter?;
        let bytes = shape.pages as usize * shape.page_bytes as usize;
        let last = self
            .footer
            .filter_page(shape, shape.pages.checked_sub(1)?)?;
        self.check_bounds(last).ok()?;
        let reservation = self.cache.reserve(bytes, PinnedFilter::divisor(level))?;
        let offset = self.footer.filter_offset;
        let alone = if offset < tail.offset {
            let end = last.offset + u64::from(last.bytes);
            let mut bytes = vec![0; (end - offset) as usize];
            self.read(&mut bytes, offset).ok()?;
            Some(Tail { bytes, offset })
        } else {
            None
        };
        let part = alone.as_ref().unwrap_or(tail);
        let mut pages = Vec::with_capacity(bytes);
        for page in 0..shape.pages {
            let handle = self.footer.filter_page(shape, page)?;
            let frame = part.frame(handle)?.into();
            let page = self.unpack_block(frame, handle, Role::Filter).ok()?;
            pages.extend_from_slice(page.payload());
        }
        // A page with a wrong length would shift all pages after it.
        (pages.len() == bytes).then(|| PinnedFilter::new(pages.into_boxed_slice(), reservation))
    }
}
