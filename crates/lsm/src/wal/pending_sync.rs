//! A sync of a segment that delays no append.

use crate::disk::DiskFile;
use crate::error::Error;
use crate::locks::sites as wait_sites;
use std::path::PathBuf;
use std::sync::Arc;

/// A sync of a segment that is still to be run, without the segment's writer.
pub struct PendingSync {
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) path: PathBuf,
    pub(super) segment: u64,
    /// The sync makes all bytes before this durable.
    pub(super) position: u64,
}

impl PendingSync {
    /// Runs the sync. Blocks.
    ///
    /// # Errors
    /// [`Error::Sync`]: the unsynced groups may or may not be durable, and no
    /// later sync can tell.
    pub fn run(&self) -> Result<(), Error> {
        wait_sites::LOG_SYNC_ASIDE
            .time(|| self.file.sync())
            .map_err(|error| Error::sync(&self.path, error))
    }
}
