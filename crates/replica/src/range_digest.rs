//! Computes the digest of a range of this node's keys, a step at a time.

use cluster::comparison::{Kept, KeptScope};
use lsm::{Engine, Error, Scan};

/// How many bytes of keys and values a step reads, about: less than a millisecond of work,
/// unless the disk is slow.
const STEP_BYTES: usize = 512 << 10;

/// A sum over the keys of a range, as far as it has come. It sees the store as it was
/// when the sum began.
pub struct RangeDigest {
    scan: Scan,
    scope: KeptScope,
    kept: Kept,
}

impl RangeDigest {
    /// A sum over `start` until `end`, of what counts in `scope`.
    pub fn new(engine: &Engine, start: &[u8], end: Option<&[u8]>, scope: KeptScope) -> Self {
        // It reads everything once, so the cache keeps nothing of it. What lies in a
        // damaged block is left out: the node does not keep it any more.
        let scan = engine.scan(start, end);
        Self {
            scan: scan.for_comparison(base::Timestamp::ZERO),
            scope,
            kept: Kept::default(),
        }
    }

    /// Goes on for a step. Gives whether it was the last one. May read the disk.
    ///
    /// # Errors
    /// See [`Scan::advance`].
    pub fn step(&mut self) -> Result<bool, Error> {
        let mut bytes = 0;
        while bytes < STEP_BYTES {
            if !self.scan.advance()? {
                return Ok(true);
            }
            let entry = self.scan.entry();
            bytes += entry.data_bytes();
            self.kept.add(entry, &self.scope);
        }
        Ok(false)
    }

    /// What was found so far.
    #[must_use]
    pub fn kept(&self) -> Kept {
        self.kept
    }
}
