//! The highest constant rate that a store holds.
//!
//! Each probe is a short run of its own, warm-up and all; [`search`] says
//! which rate is next, and [`Bound`] whether one held.

mod search;

use crate::Error;
use crate::generator;
use crate::plan::{Plan, Rate};
use crate::results::{Bound, BreakingPoint, Probe, Run, WRONG_VALUE};
use search::RateSearch;
use std::sync::atomic::AtomicBool;

/// The version of the format of [`BreakingPoint`].
const FORMAT: u32 = 1;

/// The rate that is tried first when the plan names none, a second.
const FIRST_RATE: f64 = 1_000.0;

/// The highest rate that is tried, a second: what no generator makes.
const RATE_MAX: f64 = 50_000_000.0;

impl Default for Bound {
    /// 99% achieved, a 99th percentile of 10 ms, 0.1% failed.
    fn default() -> Self {
        Self {
            achieved_share: 0.99,
            p99_ms: 10.0,
            failed_share: 0.001,
        }
    }
}

impl Bound {
    /// What a run at `rate` came to.
    fn judge(&self, rate: f64, run: &Run) -> Probe {
        let failed: u64 = run.failed.values().sum();
        let answered = run.succeeded + failed;
        let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
        // With no answer at all every latency is beyond the bound.
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

/// Searches the highest rate at which `bound` holds. Each probe is a run of
/// `plan` at some rate, the first at the plan's own, or 1,000 a second if that
/// is a closed loop; `watch` is told of each. Once `stop` is set the search
/// ends, and what it found until then is kept.
///
/// # Errors
/// As for [`run`](crate::run), before the first probe.
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
