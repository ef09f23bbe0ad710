//! A matrix: loads on nodes in several setups.
//!
//! What runs is data: [`Setup`]s with their [`Case`]s. [`run`] starts the nodes of a setup with
//! empty folders, fills them, and runs the cases in their order, as many times as the setup has
//! rounds. What came of each case is a [`Done`]; tables and charts are made of these.

use super::profile::{self, FoldedProfile, ProfileKind};
use super::{CostedRun, Measured, capacity, fill, run as run_load};
use crate::context::ExperimentContext;
use crate::nodes::{ClusterLayout, LabCluster, MetricsSnapshot, Usage};
use crate::{Error, statistics};
use load::plan::{Plan, Rate};
use load::results::BreakingPoint;
use serde::Serialize;
use std::time::{Duration, Instant};

/// How long compaction may take after a fill.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Nodes, and what runs on them.
pub(crate) struct Setup<'a> {
    pub(crate) nodes: usize,
    /// The memory of each, and more of their options.
    pub(crate) memory: &'a str,
    pub(crate) options: Vec<&'a str>,
    /// Puts each key of this plan first, if there is one.
    pub(crate) fill: Option<Plan>,
    /// How many times all cases run, in turn. Figures are medians.
    pub(crate) rounds: usize,
    pub(crate) cases: Vec<Case<'a>>,
}

/// A load. Its plan needs no targets: they are the nodes of its setup.
pub(crate) struct Case<'a> {
    /// The first cells of its row in tables; of a profile its file and its title.
    pub(crate) names: Vec<String>,
    /// The series of charts that it belongs to, and its group or its number on the axis.
    pub(crate) at: (String, String),
    pub(crate) before: Before<'a>,
    pub(crate) plan: Plan,
    pub(crate) load: Load<'a>,
}

/// What happens to the nodes before a case.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Before<'a> {
    Nothing,
    /// They are started again, with this option if there is one.
    Restart(Option<(&'a str, &'a str)>),
    /// Compaction ends.
    Settle,
}

/// The rate of a case.
pub(crate) enum Load<'a> {
    /// A closed loop, and then the search for the breaking point.
    BreakingPoint,
    /// As much as the nodes take.
    Closed,
    /// Requests per second, by what came of the cases before.
    At(RateOf<'a>),
    /// Such a rate, or else a closed loop, while the first node is profiled.
    Profiled(ProfileKind, Option<RateOf<'a>>),
}

/// A rate in requests per second by what came of the cases before; not a number if there is none.
pub(crate) type RateOf<'a> = Box<dyn Fn(&[Done]) -> f64 + 'a>;

/// A share of a figure of an earlier case, which `name` names.
pub(crate) fn share<'a>(share: f64, name: impl Into<String>, of: fn(&Done) -> f64) -> RateOf<'a> {
    let name = name.into();
    Box::new(move |done| {
        let mut named = done.iter().filter(|done| done.name() == name);
        named.next().map_or(f64::NAN, of) * share
    })
}

/// What came of a case.
#[derive(Debug, Serialize)]
pub(crate) struct Done {
    pub(crate) names: Vec<String>,
    #[serde(skip)]
    pub(crate) at: (String, String),
    pub(crate) search: Option<BreakingPoint>,
    pub(crate) rounds: Measured<Vec<Round>>,
    #[serde(skip)]
    pub(crate) profile: Option<Measured<FoldedProfile>>,
    /// How long the fill of its nodes took.
    pub(crate) fill_seconds: f64,
    /// The rate of an open loop, in requests per second.
    pub(crate) rate: Option<f64>,
}

/// A run of a case, with the counters of its nodes before and after.
#[derive(Debug, Serialize)]
pub(crate) struct Round {
    pub(crate) load: CostedRun,
    #[serde(skip)]
    pub(crate) before: Vec<MetricsSnapshot>,
    #[serde(skip)]
    pub(crate) after: Vec<MetricsSnapshot>,
    #[serde(skip)]
    pub(crate) usage: Usage,
}

/// Runs all cases of all setups.
///
/// # Errors
/// A stop, nodes that do not start or do not answer, or a fill that is incomplete.
pub(crate) fn run<'a>(
    context: &ExperimentContext<'_>,
    setups: impl IntoIterator<Item = Setup<'a>>,
) -> Result<Vec<Done>, Error> {
    let mut done: Vec<Done> = Vec::new();
    for setup in setups {
        let layout = ClusterLayout {
            nodes: setup.nodes,
            memory: setup.memory,
            options: &setup.options,
        };
        let mut cluster = LabCluster::start(context, layout)?;
        let fill_seconds = match &setup.fill {
            Some(plan) => fill(context, &on(&cluster, plan))?.measured_seconds,
            None => 0.0,
        };
        let first = done.len();
        done.extend(setup.cases.iter().map(|case| Done::new(case, fill_seconds)));
        for _ in 0..setup.rounds {
            for (index, case) in (first..).zip(&setup.cases) {
                context.log(&done[index].name());
                case.before.happen(context, &mut cluster)?;
                let rate = match &case.load {
                    Load::At(rate) | Load::Profiled(_, Some(rate)) => {
                        Some(done[index].rate.unwrap_or_else(|| rate(&done)))
                    }
                    Load::BreakingPoint | Load::Closed | Load::Profiled(_, None) => None,
                };
                let done = &mut done[index];
                done.rate = rate;
                done.measure(context, &cluster, case)?;
            }
        }
    }
    Ok(done)
}

/// A plan for the nodes of a cluster.
fn on(cluster: &LabCluster, plan: &Plan) -> Plan {
    let mut targets = cluster.targets();
    if plan.access.tls.is_some() {
        for url in &mut targets {
            *url = url.replacen("http://", "https://", 1);
        }
    }
    Plan {
        targets,
        ..plan.clone()
    }
}

impl Before<'_> {
    fn happen(
        self,
        context: &ExperimentContext<'_>,
        cluster: &mut LabCluster,
    ) -> Result<(), Error> {
        match self {
            Self::Nothing => Ok(()),
            Self::Settle => settle(context, cluster),
            Self::Restart(option) => {
                for node in &mut cluster.nodes {
                    node.stop(context)?;
                    if let Some((name, value)) = option {
                        node.set_option(name, value);
                    }
                    node.start()?;
                    node.wait_until_up(context)?;
                }
                Ok(())
            }
        }
    }
}

/// Waits until no compaction has written anything for a second, but no longer
/// than [`SETTLE_TIMEOUT`]: a busy store can be measured too.
fn settle(context: &ExperimentContext<'_>, cluster: &LabCluster) -> Result<(), Error> {
    let written = || {
        let metrics = cluster.nodes[0].metrics()?;
        Ok::<f64, Error>(
            metrics.sum("kvorum_store_compaction_written_bytes_total", "")
                + metrics.sum("kvorum_store_flush_written_bytes_total", ""),
        )
    };
    let mut before = written()?;
    let mut since = Instant::now();
    let settled = context.wait_until("the end of compaction", SETTLE_TIMEOUT, || {
        std::thread::sleep(Duration::from_millis(100));
        let now = written()?;
        if now != before {
            before = now;
            since = Instant::now();
        }
        Ok((since.elapsed() >= Duration::from_secs(1)).then_some(()))
    });
    match settled {
        Err(Error::TimedOut(_)) => Ok(()),
        settled => settled,
    }
}

fn metrics(cluster: &LabCluster) -> Result<Vec<MetricsSnapshot>, Error> {
    cluster.nodes.iter().map(|node| node.metrics()).collect()
}

fn total(nodes: &[MetricsSnapshot], metric: &str, label: &str) -> f64 {
    nodes.iter().map(|metrics| metrics.sum(metric, label)).sum()
}

impl<'a> Setup<'a> {
    /// New nodes without data, on which nothing runs yet.
    pub(crate) fn of(nodes: usize, memory: &'a str, options: &[&'a str]) -> Self {
        Self {
            nodes,
            memory,
            options: options.to_vec(),
            fill: None,
            rounds: 1,
            cases: Vec::new(),
        }
    }
}

impl<'a> Case<'a> {
    /// A case with this name, which is also its place in charts.
    pub(crate) fn new(name: impl Into<String>, plan: Plan, load: Load<'a>) -> Self {
        let name = name.into();
        Self {
            names: vec![name.clone()],
            at: (String::new(), name),
            before: Before::Nothing,
            plan,
            load,
        }
    }

    /// A profile of the first node under a load.
    pub(crate) fn profile(
        file: impl Into<String>,
        title: &str,
        plan: Plan,
        kind: ProfileKind,
        rate: Option<RateOf<'a>>,
    ) -> Self {
        let title = format!("{title}: {}", kind.title());
        Self {
            names: vec![file.into(), title],
            ..Self::new("", plan, Load::Profiled(kind, rate))
        }
    }

    /// Names the case by more cells.
    pub(crate) fn with(mut self, name: impl Into<String>) -> Self {
        self.names.push(name.into());
        self
    }

    /// Sets its place in charts.
    pub(crate) fn at(mut self, series: impl Into<String>, group: impl Into<String>) -> Self {
        self.at = (series.into(), group.into());
        self
    }
}

impl Done {
    fn new(case: &Case<'_>, fill_seconds: f64) -> Self {
        Self {
            names: case.names.clone(),
            at: case.at.clone(),
            search: None,
            rounds: Ok(Vec::new()),
            profile: None,
            fill_seconds,
            rate: None,
        }
    }

    /// Runs a round of its case.
    fn measure(
        &mut self,
        context: &ExperimentContext<'_>,
        cluster: &LabCluster,
        case: &Case<'_>,
    ) -> Result<(), Error> {
        let mut plan = on(cluster, &case.plan);
        plan.rate = match self.rate {
            Some(rate) if rate.is_finite() => Rate::PerSecond(rate.max(1.0)),
            None => Rate::Max,
            Some(_) => {
                self.rounds = Err("what its rate depends on was not measured".to_owned());
                return Ok(());
            }
        };
        if let Load::Profiled(kind, _) = case.load {
            let node = &cluster.nodes[0];
            self.profile = Some(profile::under_load(context, node, &plan, kind)?);
            return Ok(());
        }
        let before = metrics(cluster)?;
        let measured = match case.load {
            Load::BreakingPoint => capacity(context, cluster, &plan)?.map(|capacity| {
                self.search = Some(capacity.search);
                capacity.saturated
            }),
            _ => run_load(context, cluster, &plan)?,
        };
        let after = metrics(cluster)?;
        match (measured, &mut self.rounds) {
            (Ok(load), Ok(rounds)) => rounds.push(Round {
                load,
                before,
                after,
                usage: cluster.usage(),
            }),
            (Err(problem), rounds) => *rounds = Err(problem),
            (Ok(_), Err(_)) => {}
        }
        Ok(())
    }

    /// Its names in one.
    pub(crate) fn name(&self) -> String {
        self.names.join(", ")
    }

    /// Whether its rate was given.
    pub(crate) fn is_open(&self) -> bool {
        self.rate.is_some()
    }

    /// The first of its runs.
    pub(crate) fn first(&self) -> Option<&Round> {
        self.rounds.as_ref().ok()?.first()
    }

    /// The median of a figure over all rounds; not a number if none has it.
    pub(crate) fn median(&self, figure: impl Fn(&Round) -> Option<f64>) -> f64 {
        let rounds = self.rounds.iter().flatten();
        statistics::median(rounds.filter_map(figure)).unwrap_or(f64::NAN)
    }

    /// Successful requests per second, of the closed loop if its breaking point was searched.
    pub(crate) fn rate(&self) -> f64 {
        self.median(|round| Some(round.load.rate()))
    }

    /// The breaking point; not a number if no rate held.
    pub(crate) fn breaking_point(&self) -> f64 {
        let search = self.search.as_ref();
        search.and_then(|search| search.rate).unwrap_or(f64::NAN)
    }

    /// The greater of the breaking point and of what the closed loop achieved.
    pub(crate) fn best(&self) -> f64 {
        self.breaking_point().max(self.rate())
    }

    /// CPU time of all nodes per request, in milliseconds.
    pub(crate) fn cpu_ms(&self) -> f64 {
        self.median(|round| Some(round.load.cpu_us? / 1e3))
    }

    /// The latency that `percentile` percent of the requests did not exceed.
    pub(crate) fn latency_ms(&self, percentile: f64) -> f64 {
        self.median(|round| round.load.latency_ms(percentile))
    }

    /// A gauge or a counter of all nodes at the end of a run.
    pub(crate) fn sum(&self, metric: &str, label: &str) -> f64 {
        self.median(|round| Some(total(&round.after, metric, label)))
    }

    /// By how much a counter of all nodes grew in a run.
    pub(crate) fn grown(&self, metric: &str, label: &str) -> f64 {
        self.median(|round| {
            let before = total(&round.before, metric, label);
            Some(total(&round.after, metric, label) - before)
        })
    }

    /// How many requests of its runs failed with this status.
    pub(crate) fn failed(&self, status: &str) -> u64 {
        let rounds = self.rounds.iter().flatten();
        let failed = rounds.filter_map(|round| round.load.run.failed.get(status));
        failed.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::done;

    #[test]
    fn a_rate_follows_from_an_earlier_case() {
        let all = [done("PUT", "1", 1_000), done("PUT", "2", 3_000)];
        assert_eq!(share(0.5, "PUT 2", Done::rate)(&all), 1_500.0);
        assert_eq!(share(0.5, "PUT 2", Done::best)(&all), 1_500.0);
        for missing in [
            share(0.5, "GET 1", Done::rate),
            share(0.5, "PUT 1", Done::breaking_point),
        ] {
            assert!(missing(&all).is_nan());
        }
    }

    #[test]
    fn figures_are_medians_over_rounds() {
        let mut of_three = done("PUT", "1", 1_000);
        for succeeded in [5_000, 2_000] {
            let more = done("PUT", "1", succeeded).rounds;
            of_three.rounds.as_mut().unwrap().extend(more.unwrap());
        }
        assert_eq!(of_three.rate(), 2_000.0);
        of_three.rounds = Err("refused".to_owned());
        assert!(of_three.rate().is_nan());
    }
}
