//! Puts load on the nodes of an experiment, and measures the CPU time that it
//! costs them.
//!
//! A rate says little if the generator and the nodes share cores, so the CPU
//! time of the nodes per request is reported too. A failed measurement is kept
//! as text, which the page reports; only a stop ends the experiment.

mod growing_sum;
pub(crate) mod matrix;
pub(crate) mod phases;
pub(crate) mod profile;

pub(crate) use growing_sum::GrowingSum;

use crate::Error;
use crate::context::ExperimentContext;
use crate::nodes::{LabCluster, NodeEvent, Usage};
use load::Run;
use load::plan::{Operation, Plan, Rate};
use load::report::units;
use load::results::{BreakingPoint, Mark, Second};
use serde::Serialize;

/// A measurement, or why it failed.
pub(crate) type Measured<T> = Result<T, String>;

/// The default number of keys.
pub(crate) const KEYS: u64 = 100_000;

/// How often the progress of a fill is shown.
const LOG_INTERVAL_SECONDS: f64 = 10.0;

/// A plan for one operation: a closed loop over 64 connections, uniform keys of 16 bytes, and
/// values of 64 bytes that are verified. It has no targets yet.
pub(crate) fn plan(context: &ExperimentContext<'_>, operation: Operation) -> Plan {
    Plan {
        targets: Vec::new(),
        warmup_seconds: context.effort().pick(0.2, 0.5, 1.0),
        seconds: context.effort().pick(0.5, 2.0, 5.0),
        timeout_seconds: 5.0,
        keys: context.effort().pick(1_000, KEYS, KEYS),
        ..Plan::new("", operation, Rate::Max)
    }
}

/// The same on all nodes of a cluster.
pub(crate) fn plan_on(
    context: &ExperimentContext<'_>,
    cluster: &LabCluster,
    operation: Operation,
) -> Plan {
    Plan {
        targets: cluster.targets(),
        ..plan(context, operation)
    }
}

/// A plan with another operation.
pub(crate) fn with(plan: &Plan, operation: Operation) -> Plan {
    Plan {
        operations: vec![(operation, 1.0)],
        ..plan.clone()
    }
}

/// A run, and the CPU time that it cost the nodes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CostedRun {
    pub(crate) run: Run,
    /// CPU time of all nodes per successful request, in microseconds; none if
    /// the run was too short to measure it.
    pub(crate) cpu_us: Option<f64>,
}

impl CostedRun {
    /// Successful requests per second.
    pub(crate) fn rate(&self) -> f64 {
        self.run.achieved()
    }

    /// The latency that `percentile` percent of the requests did not exceed;
    /// none if no request succeeded.
    pub(crate) fn latency_ms(&self, percentile: f64) -> Option<f64> {
        self.run.latency.percentile_ms(percentile)
    }
}

/// Puts each key of a plan once.
///
/// # Errors
/// The fill was incomplete, so the store cannot be measured.
pub(crate) fn fill(context: &ExperimentContext<'_>, plan: &Plan) -> Result<Run, Error> {
    context.log(&format!("filling {} keys", units::count(plan.keys)));
    let mut plan = plan.clone();
    plan.rate = Rate::Max;
    let mut filled = 0;
    let run = load::fill(&plan, context.stop(), &mut |second| {
        filled += second.succeeded;
        if second.at_seconds % LOG_INTERVAL_SECONDS < 1.0 {
            context.log(&format!("filled {}", units::count(filled)));
        }
    });
    context.fail_if_stopped()?;
    let run = run.map_err(|error| Error::Load(error.to_string()))?;
    let failed = run.failures();
    match &run.cut_short {
        Some(reason) => Err(Error::Load(format!("the fill was cut short: {reason}"))),
        None if failed > 0 => Err(Error::Load(format!("{failed} puts of the fill failed"))),
        None => Ok(run),
    }
}

/// Runs a load and measures its cost.
///
/// # Errors
/// A stop.
pub(crate) fn run(
    context: &ExperimentContext<'_>,
    cluster: &LabCluster,
    plan: &Plan,
) -> Result<Measured<CostedRun>, Error> {
    let mut costs = CpuCosts::default();
    let run = load::run(plan, context.stop(), &mut |second| {
        costs.add(second, cluster.usage());
    });
    context.fail_if_stopped()?;
    Ok(run
        .map(|run| CostedRun {
            run,
            cpu_us: costs.cpu_us(),
        })
        .map_err(|error| error.to_string()))
}

/// Runs a load during which events happen. `at_second` is called at the end of
/// each second and may return the label of a mark.
///
/// # Errors
/// A stop, or an error of `at_second`.
pub(crate) fn run_with(
    context: &ExperimentContext<'_>,
    plan: &Plan,
    mut at_second: impl FnMut(f64) -> Result<Option<String>, Error>,
) -> Result<Measured<Run>, Error> {
    let mut marks = Vec::new();
    let mut trouble = None;
    let run = load::run(plan, context.stop(), &mut |second| {
        if trouble.is_some() {
            return;
        }
        match at_second(second.at_seconds) {
            Ok(Some(label)) => marks.push(Mark {
                at_seconds: second.at_seconds,
                label,
            }),
            Ok(None) => {}
            Err(error) => trouble = Some(error),
        }
    });
    context.fail_if_stopped()?;
    if let Some(error) = trouble {
        return Err(error);
    }
    Ok(run
        .map(|run| Run { marks, ..run })
        .map_err(|error| error.to_string()))
}

/// Runs a load during which something happens to the nodes, each at the end of a second. `look` is
/// called before, and at the end of each other second.
///
/// # Errors
/// A stop, an error of `look`, or a node to which something cannot happen.
pub(crate) fn run_with_events(
    context: &ExperimentContext<'_>,
    cluster: &mut LabCluster,
    plan: &Plan,
    events: Vec<(f64, NodeEvent)>,
    mut look: impl FnMut(&LabCluster, f64, Option<NodeEvent>) -> Result<(), Error>,
) -> Result<Measured<Run>, Error> {
    let mut events = events.into_iter().peekable();
    run_with(context, plan, |at_seconds| {
        let event = events.next_if(|(due, _)| at_seconds + 0.5 >= *due);
        let event = event.map(|(_, event)| event);
        look(cluster, at_seconds, event)?;
        let Some(event) = event else {
            return Ok(None);
        };
        context.log(event.label());
        event.happen(cluster)?;
        Ok(Some(event.label().to_owned()))
    })
}

/// The capacity of a cluster under a load.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Capacity {
    /// The closed loop that saturates it.
    pub(crate) saturated: CostedRun,
    /// The search for the highest rate that holds.
    pub(crate) search: BreakingPoint,
}

impl Capacity {
    /// The breaking point in requests per second; 0 if no rate held.
    pub(crate) fn rate(&self) -> f64 {
        self.search.rate.unwrap_or(0.0)
    }
}

/// Measures the capacity of a cluster under a plan; the plan's rate is ignored.
///
/// # Errors
/// A stop.
pub(crate) fn capacity(
    context: &ExperimentContext<'_>,
    cluster: &LabCluster,
    plan: &Plan,
) -> Result<Measured<Capacity>, Error> {
    let mut plan = plan.clone();
    plan.rate = Rate::Max;
    let saturated = match run(context, cluster, &plan)? {
        Ok(saturated) => saturated,
        Err(problem) => return Ok(Err(problem)),
    };
    // The search begins at half the rate of the closed loop.
    plan.rate = Rate::PerSecond((saturated.rate() / 2.0).max(10.0));
    let bound = context.bound();
    let search = load::find_breaking_point(&plan, bound, context.stop(), &mut |probe| {
        context.log(&format!(
            "{} requested: {} achieved, p99 {}: {}",
            units::rate(probe.rate),
            units::rate(probe.achieved),
            units::latency(probe.p99_ms),
            if probe.held { "held" } else { "did not hold" }
        ));
    });
    context.fail_if_stopped()?;
    Ok(match search {
        Ok(search) => match search.cut_short {
            Some(reason) => Err(format!("the search was cut short: {reason}")),
            None => Ok(Capacity { saturated, search }),
        },
        Err(error) => Err(error.to_string()),
    })
}

/// A share of a measured rate, for a plan.
pub(crate) fn share_of(rate: f64, share: f64) -> Rate {
    Rate::PerSecond((rate * share).max(1.0))
}

/// The CPU time of nodes per request, over the same seconds.
#[derive(Debug, Default)]
struct CpuCosts {
    /// The usage at the end of the first second, whose requests are therefore
    /// not counted.
    first: Option<Usage>,
    last: Usage,
    requests: u64,
}

impl CpuCosts {
    fn add(&mut self, second: &Second, usage: Usage) {
        if self.first.is_none() {
            self.first = Some(usage);
        } else {
            self.requests += second.succeeded;
        }
        self.last = usage;
    }

    fn cpu_us(&self) -> Option<f64> {
        let used = self.last - self.first?;
        (self.requests > 0).then(|| used.cpu_seconds * 1e6 / self.requests as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(cpu_seconds: f64) -> Usage {
        Usage {
            cpu_seconds,
            ..Usage::default()
        }
    }

    fn second(succeeded: u64) -> Second {
        Second {
            succeeded,
            ..Second::default()
        }
    }

    #[test]
    fn costs_cover_the_seconds_between_two_readings() {
        let mut costs = CpuCosts::default();
        assert_eq!(costs.cpu_us(), None);
        costs.add(&second(1_000_000), usage(7.0));
        assert_eq!(costs.cpu_us(), None);
        costs.add(&second(30_000), usage(7.5));
        costs.add(&second(20_000), usage(8.0));
        assert_eq!(costs.cpu_us(), Some(20.0));
    }
}
