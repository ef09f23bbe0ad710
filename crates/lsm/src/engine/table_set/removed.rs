//! The space of removed files, which is freed a little at a time.
//!
//! A file system that is mounted with `discard` tells the device which blocks it has freed before
//! it completes the next syncs: when whole tables go at once, those of the log wait. RocksDB and
//! Pebble pace deletions for the same reason.

use crate::disk::DiskFile;
use crate::executor::{Executor, Lane};
use crate::sync::lock;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// How many bytes a job frees while few wait.
const STEP_BYTES: u64 = 1 << 20;

/// How long the next job waits, so that syncs have their turn.
const STEP_REST: Duration = Duration::from_millis(10);

/// A job frees at least one of so many parts of all that waits, so however much that is, it
/// takes seconds.
const PARTS: u64 = 128;

/// A file of at most so many bytes is freed at once.
const SHORT_BYTES: u64 = 64 << 10;

/// Files that nobody reads any more and that have no name.
pub(super) struct RemovedFiles {
    waiting: Arc<Mutex<Waiting>>,
    executor: Weak<dyn Executor>,
}

#[derive(Default)]
struct Waiting {
    files: VecDeque<RemovedFile>,
    /// The bytes of all of them.
    bytes: u64,
    /// Whether a job is to come.
    is_scheduled: bool,
}

struct RemovedFile {
    file: Arc<dyn DiskFile>,
    bytes: u64,
}

impl RemovedFiles {
    pub(super) fn new(executor: Weak<dyn Executor>) -> Self {
        Self {
            waiting: Arc::default(),
            executor,
        }
    }

    /// Takes the last handle of a file. One that still has a name is only closed: somebody may
    /// have linked it elsewhere, and wants what it holds.
    pub(super) fn add(&self, file: Arc<dyn DiskFile>) {
        let has_other_handles = Arc::strong_count(&file) > 1;
        let (Ok(false), Ok(bytes)) = (file.has_name(), file.len()) else {
            return;
        };
        if has_other_handles || bytes <= SHORT_BYTES {
            return;
        }
        let mut waiting = lock(&self.waiting);
        waiting.bytes += bytes;
        waiting.files.push_back(RemovedFile { file, bytes });
        if !std::mem::replace(&mut waiting.is_scheduled, true) {
            schedule(Arc::clone(&self.waiting), &self.executor);
        }
    }
}

/// Has a step taken later. An executor that stops drops the job, and the files with their owner.
fn schedule(waiting: Arc<Mutex<Waiting>>, executor: &Weak<dyn Executor>) {
    if let Some(running) = executor.upgrade() {
        let executor = Weak::clone(executor);
        let next = Box::new(move || free_some(waiting, &executor));
        running.spawn(Lane::Compaction, STEP_REST, next);
    }
}

/// Closes the first files that wait, and shortens the one that is too long for that.
fn free_some(waiting: Arc<Mutex<Waiting>>, executor: &Weak<dyn Executor>) {
    let mut step = STEP_BYTES.max(lock(&waiting).bytes / PARTS);
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
    use crate::disk::{Disk, RealDisk};
    use crate::executor::StepExecutor;
    use base::ManualClock;
    use std::path::Path;

    struct Fixture {
        folder: tempfile::TempDir,
        disk: RealDisk,
        executor: Arc<StepExecutor>,
        removed: RemovedFiles,
    }

    fn fixture() -> Fixture {
        let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(0))));
        let weak: Weak<StepExecutor> = Arc::downgrade(&executor);
        Fixture {
            folder: tempfile::tempdir().unwrap(),
            disk: RealDisk::default(),
            executor,
            removed: RemovedFiles::new(weak),
        }
    }

    impl Fixture {
        /// Creates a file, and adds it without its name.
        fn add(&self, name: &str, bytes: u64) {
            let path = self.folder.path().join(name);
            let (file, _) = self.create(&path, bytes);
            self.disk.remove(&path).unwrap();
            self.removed.add(file);
        }

        /// A new file, and another handle of it.
        fn create(&self, path: &Path, bytes: u64) -> (Arc<dyn DiskFile>, Arc<dyn DiskFile>) {
            let file = self.disk.create(path).unwrap();
            file.set_len(bytes).unwrap();
            (file, self.disk.open(path).unwrap())
        }
    }

    /// What the file system has of the files that wait.
    fn waiting(fixture: &Fixture) -> u64 {
        let waiting = lock(&fixture.removed.waiting);
        let files = waiting.files.iter();
        let bytes = files.map(|file| file.file.len().unwrap()).sum();
        assert_eq!(waiting.bytes, bytes);
        bytes
    }

    #[test]
    fn removed_files_are_freed_a_little_at_a_time() {
        let fixture = fixture();
        let lengths = [5 << 20, 3 << 19, 1 << 19, 100 << 10, SHORT_BYTES];
        for (number, bytes) in lengths.into_iter().enumerate() {
            fixture.add(&number.to_string(), bytes);
        }
        let mut before = lengths.iter().sum::<u64>() - SHORT_BYTES;
        assert_eq!(waiting(&fixture), before);
        while fixture.executor.next_due().is_some() {
            fixture.executor.run_for(STEP_REST);
            let now = waiting(&fixture);
            assert_eq!(before - now, before.min(STEP_BYTES));
            before = now;
        }
        assert_eq!(before, 0);
    }

    #[test]
    fn much_that_waits_is_freed_in_larger_steps() {
        let fixture = fixture();
        fixture.add("long", 1 << 30);
        fixture.executor.run_for(STEP_REST);
        assert_eq!(waiting(&fixture), (1 << 30) - (1 << 30) / PARTS);
        fixture.executor.run_until_idle();
        assert_eq!(waiting(&fixture), 0);
    }

    #[test]
    fn a_file_that_has_a_name_keeps_what_it_holds() {
        let fixture = fixture();
        let [path, link] = ["table", "backup"].map(|name| fixture.folder.path().join(name));
        let (file, view) = fixture.create(&path, 5 << 20);
        std::fs::hard_link(&path, &link).unwrap();
        fixture.disk.remove(&path).unwrap();
        fixture.removed.add(file);
        fixture.executor.run_until_idle();
        assert_eq!(view.len().unwrap(), 5 << 20);
    }

    #[test]
    fn a_file_with_another_handle_keeps_what_it_holds() {
        let fixture = fixture();
        let path = fixture.folder.path().join("table");
        let (file, _) = fixture.create(&path, 5 << 20);
        fixture.disk.remove(&path).unwrap();
        fixture.removed.add(Arc::clone(&file));
        fixture.executor.run_until_idle();
        assert_eq!(file.len().unwrap(), 5 << 20);
    }

    #[test]
    fn what_comes_later_is_freed_as_well() {
        let fixture = fixture();
        for name in ["first", "second"] {
            fixture.add(name, 2 << 20);
            fixture.executor.run_until_idle();
            assert_eq!(waiting(&fixture), 0, "{name}");
        }
    }
}
