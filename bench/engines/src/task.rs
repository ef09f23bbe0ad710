//! What a process of its own measures, and what comes of it.

use crate::store::{Durability, EngineName};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What is done with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// All keys in their order.
    FillSequential,
    /// All keys in a random order, many in one call.
    FillBatch,
    /// All keys in a random order.
    FillRandom,
    /// As many random keys, which all exist, as there are.
    Overwrite,
    /// Random keys of all.
    Read,
    /// Random keys of a part of the store that the cache holds.
    ReadHot,
    /// Keys that do not exist, between those that do.
    ReadMissing,
    /// All keys and values, over and over.
    Scan,
    /// Short ranges from random keys on.
    Range,
}

impl Workload {
    /// How many values one call of [`Workload::FillBatch`] stores.
    pub const BATCH: usize = 64;

    /// How many values a range of [`Workload::Range`] has.
    pub const RANGE: usize = 50;

    /// The share of the keys that [`Workload::ReadHot`] reads: one of so many.
    pub const HOT_SHARE: u64 = 20;

    /// Whether it writes: then it is done once for each key, or until its time is over.
    pub fn writes(self) -> bool {
        match self {
            Self::FillSequential | Self::FillBatch | Self::FillRandom | Self::Overwrite => true,
            Self::Read | Self::ReadHot | Self::ReadMissing | Self::Scan | Self::Range => false,
        }
    }
}

/// What one process does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The engine.
    pub engine: EngineName,
    /// What is done.
    pub workload: Workload,
    /// When a write returns.
    pub durability: Durability,
    /// The length of a value, in bytes.
    pub value_bytes: usize,
    /// How many keys the store has, or gets.
    pub keys: u64,
    /// Threads that ask.
    pub threads: u64,
    /// When it ends in any case; a read ends then.
    pub seconds_max: f64,
    /// The round, which also seeds what is random.
    pub round: u64,
    /// Where the store is.
    pub folder: PathBuf,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// What was done.
    pub task: Task,
    /// Values written, read or found missing; ranges for [`Workload::Range`].
    pub operations: u64,
    /// How long that took.
    pub seconds: f64,
    /// Processor time until the last operation had returned, background threads included.
    pub cpu_seconds: f64,
    /// How long it took until flush and compaction had nothing to do any more.
    pub settled_seconds: f64,
    /// Processor time until then.
    pub settled_cpu_seconds: f64,
    /// Bytes that went to the disk until then.
    pub written_bytes: u64,
    /// Bytes of keys and values that were given to be written.
    pub data_bytes: u64,
    /// What the store takes on the disk once it is closed.
    pub disk_bytes: u64,
    /// The most memory that the process had.
    pub memory_bytes_peak: u64,
    /// Latencies of single calls; none for a scan.
    pub latency: Option<Latency>,
}

/// How long calls took, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Half of the calls took no longer.
    pub p50_ns: u64,
    /// 99% of them.
    pub p99_ns: u64,
    /// 99.9% of them.
    pub p999_ns: u64,
    /// All of them.
    pub max_ns: u64,
}

impl Measurement {
    /// Operations in a second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds
    }

    /// Processor time of an operation, background work until its last included.
    pub fn cpu_us(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.operations as f64
    }

    /// Processor time of an operation, with all background work that it has caused.
    pub fn settled_cpu_us(&self) -> f64 {
        self.settled_cpu_seconds * 1e6 / self.operations as f64
    }

    /// Bytes that went to the disk for each byte that was given.
    pub fn write_amplification(&self) -> f64 {
        self.written_bytes as f64 / self.data_bytes as f64
    }

    /// A line for who waits for the end.
    pub fn summary(&self) -> String {
        let Task {
            engine,
            workload,
            durability,
            value_bytes,
            threads,
            ..
        } = &self.task;
        let latency = self.latency.map_or(String::new(), |latency| {
            format!(", p99 {:.1} us", latency.p99_ns as f64 / 1e3)
        });
        format!(
            "{engine:<7} {workload:?} of {value_bytes} B, {durability:?}, {threads} threads: \
             {:.0}/s, {:.2} us of CPU ({:.2} settled){latency}",
            self.rate(),
            self.cpu_us(),
            self.settled_cpu_us(),
        )
    }
}
