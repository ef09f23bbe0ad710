//! The results of a load: the content of `--json`, from which reports are
//! drawn.

mod machine;
mod slowest;

pub use slowest::SlowRequest;
pub(crate) use slowest::Slowest;

use crate::Plan;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The key in [`Run::failed`] for a response with a value that was never put
/// under its key. It is the only failure that overload cannot explain.
pub const WRONG_VALUE: &str = "wrong value";

/// A load that has run, with its results.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Run {
    /// The version of this format: 1.
    pub format: u32,
    /// Its name in comparisons.
    pub label: String,
    /// The plan of the load.
    pub plan: Plan,
    /// The machine of the generator.
    pub machine: MachineInfo,
    /// When the load began, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The version of the generator.
    #[serde(default)]
    pub version: String,
    /// The measured seconds: those of the plan, or fewer if the run was cut
    /// short.
    pub measured_seconds: f64,
    /// Why the run ended early, if it did.
    pub cut_short: Option<String>,
    /// Requests that fell due in the measured time; none in a closed loop.
    pub due: Option<u64>,
    /// Requests that succeeded in the measured time.
    pub succeeded: u64,
    /// Requests that failed, by cause: `503`, `504`, `timeout`, `connection`,
    /// `wrong value`, …
    pub failed: BTreeMap<String, u64>,
    /// Successful `GET`s that found nothing.
    pub missing: u64,
    /// Entities that scans returned.
    #[serde(default)]
    pub entities: u64,
    /// Operations of the batches that succeeded.
    #[serde(default)]
    pub operations: u64,
    /// Bytes of the bodies of requests that succeeded and of their responses.
    pub body_bytes: u64,
    /// The latencies of the requests that succeeded.
    pub latency: LatencyDistribution,
    /// The results per second, without the warm-up.
    pub timeline: Vec<Second>,
    /// Events during the load, which plots mark.
    pub marks: Vec<Mark>,
}

/// A distribution of latencies.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct LatencyDistribution {
    /// The number of recorded latencies.
    pub count: u64,
    /// Milliseconds.
    pub mean_ms: f64,
    /// Milliseconds.
    pub max_ms: f64,
    /// Percentiles from 0 to 100 and their milliseconds, ascending, in the
    /// steps of HdrHistogram's spectrum: finer toward 100.
    pub spectrum: Vec<(f64, f64)>,
}

/// The results of one second of a run.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Second {
    /// The end of this second, in seconds since the warm-up ended.
    pub at_seconds: f64,
    /// Requests that succeeded in it.
    pub succeeded: u64,
    /// Requests that failed in it.
    pub failed: u64,
    /// The median latency of those that succeeded, in milliseconds.
    pub p50_ms: f64,
    /// The 99th percentile, in milliseconds.
    pub p99_ms: f64,
    /// The greatest latency, in milliseconds.
    pub max_ms: f64,
}

/// An event during a run, which plots mark.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Mark {
    /// Seconds since the warm-up ended.
    pub at_seconds: f64,
    /// What happened, in one to three words.
    pub label: String,
}

/// The machine of a run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct MachineInfo {
    /// The processor's name.
    pub processor: String,
    /// Cores that the process may use.
    pub cores: usize,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The kernel's name and release.
    pub system: String,
}

/// A search for the highest rate that holds.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct BreakingPoint {
    /// The version of this format: 1.
    pub format: u32,
    /// Its name in comparisons.
    pub label: String,
    /// When the search began, in milliseconds since 1970.
    #[serde(default)]
    pub started_unix_ms: u64,
    /// The version of the generator.
    #[serde(default)]
    pub version: String,
    /// The bound within which a rate holds.
    pub bound: Bound,
    /// The highest rate that held, in requests per second; none if no rate
    /// held.
    pub rate: Option<f64>,
    /// The rates that were tried, in order.
    pub probes: Vec<Probe>,
    /// The run at the highest rate that held.
    pub best: Option<Run>,
    /// Why the search ended early, if it did.
    #[serde(default)]
    pub cut_short: Option<String>,
}

/// The bound within which a rate holds.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Bound {
    /// The smallest share of the requests due that must succeed: 0.99.
    pub achieved_share: f64,
    /// The greatest 99th percentile, in milliseconds.
    pub p99_ms: f64,
    /// The greatest share of requests that fail: 0.001.
    pub failed_share: f64,
}

/// A rate that was tried.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Probe {
    /// The rate of the plan, in requests per second.
    pub rate: f64,
    /// Requests per second that succeeded.
    pub achieved: f64,
    /// The 99th percentile, in milliseconds.
    pub p99_ms: f64,
    /// The share of requests that failed.
    pub failed_share: f64,
    /// Whether the rate held.
    pub held: bool,
}

impl Run {
    /// Requests per second that succeeded.
    pub fn achieved(&self) -> f64 {
        self.per_second(self.succeeded as f64)
    }

    /// Bytes of bodies per second.
    pub fn body_bytes_per_second(&self) -> f64 {
        self.per_second(self.body_bytes as f64)
    }

    /// The share of the requests due that succeeded; none in a closed loop.
    pub fn achieved_share(&self) -> Option<f64> {
        self.due
            .filter(|due| *due > 0)
            .map(|due| self.succeeded as f64 / due as f64)
    }

    /// The number of requests that failed.
    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// The share of failed requests among those that succeeded or failed.
    pub fn failed_share(&self) -> f64 {
        let failures = self.failures() as f64;
        let all = self.succeeded as f64 + failures;
        if all > 0.0 { failures / all } else { 0.0 }
    }

    fn per_second(&self, amount: f64) -> f64 {
        if self.measured_seconds > 0.0 {
            amount / self.measured_seconds
        } else {
            0.0
        }
    }
}

impl LatencyDistribution {
    /// The latency that `percentile` percent of the requests did not exceed, in
    /// milliseconds; none if no latency was recorded.
    pub fn percentile_ms(&self, percentile: f64) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let reached = self.spectrum.iter().find(|(share, _)| *share >= percentile);
        Some(reached.map_or(self.max_ms, |(_, ms)| *ms))
    }
}
