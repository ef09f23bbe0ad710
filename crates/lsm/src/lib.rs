//! A log-structured store in which the highest timestamp wins.
//!
//! Writes may come in any order: of two versions of a key, the one with the higher
//! timestamp wins, wherever they lie. The store is synchronous and starts no thread, except while it is
//! opened. It takes every source of chance (clock, randomness, disk, executor) from its
//! [`Environment`].
//!
//! Read on in `engine/mod.rs`, which tells the life of a write and of a read, and then in
//! the modules from which the engine is made: `wal`, `memtable`, `table`, `manifest`,
//! `merge`, `cache` and, below all of them, `disk`. `tests/engine/first_use.rs` is the smallest use of an engine.

mod cache;
pub mod disk;
mod engine;
mod error;
mod executor;
#[doc(hidden)]
pub mod fuzzing;
mod locks;
mod manifest;
mod memtable;
mod options;
mod record;
mod table;
mod table_id;
#[cfg(test)]
#[path = "../../lsm-testing/src/lib.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    unfulfilled_lint_expectations,
    clippy::allow_attributes,
    reason = "the unit tests use a part of it; it says itself why it is compiled here"
)]
mod testing;
mod wal;

// So that `testing` finds the engine by the name that it has for others.
#[cfg(test)]
extern crate self as lsm;

pub use disk::checked_file;
pub use disk::{Disk, DiskFile, DiskSpace, RealDisk};
pub use engine::{
    Acknowledged, Admission, Applied, CopiesPage, DamageMark, Engine, Generation, Ingest, Ingested,
    KeptPromise, LateSource, LeastTimestamps, LevelStatistics, Lookup, Outbox, Outcome,
    OverheadBytes, PendingCheck, RecoveryReport, RestoredStore, Scan, SetAsideKeys, SetAsideStatus,
    Statistics, StoreSnapshot, SyncTimeStatistics, WholeCompaction,
};
pub use error::Error;
pub use executor::{Executor, Job, JobClass, JobQueue};
pub use manifest::{MANIFEST_VERSIONS, holds_store};
pub use options::{
    Compression, Durability, Environment, ExpiredBefore, GcThreshold, IsNonOwned, NonOwned,
    Options, RestAfter,
};
pub use table::{ScanAhead, TABLE_VERSIONS};
pub use table_id::SnapshotTable;
pub use wal::{LOG_VERSIONS, PendingSync, SegmentFile, SegmentFolder, SegmentOwner, SegmentWriter};
