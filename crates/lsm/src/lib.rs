//! A log-structured store in which the highest timestamp wins.
//!
//! Writes may come in any order: of two versions of a key, the one with the higher
//! timestamp wins, wherever they lie. The store is synchronous and starts no thread. It
//! takes every source of chance (clock, randomness, disk, executor) from its
//! [`Environment`].
//!
//! Read on in `engine/mod.rs`, which tells the life of a write and of a read, and then in
//! the modules from which the engine is made: `wal`, `memtable`, `table`, `manifest`,
//! `merge`, `cache` and, below all of them, `disk`.
//!
//! ```
//! use base::{Entry, Expiry, ManualClock, SeededRandom, Timestamp};
//! use lsm::{Engine, Environment, Options, Outbox, Outcome};
//! use lsm_testing::{MemoryDisk, StepExecutor};
//! use std::sync::{Arc, Mutex};
//!
//! /// Where the engine delivers the outcomes of the writes.
//! #[derive(Default)]
//! struct Outcomes(Mutex<Vec<Outcome>>);
//!
//! impl Outbox for Outcomes {
//!     fn deliver(&self, outcomes: Vec<Outcome>) {
//!         self.0.lock().unwrap().extend(outcomes);
//!     }
//! }
//!
//! let clock = Arc::new(ManualClock::new(0));
//! let executor = Arc::new(StepExecutor::new(Arc::clone(&clock)));
//! let environment = Environment {
//!     folder: "/store".into(),
//!     disk: Arc::new(MemoryDisk::new()),
//!     clock,
//!     random: Arc::new(SeededRandom::new(1)),
//!     executor: Arc::clone(&executor) as _,
//!     gc_threshold: Arc::new(|| Timestamp::ZERO),
//!     non_owned: None,
//!     expired_before_unix_ms: Arc::new(|| 0),
//!     rest_after: Arc::new(|took, _urgency| took),
//! };
//! let (engine, _) = Engine::open(environment, Options::default())?;
//!
//! let outcomes = Arc::new(Outcomes::default());
//! let outbox: Arc<dyn Outbox> = Arc::clone(&outcomes) as _;
//! for (ticket, (timestamp, value)) in [(2, b"newer"), (1, b"older")].into_iter().enumerate() {
//!     let timestamp = Timestamp::from_u64(timestamp);
//!     let entry = Entry::value(b"key", timestamp, value, Expiry::NEVER, 1);
//!     engine.submit(entry, &outbox, ticket as u64)?;
//! }
//! executor.run_all_due();
//!
//! assert!(outcomes.0.lock().unwrap().iter().all(|outcome| outcome.result.is_ok()));
//! let found = engine.get(b"key")?.map(|entry| entry.value_handle());
//! assert_eq!(found.as_deref(), Some(&b"newer"[..]));
//! # Ok::<(), lsm::Error>(())
//! ```

mod cache;
pub mod disk;
mod engine;
mod error;
mod executor;
#[doc(hidden)]
pub mod fuzzing;
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
mod waits;
mod wal;

// So that `testing` finds the engine by the name that it has for others.
#[cfg(test)]
extern crate self as lsm;

pub use disk::checked_file;
pub use disk::{Disk, DiskFile, DiskSpace, RealDisk};
pub use engine::{
    Acknowledged, Admission, Applied, CopiesPage, DamageMark, Engine, Generation, Ingest, Ingested,
    LateSource, LeastTimestamps, LevelStatistics, Lookup, Outbox, Outcome, PendingCheck,
    RecoveryReport, Scan, SetAsideKeys, SetAsideStatus, Statistics, SyncTimeStatistics,
    WholeCompaction,
};
pub use error::Error;
pub use executor::{Executor, Job, JobClass, JobQueue};
pub use manifest::{MANIFEST_VERSIONS, holds_store};
pub use options::{
    Compression, Durability, Environment, ExpiredBefore, GcThreshold, IsNonOwned, NonOwned,
    Options, RestAfter,
};
pub use table::{ScanAhead, TABLE_VERSIONS};
pub use wal::{LOG_VERSIONS, PendingSync, SegmentFile, SegmentFolder, SegmentOwner, SegmentWriter};
