//! What a run measured: the content of `--json`, and what reports are drawn from.

use crate::Plan;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What [`Run::failed`] calls an answer with a value that was never put under
/// its key: the one failure that is never an overload.
pub const WRONG_VALUE: &str = "wrong value";

/// What a run measured.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Run {
    /// The version of this format: 1.
    pub format: u32,
    /// What to call it where runs are compared.
    pub label: String,
    /// What was asked for.
    pub plan: Plan,
    /// Where the generator ran.
    pub machine: MachineInfo,
    /// When the load began, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The version of the generator.
    #[serde(default)]
    pub version: String,
    /// Seconds that were counted: those asked for, or less where the run was cut short.
    pub measured_seconds: f64,
    /// Why the run ended before its time, if it did.
    pub cut_short: Option<String>,
    /// Requests that fell due in the counted time; none in a closed loop.
    pub due: Option<u64>,
    /// Requests that were answered as they should, in the counted time.
    pub succeeded: u64,
    /// Requests that were not, by what happened: `503`, `504`, `timeout`,
    /// `connection`, `wrong value`, …
    pub failed: BTreeMap<String, u64>,
    /// `GET`s among the succeeded that found nothing.
    pub missing: u64,
    /// Entities that ranges brought.
    #[serde(default)]
    pub entities: u64,
    /// Bytes of the bodies of requests that succeeded and of their responses.
    pub body_bytes: u64,
    /// The latency of the requests that succeeded.
    pub latency: LatencyDistribution,
    /// Second by second, the warm-up left out.
    pub timeline: Vec<Second>,
    /// What happened beside the load, to be marked in plots.
    pub marks: Vec<Mark>,
}

/// A distribution of latencies.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct LatencyDistribution {
    /// How many were recorded.
    pub count: u64,
    /// Milliseconds.
    pub mean_ms: f64,
    /// Milliseconds.
    pub max_ms: f64,
    /// Percentiles from 0 to 100 and their milliseconds, ascending, as
    /// HdrHistogram's spectrum gives them: finer the nearer to 100.
    pub spectrum: Vec<(f64, f64)>,
}

/// A second of a run.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Second {
    /// Seconds since the warm-up ended, at the end of this one.
    pub at_seconds: f64,
    /// Requests that succeeded in it.
    pub succeeded: u64,
    /// Requests that failed in it.
    pub failed: u64,
    /// The median latency of those that succeeded, in milliseconds.
    pub p50_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
    /// The greatest.
    pub max_ms: f64,
}

/// A moment of a run that plots show.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Mark {
    /// Seconds since the warm-up ended.
    pub at_seconds: f64,
    /// What happened, in a word or three.
    pub label: String,
}

/// Where something ran.
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
    /// What to call it where searches are compared.
    pub label: String,
    /// When the search began, in milliseconds since 1970.
    #[serde(default)]
    pub started_unix_ms: u64,
    /// The version of the generator.
    #[serde(default)]
    pub version: String,
    /// What a rate must keep up to hold.
    pub bound: Bound,
    /// The highest rate that held, in requests a second; none if none did.
    pub rate: Option<f64>,
    /// The rates tried, in the order in which they were.
    pub probes: Vec<Probe>,
    /// The run at the highest rate that held.
    pub best: Option<Run>,
    /// Why the search ended before its time, if it did.
    #[serde(default)]
    pub cut_short: Option<String>,
}

/// What a rate must keep up to hold.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Bound {
    /// The least share of the requests due that must succeed in time: 0.99.
    pub achieved_share: f64,
    /// The greatest 99th percentile, in milliseconds.
    pub p99_ms: f64,
    /// The greatest share of requests that fail: 0.001.
    pub failed_share: f64,
}

/// A rate that was tried.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Probe {
    /// Requests a second that were asked.
    pub rate: f64,
    /// Requests a second that succeeded.
    pub achieved: f64,
    /// The 99th percentile, in milliseconds.
    pub p99_ms: f64,
    /// The share of requests that failed.
    pub failed_share: f64,
    /// Whether the rate held.
    pub held: bool,
}

impl Run {
    /// Requests a second that succeeded.
    pub fn achieved(&self) -> f64 {
        self.per_second(self.succeeded as f64)
    }

    /// Bytes of bodies a second.
    pub fn body_bytes_per_second(&self) -> f64 {
        self.per_second(self.body_bytes as f64)
    }

    /// The share of the requests due that succeeded; none in a closed loop.
    pub fn achieved_share(&self) -> Option<f64> {
        self.due
            .filter(|due| *due > 0)
            .map(|due| self.succeeded as f64 / due as f64)
    }

    /// Requests that did not succeed.
    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// The share of the requests answered or given up that did not succeed.
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
    /// The latency that so many percent of the requests did not exceed, in
    /// milliseconds; none where nothing was recorded.
    pub fn percentile_ms(&self, percentile: f64) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let reached = self.spectrum.iter().find(|(share, _)| *share >= percentile);
        Some(reached.map_or(self.max_ms, |(_, ms)| *ms))
    }
}
