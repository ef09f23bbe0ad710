//! How much sweeps do at a time.

use std::time::Duration;

/// How much a pass does at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepSizes {
    /// The keys and values of a range, in bytes, on the node that has most of it: a scan
    /// ahead ends after half of that.
    pub range_bytes: usize,
    /// And its keys.
    pub range_keys: usize,
    /// The ranges between two checkpoints of a full pass, at most.
    pub checkpoint_ranges: u32,
    /// And the time.
    pub checkpoint_period: Duration,
}

impl Default for SweepSizes {
    fn default() -> Self {
        Self {
            range_bytes: 16 << 20,
            range_keys: 16 << 10,
            // About 256 MiB.
            checkpoint_ranges: 32,
            checkpoint_period: Duration::from_secs(30),
        }
    }
}
