//! Tables: immutable files of sorted records, and the reading of them.
//!
//! A table holds records by [`Record::order`](crate::record::Record::order): by
//! key, and of one key the winner first. Several versions of a key may be in
//! one table, kept for snapshots, and may span blocks.
//!
//! ```text
//! +--------------------------------+
//! | data block *                   |  records, about `block_bytes` before compression
//! | index block                    |  last key -> handle and greatest timestamp of each data block
//! |                                |  since the index block before
//! | data block *                   |
//! | index block ...                |
//! +--------------------------------+
//! | top index block                |  last key -> handle and greatest timestamp of each index block
//! +--------------------------------+
//! | filter page *                  |  Bloom filter; absent when none is configured
//! +--------------------------------+
//! | properties                     |  counts, bounds, the filter's shape
//! +--------------------------------+
//! | footer                         |  version, and where the parts above lie
//! +--------------------------------+
//! ```
//!
//! Every part but the footer is a frame (see [`frame`]) with a checksum of its
//! own. Every byte of a file lies under a checksum, so that damage is an
//! error that names the file and the offset of the part, never an answer.
//!
//! The index has two levels so that a lookup needs a few kilobytes of it; all
//! blocks and filter pages are read through the [cache](crate::cache). Only the
//! properties stay in memory, and the filter where the cache has room for it
//! ([`pinned_filter`]). Since an index names the *last* key of each
//! block, the first block whose last key is not below the one looked for holds
//! its first record, if the table has it: a get reads exactly one data block.

mod block;
mod block_writer;
mod expiries;
mod filter;
mod format;
mod frame;
mod fuzz;
mod index;
mod iterator;
mod malformed;
mod pinned_filter;
mod reader;
mod record;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use filter::KeyHash;
pub use fuzz::{fuzz_block, fuzz_footer, fuzz_table};
pub(crate) use iterator::TableIterator;
pub(crate) use reader::Table;
pub(crate) use writer::TableWriter;

use crate::error::Error;
use crate::options::{Compression, Options};

/// A buffer that a huge block has grown past this many bytes is freed when the
/// block is complete.
const BUFFER_BYTES_KEPT: usize = 512 << 10;

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TableSettings {
    /// The size at which a data or index block is complete, before compression, in bytes.
    pub(crate) block_bytes: usize,
    /// How blocks are compressed, where that helps.
    pub(crate) compression: Compression,
    /// The share of absent keys that the filter admits; `None` for no filter.
    pub(crate) filter_false_positive_rate: Option<f64>,
}

impl From<&Options> for TableSettings {
    fn from(options: &Options) -> Self {
        Self {
            block_bytes: options.block_bytes,
            compression: options.compression,
            filter_false_positive_rate: options.filter_false_positive_rate,
        }
    }
}

/// Whether a get may read the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Only what the cache holds.
    Cached,
    /// The disk too; the call may block.
    MayRead,
    /// The same for compaction: nothing is kept in the cache and nothing
    /// counts as read.
    Compaction,
}

/// What a table is walked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// For a reader. Index blocks are kept in the cache. Of data blocks a walk
    /// keeps its first few if it is to: short scans may come again, but one
    /// long scan would push out what gets have gathered.
    Scan {
        /// Whether it keeps those.
        keep_data: bool,
    },
    /// For a merge into other tables: this one will soon be gone, so that
    /// nothing is kept and nothing counts as read.
    Compaction,
}

/// Why a get has no answer.
#[derive(Debug)]
pub(crate) enum Interrupt {
    /// The answer is not in memory, and the disk was not to be read.
    WouldBlock,
    /// Reading failed.
    Failed(Error),
}

impl From<Error> for Interrupt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
