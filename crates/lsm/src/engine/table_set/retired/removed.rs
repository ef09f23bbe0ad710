//! The files of tables that are not needed any more, whose space is freed a little at a time.
//!
//! A file system that is mounted with `discard` tells the device which blocks it has freed before
//! it completes the next syncs: when whole tables go at once, those of the log wait. RocksDB and
//! Pebble pace deletions for the same reason. Like theirs, the pace rises when too much waits.
//!
//! A file keeps its name until its turn comes, and is open only then. If the process ends before, the
//! next start removes it.

use crate::disk::{Disk, DiskFile};
use crate::engine::table_set::files::remove_table;
use crate::executor::{Executor, JobClass};
use crate::locks::lock;
use crate::options::Environment;
use crate::table_id::{TableId, table_file_name};
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

/// A file of at most so many bytes is removed at once.
const SHORT_BYTES: u64 = 64 << 10;

/// With less room than this on the disk, files are removed at once: flushes may need it soon.
const ROOM_BYTES_MIN: u64 = 1 << 30;

/// Files of tables that nobody has any more.
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
    /// Whether the folder may be another store's by now.
    is_closed: bool,
}

impl Default for Waiting {
    fn default() -> Self {
        Self {
            files: VecDeque::new(),
            bytes: 0,
            bytes_max: u64::MAX,
            is_scheduled: false,
            is_closed: false,
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
    path: PathBuf,
    bytes: u64,
    /// The file, once it has lost its name.
    file: Option<Arc<dyn DiskFile>>,
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

    /// Removes the file of a table that nobody has any more, of this length.
    pub(super) fn add(&self, table: TableId, bytes: u64) {
        let path = self.folder.join(table_file_name(table));
        let is_slow = bytes > SHORT_BYTES && self.has_room();
        let mut waiting = lock(&self.waiting);
        if waiting.is_closed {
            return;
        }
        if !is_slow {
            drop(waiting);
            remove_table(&*self.disk, &path);
            return;
        }
        waiting.bytes += bytes;
        waiting.files.push_back(RemovedFile {
            path,
            bytes,
            file: None,
        });
        if !std::mem::replace(&mut waiting.is_scheduled, true) {
            schedule(
                Arc::clone(&self.waiting),
                Arc::clone(&self.disk),
                &self.executor,
            );
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
        // Without the lock, because that takes long.
        let has_some = !files.is_empty();
        for file in files.iter().filter(|file| file.file.is_none()) {
            remove_table(&*self.disk, &file.path);
        }
        has_some
    }

    /// Frees all that waits, and nothing from then on.
    pub(super) fn close(&self) {
        lock(&self.waiting).is_closed = true;
        self.free_all();
    }

    fn has_room(&self) -> bool {
        let available = self.disk.available_bytes(&self.folder);
        available.is_ok_and(|bytes| bytes >= ROOM_BYTES_MIN)
    }
}

/// The folder may be another store's from then on.
impl Drop for RemovedFiles {
    fn drop(&mut self) {
        let mut waiting = lock(&self.waiting);
        waiting.is_closed = true;
        waiting.files.clear();
    }
}

impl RemovedFile {
    /// The file, which has lost its name now. [`None`] if it does not open, or if it still has a
    /// name: somebody may have linked it elsewhere, and wants what it holds.
    fn without_name(&mut self, disk: &dyn Disk) -> Option<Arc<dyn DiskFile>> {
        if let Some(file) = self.file.take() {
            return Some(file);
        }
        let opened = disk.open(&self.path);
        remove_table(disk, &self.path);
        opened
            .ok()
            .filter(|file| matches!(file.has_name(), Ok(false)))
    }
}

/// Has a step taken later. An executor that stops drops the job, and what waits with its owner.
fn schedule(waiting: Arc<Mutex<Waiting>>, disk: Arc<dyn Disk>, executor: &Weak<dyn Executor>) {
    if let Some(running) = executor.upgrade() {
        let executor = Weak::clone(executor);
        let next = Box::new(move || free_some(waiting, disk, &executor));
        running.spawn(JobClass::Compaction, STEP_REST, next);
    }
}

/// Removes the first files that wait, and shortens the one that is too long for that.
fn free_some(waiting: Arc<Mutex<Waiting>>, disk: Arc<dyn Disk>, executor: &Weak<dyn Executor>) {
    let mut step = lock(&waiting).step();
    while step > 0 {
        let (removed, file) = {
            let mut waiting = lock(&waiting);
            let Some(mut removed) = waiting.files.pop_front() else {
                break;
            };
            // Under the lock: after a close the name may be that of another store's table.
            let file = removed.without_name(&*disk);
            (removed, file)
        };
        // Without the lock, because this takes long.
        let left_bytes = removed.bytes.saturating_sub(step);
        let file = file.filter(|file| left_bytes > 0 && file.set_len(left_bytes).is_ok());
        let left_bytes = if file.is_some() { left_bytes } else { 0 };
        let freed = removed.bytes - left_bytes;
        step = step.saturating_sub(freed);
        let mut waiting = lock(&waiting);
        if waiting.is_closed {
            return;
        }
        waiting.bytes -= freed;
        if file.is_some() {
            waiting.files.push_front(RemovedFile {
                bytes: left_bytes,
                file,
                ..removed
            });
        }
    }
    let has_more = {
        let mut waiting = lock(&waiting);
        waiting.is_scheduled = !waiting.files.is_empty();
        waiting.is_scheduled
    };
    if has_more {
        schedule(waiting, disk, executor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;
    use crate::testing::{
        Call, Fault, FaultyDisk, MemoryDisk, PATIENCE, StepExecutor, environment,
    };
    use std::io;
    use std::path::Path;
    use std::sync::mpsc::channel;

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
        fn path(&self, table: u64) -> PathBuf {
            self.removed.folder.join(table_file_name(TableId(table)))
        }

        fn create(&self, table: u64, bytes: u64) {
            let file = self.disk.create(&self.path(table)).unwrap();
            file.set_len(bytes).unwrap();
        }

        fn create_and_remove(&self, table: u64, bytes: u64) {
            self.create(table, bytes);
            self.removed.add(TableId(table), bytes);
        }

        fn names(&self) -> usize {
            self.disk.list(&self.removed.folder).unwrap().len()
        }

        /// What is left of the files that wait.
        fn waiting_bytes(&self) -> u64 {
            let waiting = lock(&self.removed.waiting);
            let length = |waiting: &RemovedFile| {
                let named = || self.disk.open(&waiting.path).unwrap();
                waiting.file.clone().unwrap_or_else(named).len().unwrap()
            };
            let bytes = waiting.files.iter().map(length).sum();
            assert_eq!(waiting.bytes, bytes);
            bytes
        }
    }

    #[test]
    fn removed_files_are_freed_a_little_at_a_time() {
        let fixture = in_memory();
        let lengths = [5 << 20, 3 << 19, 1 << 19, 100 << 10, SHORT_BYTES];
        for (table, bytes) in (1..).zip(lengths) {
            fixture.create_and_remove(table, bytes);
        }
        let mut before = lengths.iter().sum::<u64>() - SHORT_BYTES;
        assert_eq!(fixture.waiting_bytes(), before);
        while fixture.executor.next_due().is_some() {
            fixture.executor.run_for(STEP_REST);
            let now = fixture.waiting_bytes();
            assert_eq!(before - now, before.min(STEP_BYTES));
            before = now;
        }
        assert_eq!((before, fixture.names()), (0, 0));
    }

    #[test]
    fn however_many_wait_one_of_them_is_open() {
        let disk = Arc::new(FaultyDisk::new(Arc::new(MemoryDisk::new()) as _));
        let fixture = fixture(Arc::clone(&disk) as _, Path::new("/store"));
        disk.count_handles(|_| true);
        for table in 1..=200 {
            fixture.create_and_remove(table, 3 << 19);
        }
        assert_eq!((fixture.names(), disk.handles()), (200, 0));
        fixture.executor.run_for(STEP_REST);
        assert!(fixture.names() < 200);
        fixture.executor.run_until_idle();
        assert_eq!((fixture.names(), disk.handles()), (0, 0));
        assert_eq!(disk.handles_max(), 1);
    }

    #[test]
    fn much_that_waits_is_freed_in_larger_steps() {
        let fixture = in_memory();
        fixture.create_and_remove(1, 1 << 30);
        fixture.executor.run_for(STEP_REST);
        assert_eq!(fixture.waiting_bytes(), (1 << 30) - (1 << 30) / PARTS);
        fixture.executor.run_until_idle();
        assert_eq!(fixture.waiting_bytes(), 0);
    }

    #[test]
    fn what_is_too_much_is_freed_within_a_tenth_of_a_second() {
        let fixture = in_memory();
        fixture.removed.set_max(100 << 20);
        fixture.create_and_remove(1, 900 << 20);
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
        for table in 1..=2 {
            fixture.create_and_remove(table, 2 << 20);
            assert_eq!(fixture.waiting_bytes(), 2 << 20, "{table}");
            fixture.executor.run_until_idle();
            assert_eq!(fixture.waiting_bytes(), 0, "{table}");
        }
    }

    #[test]
    fn on_a_disk_with_little_room_files_are_freed_at_once() {
        for (room, waiting) in [(ROOM_BYTES_MIN, 5 << 20), (ROOM_BYTES_MIN - 1, 0)] {
            let disk = Arc::new(MemoryDisk::new());
            let fixture = fixture(Arc::clone(&disk) as _, Path::new("/store"));
            fixture.create(1, 5 << 20);
            disk.set_capacity(disk.used_bytes() + room);
            fixture.removed.add(TableId(1), 5 << 20);
            assert_eq!(fixture.waiting_bytes(), waiting, "{room}");
            assert_eq!(disk.used_bytes(), waiting, "{room}");
        }
    }

    #[test]
    fn what_waits_can_be_freed_at_once() {
        let fixture = in_memory();
        assert!(!fixture.removed.free_all());
        fixture.create_and_remove(1, 5 << 20);
        fixture.create_and_remove(2, 5 << 20);
        fixture.executor.run_for(STEP_REST);
        assert_eq!(fixture.waiting_bytes(), 9 << 20);
        assert!(fixture.removed.free_all());
        assert_eq!((fixture.waiting_bytes(), fixture.names()), (0, 0));
        fixture.create_and_remove(3, 2 << 20);
        fixture.executor.run_until_idle();
        assert_eq!(fixture.waiting_bytes(), 0);
    }

    #[test]
    fn a_store_that_was_closed_or_is_gone_removes_nothing_more() {
        let fixture = in_memory();
        fixture.create_and_remove(1, 5 << 20);
        fixture.executor.run_for(STEP_REST);
        fixture.removed.close();
        assert_eq!(fixture.names(), 0, "what waited is gone");
        for bytes in [1, 5 << 20] {
            fixture.create_and_remove(bytes, bytes);
        }
        fixture.executor.run_until_idle();
        assert_eq!(fixture.names(), 2);

        let fixture = in_memory();
        fixture.create_and_remove(1, 5 << 20);
        let Fixture {
            disk,
            executor,
            removed,
        } = fixture;
        drop(removed);
        executor.run_until_idle();
        assert_eq!(disk.list(Path::new("/store")).unwrap().len(), 1);
    }

    /// The folder may be another store's from then on, with a table of the same number.
    #[test]
    fn a_close_waits_for_the_job_under_way() {
        let disk = Arc::new(FaultyDisk::new(Arc::new(MemoryDisk::new()) as _));
        let fixture = fixture(Arc::clone(&disk) as _, Path::new("/store"));
        fixture.create_and_remove(1, 5 << 20);
        let (reached, opens) = channel();
        let (release, released) = channel();
        let released = Mutex::new(released);
        disk.arm(Fault::at(0, io::ErrorKind::Other).only(move |call, _| {
            if call == Call::Remove {
                let _sent = reached.send(());
                let _released = released.lock().unwrap().recv();
            }
            false
        }));
        std::thread::scope(|scope| {
            let release = release;
            scope.spawn(|| fixture.executor.run_for(STEP_REST));
            opens.recv_timeout(PATIENCE).unwrap();
            assert!(fixture.removed.waiting.try_lock().is_err());
            scope.spawn(|| fixture.removed.close());
            release.send(()).unwrap();
        });
        assert_eq!(fixture.names(), 0);
    }

    #[test]
    fn a_file_that_cannot_be_opened_or_shortened_is_removed_whole() {
        for fails in [Call::SetLen, Call::Open] {
            let memory = Arc::new(MemoryDisk::new());
            let disk = Arc::new(FaultyDisk::new(Arc::clone(&memory) as _));
            let fixture = fixture(Arc::clone(&disk) as _, Path::new("/store"));
            fixture.create_and_remove(1, 5 << 20);
            disk.arm(Fault::at(0, io::ErrorKind::Other).only(move |call, _| call == fails));
            fixture.executor.run_for(STEP_REST);
            assert_eq!(disk.failed(), 1);
            assert_eq!(memory.used_bytes(), 0);
            assert_eq!(fixture.executor.next_due(), None);
        }
    }

    #[test]
    fn where_the_room_is_unknown_files_are_freed_at_once() {
        let disk = Arc::new(FaultyDisk::new(Arc::new(MemoryDisk::new()) as _));
        let fixture = fixture(Arc::clone(&disk) as _, Path::new("/store"));
        let fault = Fault::at(0, io::ErrorKind::Other).only(|call, _| call == Call::AvailableBytes);
        disk.arm(fault);
        fixture.create_and_remove(1, 5 << 20);
        assert_eq!(disk.failed(), 1);
        assert_eq!((fixture.waiting_bytes(), fixture.names()), (0, 0));
    }

    #[test]
    fn a_file_that_has_another_name_keeps_what_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let fixture = fixture(Arc::new(RealDisk::default()), folder.path());
        fixture.create(1, 5 << 20);
        let link = folder.path().join("link");
        std::fs::hard_link(fixture.path(1), &link).unwrap();
        fixture.removed.add(TableId(1), 5 << 20);
        fixture.executor.run_until_idle();
        assert_eq!(link.metadata().unwrap().len(), 5 << 20);
        assert!(!fixture.path(1).exists());
    }

    #[test]
    fn the_system_says_whether_a_file_has_a_name() {
        let folder = tempfile::tempdir().unwrap();
        for fixture in [
            in_memory(),
            fixture(Arc::new(RealDisk::default()), folder.path()),
        ] {
            fixture.create(1, 1);
            let file = fixture.disk.open(&fixture.path(1)).unwrap();
            assert!(file.has_name().unwrap());
            fixture.disk.remove(&fixture.path(1)).unwrap();
            assert!(!file.has_name().unwrap());
        }
    }
}
