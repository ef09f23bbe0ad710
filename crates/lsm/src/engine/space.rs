//! The full disk and the poisoned store: how the engine lives with a disk that fails.
//!
//! A reserve, a file that only takes up room, is kept as long as there is
//! enough. When an allocation finds the disk full, the reserve is given back,
//! so that deletes, flushes and compactions have room, and puts are refused.
//! Puts are taken again once the reserve could be made anew.

use super::Inner;
use super::flush::RETRY_DELAY;
use crate::disk::DiskFile;
use crate::error::Error;
use crate::executor::Lane;
use crate::sync::lock;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// The file whose size is the reserve.
pub(super) const RESERVE_FILE: &str = "RESERVE";

/// The reserve, and whether it is spent.
pub(super) struct Space {
    full: AtomicBool,
    reserve: Mutex<Arc<dyn DiskFile>>,
    reserve_bytes: u64,
}

impl Space {
    /// Makes the reserve. A disk that has no room for it counts as full.
    pub(super) fn open(
        disk: &dyn crate::Disk,
        folder: &Path,
        reserve_bytes: u64,
    ) -> Result<Self, Error> {
        let path = folder.join(RESERVE_FILE);
        let reserve = disk
            .create(&path)
            .map_err(|error| Error::io("create", &path, error))?;
        let space = Self {
            full: AtomicBool::new(false),
            reserve: Mutex::new(reserve),
            reserve_bytes,
        };
        match space.reserve() {
            Ok(()) => {}
            Err(error) if is_full(&error) => space.full.store(true, Relaxed),
            Err(error) => return Err(Error::io("allocate", &path, error)),
        }
        Ok(space)
    }

    /// Whether puts are refused for want of space.
    pub(super) fn is_full(&self) -> bool {
        self.full.load(Relaxed)
    }

    fn reserve(&self) -> std::io::Result<()> {
        if self.reserve_bytes == 0 {
            return Ok(());
        }
        let file = lock(&self.reserve);
        file.allocate(0, self.reserve_bytes).inspect_err(|_| {
            // Part of it may have been allocated.
            let _ = file.set_len(0);
        })
    }

    fn release(&self) -> std::io::Result<()> {
        lock(&self.reserve).set_len(0)
    }
}

fn is_full(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
    )
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
        self.watch_for_room();
        true
    }

    /// Tries to leave the full state, now and then, until there is room.
    pub(super) fn watch_for_room(self: &Arc<Self>) {
        self.spawn(Lane::Log, RETRY_DELAY, |inner| {
            if !inner.space.is_full() || inner.check_poison().is_err() {
                return;
            }
            match inner.space.reserve() {
                Ok(()) => {
                    inner.space.full.store(false, Relaxed);
                    tracing::info!("the disk has room again: puts are taken");
                    inner.prepare_segment();
                }
                Err(_) => inner.watch_for_room(),
            }
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
