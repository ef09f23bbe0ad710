//! Free segments: files of segments that are not needed any more, kept to be used again.
//!
//! [`wal`](super) says why, and why that is safe. As many are kept as memtables may be
//! frozen: so many segments become free while no memtable waits for its flush, and are
//! wanted again when writers are fast. None is kept while the disk is short of room.

use super::{
    SegmentPlace, SegmentSpace, SegmentWriter, free_file_name, remove_segment, segment_file_name,
    segment_of_free_file_name,
};
use crate::disk::Disk;
use crate::error::Error;
use crate::options::{Environment, Options};
use crate::sync::lock;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// The owner of the free segments of a store.
///
/// Its lock is held while files are renamed or removed. No other lock is taken meanwhile.
pub(crate) struct FreeSegments {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    /// The secret of the store's log.
    secret: u64,
    /// The room of a segment when it begins, in bytes.
    segment_bytes: u64,
    segments_max: usize,
    /// How much room the disk has at least while segments are kept, in bytes.
    disk_spare_bytes: u64,
    /// The numbers that the free files had as segments, each with how many bytes of the file
    /// were ever written.
    free: Mutex<BTreeMap<u64, u64>>,
}

impl FreeSegments {
    /// Takes over those free segments of an earlier run that are among the `names` in the
    /// folder, and removes what is too many. `disk_spare_bytes` is how much room the disk has
    /// at least while segments are kept.
    pub(crate) fn open(
        environment: &Environment,
        options: &Options,
        secret: u64,
        names: &[String],
        disk_spare_bytes: u64,
    ) -> Self {
        let free = names
            .iter()
            .filter_map(|name| segment_of_free_file_name(name));
        // The earlier run did not leave word how far the files are filled.
        let free = free.map(|number| (number, 0));
        let opened = Self {
            disk: Arc::clone(&environment.disk),
            folder: environment.folder.clone(),
            secret,
            segment_bytes: options.memtable_bytes as u64,
            segments_max: options.memtables_frozen_max,
            disk_spare_bytes,
            free: Mutex::new(free.collect()),
        };
        opened.shrink(opened.segments_max);
        opened
    }

    /// Begins a segment with this number in a free file, if there is one that can be used.
    /// A segment of this number that has no whole group is replaced.
    ///
    /// # Errors
    /// [`Error::Sync`].
    pub(crate) fn begin(&self, segment: u64) -> Result<Option<SegmentWriter>, Error> {
        let mut free = lock(&self.free);
        while let Some((number, filled_bytes)) = free.pop_first() {
            let place = SegmentPlace {
                disk: &*self.disk,
                folder: &self.folder,
                secret: self.secret,
                segment,
            };
            let path = self.folder.join(free_file_name(number));
            match SegmentWriter::reuse(place, &path, filled_bytes, self.segment_bytes) {
                Ok(writer) => return Ok(Some(writer)),
                Err(error) if error.is_sync() => return Err(error),
                Err(error) => {
                    tracing::debug!(%error, "could not use a free log segment");
                    self.remove(number);
                }
            }
        }
        Ok(None)
    }

    /// Takes over the file of a segment that is not needed any more, not even after a crash:
    /// keeps it as a free one, or removes it.
    ///
    /// # Errors
    /// [`Error::Io`]: the file could not be removed.
    pub(crate) fn retire(&self, segment: u64, space: SegmentSpace) -> Result<(), Error> {
        let mut free = lock(&self.free);
        // A segment that long values or repeated ones have made long would take that much
        // room for good.
        let is_wanted = free.len() < self.segments_max
            && space.bytes <= 2 * self.segment_bytes
            && self.has_disk_room();
        if is_wanted {
            let from = self.folder.join(segment_file_name(segment));
            let to = self.folder.join(free_file_name(segment));
            if self.disk.rename(&from, &to).is_ok() {
                free.insert(segment, space.filled_bytes);
                return Ok(());
            }
        }
        remove_segment(&*self.disk, &self.folder, segment)
    }

    /// Removes all free segments, for the room that they take.
    pub(crate) fn give_back(&self) {
        self.shrink(0);
    }

    /// Removes free segments until there are `count`.
    fn shrink(&self, count: usize) {
        let mut free = lock(&self.free);
        while free.len() > count
            && let Some((number, _)) = free.pop_last()
        {
            self.remove(number);
        }
    }

    fn remove(&self, number: u64) {
        let path = self.folder.join(free_file_name(number));
        // It may have got the name of the segment that was to begin in it.
        if let Err(error) = self.disk.remove(&path) {
            tracing::debug!(%error, file = %path.display(), "could not remove a free log segment");
        }
    }

    /// Whether the disk has room to spare. Yes if the system does not say.
    fn has_disk_room(&self) -> bool {
        self.disk
            .available_bytes(&self.folder)
            .map_or(true, |available| available >= self.disk_spare_bytes)
    }
}
