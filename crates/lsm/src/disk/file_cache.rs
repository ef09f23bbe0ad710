//! A bounded number of open files: the file cache, as Pebble's, or RocksDB's `max_open_files`.
//!
//! A store has a file for each table, and a process may open only so many. A file that is read is
//! opened for that if it is not open, and another one is closed for it. Which one, the second chance
//! algorithm (CLOCK) says, because it costs a read nothing but a flag: a hand goes around all open
//! files. It passes over one that was read since it came by last, and closes the first one that was
//! not.
//!
//! A file is opened again by its path. So it keeps its name for as long as someone may read it.

use super::{Disk, DiskFile};
use crate::locks::lock;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// The open files, of which there are never more than so many. A file that is being read counts,
/// and is not closed. If all of them are, another one is opened for a single read.
///
/// Locks: that of the places, then those of slots. Files are opened and closed without them.
pub(crate) struct FileCache {
    disk: Arc<dyn Disk>,
    files_max: usize,
    places: Mutex<Places>,
}

/// The places of open files.
#[derive(Default)]
struct Places {
    /// Those without a slot are free, or a file is being opened for them.
    slots: Vec<Option<Arc<Slot>>>,
    free: Vec<usize>,
    /// Where the search for a file to close goes on.
    hand: usize,
}

/// Where a file is while it is open.
#[derive(Default)]
struct Slot {
    opened: Mutex<Option<Opened>>,
    /// Whether it was read since the hand came by last.
    is_used: AtomicBool,
}

struct Opened {
    file: Arc<dyn DiskFile>,
    /// Its place. One that is not of a cache has none.
    place: Option<usize>,
}

/// A file that is read at times.
pub(crate) struct CachedFile {
    /// The cache that closes it, and its path.
    of: Option<(Arc<FileCache>, Box<Path>)>,
    slot: Arc<Slot>,
}

impl FileCache {
    /// A cache of at most so many open files; one at least.
    pub(crate) fn new(disk: Arc<dyn Disk>, files_max: usize) -> Arc<Self> {
        Arc::new(Self {
            disk,
            files_max: files_max.max(1),
            places: Mutex::default(),
        })
    }

    /// Opens a file.
    ///
    /// # Errors
    /// As [`Disk::open`].
    pub(crate) fn open(self: &Arc<Self>, path: &Path) -> io::Result<CachedFile> {
        let file = self.closed(path);
        file.opened()?;
        Ok(file)
    }

    /// A file that is opened when it is read.
    pub(crate) fn closed(self: &Arc<Self>, path: &Path) -> CachedFile {
        CachedFile {
            of: Some((Arc::clone(self), path.into())),
            slot: Arc::default(),
        }
    }

    /// How many files are best opened and read at the same time.
    pub(crate) fn parallel_opens(&self) -> usize {
        self.disk.parallel_opens()
    }

    fn open_in(&self, path: &Path, slot: &Arc<Slot>) -> io::Result<Arc<dyn DiskFile>> {
        let place = self.reserve();
        let opened = self.disk.open(path).inspect_err(|_| self.release(place));
        let file = opened?;
        if place.is_none() {
            return Ok(file);
        }
        let mut opened = lock(&slot.opened);
        if let Some(other) = &*opened {
            // Another reader was faster.
            let other = Arc::clone(&other.file);
            drop(opened);
            drop(file);
            self.release(place);
            return Ok(other);
        }
        *opened = Some(Opened {
            file: Arc::clone(&file),
            place,
        });
        drop(opened);
        self.put(place, Some(slot));
        Ok(file)
    }

    /// A place for another file. Closes one if none is free. [`None`] if all are being read.
    fn reserve(&self) -> Option<usize> {
        let mut places = lock(&self.places);
        if let Some(free) = places.free.pop() {
            return Some(free);
        }
        if places.slots.len() < self.files_max {
            places.slots.push(None);
            return Some(places.slots.len() - 1);
        }
        let (place, file) = places.take_unused()?;
        drop(places);
        // Before the other one is opened.
        drop(file);
        Some(place)
    }

    fn release(&self, place: Option<usize>) {
        self.put(place, None);
    }

    /// Puts a slot into a place, or frees it.
    fn put(&self, place: Option<usize>, slot: Option<&Arc<Slot>>) {
        let Some(place) = place else { return };
        let mut places = lock(&self.places);
        if slot.is_none() {
            places.free.push(place);
        }
        if let Some(of_place) = places.slots.get_mut(place) {
            *of_place = slot.cloned();
        }
    }
}

impl Places {
    /// Takes a file that nobody reads out of its place.
    fn take_unused(&mut self) -> Option<(usize, Arc<dyn DiskFile>)> {
        // The first time around, all may have been used.
        for _ in 0..2 * self.slots.len() {
            let place = self.hand;
            self.hand = (place + 1) % self.slots.len();
            let of_place = self.slots.get_mut(place)?;
            let Some(slot) = of_place else { continue };
            if slot.is_used.swap(false, Relaxed) {
                continue;
            }
            let file = lock(&slot.opened)
                .take_if(|opened| Arc::strong_count(&opened.file) == 1)
                .map(|opened| opened.file);
            if let Some(file) = file {
                *of_place = None;
                return Some((place, file));
            }
        }
        None
    }
}

impl CachedFile {
    /// The file, opened if it is not. It is to be held for a read only.
    ///
    /// # Errors
    /// As [`Disk::open`].
    pub(crate) fn opened(&self) -> io::Result<Arc<dyn DiskFile>> {
        if let Some(opened) = &*lock(&self.slot.opened) {
            self.slot.is_used.store(true, Relaxed);
            return Ok(Arc::clone(&opened.file));
        }
        match &self.of {
            Some((cache, path)) => cache.open_in(path, &self.slot),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// A file that stays open.
impl From<Arc<dyn DiskFile>> for CachedFile {
    fn from(file: Arc<dyn DiskFile>) -> Self {
        let opened = Mutex::new(Some(Opened { file, place: None }));
        Self {
            of: None,
            slot: Arc::new(Slot {
                opened,
                ..Slot::default()
            }),
        }
    }
}

impl Drop for CachedFile {
    fn drop(&mut self) {
        let opened = lock(&self.slot.opened).take();
        if let (Some((cache, _)), Some(Opened { file, place })) = (&self.of, opened) {
            drop(file);
            cache.release(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Call, Fault, FaultyDisk, MemoryDisk};
    use std::path::PathBuf;

    /// A disk with files that each hold their number.
    fn disk(files: u8) -> Arc<FaultyDisk> {
        let disk = FaultyDisk::new(Arc::new(MemoryDisk::new()));
        disk.create_folder(Path::new("/store")).unwrap();
        for number in 0..files {
            let file = disk.create(&path(number)).unwrap();
            file.write_all_at(&[number], 0).unwrap();
        }
        Arc::new(disk)
    }

    fn path(number: u8) -> PathBuf {
        PathBuf::from(format!("/store/{number}"))
    }

    fn read(file: &CachedFile) -> io::Result<u8> {
        let mut byte = [0];
        file.opened()?.read_exact_at(&mut byte, 0)?;
        Ok(byte[0])
    }

    /// A cache of `files_max` files on a disk with so many, all of which were opened.
    fn cache(files_max: usize, files: u8) -> (Arc<FaultyDisk>, Vec<CachedFile>) {
        let disk = disk(files);
        let cache = FileCache::new(Arc::clone(&disk) as _, files_max);
        disk.count_handles(|_| true);
        let all = (0..files).map(|number| cache.open(&path(number)).unwrap());
        let all = all.collect();
        (disk, all)
    }

    /// How often a file is opened while `work` is done.
    fn opens(disk: &FaultyDisk, work: impl FnOnce()) -> u64 {
        let never = Fault::at(u64::MAX, io::ErrorKind::Other);
        disk.arm(never.only(|call, _| call == Call::Open));
        work();
        disk.calls()
    }

    #[test]
    fn no_more_files_are_open_than_allowed_and_all_can_be_read() {
        let (disk, files) = cache(7, 40);
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..5_000 {
            let number = random.u8(0..40);
            assert_eq!(read(&files[usize::from(number)]).unwrap(), number);
        }
        assert_eq!(disk.handles_max(), 7);
        drop(files);
        assert_eq!(disk.handles(), 0);
    }

    #[test]
    fn what_is_read_often_stays_open() {
        let (disk, files) = cache(4, 20);
        let reopened = opens(&disk, || {
            for number in 0..1_000 {
                read(&files[number % 2]).unwrap();
                read(&files[2 + number % 18]).unwrap();
            }
        });
        assert!(reopened <= 1_010, "{reopened}: the two are read each time");
    }

    #[test]
    fn files_that_are_gone_leave_their_places() {
        let (disk, mut files) = cache(4, 4);
        files.truncate(2);
        assert_eq!(disk.handles(), 2);
        let cache = Arc::clone(&files[0].of.as_ref().unwrap().0);
        let more: Vec<_> = (2..4).map(|it| cache.open(&path(it)).unwrap()).collect();
        let reopened = opens(&disk, || {
            for file in files.iter().chain(&more) {
                read(file).unwrap();
            }
        });
        assert_eq!((reopened, disk.handles_max()), (0, 4));
    }

    #[test]
    fn a_file_that_is_being_read_stays_open_whatever_else_is_read() {
        let (disk, files) = cache(2, 10);
        let held = files[3].opened().unwrap();
        for file in &files {
            read(file).unwrap();
        }
        assert!(Arc::ptr_eq(&held, &files[3].opened().unwrap()));
        assert_eq!(disk.handles_max(), 2);
        // If all are, one more is opened, and closed at once.
        let other = files[4].opened().unwrap();
        assert_eq!(read(&files[5]).unwrap(), 5);
        assert_eq!((disk.handles(), disk.handles_max()), (2, 3));
        drop((held, other));
        for file in &files {
            read(file).unwrap();
        }
        assert_eq!(disk.handles(), 2);
    }

    #[test]
    fn a_file_that_does_not_open_is_an_error_of_that_read() {
        let (disk, files) = cache(2, 10);
        for round in 0..20 {
            disk.arm(
                Fault::at(0, io::ErrorKind::PermissionDenied).only(|call, _| call == Call::Open),
            );
            let failed = files
                .iter()
                .skip(round % 2)
                .filter(|file| read(file).is_err());
            assert_eq!(failed.count(), 1);
            disk.heal();
            for (number, file) in (0..).zip(&files) {
                assert_eq!(read(file).unwrap(), number);
            }
        }
        assert_eq!(disk.handles(), 2);
    }

    #[test]
    fn the_slower_of_two_readers_gives_its_place_back() {
        let (disk, files) = cache(2, 3);
        let (cache, path) = files[2].of.as_ref().unwrap();
        for _ in 0..5 {
            // As one that has found it closed before the other has opened it.
            let found = cache.open_in(path, &files[2].slot).unwrap();
            assert!(Arc::ptr_eq(&found, &files[2].opened().unwrap()));
        }
        for file in &files {
            read(file).unwrap();
        }
        assert_eq!((disk.handles(), disk.handles_max()), (2, 2));
    }

    #[test]
    fn many_threads_read_many_files_through_few_places() {
        let (disk, files) = cache(8, 30);
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let files = &files;
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed);
                    for _ in 0..2_000 {
                        let number = random.u8(0..30);
                        assert_eq!(read(&files[usize::from(number)]).unwrap(), number);
                    }
                });
            }
        });
        // A file that two threads open at the same moment takes a place for each.
        assert!(disk.handles_max() <= 8, "{}", disk.handles_max());
    }
}
