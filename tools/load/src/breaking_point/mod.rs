//! Searches for the highest constant rate that a store holds.
//!
//! Each probe is a short run with a warm-up of its own. [`search`] chooses the
//! next rate, and [`Bound`] decides whether a rate held.

mod search;

use crate::Error;
use crate::generator;
use crate::plan::{Plan, Rate};
use crate::results::{Bound, BreakingPoint, Probe, Run, WRONG_VALUE};
use search::RateSearch;
use std::sync::atomic::AtomicBool;

/// The version of the format of [`BreakingPoint`].
const FORMAT: u32 = 1;

/// The rate of the first probe if the plan has none, in requests per second.
const FIRST_RATE: f64 = 1_000.0;

/// The highest rate that is tried, in requests per second: more than any
/// generator can send.
const RATE_MAX: f64 = 50_000_000.0;

impl Default for Bound {
    /// 99% of the requests due succeed, the 99th percentile is at most 10 ms,
    /// at most 0.1% fail.
    fn default() -> Self {
        Self {
            achieved_share: 0.99,
            p99_ms: 10.0,
            failed_share: 0.001,
        }
    }
}

impl Bound {
    /// Decides whether a run held its `rate`.
    fn judge(&self, rate: f64, run: &Run) -> Probe {
        let failed: u64 = run.failed.values().sum();
        let answered = run.succeeded + failed;
        let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
        // Without any response no latency is within the bound.
        let p99_ms = run.latency.percentile_ms(99.0).unwrap_or(f64::MAX);
        let achieved_share = share(run.succeeded, run.due.unwrap_or(answered));
        let failed_share = share(failed, answered);
        Probe {
            rate,
            achieved: run.succeeded as f64 / run.measured_seconds.max(1e-3),
            p99_ms,
            failed_share,
            held: run.succeeded > 0
                && achieved_share >= self.achieved_share
                && p99_ms <= self.p99_ms
                && failed_share <= self.failed_share,
        }
    }
}

/// Searches for the highest rate at which `bound` holds. Each probe is a run of
/// `plan` at some rate; the first one has the plan's own rate, or 1,000 per
/// second if the plan is a closed loop. `watch` is called with each probe. When
/// `stop` is set, the search ends and returns what it has found.
///
/// # Errors
/// As for [`run`](crate::run), if the first probe fails.
pub fn find_breaking_point(
    plan: &Plan,
    bound: Bound,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&Probe),
) -> Result<BreakingPoint, Error> {
    let mut search = RateSearch::new(match plan.rate {
        Rate::PerSecond(rate) => rate,
        Rate::Max => FIRST_RATE,
    });
    let mut found = BreakingPoint {
        format: FORMAT,
        label: format!("breaking point of {}", plan.operations_label()),
        started_unix_ms: generator::unix_ms(),
        version: crate::VERSION.to_owned(),
        bound,
        rate: None,
        probes: Vec::new(),
        best: None,
        cut_short: None,
    };
    while let Some(rate) = search.next().filter(|rate| *rate <= RATE_MAX) {
        let probing = Plan {
            rate: Rate::PerSecond(rate),
            ..plan.clone()
        };
        let run = match generator::run(&probing, stop, &mut |_| {}) {
            Ok(run) => run,
            Err(error) if found.probes.is_empty() => return Err(error),
            Err(error) => {
                found.cut_short = Some(error.to_string());
                break;
            }
        };
        if run.cut_short.is_some() {
            found.cut_short = run.cut_short;
            break;
        }
        let probe = bound.judge(rate, &run);
        watch(&probe);
        found.probes.push(probe);
        search.record_probe(probe.held);
        found.rate = search.result();
        if run.failed.contains_key(WRONG_VALUE) {
            found.cut_short = Some("a value was read that was never put under its key".to_owned());
            break;
        }
        if probe.held && found.rate == Some(rate) {
            found.best = Some(run);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
