//! Sums up what this node keeps in a range of keys, a step at a time.

use crate::config::BATCH_BYTES_MAX;
use cluster::sweep::{Kept, KeptScope};
use lsm::{Engine, Error, Scan};

/// How many batches a step reads at most: few milliseconds of work, unless the disk is
/// slow.
const STEP_BATCHES: usize = 8;

/// A sum over the keys of a range, as far as it has come. It sees the store as it was
/// when the sum began.
pub struct RangeDigest {
    scan: Scan,
    scope: KeptScope,
    kept: Kept,
}

impl RangeDigest {
    pub(crate) fn new(engine: &Engine, start: &[u8], end: Option<&[u8]>, scope: KeptScope) -> Self {
        // It reads everything once, so the cache keeps nothing of it. What lies in a
        // damaged block is left out: the node does not keep it any more.
        let scan = engine.scan(start, end);
        Self {
            scan: scan.for_sweep(base::Timestamp::ZERO),
            scope,
            kept: Kept::default(),
        }
    }

    /// Goes on for a step. Gives whether it was the last one. May read the disk.
    ///
    /// # Errors
    /// See [`Scan::next_batch`].
    pub(crate) fn step(&mut self) -> Result<bool, Error> {
        for _ in 0..STEP_BATCHES {
            let batch = self.scan.next_batch(BATCH_BYTES_MAX)?;
            if batch.is_empty() {
                return Ok(true);
            }
            for entry in &batch {
                self.kept.add(entry, &self.scope);
            }
        }
        Ok(false)
    }

    /// What was found so far.
    #[must_use]
    pub fn kept(&self) -> Kept {
        self.kept
    }
}
