//! The options of the hint store: limits, a folder, and the seams.

use base::{Clock, Timestamp};
use lsm::{Disk, Executor};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The limits of hints.
#[derive(Clone, Copy, Debug)]
pub struct HintOptions {
    /// How many bytes hints may take on disk, for all peers together.
    pub bytes_max: u64,
    /// How old a hint may be.
    pub age_max: Duration,
    /// How many bytes of keys and values may wait to be written. A longer hint may
    /// wait alone.
    pub queue_bytes_max: usize,
    /// No segment is begun while fewer bytes than this are free on the disk, because
    /// the store needs the rest.
    pub disk_spare_bytes: u64,
    /// Hints for versions above this are dropped at the start.
    pub drop_above: Option<Timestamp>,
}

/// The surroundings of a store of hints.
pub struct HintEnvironment {
    /// The folder of the segments. Nothing else may be in it.
    pub folder: PathBuf,
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Runs the jobs.
    pub executor: Arc<dyn Executor>,
    /// A number that only this node knows and that is the same at every start.
    pub secret: u64,
}
