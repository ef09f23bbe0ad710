//! Compaction: which tables to merge, and what of their records to keep.
//!
//! Tables lie on [`LEVELS`] levels. Level 0 holds tables as flushes wrote
//! them, which may overlap. On each other level the tables are sorted by key
//! and do not overlap, and all versions of a key lie in one table. Versions
//! are ordered by their rank wherever they lie, so a level says nothing of
//! age: levels only bound how many tables a read has to ask and how much is
//! stored twice.

pub(crate) mod pick;
pub(crate) mod retention;

/// The number of levels.
pub(crate) const LEVELS: usize = 7;
