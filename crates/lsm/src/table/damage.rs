//! Damaged parts of a table: which keys they may have held, and what a walk for a comparison
//! does about them.
//!
//! A block that is damaged is reported by its offset. The index tells which keys the
//! block held; if the index is damaged, the keys of everything below it count. The
//! parts of a file that hold no records (filter, properties, footer) concern all keys of
//! the table: gets need the filter, and without a footer the table does not open.

use super::Purpose;
use super::block::BlockCursor;
use super::block::frame::{Handle, Role};
use super::block::index::IndexEntry;
use super::block::malformed::Malformed;
use super::format::{FOOTER_BYTES, Footer, FooterError};
use super::reader::Table;
use crate::error::Error;
use crate::locks::lock;
use crate::manifest::DamagedRange;
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// How often a block is read that the system cannot read, before it counts as damaged.
const READS_MAX: u32 = 3;

/// The number of failed reads after which a table counts as damaged for a while. One
/// failure may be temporary, but a bad sector stays bad.
const FAILED_READS_MAX: u32 = 3;

/// The parts of a file that are noted as damaged.
#[derive(Default)]
struct DamagedParts(ArcSwapOption<Vec<Range<u64>>>);

impl DamagedParts {
    /// Whether a noted part includes this offset.
    fn contains(&self, offset: u64) -> bool {
        let parts = self.0.load();
        parts
            .as_ref()
            .is_some_and(|parts| parts.iter().any(|part| part.contains(&offset)))
    }

    fn set(&self, parts: Vec<Range<u64>>) {
        let parts = (!parts.is_empty()).then(|| Arc::new(parts));
        self.0.store(parts);
    }
}

/// What is known of the damage of a table since it was opened.
#[derive(Default)]
pub(super) struct DamageState {
    /// Whether a part of it was found not to be what was written.
    is_corrupt: AtomicBool,
    /// The parts of the file that the engine has noted as damaged.
    parts: DamagedParts,
    /// Where a comparison could not read a value, if it is a blob table.
    unread: Mutex<BTreeSet<u64>>,
    /// How many compactions have failed because the system could not read the table.
    failed_reads: AtomicU32,
}

impl Table {
    /// Whether a part of the table was found to be damaged since it was opened, or
    /// cannot be read. The other parts are served.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damage.is_corrupt.load(Relaxed) || self.is_unreadable()
    }

    fn is_unreadable(&self) -> bool {
        self.damage.failed_reads.load(Relaxed) >= FAILED_READS_MAX
    }

    /// Notes an error that ended a compaction. Returns whether the table counts as
    /// damaged because of this error, until [`Table::try_again`].
    pub(crate) fn note_failure(&self, error: &Error) -> bool {
        let is_read = matches!(error, Error::Io { file, action, .. }
            if **file == *self.path && *action == "read");
        if !is_read || self.is_unreadable() {
            return false;
        }
        self.damage.failed_reads.fetch_add(1, Relaxed);
        if self.is_unreadable() {
            self.cache.damage_reports().note_damaged(self.id());
            tracing::error!(
                %error,
                "a table cannot be read: compaction skips it for a while; check the disk"
            );
        }
        self.is_unreadable()
    }

    /// Lets one more compaction read a table that could not be read.
    pub(crate) fn try_again(&self) {
        if self.is_unreadable() {
            self.damage
                .failed_reads
                .store(FAILED_READS_MAX - 1, Relaxed);
        }
    }

    /// Notes that the table is damaged, and reports where.
    pub(super) fn note_corruption(&self, error: &Error, offset: u64) {
        if !self.damage.is_corrupt.swap(true, Relaxed) {
            self.cache.damage_reports().note_damaged(self.id());
            tracing::error!(
                %error,
                "a table is damaged: its intact parts are served, and compaction skips it"
            );
        }
        if !self.damage.parts.contains(offset) {
            self.cache.damage_reports().report(self.id(), offset);
        }
    }

    /// Notes which parts of the file are damaged.
    pub(crate) fn set_damaged_parts(&self, parts: Vec<Range<u64>>) {
        if !parts.is_empty() {
            self.damage.is_corrupt.store(true, Relaxed);
            self.cache.damage_reports().note_damaged(self.id());
        }
        self.damage.parts.set(parts);
    }

    /// The error that says that the file is malformed at an offset, which is noted.
    pub(super) fn corrupt(&self, offset: u64, Malformed(what): Malformed) -> Error {
        let error = Error::corrupt(&self.path, offset, what);
        self.note_corruption(&error, offset);
        error
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// The parts of the file that are noted as damaged.
    pub(crate) fn noted_parts(&self) -> Vec<Range<u64>> {
        let parts = self.damage.parts.0.load();
        parts.as_ref().map_or_else(Vec::new, |parts| parts.to_vec())
    }

    /// Whether the part of the file at `offset` is noted as damaged.
    pub(crate) fn is_noted(&self, offset: u64) -> bool {
        self.damage.parts.contains(offset)
    }

    /// Which part of the file is damaged if the byte at `offset` is, and which keys it
    /// may have held. `is_blob` says whether each record has a block of its own. Reads the index.
    pub(crate) fn locate_damage(&self, offset: u64, is_blob: bool) -> DamagedRange {
        let top = self.top_index();
        let all = DamagedRange {
            table: self.id(),
            bytes: 0..self.file_bytes(),
            first_key: self.properties().least_key.clone(),
            last_key: Some(self.properties().greatest_key.clone()),
            is_set_aside: false,
        };
        let top_end = top.offset + u64::from(top.bytes);
        if offset >= top_end {
            return DamagedRange {
                bytes: top_end..self.file_bytes(),
                ..all
            };
        }
        // Without the index block it is the whole group of blocks that the index block
        // lists, and without the top index the whole table.
        let group = self.entry_at(top, Role::TopIndex, offset, &all);
        let Ok(Some((group, index))) = group else {
            return all;
        };
        let group = DamagedRange {
            bytes: group.bytes.start..index.offset + u64::from(index.bytes),
            ..group
        };
        if offset >= index.offset {
            return group;
        }
        match self.entry_at(index, Role::Index, offset, &group) {
            Ok(Some((block, _))) if is_blob => DamagedRange {
                first_key: block.last_key.clone().unwrap_or(block.first_key),
                ..block
            },
            Ok(Some((block, _))) => block,
            Ok(None) | Err(_) => group,
        }
    }

    /// The first entry of an index whose block ends behind `offset`, within `whole`:
    /// the bytes since the end of the block before, and the keys since its last one.
    /// Versions of that key may go on in the block.
    fn entry_at(
        &self,
        index: Handle,
        role: Role,
        offset: u64,
        whole: &DamagedRange,
    ) -> Result<Option<(DamagedRange, Handle)>, Error> {
        let malformed = |malformed| self.corrupt(index.offset, malformed);
        let block = self.block_for(Purpose::Compaction, index, role)?;
        let mut entries = BlockCursor::new::<IndexEntry>(&block, &[]).map_err(malformed)?;
        let mut range = whole.clone();
        while let Some((last_key, entry)) = entries.next::<IndexEntry>().map_err(malformed)? {
            let handle = entry.handle;
            let end = handle.offset.saturating_add(u64::from(handle.bytes));
            if offset < end {
                range.bytes.end = end;
                range.last_key = Some(Bytes::copy_from_slice(last_key));
                return Ok(Some((range, handle)));
            }
            range.bytes.start = end;
            range.first_key = Bytes::copy_from_slice(last_key);
        }
        Ok(None)
    }

    /// Whether a walk goes on behind a block that it could not read. The block is
    /// reported if it is not noted yet.
    pub(super) fn passes_damage(&self, purpose: Purpose, offset: u64, error: &Error) -> bool {
        let is_read = matches!(error, Error::Io { action: "read", .. });
        if !is_read && !matches!(error, Error::Corrupt { .. }) {
            return false;
        }
        match purpose {
            Purpose::Scan { .. } | Purpose::Compaction => false,
            // A part that cannot be read in several tries is as good as damaged.
            Purpose::Rewrite | Purpose::RewriteSound if !self.is_noted(offset) => {
                self.note_corruption(error, offset);
                false
            }
            Purpose::Rewrite | Purpose::RewriteSound => true,
            Purpose::Comparison { .. } => {
                self.note_corruption(error, offset);
                true
            }
        }
    }

    /// Notes that a walk has not got a value at `offset` of a blob table because of this error. A
    /// comparison passes over it from then on, as over any damaged part.
    pub(super) fn note_unread(&self, purpose: Purpose, offset: u64, error: &Error) {
        if let Purpose::Comparison { .. } = purpose
            && self.passes_damage(purpose, offset, error)
        {
            lock(&self.damage.unread).insert(offset);
        }
    }

    /// Whether comparisons pass over what lies at `offset` of a blob table.
    pub(super) fn is_unread(&self, offset: u64) -> bool {
        if !self.is_damaged() || self.is_noted(offset) {
            return self.is_damaged();
        }
        let is_unread = lock(&self.damage.unread).contains(&offset);
        if is_unread {
            // This walk has met the damage, too.
            self.cache.damage_reports().report(self.id(), offset);
        }
        is_unread
    }

    /// How often a walk tries to read a block that the system cannot read.
    pub(super) fn reads_max(purpose: Purpose) -> u32 {
        match purpose {
            Purpose::Comparison { .. } | Purpose::Rewrite | Purpose::RewriteSound => READS_MAX,
            Purpose::Scan { .. } | Purpose::Compaction => 1,
        }
    }

    /// Reads the parts of the file that a walk does not need: filter, properties and
    /// footer; and of the blob tables that its values lie in the indexes, too, by which nobody looks
    /// for a value. Damage is reported, and so is what cannot be read.
    pub(super) fn check_rest(&self) {
        self.check_rest_by(Self::read_rest);
        for blob in self.blobs() {
            blob.check_rest_by(|blob| blob.read_index().and_then(|()| blob.read_rest()));
        }
    }

    fn check_rest_by(&self, read: impl Fn(&Self) -> Result<(), Error>) {
        if self.is_noted(self.file_bytes() - 1) {
            return;
        }
        for _ in 1..READS_MAX {
            match read(self) {
                Err(Error::Io { .. }) => {}
                // Corruption is reported where it is found.
                Ok(()) | Err(_) => return,
            }
        }
        if let Err(error @ Error::Io { action: "read", .. }) = read(self) {
            self.note_corruption(&error, self.file_bytes() - 1);
        }
    }

    fn read_index(&self) -> Result<(), Error> {
        let top = self.top_index();
        let malformed = |malformed| self.corrupt(top.offset, malformed);
        let block = self.read_block(top, Role::TopIndex)?;
        let mut entries = BlockCursor::new::<IndexEntry>(&block, &[]).map_err(malformed)?;
        while let Some((_, entry)) = entries.next::<IndexEntry>().map_err(malformed)? {
            self.read_block(entry.handle, Role::Index)?;
        }
        Ok(())
    }

    fn read_rest(&self) -> Result<(), Error> {
        let footer = self.footer();
        if let Some(shape) = self.properties().filter {
            for page in 0..shape.pages {
                if let Some(handle) = footer.filter_page(shape, page) {
                    self.read_block(handle, Role::Filter)?;
                }
            }
        }
        self.read_block(footer.properties, Role::Properties)?;
        let footer_offset = self.file_bytes() - FOOTER_BYTES as u64;
        let mut bytes = [0; FOOTER_BYTES];
        self.read(&mut bytes, footer_offset)?;
        match Footer::decode(&bytes, self.file_bytes()) {
            Ok(found) if found == *footer => Ok(()),
            Ok(_) | Err(FooterError::UnknownVersion(_)) => {
                Err(self.corrupt(footer_offset, Malformed("the footer has changed")))
            }
            Err(FooterError::Malformed(malformed)) => Err(self.corrupt(footer_offset, malformed)),
        }
    }
}
