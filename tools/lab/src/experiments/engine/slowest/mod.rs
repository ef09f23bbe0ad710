//! What the slowest thousand writes waited for.

mod causes;
mod describe;
mod floor;
mod pairs;
mod priority;
mod recording;

use crate::context::ExperimentContext;
use crate::measure::{self, Measured};
use crate::nodes::{ClusterLayout, LabCluster, MetricsSnapshot};
use crate::page::Page;
use crate::{Error, Experiment};
use causes::SlowWrite;
use floor::SyncTimes;
use load::plan::{KeyChoice, Operation, Plan, Rate, SizeDistribution};
use load::{Run, SlowRequest};
use pairs::Pair;
use recording::{Recording, length};
use serde::Serialize;
use std::time::Duration;

/// How many of the slowest writes are explained.
const SLOWEST: usize = 1_000;

/// How often a load runs in turn with nginx.
const PAIRS: usize = 9;

/// The rate of the open loop, in requests per second.
const RATE: f64 = 15_000.0;

/// The load through flushes, as a share of the breaking point.
const FLUSH_SHARE: f64 = 0.8;

/// No write may take longer, in milliseconds, but for a sync that took as long by itself.
const LATENCY_MS_MAX: f64 = 50.0;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: include_str!("slowest.md"),
    name: "slowest",
    run,
};

/// A load whose slowest writes are explained.
#[derive(Clone, Copy, Debug)]
struct Load {
    name: &'static str,
    nodes: usize,
    durability: &'static str,
    /// The answers that are enough.
    ack: usize,
    /// How many times nginx's p99.9 its own may be.
    goal: Option<f64>,
    /// Whether flushes and compactions run beside it.
    flushes: bool,
}

const LOADS: [Load; 4] = [
    Load {
        name: "1/1, sync",
        nodes: 1,
        durability: "sync",
        ack: 1,
        goal: Some(2.0),
        flushes: false,
    },
    Load {
        name: "1/1, os",
        nodes: 1,
        durability: "os",
        ack: 1,
        goal: Some(1.3),
        flushes: false,
    },
    Load {
        name: "2/3, sync",
        nodes: 3,
        durability: "sync",
        ack: 2,
        goal: Some(3.0),
        flushes: false,
    },
    Load {
        name: "1/1, sync, through flushes",
        nodes: 1,
        durability: "sync",
        ack: 1,
        goal: None,
        flushes: true,
    },
];

/// A load that has run.
#[derive(Debug, Serialize)]
struct Explained {
    run: Run,
    /// The slowest writes, the slowest first.
    #[serde(skip)]
    writes: Vec<SlowWrite>,
    /// The syncs of the log on all nodes.
    syncs: SyncTimes,
    /// The bytes of a group, on average.
    group_bytes: f64,
    flushes: f64,
    compactions: f64,
    /// How many waits and requests the recordings did not hold.
    left_out: u64,
}

/// A load and what came of it.
#[derive(Debug, Serialize)]
struct Case {
    name: &'static str,
    goal: Option<f64>,
    flushes: bool,
    /// The runs beside nginx, sorted by their ratios.
    pairs: Measured<Vec<Pair>>,
    explained: Measured<Explained>,
}

/// What the disk allows without a store.
#[derive(Debug, Serialize)]
struct Floor {
    /// Syncs of as many bytes as a group of the first load has.
    syncs: SyncTimes,
    group_bytes: usize,
}

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let mut cases = Vec::new();
    let mut floor = None;
    for load in LOADS {
        context.log(load.name);
        let cluster = start(context, load)?;
        let plan = plan(context, &cluster, load)?;
        let (pairs, explained) = match plan {
            Ok(plan) => {
                let count = match load.goal {
                    Some(_) => context.effort().pick(1, PAIRS, PAIRS),
                    None => 0,
                };
                let pairs = pairs::measure(context, &plan, count)?;
                (pairs, explain(context, &cluster, load, &plan)?)
            }
            Err(problem) => (Ok(Vec::new()), Err(problem)),
        };
        drop(cluster);
        if floor.is_none() {
            context.log("the disk alone");
            floor = Some(measure_floor(context, explained.as_ref().ok())?);
        }
        cases.push(Case {
            name: load.name,
            goal: load.goal,
            flushes: load.flushes,
            pairs,
            explained,
        });
    }
    let priority = if priority::is_allowed() {
        "The system let the generator run before the nodes."
    } else {
        "The system did not let the generator run before the nodes: what it sent late is part of \
         all latencies."
    };
    page.keep_value("priority", priority);
    describe::describe(page, &cases, floor.as_ref());
    Ok(())
}

fn start(context: &ExperimentContext<'_>, load: Load) -> Result<LabCluster, Error> {
    let mut options = vec!["--durability", load.durability];
    if load.flushes {
        options.extend(["--memtable-bytes", "16MiB"]);
    }
    let layout = ClusterLayout {
        nodes: load.nodes,
        memory: match load.nodes {
            1 => "2GiB",
            _ => "1GiB",
        },
        options: &options,
    };
    LabCluster::start(context, layout)
}

/// The plan of a load, once its rate is known.
///
/// # Errors
/// A stop.
fn plan(
    context: &ExperimentContext<'_>,
    cluster: &LabCluster,
    load: Load,
) -> Result<Measured<Plan>, Error> {
    let mut plan = Plan {
        // The recordings begin in it.
        warmup_seconds: context.effort().pick(1.0, 2.0, 5.0),
        seconds: context.effort().pick(0.5, 10.0, 25.0),
        rate: Rate::PerSecond(context.effort().pick(1_000.0, RATE, RATE)),
        replicas: (load.nodes > 1).then_some((2, 3)),
        ..measure::plan_on(context, cluster, Operation::Put)
    };
    if load.flushes {
        plan.keys = 100_000_000;
        plan.key_choice = KeyChoice::Uniform;
        plan.value_bytes = SizeDistribution::Fixed(1024);
        let searched = Plan {
            seconds: context.effort().pick(0.5, 3.0, 5.0),
            ..plan.clone()
        };
        let capacity = match measure::capacity(context, cluster, &searched)? {
            Ok(capacity) => capacity,
            Err(problem) => return Ok(Err(problem)),
        };
        // On a machine where no rate holds, half of the closed loop is better than none.
        let half = capacity.saturated.rate() / 2.0;
        let rate = capacity.search.rate.unwrap_or(half);
        plan.rate = measure::share_of(rate, FLUSH_SHARE);
        plan.seconds = context.effort().pick(0.5, 20.0, 40.0);
    }
    Ok(Ok(plan))
}

/// Runs a load while all nodes record, and tells what its slowest writes waited for.
///
/// # Errors
/// A stop, or a node that does not answer.
fn explain(
    context: &ExperimentContext<'_>,
    cluster: &LabCluster,
    load: Load,
    plan: &Plan,
) -> Result<Measured<Explained>, Error> {
    if !context.has_profiles() {
        return Ok(Err("this build of the nodes records no spans".to_owned()));
    }
    let slowest_max = context.effort().pick(50, SLOWEST, SLOWEST);
    let before = metrics(cluster)?;
    // A recording begins before the load, and ends after it.
    let seconds = (plan.warmup_seconds + plan.seconds).ceil() as u64 + 2;
    let stop = context.stop();
    let (ran, recordings) = std::thread::scope(|scope| {
        let nodes = cluster.nodes.iter();
        let fetches: Vec<_> = nodes
            .map(|node| scope.spawn(move || recording::fetch(node, seconds)))
            .collect();
        let ran = priority::before_others(|| {
            load::run_with_slowest(plan, slowest_max, stop, &mut |_| {})
        });
        let recordings: Measured<Vec<Recording>> = fetches
            .into_iter()
            .map(|fetch| match fetch.join() {
                Ok(recording) => recording,
                Err(_) => Err("the thread that reads a recording panicked".to_owned()),
            })
            .collect();
        (ran, recordings)
    });
    context.fail_if_stopped()?;
    let after = metrics(cluster)?;
    Ok(match (ran, recordings) {
        (Ok((run, slowest)), Ok(recordings)) => Ok(explained(
            run,
            &slowest,
            &recordings,
            load.ack,
            &before,
            &after,
        )),
        (Err(error), _) => Err(error.to_string()),
        (_, Err(problem)) => Err(problem),
    })
}

fn explained(
    run: Run,
    slowest: &[SlowRequest],
    recordings: &[Recording],
    ack: usize,
    before: &[MetricsSnapshot],
    after: &[MetricsSnapshot],
) -> Explained {
    let growth = |name| -> f64 {
        let pairs = before.iter().zip(after);
        pairs
            .map(|(before, after)| after.growth(before, name))
            .sum()
    };
    let syncs = recordings.iter().flat_map(|recording| &recording.syncs);
    let commits = growth("kvorum_store_commits_total");
    Explained {
        run,
        writes: causes::explain(slowest, recordings, ack),
        syncs: SyncTimes::new(syncs.map(|sync| length(sync) as f64 / 1e6)),
        group_bytes: growth("kvorum_store_log_written_bytes_total") / commits.max(1.0),
        flushes: growth("kvorum_store_flushes_total"),
        compactions: growth("kvorum_store_compactions_total"),
        left_out: recordings.iter().map(|recording| recording.left_out).sum(),
    }
}

fn metrics(cluster: &LabCluster) -> Result<Vec<MetricsSnapshot>, Error> {
    cluster.nodes.iter().map(|node| node.metrics()).collect()
}

/// Measures the disk without a store.
///
/// # Errors
/// A disk that cannot be written.
fn measure_floor(
    context: &ExperimentContext<'_>,
    explained: Option<&Explained>,
) -> Result<Floor, Error> {
    let group_bytes = explained.map_or(4096, |explained| explained.group_bytes as usize);
    let time = Duration::from_secs_f64(context.effort().pick(0.1, 5.0, 10.0));
    Ok(Floor {
        syncs: floor::bare_syncs(group_bytes, time)?,
        group_bytes,
    })
}
