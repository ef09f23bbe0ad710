//! The space of removed files, which is freed a little at a time.
//!
//! A file system that is mounted with `discard` tells the device which blocks it has freed before
//! it completes the next syncs: when whole tables go at once, those of the log wait. RocksDB and
//! Pebble pace deletions for the same reason. Like theirs, the pace rises when too much waits.

use crate::disk::{Disk, DiskFile};
use crate::executor::{Executor, JobClass};
use crate::locks::lock;
use crate::options::Environment;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// How many bytes a job frees while few wait.
const STEP_BYTES: u64 = 1 << 20;

/// How long the next job waits, so that syncs have their turn.
const STEP_REST: Duration = Duration::from_millis(10);

/// A job frees at least one of so many parts of all that waits, so however much that is, it
/// takes seconds.
const PARTS: u64 = 128;

/// While more waits than may, a job frees at least one of so many parts of what is too much: most
/// of it is gone after a tenth of a second.
const EXCESS_PARTS: u64 = 4;

/// A file of at most so many bytes is freed at once.
const SHORT_BYTES: u64 = 64 << 10;

/// With less room than this on the disk, files are freed at once: flushes may need it soon.
const ROOM_BYTES_MIN: u64 = 1 << 30;

/// Files that nobody reads any more and that have no name.
pub(super) struct RemovedFiles {
    waiting: Arc<Mutex<Waiting>>,
    executor: Weak<dyn Executor>,
    disk: Arc<dyn Disk>,
    folder: PathBuf,
}

struct Waiting {
    files: VecDeque<RemovedFile>,
    /// The bytes of all of them.
    bytes: u64,
    /// How many bytes may wait.
    bytes_max: u64,
    /// Whether a job is to come.
    is_scheduled: bool,
}

impl Default for Waiting {
    fn default() -> Self {
        Self {
            files: VecDeque::new(),
            bytes: 0,
            bytes_max: u64::MAX,
            is_scheduled: false,
        }
    }
}

impl Waiting {
    /// How many bytes the next job frees.
    fn step(&self) -> u64 {
        let excess = self.bytes.saturating_sub(self.bytes_max);
        let step = STEP_BYTES.max(self.bytes / PARTS);
        step.max(excess.div_ceil(EXCESS_PARTS))
    }
}

struct RemovedFile {
    file: Arc<dyn DiskFile>,
    bytes: u64,
}

impl RemovedFiles {
    /// Removed files of a store.
    pub(super) fn new(environment: &Environment) -> Self {
        Self {
            waiting: Arc::default(),
            executor: Arc::downgrade(&environment.executor),
            disk: Arc::clone(&environment.disk),
            folder: environment.folder.clone(),
        }
    }

    /// Takes the last handle of a file. One that still has a name is only closed: somebody may
    /// have linked it elsewhere, and wants what it holds.
    pub(super) fn add(&self, file: Arc<dyn DiskFile>) {
        let has_other_handles = Arc::strong_count(&file) > 1;
        let (Ok(false), Ok(bytes)) = (file.has_name(), file.len()) else {
            return;
        };
        if has_other_handles || bytes <= SHORT_BYTES || !self.has_room() {
            return;
        }
        let mut waiting = lock(&self.waiting);
        waiting.bytes += bytes;
        waiting.files.push_back(RemovedFile { file, bytes });
        if !std::mem::replace(&mut waiting.is_scheduled, true) {
            schedule(Arc::clone(&self.waiting), &self.executor);
        }
    }

    /// Sets how many bytes may wait.
    pub(super) fn set_max(&self, bytes_max: u64) {
        lock(&self.waiting).bytes_max = bytes_max;
    }

    /// How many bytes wait.
    pub(super) fn bytes(&self) -> u64 {
        lock(&self.waiting).bytes
    }

    /// Frees at once all that waits, but for a file that a job is shortening at this moment.
    /// Returns whether anything did.
    pub(super) fn free_all(&self) -> bool {
        let files = {
            let mut waiting = lock(&self.waiting);
            waiting.bytes -= waiting.files.iter().map(|file| file.bytes).sum::<u64>();
            std::mem::take(&mut waiting.files)
        };
        // They are closed without the lock, because that takes long.
        !files.is_empty()
    }

    fn has_room(&self) -> bool {
        let available = self.disk.available_bytes(&self.folder);
        available.is_ok_and(|bytes| bytes >= ROOM_BYTES_MIN)
    }
}

/// Has a step taken later. An executor that stops drops the job, and the files with their owner.
fn schedule(waiting: Arc<Mutex<Waiting>>, executor: &Weak<dyn Executor>) {
    if let Some(running) = executor.upgrade() {
        let executor = Weak::clone(executor);
        let next = Box::new(move || free_some(waiting, &executor));
        running.spawn(JobClass::Compaction, STEP_REST, next);
    }
}

/// Closes the first files that wait, and shortens the one that is too long for that.
fn free_some(waiting: Arc<Mutex<Waiting>>, executor: &Weak<dyn Executor>) {
    let mut step = lock(&waiting).step();
    while step > 0 {
        let Some(RemovedFile { file, bytes }) = lock(&waiting).files.pop_front() else {
            break;
        };
        // Without the lock, because this takes long. A file that cannot be shortened is closed.
        let left = bytes.saturating_sub(step);
        let is_shorter = left > 0 && file.set_len(left).is_ok();
        let rest = is_shorter.then_some(RemovedFile { file, bytes: left });
        let freed = bytes - rest.as_ref().map_or(0, |rest| rest.bytes);
        step = step.saturating_sub(freed);
        let mut waiting = lock(&waiting);
        waiting.bytes -= freed;
        if let Some(rest) = rest {
            waiting.files.push_front(rest);
        }
    }
    let has_more = {
        let mut waiting = lock(&waiting);
        waiting.is_scheduled = !waiting.files.is_empty();
        waiting.is_scheduled
    };
    if has_more {
        schedule(waiting, executor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;
    use crate::testing::{Call, Fault, FaultyDisk, MemoryDisk, StepExecutor, environment};
    use std::io;
    use std::path::Path;

    struct Fixture {
        disk: Arc<dyn Disk>,
        executor: Arc<StepExecutor>,
        removed: RemovedFiles,
    }

    fn fixture(disk: Arc<dyn Disk>, folder: &Path) -> Fixture {
        let (mut environment, executor) = environment(Arc::clone(&disk));
        disk.create_folder(folder).unwrap();
        environment.folder = folder.into();
        Fixture {
            disk,
            executor,
            removed: RemovedFiles::new(&environment),
        }
    }

    fn in_memory() -> Fixture {
        fixture(Arc::new(MemoryDisk::new()), Path::new("/store"))
    }

    impl Fixture {
        fn create(&self, name: &str, bytes: u64) -> Arc<dyn DiskFile> {
            let file = self.disk.create(&self.removed.folder.join(name)).unwrap();
            file.set_len(bytes).unwrap();
            file
        }

        /// Removes a file, and adds its handle.
        fn remove(&self, name: &str, file: Arc<dyn DiskFile>) {
            self.disk.remove(&self.removed.folder.join(name)).unwrap();
            self.removed.add(file);
        }

        fn create_and_remove(&self, name: &str, bytes: u64) {
            self.remove(name, self.create(name, bytes));
        }

        /// What is left of the files that wait.
        fn waiting_bytes(&self) -> u64 {
            let waiting = lock(&self.removed.waiting);
            let files = waiting.files.iter();
            let bytes = files.map(|file| file.file.len().unwrap()).sum();
            assert_eq!(waiting.bytes, bytes);
            bytes
        }
    }

    #[test]
    fn removed_files_are_freed_a_little_at_a_time() {
        let fixture = in_memory();
        let lengths = [5 << 20, 3 << 19, 1 << 19, 100 << 10, SHORT_BYTES];
        for (number, bytes) in lengths.into_iter().enumerate() {
            fixture.create_and_remove(&number.to_string(), bytes);
        }
        let mut before = lengths.iter().sum::<u64>() - SHORT_BYTES;
        assert_eq!(fixture.waiting_bytes(), before);
        while fixture.executor.next_due().is_some() {
            fixture.executor.run_for(STEP_REST);
            let now = fixture.waiting_bytes();
            assert_eq!(before - now, before.min(STEP_BYTES));
            before = now;
        }
        assert_eq!(before, 0);
    }

    #[test]
    fn much_that_waits_is_freed_in_larger_steps() {
        let fixture = in_memory();
        fixture.create_and_remove("long", 1 << 30);
        fixture.executor.run_for(STEP_REST);
        assert_eq!(fixture.waiting_bytes(), (1 << 30) - (1 << 30) / PARTS);
        fixture.executor.run_until_idle();
        assert_eq!(fixture.waiting_bytes(), 0);
    }

    #[test]
    fn what_is_too_much_is_freed_within_a_tenth_of_a_second() {
        let fixture = in_memory();
        fixture.removed.set_max(100 << 20);
        fixture.create_and_remove("long", 900 << 20);
        fixture.executor.run_for(STEP_REST);
        assert_eq!(fixture.waiting_bytes(), 700 << 20);
        fixture.executor.run_for(9 * STEP_REST);
        let left = fixture.waiting_bytes() >> 20;
        assert!((100..150).contains(&left), "{left}");
        assert_eq!(fixture.removed.bytes() >> 20, left);
    }

    #[test]
    fn what_comes_later_is_freed_as_well() {
        let fixture = in_memory();
        for name in ["first", "second"] {
            fixture.create_and_remove(name, 2 << 20);
            assert_eq!(fixture.waiting_bytes(), 2 << 20, "{name}");
            fixture.executor.run_until_idle();
            assert_eq!(fixture.waiting_bytes(), 0, "{name}");
        }
    }

    #[test]
    fn on_a_disk_with_little_room_files_are_freed_at_once() {
        for (room, waiting) in [(ROOM_BYTES_MIN, 5 << 20), (ROOM_BYTES_MIN - 1, 0)] {
            let disk = Arc::new(MemoryDisk::new());
            let fixture = fixture(Arc::clone(&disk) as _, Path::new("/store"));
            let file = fixture.create("table", 5 << 20);
            disk.set_capacity(disk.used_bytes() + room);
            fixture.remove("table", file);
            assert_eq!(fixture.waiting_bytes(), waiting, "{room}");
            assert_eq!(disk.used_bytes(), waiting, "{room}");
        }
    }

    #[test]
    fn what_waits_can_be_freed_at_once() {
        let fixture = in_memory();
        assert!(!fixture.removed.free_all());
        fixture.create_and_remove("first", 5 << 20);
        fixture.create_and_remove("second", 5 << 20);
        fixture.executor.run_for(STEP_REST);
        assert_eq!(fixture.waiting_bytes(), 9 << 20);
        assert!(fixture.removed.free_all());
        assert_eq!(fixture.waiting_bytes(), 0);
        fixture.create_and_remove("third", 2 << 20);
        fixture.executor.run_until_idle();
        assert_eq!(fixture.waiting_bytes(), 0);
    }

    #[test]
    fn a_file_that_cannot_be_shortened_is_closed() {
        let memory = Arc::new(MemoryDisk::new());
        let disk = Arc::new(FaultyDisk::new(Arc::clone(&memory) as _));
        let fixture = fixture(Arc::clone(&disk) as _, Path::new("/store"));
        fixture.create_and_remove("table", 5 << 20);
        let fault = Fault::at(0, io::ErrorKind::Other).only(|call, _| call == Call::SetLen);
        disk.arm(fault);
        fixture.executor.run_for(STEP_REST);
        assert_eq!(disk.failed(), 1);
        assert_eq!(memory.used_bytes(), 0);
        assert_eq!(fixture.executor.next_due(), None);
    }

    #[test]
    fn where_the_room_is_unknown_files_are_freed_at_once() {
        let disk = Arc::new(FaultyDisk::new(Arc::new(MemoryDisk::new()) as _));
        let fixture = fixture(Arc::clone(&disk) as _, Path::new("/store"));
        let fault = Fault::at(0, io::ErrorKind::Other).only(|call, _| call == Call::AvailableBytes);
        disk.arm(fault);
        fixture.create_and_remove("table", 5 << 20);
        assert_eq!(disk.failed(), 1);
        assert_eq!(fixture.waiting_bytes(), 0);
    }

    #[test]
    fn a_file_that_has_another_name_keeps_what_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let fixture = fixture(Arc::new(RealDisk::default()), folder.path());
        let file = fixture.create("table", 5 << 20);
        let link = folder.path().join("link");
        std::fs::hard_link(folder.path().join("table"), &link).unwrap();
        fixture.remove("table", file);
        fixture.executor.run_until_idle();
        assert_eq!(link.metadata().unwrap().len(), 5 << 20);
    }

    #[test]
    fn a_file_with_another_handle_keeps_what_it_holds() {
        let fixture = in_memory();
        let file = fixture.create("table", 5 << 20);
        fixture.remove("table", Arc::clone(&file));
        fixture.executor.run_until_idle();
        assert_eq!(file.len().unwrap(), 5 << 20);
    }

    #[test]
    fn the_system_says_whether_a_file_has_a_name() {
        let folder = tempfile::tempdir().unwrap();
        for fixture in [
            in_memory(),
            fixture(Arc::new(RealDisk::default()), folder.path()),
        ] {
            let file = fixture.create("table", 1);
            assert!(file.has_name().unwrap());
            fixture.remove("table", Arc::clone(&file));
            assert!(!file.has_name().unwrap());
        }
    }
}
