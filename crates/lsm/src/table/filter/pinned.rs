//! A filter that stays in memory with its table.
//!
//! A get probes the filters of many tables before it reads one data block. The
//! cache is shared, so each lookup of a page there locks and counts, which costs
//! several times as much as the probe itself. RocksDB pins the filters of level 0
//! for the same reason.

use super::{FilterShape, KeyHash};
use crate::cache::CacheReservation;

/// A filter of level 0 is pinned while all pinned filters together take at most
/// the cache's capacity divided by this. A get may probe every table of level 0.
const LEVEL_0_DIVISOR: usize = 4;

/// The same for the other levels, where a get probes one table a level. The divisor
/// is larger, so that large tables leave room for the filters of level 0.
const LOWER_LEVEL_DIVISOR: usize = 8;

/// All pages of a table's filter.
pub(in crate::table) struct PinnedFilter {
    pages: Box<[u8]>,
    /// Ends when the table is dropped.
    _reservation: CacheReservation,
}

impl PinnedFilter {
    /// The filter with these pages, one after another.
    pub(in crate::table) fn new(pages: Box<[u8]>, reservation: CacheReservation) -> Self {
        Self {
            pages,
            _reservation: reservation,
        }
    }

    /// The divisor of the cache's capacity up to which a filter of this level is
    /// pinned.
    pub(in crate::table) fn divisor(level: usize) -> usize {
        match level {
            0 => LEVEL_0_DIVISOR,
            _ => LOWER_LEVEL_DIVISOR,
        }
    }

    /// Whether the filter admits a key.
    pub(in crate::table) fn admits(&self, shape: FilterShape, hash: KeyHash) -> bool {
        let page_bytes = shape.page_bytes as usize;
        let start = shape.page(hash) as usize * page_bytes;
        // The pages were read according to this shape, so the page is there.
        let page = self.pages.get(start..start + page_bytes);
        page.is_none_or(|page| shape.admits(page, hash))
    }
}
