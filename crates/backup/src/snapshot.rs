//! A snapshot that an upload reads, and that its owner can let go of at any time.
//!
//! A target that hangs keeps the thread of an upload, which cannot be ended. But the upload takes the
//! snapshot only while it reads the store, and never while it waits for the target. So its owner
//! frees what the snapshot pins, however long the target hangs.

use crate::error::BackupError;
use lsm::StoreSnapshot;
use profile::lock;
use std::sync::{Arc, Mutex};

/// A snapshot that is shared.
#[derive(Clone)]
pub struct SharedSnapshot(Arc<Mutex<Option<StoreSnapshot>>>);

impl SharedSnapshot {
    /// Shares a snapshot.
    #[must_use]
    pub fn new(snapshot: StoreSnapshot) -> Self {
        Self(Arc::new(Mutex::new(Some(snapshot))))
    }

    /// Lets go of it. Waits while the store is read.
    pub fn let_go(&self) {
        let snapshot = lock(&self.0).take();
        // Without the lock, because it waits for commits.
        drop(snapshot);
    }

    /// How many bytes of removed tables it keeps on the disk. Waits while the store is read.
    #[must_use]
    pub fn pinned_bytes(&self) -> u64 {
        let snapshot = lock(&self.0);
        snapshot.as_ref().map_or(0, StoreSnapshot::pinned_bytes)
    }

    /// Does something with it.
    ///
    /// # Errors
    /// [`BackupError::LetGo`]; those of the store.
    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&mut StoreSnapshot) -> Result<T, lsm::Error>,
    ) -> Result<T, BackupError> {
        let mut snapshot = lock(&self.0);
        let snapshot = snapshot.as_mut().ok_or(BackupError::LetGo)?;
        Ok(work(snapshot)?)
    }
}
