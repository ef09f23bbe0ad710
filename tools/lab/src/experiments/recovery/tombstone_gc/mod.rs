//! Whether a cluster that writes, expires and deletes for long ends as small as it began.

mod describe;

use crate::context::ExperimentContext;
use crate::measure::{self, Measured};
use crate::nodes::{ClusterLayout, LabCluster, LabNode};
use crate::page::Page;
use crate::{Error, Experiment};
use load::Run;
use load::plan::{KeyChoice, Operation, Plan, SizeDistribution};
use serde::Serialize;
use std::thread;
use std::time::{Duration, Instant};

/// The operations of the churn, and their weights.
const MIX: [(Operation, f64); 4] = [
    (Operation::Insert, 0.4),
    (Operation::Put, 0.1),
    (Operation::Delete, 0.3),
    (Operation::Get, 0.2),
];

/// The values that the churn puts expire after this.
const TTL_SECONDS: u64 = 5;

/// `--clock-drift-max` of the nodes: they share a clock.
const CLOCK_DRIFT_SECONDS: u64 = 2;

/// How long a value has expired when compaction surely frees it: twice the bound on clocks, a
/// minute, and the time until compaction looks.
const EXPIRED_FOR_SECONDS: u64 = 2 * CLOCK_DRIFT_SECONDS + 60 + 3;

/// How often the nodes are looked at once the load has ended.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// About how many times the nodes are looked at while the load runs: an hour of seconds
/// would be more than plots show.
const LOOKS_MAX: f64 = 600.0;

/// How long the GC threshold may take to pass the churn once that has ended. After hours of
/// churn a repair has much to compare.
const GC_TIMEOUT: Duration = Duration::from_secs(3600);

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: include_str!("tombstone_gc.md"),
    name: "tombstone_gc",
    run,
};

/// A node at one moment.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct NodeLook {
    /// Of its tables and its log.
    bytes: u64,
    tombstones: u64,
    /// The age of its GC threshold, in seconds; none before the first.
    gc_threshold_age: Option<u64>,
    /// Full repairs that found it equal with all others.
    full_repairs: u64,
}

/// All nodes at one moment; none for one that did not answer.
#[derive(Clone, Debug, Default, Serialize)]
struct Look {
    /// Since the warm-up of the load ended.
    at_seconds: f64,
    nodes: Vec<Option<NodeLook>>,
}

/// What the tables of a node hold once it has compacted its store.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Compacted {
    bytes: u64,
    entries: u64,
    tombstones: u64,
}

/// The results.
#[derive(Debug, Serialize)]
struct TombstoneGcResults {
    keys: u64,
    gc_grace_seconds: u64,
    full_repair_seconds: u64,
    run: Measured<Run>,
    looks: Vec<Look>,
    /// For each node.
    before: Vec<Compacted>,
    after: Vec<Compacted>,
}

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let (grace, hint_age) = context.effort().pick((6, "1s"), (10, "5s"), (10, "5s"));
    let full_repair = context.effort().pick(1, 5, 30);
    let cluster = LabCluster::start(
        context,
        ClusterLayout::of_three(&[
            "--durability",
            "os",
            "--gc-grace",
            &format!("{grace}s"),
            "--full-repair-interval",
            &format!("{full_repair}s"),
            "--repair-interval",
            "off",
            "--hint-age-max",
            hint_age,
            "--clock-drift-max",
            &format!("{CLOCK_DRIFT_SECONDS}s"),
            // Small ones, so that tables show within seconds what a node keeps.
            "--memtable-bytes",
            "4MiB",
        ]),
    )?;
    let filled = Plan {
        replicas: Some((2, 3)),
        keys: context.effort().pick(1_000, 50_000, 500_000),
        value_bytes: SizeDistribution::Fixed(256),
        ..measure::plan_on(context, &cluster, Operation::Put)
    };
    measure::fill(context, &filled)?;
    let before = compact(context, &cluster)?;

    let seconds = context.effort().pick(3.0, 90.0, 1_800.0);
    let churn = Plan {
        operations: MIX.to_vec(),
        key_choice: KeyChoice::Latest,
        ttl_seconds: Some(TTL_SECONDS),
        seconds: context
            .duration()
            .map_or(seconds, |duration| duration.as_secs_f64()),
        ..filled.clone()
    };
    context.log("writing, expiring and deleting");
    let (mut looks, mut next_look) = (Vec::new(), 0.0);
    let look_every = (churn.seconds / LOOKS_MAX).max(1.0);
    let run = measure::run_with(context, &churn, |at_seconds| {
        if at_seconds + 0.5 >= next_look {
            looks.push(look(&cluster, at_seconds));
            next_look = at_seconds + look_every;
        }
        Ok(None)
    })?;
    let ended = Instant::now();
    let ended_unix_ms = unix_ms(&cluster.nodes[0])?;
    measure::fill(context, &filled)?;

    context.log("waiting until the GC threshold has passed what was deleted");
    let expired_for = context
        .effort()
        .pick(0, EXPIRED_FOR_SECONDS, EXPIRED_FOR_SECONDS);
    let expired = Duration::from_secs(TTL_SECONDS + expired_for);
    loop {
        context.fail_if_stopped()?;
        looks.push(look(
            &cluster,
            churn.seconds + ended.elapsed().as_secs_f64(),
        ));
        let has_passed = |node: &LabNode| {
            let status = node.status().ok()?;
            Some(status["tombstone_gc"]["gc_threshold_unix_ms"].as_u64()? > ended_unix_ms)
        };
        let have_passed = |node| has_passed(node).unwrap_or(false);
        if ended.elapsed() >= expired && cluster.nodes.iter().all(have_passed) {
            break;
        }
        if ended.elapsed() >= GC_TIMEOUT {
            return Err(Error::TimedOut("the GC threshold of all nodes".to_owned()));
        }
        thread::sleep(LOOK_INTERVAL);
    }
    let after = compact(context, &cluster)?;
    let results = TombstoneGcResults {
        keys: filled.keys,
        gc_grace_seconds: grace,
        full_repair_seconds: full_repair,
        run,
        looks,
        before,
        after,
    };
    describe::describe(page, &results);
    Ok(())
}

/// Has all nodes compact their stores.
fn compact(context: &ExperimentContext<'_>, cluster: &LabCluster) -> Result<Vec<Compacted>, Error> {
    context.log("compacting");
    let compacted = cluster.nodes.iter().map(|node| {
        context.fail_if_stopped()?;
        let done = node.compact()?;
        let count = |name: &str| done["after"][name].as_u64().unwrap_or_default();
        Ok(Compacted {
            bytes: count("table_bytes"),
            entries: count("entries"),
            tombstones: count("tombstones"),
        })
    });
    compacted.collect()
}

/// Looks at all nodes.
fn look(cluster: &LabCluster, at_seconds: f64) -> Look {
    let look_at = |node: &LabNode| {
        let status = node.status().ok()?;
        Some(NodeLook {
            bytes: node.store_bytes().ok()?,
            tombstones: status["store"]["tombstones"].as_u64()?,
            gc_threshold_age: status["tombstone_gc"]["age_seconds"].as_u64(),
            full_repairs: status["repair"]["full"]["succeeded"].as_u64()?,
        })
    };
    Look {
        at_seconds,
        nodes: cluster.nodes.iter().map(look_at).collect(),
    }
}

/// The clock of a node.
fn unix_ms(node: &LabNode) -> Result<u64, Error> {
    let status = node.status()?;
    let unix_ms = status["clock"]["unix_ms"].as_u64();
    unix_ms.ok_or_else(|| Error::http(node.url(), &"its status has no clock"))
}
