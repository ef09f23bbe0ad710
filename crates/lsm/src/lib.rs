//! A log-structured store in which the highest timestamp wins.
pub mod clock;
pub mod disk;
mod engine;
mod entry;
mod error;
mod executor;
mod options;
mod random;
mod timestamp;

pub use clock::{Clock, ManualClock, SystemClock};
pub use disk::{Disk, DiskFile, FaultyDisk, MemoryDisk, RealDisk};
pub use engine::{
    Applied, Engine, LevelStatistics, Lookup, Outbox, Outcome, RecoveryReport, Scan, Statistics,
};
pub use entry::{Entry, Expiry, KEY_BYTES_MAX, Kind, Rank, Record, RecordSource, VALUE_BYTES_MAX};
pub use error::Error;
pub use executor::{Executor, Job, Lane, StepExecutor};
pub use options::{Compression, DropBound, Durability, Environment, Options};
pub use random::{OsRandom, Random, SeededRandom};
pub use timestamp::Timestamp;
