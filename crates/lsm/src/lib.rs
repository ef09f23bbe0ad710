//! A log-structured store in which the highest timestamp wins.
//!
//! Writes may come in any order: of two versions of a key the one with the
//! higher timestamp wins, wherever they lie. The store is synchronous, starts
//! no thread and takes everything that is a source of chance (clock,
//! randomness, disk, executor) from its [`Environment`].
//!
//! ```
//! use base::{Entry, Expiry, ManualClock, SeededRandom, Timestamp};
//! use lsm::{Engine, Environment, MemoryDisk, Options};
//! use lsm::StepExecutor;
//! use std::sync::Arc;
//!
//! let clock = Arc::new(ManualClock::new(0));
//! let environment = Environment {
//!     folder: "/store".into(),
//!     disk: Arc::new(MemoryDisk::new()),
//!     clock: clock.clone(),
//!     random: Arc::new(SeededRandom::new(1)),
//!     executor: Arc::new(StepExecutor::new(clock)),
//!     drop_bound: Arc::new(|| Timestamp::ZERO),
//!     expired_before_unix_ms: Arc::new(|| 0),
//! };
//! let (engine, _) = Engine::open(environment, Options::default())?;
//! let at = |number| Timestamp::from_u64(number);
//! engine.write(Entry::value(b"key", at(2), b"newer", Expiry::NEVER, 1))?;
//! engine.write(Entry::value(b"key", at(1), b"older", Expiry::NEVER, 1))?;
//! let found = engine.get(b"key")?.map(|entry| entry.value_handle());
//! assert_eq!(found.as_deref(), Some(&b"newer"[..]));
//! # Ok::<(), lsm::Error>(())
//! ```

mod cache;
mod compaction;
pub mod disk;
mod engine;
mod error;
mod executor;
#[doc(hidden)]
pub mod fuzzing;
mod manifest;
mod memtable;
mod merge;
mod options;
mod record;
mod sync;
mod table;
mod table_id;
mod wait_sites;
mod wal;

pub use disk::{Disk, DiskFile, FaultyDisk, MemoryDisk, RealDisk};
pub use engine::{
    Applied, Engine, LevelStatistics, Lookup, Outbox, Outcome, PendingVerdict, RecoveryReport,
    Scan, Statistics, SyncTimeStatistics,
};
pub use error::Error;
pub use executor::{Executor, Job, Lane, StepExecutor};
pub use options::{Compression, DropBound, Durability, Environment, ExpiredBefore, Options};
pub use record::{Record, RecordSource};
pub use wal::{PendingSync, SegmentFile, SegmentFolder, SegmentOwner, SegmentWriter};
