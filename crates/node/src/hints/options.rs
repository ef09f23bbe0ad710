//! What hints are kept with: how many, and where.

use base::{Clock, Timestamp};
use lsm::{Disk, Executor};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How much may be kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HintOptions {
    /// The most bytes on disk, over all peers.
    pub(crate) bytes_max: u64,
    /// How old a hint may become.
    pub(crate) age_max: Duration,
    /// The most bytes of keys and values that wait to be written. A longer
    /// hint is taken when no other waits.
    pub(crate) queue_bytes_max: usize,
    /// No segment is begun with fewer bytes than these left on the disk: its
    /// last room is the store's.
    pub(crate) disk_spare_bytes: u64,
    /// Hints for versions above this are dropped at the start.
    pub(crate) drop_above: Option<Timestamp>,
}

/// What the store of hints works with.
pub(crate) struct HintEnvironment {
    /// Where the segments lie. Nothing else may be kept there.
    pub(crate) folder: PathBuf,
    /// The disk.
    pub(crate) disk: Arc<dyn Disk>,
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
    /// Runs the jobs.
    pub(crate) executor: Arc<dyn Executor>,
    /// Known to this node only; the same at every start.
    pub(crate) secret: u64,
}
