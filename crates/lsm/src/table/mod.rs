//! Tables: immutable files of sorted records.
//!
//! A table holds its records in [`RecordRef::order`](crate::record::RecordRef::order):
//! by key, and the versions of one key from the winner on. One table may hold
//! several versions of a key, because snapshots still see them. They may span
//! blocks.
//!
//! ```text
//! +--------------------------------+
//! | data block *                   |  records, about `block_bytes` before compression
//! | index block                    |  last key -> handle and greatest timestamp of each data block
//! |                                |  since the previous index block
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
//! Every part except the footer is a frame (see [`block::frame`]) with its own checksum.
//! A checksum covers every byte of the file, so damage is always an error that
//! names the file and the part's offset, and never a wrong answer.
//!
//! The index has two levels, so a lookup reads only a few kilobytes of it. All
//! blocks and filter pages are read through the [cache](crate::cache). Only the
//! properties stay in memory, and the filter if the cache has room for it
//! ([`filter::pinned`]). An index holds the *last* key of each block. Therefore
//! the first block whose last key is at or above the wanted key holds the key's
//! first record, if the table has one, and a get reads exactly one data block.
//!
//! `format` has the footer and the properties, `block` and `record` what is between, `filter` the
//! Bloom filters; `writer` writes a table, `opening` opens it, `reader` finds a key, `cursor` walks
//! it, `ahead` reads ahead. `damage` and `set_aside` are parts that are not read, `expiries` says
//! when its records expire.

mod ahead;
mod block;
mod cursor;
mod damage;
mod expiries;
mod filter;
mod format;
mod fuzz;
mod opening;
mod reader;
mod record;
mod set_aside;
#[cfg(test)]
pub(crate) mod tests;
mod writer;

pub use ahead::ScanAhead;
pub(crate) use cursor::TableCursor;
pub(crate) use filter::KeyHash;
pub use format::TABLE_VERSIONS;
pub use fuzz::{fuzz_block, fuzz_footer, fuzz_table};
pub(crate) use reader::{Found, Table};
pub(crate) use writer::TableWriter;

use crate::error::Error;
use crate::options::{Compression, Options};
use base::Timestamp;

/// A buffer that a huge block has grown past this many bytes is freed when the
/// block is complete.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TableSettings {
    /// The size at which a data or index block is complete, before compression, in bytes.
    pub(crate) block_bytes: usize,
    /// How blocks are compressed, if that makes them smaller.
    pub(crate) compression: Compression,
    /// The share of absent keys that the filter wrongly admits; `None` for no filter.
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
pub(crate) enum DiskAccess {
    /// Only what the cache holds.
    Cached,
    /// The cache and the disk; the call may block.
    MayRead,
    /// The cache and the disk, for compaction: the cache keeps nothing of what is
    /// read, and no counter counts it.
    Compaction,
}

/// Why a table is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A reader scans. The cache keeps the index blocks.
    Scan {
        /// Whether the cache also keeps the first few data blocks: a short scan may
        /// be repeated, but a long one would push out the blocks of gets.
        keep_data: bool,
    },
    /// A comparison compares what the table holds with other stores. The cache keeps
    /// nothing of it. Damaged parts are reported and passed over: what they held
    /// comes from the other stores.
    Comparison {
        /// Blocks that hold only versions below this are passed over.
        least_timestamp: Timestamp,
        /// Whether every block is read from the disk, and the parts of the file that
        /// a walk does not need as well, so that all damage is found. No counter
        /// counts these reads.
        checks_disk: bool,
    },
    /// A compaction merges this table into others. The table will soon be gone, so
    /// the cache keeps nothing of it, and no counter counts the reads.
    Compaction,
    /// The same, of a table that is damaged: known damaged parts are passed over if
    /// they cannot be read. Any other damage is an error.
    Rewrite,
    /// The same, of its sound parts alone: known damaged parts are not even read.
    RewriteSound,
}

impl Purpose {
    /// Whether a walk does not read a block whose newest version has this timestamp.
    pub(crate) fn passes_over(self, greatest_timestamp: Timestamp) -> bool {
        match self {
            Self::Comparison {
                least_timestamp, ..
            } => greatest_timestamp < least_timestamp,
            Self::Scan { .. } | Self::Compaction | Self::Rewrite | Self::RewriteSound => false,
        }
    }

    /// The most bytes that a walk reads ahead; 0 where the cache keeps what is read, because
    /// it would keep the whole piece for one block.
    fn ahead_bytes_max(self) -> usize {
        match self {
            Self::Scan { keep_data: true } => 0,
            // It may end soon, and the next batch reads anew.
            Self::Scan { keep_data: false } => 64 << 10,
            Self::Comparison { .. } | Self::Compaction | Self::Rewrite | Self::RewriteSound => {
                512 << 10
            }
        }
    }

    /// Whether a walk reads past the system's memory, unless it expects the table there: no
    /// client waits for it, and it would drive out what is read more often.
    fn reads_directly(self) -> bool {
        !matches!(self, Self::Scan { .. })
    }

    /// Whether a walk asks for values that lie in blob tables before it comes to them.
    fn asks_for_values(self) -> bool {
        matches!(self, Self::Scan { .. } | Self::Comparison { .. })
    }

    /// Whether a walk reads what is not needed for it, to find damage.
    fn checks_disk(self) -> bool {
        matches!(
            self,
            Self::Comparison {
                checks_disk: true,
                ..
            }
        )
    }

    /// Whether parts that are noted as damaged are not even read: if one of them could
    /// be read now and not later, what it holds would count as compared.
    fn passes_over_noted(self) -> bool {
        matches!(self, Self::Comparison { .. } | Self::RewriteSound)
    }
}

/// Why a get returned no answer.
#[derive(Debug)]
pub(crate) enum Interrupt {
    /// The answer is not in memory, and the caller did not allow reading the disk.
    WouldBlock,
    /// Reading failed.
    Failed(Error),
}

impl From<Error> for Interrupt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
