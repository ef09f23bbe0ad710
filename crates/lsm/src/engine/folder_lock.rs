//! The folder lock: how long the folder is this engine's.
//!
//! Every job, and every call that may write, holds the folder lock while it runs.
//! Its release waits for those that do, lets go of the disk's lock, and turns
//! away whoever comes later: a job that an executor kept for long, or a call
//! on a clone of the engine. So nothing is written beside a later engine's
//! work on the same folder, which may begin as soon as the lock is free.

use crate::error::Error;
use std::any::Any;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// What the disk gave when the folder was locked; dropped, it frees the folder.
pub(super) type DiskLock = Box<dyn Any + Send + Sync>;

/// The right to write to the folder.
pub(super) struct FolderLock(RwLock<Option<DiskLock>>);

/// Keeps the folder this engine's for as long as it lives. Not to be taken
/// twice by one thread: between the two, the end may begin to wait.
pub(super) type FolderLockGuard<'a> = RwLockReadGuard<'a, Option<DiskLock>>;

impl FolderLock {
    /// The lock of the engine that has locked the folder.
    pub(super) fn new(folder_lock: DiskLock) -> Self {
        Self(RwLock::new(Some(folder_lock)))
    }

    /// Holds off the end.
    ///
    /// # Errors
    /// [`Error::Closed`] once it has come.
    pub(super) fn hold(&self) -> Result<FolderLockGuard<'_>, Error> {
        let guard = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match *guard {
            Some(_) => Ok(guard),
            None => Err(Error::Closed),
        }
    }

    /// Waits for those that hold it, and gives the folder back.
    pub(super) fn release(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BlockingWrite, environment};
    use crate::{Engine, Environment, Lane, MemoryDisk, Options};
    use base::{Clock, Entry, Expiry, ManualClock, Timestamp};
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Arc, Mutex};
    use std::thread::ScopedJoinHandle;
    use std::time::Duration;

    /// Waits until the end waits for those that hold the folder lock; false where it
    /// has not waited.
    fn wait_for_release<T>(folder_lock: &FolderLock, ender: &ScopedJoinHandle<'_, T>) -> bool {
        // Who waits to write keeps new readers out.
        while folder_lock.0.try_read().is_ok() {
            if ender.is_finished() {
                return false;
            }
            std::thread::yield_now();
        }
        !ender.is_finished()
    }

    #[test]
    fn the_end_waits_for_who_holds_it_and_turns_away_who_comes_later() {
        let folder_lock = FolderLock::new(Box::new(()));
        let wrote = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let held = folder_lock.hold().unwrap();
            let ender = scope.spawn(|| {
                folder_lock.release();
                assert!(wrote.load(SeqCst), "the end has overtaken a writer");
            });
            assert!(wait_for_release(&folder_lock, &ender));
            wrote.store(true, SeqCst);
            drop(held);
        });
        assert!(matches!(folder_lock.hold(), Err(Error::Closed)));
    }

    /// A clock that stops whoever asks it first once it was armed.
    struct StoppingClock {
        clock: ManualClock,
        armed: AtomicBool,
        stopped: Mutex<Sender<()>>,
        release: Mutex<Receiver<()>>,
    }

    impl Clock for StoppingClock {
        fn unix_ms(&self) -> u64 {
            self.clock.unix_ms()
        }

        fn monotonic(&self) -> Duration {
            if self.armed.swap(false, SeqCst) {
                let _told = self.stopped.lock().unwrap().send(());
                let _released = self.release.lock().unwrap().recv();
            }
            self.clock.monotonic()
        }
    }

    #[test]
    fn a_close_waits_for_the_jobs_under_way() {
        let disk = Arc::new(MemoryDisk::new());
        let (stopped, stops) = channel();
        let (release, released) = channel();
        let clock = Arc::new(StoppingClock {
            clock: ManualClock::new(0),
            armed: AtomicBool::new(false),
            stopped: Mutex::new(stopped),
            release: Mutex::new(released),
        });
        let (environment, executor) = environment(Arc::clone(&disk) as _);
        let environment = Environment {
            clock: Arc::clone(&clock) as _,
            ..environment
        };
        let open =
            || Engine::open(environment.clone(), Options::default()).map(|(engine, _)| engine);
        let engine = open().unwrap();
        let entry = Entry::value(b"a", Timestamp::from_u64(1), b"v", Expiry::NEVER, 1);
        engine.write(entry).unwrap();
        clock.armed.store(true, SeqCst);
        std::thread::scope(|scope| {
            // Dropped when this panics, so that the job goes on and is joined.
            let release = release;
            scope.spawn(|| executor.run_lane(Lane::Compaction));
            stops.recv().unwrap();
            let closer = scope.spawn(|| engine.close().unwrap());
            assert!(wait_for_release(
                engine.inner.core.background.folder_lock(),
                &closer
            ));
            assert!(matches!(open(), Err(Error::Locked { .. })));
            release.send(()).unwrap();
            closer.join().unwrap();
        });
        open().unwrap();
    }
}
