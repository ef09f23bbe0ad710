//! Health: whether the store may be written to, and whether jobs may begin.
//!
//! Four states restrict a store, and each has its own remedy:
//! - **full**: the disk has no room. Puts are refused until there is room again;
//!   see [`FullDisk`].
//! - **failing**: a file that the store needs cannot be made, or its folder is gone. It is
//!   tried again; see [`Failing`].
//! - **poisoned**: a sync failed, or a write to the log did for another reason
//!   than a full disk, so what is on disk is unknown. The store is read-only
//!   until it is opened again.
//! - **closing**: the engine is being closed, and no job begins anything new.
//!
//! Which tables are damaged is known to each table, because a damaged table
//! restricts only the reads of its own blocks.

pub(super) mod failing;
pub(super) mod full_disk;

use crate::error::Error;
use failing::Failing;
use full_disk::FullDisk;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// The owner of what restricts the store. What each write looks at is one atomic value.
pub(super) struct Health {
    poison: OnceLock<Arc<str>>,
    closing: AtomicBool,
    full_disk: FullDisk,
    failing: Failing,
}

impl Health {
    /// The health of a store that is being opened.
    pub(super) fn new(full_disk: FullDisk) -> Self {
        Self {
            poison: OnceLock::new(),
            closing: AtomicBool::new(false),
            full_disk,
            failing: Failing::default(),
        }
    }

    /// The state of the disk, and the reserve.
    pub(super) fn full_disk(&self) -> &FullDisk {
        &self.full_disk
    }

    /// The work that fails and is tried again.
    pub(super) fn failing(&self) -> &Failing {
        &self.failing
    }

    /// Whether puts are refused because the disk has no room.
    pub(super) fn is_full(&self) -> bool {
        self.full_disk.is_full()
    }

    /// Whether the engine is being closed.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Relaxed)
    }

    /// Lets no job begin anything new from now on.
    pub(super) fn close(&self) {
        self.closing.store(true, Relaxed);
    }

    /// Whether a job may begin something new that writes.
    pub(super) fn may_begin(&self) -> bool {
        !self.is_closing() && self.poison.get().is_none()
    }

    /// Why the store is poisoned, if it is.
    pub(super) fn poison_cause(&self) -> Option<&Arc<str>> {
        self.poison.get()
    }

    /// Checks that the store is not poisoned.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub(super) fn check_poison(&self) -> Result<(), Error> {
        match self.poison.get() {
            Some(cause) => Err(Error::Poisoned {
                cause: Arc::clone(cause),
            }),
            None => Ok(()),
        }
    }

    /// Makes the store read-only because of `error`, if it is not yet. Returns
    /// the error that writes get from now on.
    pub(super) fn poison(&self, error: Error) -> Error {
        if let Error::Poisoned { .. } = error {
            return error;
        }
        let cause = self.poison.get_or_init(|| {
            tracing::error!(
                %error,
                "the store is read-only now, because its state on disk is unknown: restart the node"
            );
            error.to_string().into()
        });
        Error::Poisoned {
            cause: Arc::clone(cause),
        }
    }
}
