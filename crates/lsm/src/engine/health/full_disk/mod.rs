//! The full disk: how the store stays usable when the disk has no room.
//!
//! While there is room, a [`Reserve`] keeps some of it. When an allocation of
//! the log or of a flush finds the disk full, the reserve is given back, so that
//! deletes, flushes and small compactions have room, and puts are refused. Puts
//! are accepted again once the reserve can be made anew with some room to spare,
//! because otherwise the next puts would find the disk full again at once.
//!
//! A compaction needs much room, but only for a while. It stops before it takes
//! the room that the log and the flushes need, so it does not make the store full.
//! Compaction frees the space of deleted versions on a full disk: see
//! `compaction/reclaim.rs`.

mod reserve;

use crate::disk::Disk;
use crate::error::Error;
use crate::locks::lock;
use crate::options::{Environment, Options};
use reserve::Reserve;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often a full store looks for room. A look asks the file system how much is free, and nothing
/// else.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// How long a store that has just become full waits before it tries again what did not fit: the
/// reserve, and compactions.
const RETRY_DELAY_MIN: Duration = Duration::from_secs(1);

/// The longest that a full store waits before it does so again.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(10);

/// How long a full store collects deletes between two flushes. Each flush writes
/// a table, and may cause other tables to be rewritten.
const DELETES_DELAY: Duration = Duration::from_secs(15);

/// The owner of the reserve, and of whether the store is full.
///
/// Locks: `reserve`, held while the reserve's file grows or shrinks. No other lock
/// is taken meanwhile.
pub(in crate::engine) struct FullDisk {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    /// Changes only under the lock of `reserve`, together with the reserve.
    full: AtomicBool,
    reserve: Mutex<Reserve>,
    /// The size of the reserve once it is made, in bytes.
    reserve_bytes: u64,
    /// How much the log and the flushes may allocate between two checks of the
    /// free space, in bytes.
    headroom_bytes: u64,
}

impl FullDisk {
    /// Gives back the reserve of an earlier run. The store counts as full until
    /// [`FullDisk::try_leave`] finds room.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(in crate::engine) fn open(
        environment: &Environment,
        options: &Options,
    ) -> Result<Self, Error> {
        let Environment { disk, folder, .. } = environment;
        // A table for each memtable, and a log segment for the next one.
        let memtables = options.memtables_frozen_max as u64 + 2;
        Ok(Self {
            full: AtomicBool::new(true),
            reserve: Mutex::new(Reserve::open(&**disk, folder)?),
            reserve_bytes: options.disk_reserve_bytes,
            headroom_bytes: memtables.saturating_mul(options.memtable_bytes as u64),
            disk: Arc::clone(disk),
            folder: folder.clone(),
        })
    }

    /// Whether puts are refused because the disk has no room.
    pub(in crate::engine) fn is_full(&self) -> bool {
        self.full.load(Relaxed)
    }

    /// Notes that the disk is full, and gives the reserve back. Returns whether
    /// the store was not full before.
    pub(in crate::engine) fn enter(&self) -> bool {
        let released = {
            // A thread that finds the store full may try again only after another
            // thread has given the reserve back, which it does under this lock.
            let reserve = lock(&self.reserve);
            if self.full.swap(true, Relaxed) {
                return false;
            }
            reserve.release()
        };
        tracing::error!(
            folder = %self.folder.display(),
            "the disk is full, or a quota or a limit on the length of files (ulimit -f) is \
             reached: puts are refused until there is space again: free space on it, or delete \
             data"
        );
        if let Err(error) = released {
            tracing::error!(%error, "could not release the disk reserve");
        }
        true
    }

    /// Makes the reserve if there is room for it with some to spare, so that the
    /// store is full no longer. Returns whether there was room.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(in crate::engine) fn try_leave(&self) -> Result<bool, Error> {
        // Compare the free space first. An attempt that takes all of it could make
        // a delete fail, and on a file system without fallocate the attempt writes
        // the whole reserve.
        if !self.has_room_for_reserve() {
            return Ok(false);
        }
        let mut reserve = lock(&self.reserve);
        match reserve.make(&*self.disk, self.reserve_bytes) {
            Ok(()) => {
                self.full.store(false, Relaxed);
                Ok(true)
            }
            Err(Error::DiskFull) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether the disk has room for the reserve and for what the log and the
    /// flushes may need meanwhile. Yes if the system does not say.
    pub(in crate::engine) fn has_room_for_reserve(&self) -> bool {
        self.disk
            .available_bytes(&self.folder)
            .map_or(true, |available| available >= self.room_to_leave_bytes())
    }

    /// How much room a full disk must have before the store is full no longer, in bytes.
    pub(in crate::engine) fn room_to_leave_bytes(&self) -> u64 {
        self.reserve_bytes.saturating_add(self.headroom_bytes)
    }

    /// How much room there must be for a compaction to take so many bytes while the disk is not
    /// full, in bytes.
    pub(in crate::engine) fn room_to_compact_bytes(&self, bytes: u64) -> u64 {
        self.headroom_bytes.saturating_add(bytes)
    }

    /// The room that a compaction may take, in bytes. On a full disk that is half
    /// of what is left, which is about the reserve; the other half is for the
    /// deletes. Otherwise it is what the log and the flushes leave.
    pub(in crate::engine) fn compaction_bytes_max(&self) -> u64 {
        match (self.is_full(), self.disk.available_bytes(&self.folder)) {
            (true, Ok(available)) => available / 2,
            (true, Err(_)) => self.reserve_bytes / 2,
            (false, Ok(available)) => available.saturating_sub(self.headroom_bytes),
            (false, Err(_)) => u64::MAX,
        }
    }
}

/// How a full store watches for room. It looks each second, and acts once there is room; while a
/// look shows none, or a quota allows less than the file system has, it acts less and less often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct RoomWatch {
    /// Whether the last look has shown room.
    had_room: bool,
    /// How long to wait from one retry to the next.
    retry_delay: Duration,
    /// The next retry is no earlier than this time of the monotonic clock.
    retry_due: Duration,
    /// The deletes are flushed no earlier than this time of the monotonic clock.
    flush_due: Duration,
}

impl RoomWatch {
    /// The watch of a store that has just become full.
    pub(in crate::engine) fn new() -> Self {
        Self {
            had_room: false,
            retry_delay: RETRY_DELAY_MIN,
            retry_due: Duration::ZERO,
            flush_due: Duration::ZERO,
        }
    }

    /// How long to wait before the next look.
    pub(in crate::engine) fn delay(self) -> Duration {
        LOOK_PERIOD
    }

    /// Whether it is time to act: to try to leave the full state, and to make room otherwise.
    pub(in crate::engine) fn is_due(self, now: Duration, has_room: bool) -> bool {
        now >= self.retry_due || has_room && !self.had_room
    }

    /// Whether it is time to flush the deletes, too, for the room that they make.
    pub(in crate::engine) fn is_flush_due(self, now: Duration) -> bool {
        now >= self.flush_due
    }

    /// The watch after a look.
    pub(in crate::engine) fn looked(self, has_room: bool) -> Self {
        Self {
            had_room: has_room,
            ..self
        }
    }

    /// The watch after it has acted at `now`, and the store is still full.
    pub(in crate::engine) fn acted(self, now: Duration, has_flushed: bool) -> Self {
        let retry_delay = (self.retry_delay * 2).min(RETRY_DELAY_MAX);
        Self {
            had_room: self.had_room,
            retry_delay,
            retry_due: now.saturating_add(retry_delay),
            flush_due: if has_flushed {
                now.saturating_add(DELETES_DELAY)
            } else {
                self.flush_due
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Call, Fault, FaultyDisk, MemoryDisk, PATIENCE, environment};
    use std::io;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "another thread runs meanwhile")]
    fn a_thread_that_finds_the_store_full_waits_until_the_reserve_is_given_back() {
        let memory = Arc::new(MemoryDisk::new());
        let faulty = Arc::new(FaultyDisk::new(Arc::clone(&memory) as _));
        let (environment, _) = environment(Arc::clone(&faulty) as _);
        memory.create_folder(&environment.folder).unwrap();
        let full_disk = FullDisk::open(&environment, &Options::default()).unwrap();
        assert!(full_disk.try_leave().unwrap());
        let (sender, is_releasing) = mpsc::channel();
        let slow_release = Fault::at(0, io::ErrorKind::Other).only(move |call, _| {
            if call == Call::SetLen {
                sender.send(()).unwrap();
                thread::sleep(Duration::from_millis(50));
            }
            false
        });
        faulty.arm(slow_release);
        thread::scope(|scope| {
            let first = scope.spawn(|| full_disk.enter());
            is_releasing.recv_timeout(PATIENCE).unwrap();
            assert!(!full_disk.enter());
            let reserve = memory.open(&environment.folder.join("RESERVE")).unwrap();
            assert_eq!(reserve.len().unwrap(), 0, "the room is there for a retry");
            assert!(first.join().unwrap());
        });
    }

    #[test]
    fn a_watch_looks_each_second_retries_less_and_less_often_and_flushes_from_time_to_time() {
        let mut watch = RoomWatch::new();
        let mut now = Duration::ZERO;
        let mut retries = Vec::new();
        let mut flushes = Vec::new();
        for _ in 0..45 {
            assert_eq!(watch.delay(), Duration::from_secs(1));
            now += watch.delay();
            if !watch.is_due(now, false) {
                continue;
            }
            retries.push(now.as_secs());
            let flushes_now = watch.is_flush_due(now);
            if flushes_now {
                flushes.push(now.as_secs());
            }
            watch = watch.acted(now, flushes_now);
        }
        assert_eq!(retries, [1, 3, 7, 15, 25, 35, 45]);
        assert_eq!(flushes, [1, 25, 45]);
        // Room is used at once, and if a quota allows less, no look tries that again.
        now += watch.delay();
        assert!(watch.is_due(now, true));
        let watch = watch.looked(true).acted(now, false);
        assert!(!watch.is_due(now + watch.delay(), true));
    }
}
