//! The full disk and the poisoned store: how the engine lives with a disk that fails.
//!
//! A reserve, a file that only takes up room, is kept as long as there is
//! enough. When an allocation of the log or a flush finds the disk full, the
//! reserve is given back, so that deletes, flushes and small compactions have
//! room, and puts are refused. Puts are taken again once the reserve could be
//! made anew with some room to spare, so that they are not refused again at once.
//!
//! A compaction needs much room for a while only. It gives up before it takes
//! what the log and the flushes need, and does not make the store full.

use super::Inner;
use super::flush::RETRY_DELAY;
use crate::disk::{Disk, DiskFile};
use crate::error::Error;
use crate::executor::Lane;
use crate::options::Options;
use crate::sync::lock;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The file whose size is the reserve.
pub(super) const RESERVE_FILE: &str = "RESERVE";

/// The longest that a full store waits before it looks for room again.
const PROBE_DELAY_MAX: Duration = Duration::from_secs(10);

/// How long a full store lets deletes gather between two flushes: each is a
/// table, and may have others rewritten.
const DELETES_GATHER: Duration = Duration::from_secs(15);

/// The reserve, and whether it is spent.
pub(super) struct Space {
    full: AtomicBool,
    /// The reserve's file; none before the reserve is first made.
    reserve: Mutex<Option<Arc<dyn DiskFile>>>,
    reserve_bytes: u64,
    /// What the log and the flushes may take before they could be heard of.
    headroom_bytes: u64,
}

impl Space {
    /// Gives back the reserve of an earlier run; until [`Space::try_reserve`]
    /// the disk counts as full.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn open(disk: &dyn Disk, folder: &Path, options: &Options) -> Result<Self, Error> {
        let path = folder.join(RESERVE_FILE);
        let reserve = match disk.open(&path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io("open", &path, error)),
        };
        if let Some(file) = &reserve {
            file.set_len(0)
                .map_err(|error| Error::io("truncate", &path, error))?;
        }
        // A table of each memtable, and a segment for the next.
        let memtables = options.memtables_frozen_max as u64 + 2;
        Ok(Self {
            full: AtomicBool::new(true),
            reserve: Mutex::new(reserve),
            reserve_bytes: options.disk_reserve_bytes,
            headroom_bytes: memtables.saturating_mul(options.memtable_bytes as u64),
        })
    }

    /// Whether puts are refused for want of space.
    pub(super) fn is_full(&self) -> bool {
        self.full.load(Relaxed)
    }

    /// The room that a compaction may take, in bytes: on a full disk half of
    /// what is left, which is about the reserve, the rest being for the
    /// deletes; otherwise what log and flushes leave.
    pub(super) fn compaction_bytes_max(&self, disk: &dyn Disk, folder: &Path) -> u64 {
        match (self.is_full(), disk.available_bytes(folder)) {
            (true, Ok(available)) => available / 2,
            (true, Err(_)) => self.reserve_bytes / 2,
            (false, Ok(available)) => available.saturating_sub(self.headroom_bytes),
            (false, Err(_)) => u64::MAX,
        }
    }

    /// Makes the reserve, so that puts are taken. Returns whether there was
    /// room for it, with something to spare.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn try_reserve(&self, disk: &dyn Disk, folder: &Path) -> Result<bool, Error> {
        // Asked first: to take all that is left, and be it for a moment, could
        // fail a delete, and where space cannot be allocated it is written.
        if !self.has_room_for(self.reserve_bytes, disk, folder) {
            return Ok(false);
        }
        match self.reserve(disk, folder) {
            Ok(()) => {
                self.full.store(false, Relaxed);
                Ok(true)
            }
            Err(Error::DiskFull) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether the disk has room for `bytes` and what log and flushes may need
    /// meanwhile. Yes where the system cannot tell.
    fn has_room_for(&self, bytes: u64, disk: &dyn Disk, folder: &Path) -> bool {
        let wanted = bytes.saturating_add(self.headroom_bytes);
        disk.available_bytes(folder)
            .map_or(true, |available| available >= wanted)
    }

    fn reserve(&self, disk: &dyn Disk, folder: &Path) -> Result<(), Error> {
        if self.reserve_bytes == 0 {
            return Ok(());
        }
        let path = folder.join(RESERVE_FILE);
        let mut reserve = lock(&self.reserve);
        let file = match &*reserve {
            Some(file) => file,
            None => reserve.insert(
                disk.create(&path)
                    .map_err(|error| Error::io("create", &path, error))?,
            ),
        };
        file.allocate(0, self.reserve_bytes).map_err(|error| {
            // Part of it may have been allocated.
            let _ = file.set_len(0);
            Error::io("allocate", &path, error)
        })
    }

    fn release(&self) -> io::Result<()> {
        match &*lock(&self.reserve) {
            Some(file) => file.set_len(0),
            None => Ok(()),
        }
    }
}

impl Inner {
    /// Takes note that the disk is full and gives the reserve back. Returns
    /// whether that is news.
    pub(super) fn enter_full(self: &Arc<Self>) -> bool {
        if self.space.full.swap(true, Relaxed) {
            return false;
        }
        tracing::error!(
            folder = %self.environment.folder.display(),
            "the disk is full: puts are refused until there is room again"
        );
        if let Err(error) = self.space.release() {
            tracing::error!(%error, "could not give the reserve back");
        }
        self.watch_for_room(RETRY_DELAY, Duration::ZERO);
        // Something in the tables may be hidden already.
        self.schedule_compaction(Duration::ZERO);
        true
    }

    /// Tries to leave the full state after `delay`, and less and less often
    /// from then on, until there is room. Deletes are flushed meanwhile, not
    /// before `flush_due` of the monotonic clock, for the room that they make.
    pub(super) fn watch_for_room(self: &Arc<Self>, delay: Duration, flush_due: Duration) {
        self.spawn(Lane::Log, delay, move |inner| {
            if !inner.space.is_full() || inner.is_closing() || inner.check_poison().is_err() {
                return;
            }
            let (disk, folder) = (&*inner.environment.disk, &inner.environment.folder);
            match inner.space.try_reserve(disk, folder) {
                Ok(true) => {
                    tracing::info!("the disk has room again: puts are taken");
                    inner.prepare_segment();
                    inner.schedule_compaction(Duration::ZERO);
                    return;
                }
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "could not make the reserve"),
            }
            let now = inner.environment.clock.monotonic();
            let flush_due = match now >= flush_due && inner.freeze_deletes() {
                true => now.saturating_add(DELETES_GATHER),
                false => flush_due,
            };
            // There may be room for one that did not fit.
            inner.schedule_compaction(Duration::ZERO);
            inner.watch_for_room((delay * 2).min(PROBE_DELAY_MAX), flush_due);
        });
    }

    /// The error that a poisoned store answers writes with.
    pub(super) fn check_poison(&self) -> Result<(), Error> {
        match self.poison.get() {
            Some(cause) => Err(Error::Poisoned {
                cause: Arc::clone(cause),
            }),
            None => Ok(()),
        }
    }

    /// Makes the store read-only because of `error`; returns what writes get from now on.
    pub(super) fn poison(self: &Arc<Self>, error: Error) -> Error {
        if let Error::Poisoned { .. } = error {
            return error;
        }
        let cause = self.poison.get_or_init(|| {
            tracing::error!(%error, "the store is read-only now: what is on disk is unknown");
            error.to_string().into()
        });
        // Writes that wait for a flush or a compaction would wait for ever.
        self.end_stall();
        Error::Poisoned {
            cause: Arc::clone(cause),
        }
    }

    /// As [`Inner::poison`], but a full disk is no reason.
    pub(super) fn poison_unless_full(self: &Arc<Self>, error: Error) -> Error {
        match error {
            Error::DiskFull => error,
            error => self.poison(error),
        }
    }

    /// Poisons the store if `error` is a failed sync: the kernel may have
    /// dropped the pages, so a later sync that succeeds would mean nothing.
    pub(super) fn poison_if_sync(self: &Arc<Self>, error: Error) -> Error {
        if error.is_sync() {
            self.poison(error)
        } else {
            error
        }
    }
}
