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
use crate::locks::lock;
use crate::options::{Environment, Options};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// The owner of the free segments of a store.
///
/// Its lock is held while the file of a segment gets the name of a free one, and for no other
/// call on the disk: commits, the flush and the job that makes a segment ahead all come here, and
/// none of them waits for the syncs or the removals of another. No other lock is taken meanwhile.
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
        while let Some((number, filled_bytes)) = self.pop_first() {
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

    fn pop_first(&self) -> Option<(u64, u64)> {
        lock(&self.free).pop_first()
    }

    /// Takes over the file of a segment that is not needed any more, not even after a crash:
    /// keeps it as a free one, or removes it.
    ///
    /// # Errors
    /// [`Error::Io`]: the file could not be removed.
    pub(crate) fn retire(&self, segment: u64, space: SegmentSpace) -> Result<(), Error> {
        // A segment that long values or repeated ones have made long would take that much
        // room for good.
        let is_wanted = space.bytes <= 2 * self.segment_bytes && self.has_disk_room();
        if is_wanted && self.keep(segment, space.filled_bytes) {
            return Ok(());
        }
        remove_segment(&*self.disk, &self.folder, segment)
    }

    /// Makes the file of a segment a free one, if there are few. Returns whether it has.
    fn keep(&self, segment: u64, filled_bytes: u64) -> bool {
        let mut free = lock(&self.free);
        let from = self.folder.join(segment_file_name(segment));
        let to = self.folder.join(free_file_name(segment));
        let is_kept = free.len() < self.segments_max && self.disk.rename(&from, &to).is_ok();
        if is_kept {
            free.insert(segment, filled_bytes);
        }
        is_kept
    }

    /// Removes all free segments, for the room that they take.
    pub(crate) fn give_back(&self) {
        self.shrink(0);
    }

    /// Removes free segments until there are `count`.
    fn shrink(&self, count: usize) {
        let non_owned = {
            let mut free = lock(&self.free);
            let first = free.keys().nth(count).copied();
            first.map(|first| free.split_off(&first))
        };
        for number in non_owned.into_iter().flatten().map(|(number, _)| number) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{HookedDisk, MemoryDisk, SyncHook, environment};
    use std::io;
    use std::path::Path;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    const SECRET: u64 = 7;

    /// A disk may take long over a sync. Meanwhile a flush retires its segment, and a full disk
    /// gets its room back.
    #[test]
    fn nobody_waits_for_the_syncs_of_a_segment_that_begins() {
        let disk = Arc::new(HookedDisk::new(Arc::new(MemoryDisk::new())));
        let (environment, _executor) = environment(Arc::clone(&disk) as _);
        let folder = &environment.folder;
        disk.create_folder(folder).unwrap();
        let options = Options::default();
        let space = SegmentSpace {
            bytes: options.memtable_bytes as u64,
            filled_bytes: 0,
        };
        let create = |segment| {
            let place = SegmentPlace {
                disk: &*disk,
                folder,
                secret: SECRET,
                segment,
            };
            SegmentWriter::create(place, 4096).unwrap()
        };
        let free = Arc::new(FreeSegments::open(&environment, &options, SECRET, &[], 0));
        for segment in 1..=2 {
            create(segment);
        }
        free.retire(1, space).unwrap();
        let syncs = Arc::new(AtomicU32::new(0));
        let (owner, counted) = (Arc::clone(&free), Arc::clone(&syncs));
        disk.hook_syncs(
            Arc::new(move |_: &Path, sync: &dyn Fn() -> io::Result<()>| {
                assert!(owner.free.try_lock().is_ok(), "the lock is free");
                counted.fetch_add(1, Relaxed);
                owner.retire(2, space).unwrap();
                owner.give_back();
                sync()
            }) as Arc<SyncHook>,
        );
        let begun = free.begin(3).unwrap();
        assert!(begun.is_some() && syncs.load(Relaxed) == 1);
        // The segment that began is not among those that were given back.
        assert_eq!(disk.list(folder).unwrap(), [segment_file_name(3)]);
    }
}
