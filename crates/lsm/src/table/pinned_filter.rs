//! A filter that its table holds in memory.
//!
//! A get asks the filters of many tables for one data block. To look each page
//! up in the cache, which is shared and therefore locks and counts, costs
//! several times what the probe itself does; RocksDB pins the filters of level 0
//! for the same reason.

use super::filter::{FilterShape, KeyHash};
use crate::cache::CacheReservation;

/// The part of the cache that held filters may take together, as a divisor,
/// as seen by a table of level 0. There a get may have to ask each table.
const SHARE_LEVEL_0: usize = 4;

/// The same for a table of another level, of which a get asks one a level: so
/// large tables leave room for those of level 0.
const SHARE_BELOW: usize = 8;

/// All pages of a table's filter.
pub(super) struct PinnedFilter {
    pages: Box<[u8]>,
    /// Gives the memory back with the table.
    _reservation: CacheReservation,
}

impl PinnedFilter {
    /// The filter with these pages, one after another.
    pub(super) fn new(pages: Box<[u8]>, reservation: CacheReservation) -> Self {
        Self {
            pages,
            _reservation: reservation,
        }
    }

    /// Which part of the cache the filters may take, as a divisor, so that one
    /// of this level is held.
    pub(super) fn share(level: usize) -> usize {
        match level {
            0 => SHARE_LEVEL_0,
            _ => SHARE_BELOW,
        }
    }

    /// Whether the filter admits a key.
    pub(super) fn admits(&self, shape: FilterShape, hash: KeyHash) -> bool {
        let page_bytes = shape.page_bytes as usize;
        let start = shape.page(hash) as usize * page_bytes;
        // The pages were read by this shape, so they are all there.
        let page = self.pages.get(start..start + page_bytes);
        page.is_none_or(|page| shape.admits(page, hash))
    }
}
