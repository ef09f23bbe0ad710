//! The task of one process, and what it measures.

use crate::store::{Durability, EngineName};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The operations on a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Writes all keys in their order.
    FillSequential,
    /// Writes all keys in a random order, many in one call.
    FillBatch,
    /// Writes all keys in a random order.
    FillRandom,
    /// Writes as many random keys as the store has. All of them exist.
    Overwrite,
    /// Reads random keys of the whole store.
    Read,
    /// Reads random keys of a part of the store that fits into the cache.
    ReadHot,
    /// Reads keys that do not exist, between existing ones.
    ReadMissing,
    /// Scans all keys and values, repeatedly.
    Scan,
    /// Scans short ranges that begin at random keys.
    Range,
}

impl Workload {
    /// How many values one call of [`Workload::FillBatch`] stores.
    pub const BATCH: usize = 64;

    /// How many values a range of [`Workload::Range`] has.
    pub const RANGE: usize = 50;

    /// [`Workload::ReadHot`] reads the number of keys divided by this.
    pub const HOT_SHARE: u64 = 20;

    /// Whether the workload writes. Then it writes each key once, or until its time ends.
    pub fn writes(self) -> bool {
        match self {
            Self::FillSequential | Self::FillBatch | Self::FillRandom | Self::Overwrite => true,
            Self::Read | Self::ReadHot | Self::ReadMissing | Self::Scan | Self::Range => false,
        }
    }
}

/// The task of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The engine.
    pub engine: EngineName,
    /// The operations.
    pub workload: Workload,
    /// When a write returns.
    pub durability: Durability,
    /// The length of a value, in bytes.
    pub value_bytes: usize,
    /// How many keys the store has, or will have.
    pub keys: u64,
    /// The number of threads that call the engine.
    pub threads: u64,
    /// The time after which the task ends in any case. A read always takes so long.
    pub seconds_max: f64,
    /// The round, which also seeds the random numbers.
    pub round: u64,
    /// The folder of the store.
    pub folder: PathBuf,
}

/// The results of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The task.
    pub task: Task,
    /// The number of values written, read or found missing; for [`Workload::Range`] the
    /// number of ranges.
    pub operations: u64,
    /// How long these operations took.
    pub seconds: f64,
    /// Processor time until the last operation had returned, background threads included.
    pub cpu_seconds: f64,
    /// How long it took until no flush and no compaction was due.
    pub settled_seconds: f64,
    /// Processor time until then.
    pub settled_cpu_seconds: f64,
    /// Bytes that went to the disk until then.
    pub written_bytes: u64,
    /// The bytes of the keys and values that were written.
    pub data_bytes: u64,
    /// The bytes of the closed store on the disk.
    pub disk_bytes: u64,
    /// The largest memory of the process.
    pub memory_bytes_peak: u64,
    /// Latencies of single calls; none for a scan.
    pub latency: Option<Latency>,
}

/// How long calls took, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Half of the calls took at most so long.
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

    /// Processor time of an operation, with the background work until the last operation.
    pub fn cpu_us(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.operations as f64
    }

    /// Processor time of an operation, with all background work that it caused.
    pub fn settled_cpu_us(&self) -> f64 {
        self.settled_cpu_seconds * 1e6 / self.operations as f64
    }

    /// Bytes written to the disk for each byte of a key or value.
    pub fn write_amplification(&self) -> f64 {
        self.written_bytes as f64 / self.data_bytes as f64
    }

    /// A line for the terminal.
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
