//! The folder lock: how long the folder is this engine's.
//!
//! Every job, and every call that may write, holds the folder lock while it runs.
//! The release waits for all of them, frees the disk's lock, and refuses every
//! later holder: a job that an executor kept for long, or a call on a clone of the
//! engine. So this engine writes nothing once another engine has the folder, which
//! may begin its work as soon as the disk's lock is free.

use crate::error::Error;
use std::any::Any;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// The disk's lock of the folder. Dropping it frees the folder.
pub(in crate::engine) type DiskLock = Box<dyn Any + Send + Sync>;

/// The right to write to the folder.
pub(in crate::engine) struct FolderLock(RwLock<Option<DiskLock>>);

/// Keeps the folder locked while it lives. A thread must not take two: a release
/// that begins to wait between them would block the second for ever.
pub(in crate::engine) type FolderLockGuard<'a> = RwLockReadGuard<'a, Option<DiskLock>>;

impl FolderLock {
    /// The lock of the engine that has locked the folder.
    pub(in crate::engine) fn new(folder_lock: DiskLock) -> Self {
        Self(RwLock::new(Some(folder_lock)))
    }

    /// Holds off the release.
    ///
    /// # Errors
    /// [`Error::Closed`] after the release.
    pub(in crate::engine) fn hold(&self) -> Result<FolderLockGuard<'_>, Error> {
        let guard = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match *guard {
            Some(_) => Ok(guard),
            None => Err(Error::Closed),
        }
    }

    /// Waits for the holders, and frees the folder.
    pub(in crate::engine) fn release(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::waiting::until;
    use crate::testing::{BlockingWrite, MemoryDisk, PATIENCE, environment};
    use crate::{Engine, Environment, JobClass, Options};
    use base::{Clock, Entry, Expiry, ManualClock, Timestamp};
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Arc, Mutex};
    use std::thread::ScopedJoinHandle;
    use std::time::Duration;

    /// Waits until the release waits for the holders. Returns false if it ended
    /// without waiting.
    fn wait_for_release<T>(folder_lock: &FolderLock, releaser: &ScopedJoinHandle<'_, T>) -> bool {
        // A waiting writer excludes new readers.
        until("the release to wait", || {
            releaser.is_finished() || folder_lock.0.try_read().is_err()
        });
        !releaser.is_finished()
    }

    #[test]
    fn a_release_waits_for_the_holders_and_refuses_later_ones() {
        let folder_lock = FolderLock::new(Box::new(()));
        let wrote = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let held = folder_lock.hold().unwrap();
            let releaser = scope.spawn(|| {
                folder_lock.release();
                assert!(
                    wrote.load(SeqCst),
                    "the release did not wait for the holder"
                );
            });
            assert!(wait_for_release(&folder_lock, &releaser));
            wrote.store(true, SeqCst);
            drop(held);
        });
        assert!(matches!(folder_lock.hold(), Err(Error::Closed)));
    }

    /// A clock that, once it is armed, stops the next caller that asks for the time.
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
                let _sent = self.stopped.lock().unwrap().send(());
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
            // Dropped if this panics, so that the job goes on and can be joined.
            let release = release;
            scope.spawn(|| executor.run_class(JobClass::Compaction));
            stops.recv_timeout(PATIENCE).unwrap();
            let closer = scope.spawn(|| engine.close().unwrap());
            assert!(wait_for_release(
                engine.inner.core.background.folder_lock(),
                &closer
            ));
            assert!(matches!(open(), Err(Error::Locked { .. })));
            assert!(engine.inner.core.health.is_closing());
            release.send(()).unwrap();
            closer.join().unwrap();
        });
        open().unwrap();
    }
}
