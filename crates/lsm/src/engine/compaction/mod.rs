//! Compaction: tables are merged, so that reads ask few of them and little is
//! stored twice.
//!
//! Tables lie on [`LEVELS`](crate::manifest::LEVELS) levels. Level 0 holds tables
//! as flushes wrote them, and they may overlap. On each other level the tables are
//! sorted by key and do not overlap, and all versions of a key lie in one table.
//! Versions are ordered by their rank wherever they lie, so a level says nothing
//! about age: levels only bound how many tables a read asks, and how much is
//! stored twice.
//!
//! The life of a compaction:
//! 1. [`job`]: the compaction job comes, after a flush, after another compaction
//!    or by a timer ([`job::retry`]), and takes one step; [`job::begin`] says with what.
//! 2. [`pick`]: a pure function chooses what to merge; [`purges`] says which tables
//!    have waited long enough for a few tombstones, and [`quiet`] flushes a memtable that
//!    keeps tombstones from them. On a full disk [`reclaim`]
//!    chooses first: a table in which deletes hide much.
//! 3. [`moves`]: what overlaps nothing where it is to go moves there by an edit of the table set.
//! 4. [`merging`]: each step reads some blocks of the inputs, and writes what
//!    [`retention`] keeps of them into new tables; [`reread`] says what it may take of the
//!    damaged parts of a table, and [`job::garbage`] which values move to other blob tables.
//! 5. The last step replaces the inputs by the outputs, with one edit of the
//!    table set.
//!
//! A [`whole`] compaction, which an operator orders, takes turns with what is due.
//!
//! `drop_above` is apart: it rewrites tables when a store is opened, to drop
//! versions that a wrong clock has given a timestamp.

#[cfg(test)]
mod cost_tests;
mod drop_above;
mod gc_thresholds;
mod job;
mod merging;
mod moves;
mod pick;
mod pressure;
mod purges;
mod quiet;
mod reclaim;
mod reread;
mod retention;
mod whole;

pub(super) use drop_above::drop_above;
pub(super) use job::Compactor;
pub(super) use retention::{Retained, Retention};
pub use whole::WholeCompaction;
