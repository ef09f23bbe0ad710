//! How much repair does at a time.

use std::time::Duration;

/// How much a session does at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairSizes {
    /// The keys and values of a range, in bytes, on the node that has most of it: a scan
    /// ahead ends after half of that. A node with little memory has shorter ranges.
    pub range_bytes: usize,
    /// And its keys.
    pub range_keys: usize,
    /// The ranges between two checkpoints of a full session, at most.
    pub checkpoint_ranges: u32,
    /// And the time.
    pub checkpoint_period: Duration,
}

impl RepairSizes {
    /// The most that is streamed of a range, as a multiple of [`RepairSizes::range_bytes`].
    const STREAMED_RANGES_MAX: usize = 2;

    /// The same, with ranges of at most so many bytes.
    #[must_use]
    pub fn within(self, range_bytes_max: usize) -> Self {
        Self {
            range_bytes: self.range_bytes.min(range_bytes_max),
            ..self
        }
    }

    /// The most bytes that are streamed of a range. Several nodes may send some of it, and
    /// values may have become longer since the range was scanned. What does not fit comes
    /// as repair writes.
    pub fn streamed_bytes_max(self) -> usize {
        self.range_bytes.saturating_mul(Self::STREAMED_RANGES_MAX)
    }
}

impl Default for RepairSizes {
    fn default() -> Self {
        Self {
            range_bytes: 16 << 20,
            range_keys: 16 << 10,
            // About 256 MiB, if there is memory for ranges of 8 MiB.
            checkpoint_ranges: 32,
            checkpoint_period: Duration::from_secs(30),
        }
    }
}
