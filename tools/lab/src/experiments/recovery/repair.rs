//! What a repair costs, against the size of the data and the share that differs.

use crate::context::ExperimentContext;
use crate::measure;
use crate::nodes::{self, ClusterLayout, LabCluster, Usage};
use crate::page::{MarkdownTable, Page, text};
use crate::{Error, Experiment, statistics};
use load::plan::{KeyChoice, Operation, Plan, Rate, SizeDistribution};
use load::report::plot::{Axis, Lines, Series, Style};
use load::report::units::{self, Unit};
use serde::Serialize;
use std::time::{Duration, Instant};

const VALUE_BYTES: u64 = 1024;
const KEY_BYTES: u64 = 16;

const FULL: &str = "full";
const INCREMENTAL: &str = "incremental";

/// The shares of the keys that one node lacks the newest version of.
const SHARES: [f64; 5] = [0.0, 0.0001, 0.001, 0.01, 0.1];

/// The rate at which the versions are written that a node misses, in requests per second.
const MISSED_PER_SECOND: f64 = 2_000.0;

/// How long hints take to expire.
const HINTS_TIMEOUT: Duration = Duration::from_secs(60);

/// A node publishes its counters this often, at the latest.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(600);

/// How often the memory of the nodes is sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: include_str!("repair.md"),
    name: "repair",
    run,
};

/// A repair, and what it took.
#[derive(Clone, Debug, Default, Serialize)]
struct RepairCase {
    /// Bytes of keys and values that each node keeps.
    data_bytes: u64,
    /// The share of the keys that was written while a node was away.
    share: f64,
    /// [`FULL`] or [`INCREMENTAL`].
    kind: &'static str,
    seconds: f64,
    /// Of all nodes.
    cpu_seconds: f64,
    /// Between all nodes.
    network_bytes: f64,
    /// Keys whose newest version one node lacked.
    missing_keys: u64,
    /// Versions that the repair sent.
    repair_writes: f64,
    /// How much the memory of a node grew, at most.
    memory_growth_bytes: u64,
    /// Data blocks that all nodes read.
    blocks_read: f64,
    /// Whether all nodes were equal at the end.
    is_clean: bool,
}

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let sizes: &[u64] = context.effort().pick(
        &[1 << 20, 2 << 20],
        &[64 << 20, 128 << 20, 256 << 20],
        &[256 << 20, 1 << 30, 4 << 30],
    );
    let mut cases = Vec::new();
    for (number, bytes) in sizes.iter().enumerate() {
        let mut cluster = LabCluster::start(
            context,
            ClusterLayout::of_three(&[
                "--durability",
                "os",
                "--repair-interval",
                "off",
                "--full-repair-interval",
                "off",
                "--hint-age-max",
                "1s",
                "--timeout",
                context.effort().pick("200ms", "1s", "1s"),
            ]),
        )?;
        let plan = Plan {
            keys: bytes / (KEY_BYTES + VALUE_BYTES),
            key_bytes: SizeDistribution::Fixed(KEY_BYTES as usize),
            value_bytes: SizeDistribution::Fixed(VALUE_BYTES as usize),
            replicas: Some((3, 3)),
            ..measure::plan_on(context, &cluster, Operation::Put)
        };
        measure::fill(context, &plan)?;
        // What the fill left in memtables is written before anything is measured.
        let _unmeasured = repair(context, &cluster, &plan, FULL)?;
        cases.push(repair(context, &cluster, &plan, FULL)?);
        cases.push(repair(context, &cluster, &plan, INCREMENTAL)?);
        // The shares are compared on the middle size.
        if number == sizes.len() / 2 {
            for share in SHARES.into_iter().filter(|share| *share > 0.0) {
                context.log(&format!("{} of the keys differ", units::share(share)));
                let missing_keys = miss(context, &mut cluster, &plan, share)?;
                cases.push(RepairCase {
                    share,
                    missing_keys,
                    ..repair(context, &cluster, &plan, FULL)?
                });
            }
        }
    }
    describe(page, &cases);
    Ok(())
}

/// Makes the third node lack the newest versions of a share of the keys. Gives of how
/// many.
fn miss(
    context: &ExperimentContext<'_>,
    cluster: &mut LabCluster,
    plan: &Plan,
    share: f64,
) -> Result<u64, Error> {
    cluster.nodes[2].kill();
    // Above all that the third node can have.
    let mut cut = 0;
    for node in &cluster.nodes[..2] {
        let status = node.status()?;
        let greatest = status["clock"]["greatest_timestamp"].as_str();
        cut = greatest
            .and_then(|number| number.parse().ok())
            .unwrap_or(0)
            .max(cut);
    }
    let count = (plan.keys as f64 * share).round().max(1.0);
    let rate = MISSED_PER_SECOND.min(count);
    let writes = Plan {
        targets: cluster.targets().into_iter().take(2).collect(),
        replicas: Some((2, 3)),
        key_choice: KeyChoice::Uniform,
        rate: Rate::PerSecond(rate),
        warmup_seconds: 0.0,
        seconds: count / rate,
        seed: plan.seed + count as u64,
        ..plan.clone()
    };
    measure::run(context, cluster, &writes)?.map_err(Error::Load)?;
    context.wait_until("hints to expire", HINTS_TIMEOUT, || {
        let hints = nodes::hints(&cluster.nodes[..2])?;
        Ok((hints == 0).then_some(()))
    })?;
    let all = cluster.nodes[0].keys_up_to(u64::MAX)?;
    let missing = all.saturating_sub(cluster.nodes[0].keys_up_to(cut)?);
    let third = &mut cluster.nodes[2];
    third.start()?;
    third.wait_until_up(context)?;
    for node in &mut cluster.nodes {
        node.wait_until_complete(context)?;
    }
    Ok(missing)
}

/// The counters of all nodes.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    bytes: f64,
    repair_writes: f64,
    blocks: f64,
}

fn counters(cluster: &LabCluster) -> Result<Counters, Error> {
    std::thread::sleep(PUBLISH_INTERVAL);
    let mut all = Counters::default();
    for node in &cluster.nodes {
        let metrics = node.metrics()?;
        all.bytes += metrics.sum("kvorum_repair_bytes_total", "");
        all.repair_writes += metrics.sum("kvorum_repair_writes_total", "direction=\"received\"");
        all.blocks += metrics.sum("kvorum_store_data_blocks_fetched_total", "");
    }
    Ok(all)
}

/// Repairs, and measures it.
fn repair(
    context: &ExperimentContext<'_>,
    cluster: &LabCluster,
    plan: &Plan,
    kind: &'static str,
) -> Result<RepairCase, Error> {
    context.fail_if_stopped()?;
    let data_bytes = plan.keys * (KEY_BYTES + VALUE_BYTES);
    context.log(&format!(
        "a {kind} repair of {} a node",
        units::bytes(data_bytes as f64)
    ));
    let before = counters(cluster)?;
    let usages = || -> Vec<Usage> { cluster.nodes.iter().map(|node| node.usage()).collect() };
    let (usages_before, begin) = (usages(), Instant::now());
    let full = kind == FULL;
    let resident = || cluster.nodes.iter().map(|node| node.usage().resident_bytes);
    let (report, samples) = measure::sampled(
        SAMPLE_INTERVAL,
        || resident().collect::<Vec<u64>>(),
        || cluster.nodes[0].repair(&format!("full={full}&wait=true")),
    );
    let report = report?;
    let seconds = begin.elapsed().as_secs_f64();
    let usages_after = usages();
    let after = counters(cluster)?;
    let pairs = usages_before.iter().zip(&usages_after);
    let grown = samples.iter().flat_map(|sample| {
        let nodes = sample.iter().zip(&usages_before);
        nodes.map(|(bytes, before)| bytes.saturating_sub(before.resident_bytes))
    });
    Ok(RepairCase {
        data_bytes,
        share: 0.0,
        missing_keys: 0,
        kind,
        seconds,
        cpu_seconds: pairs
            .map(|(before, after)| (*after - *before).cpu_seconds)
            .sum(),
        network_bytes: after.bytes - before.bytes,
        repair_writes: after.repair_writes - before.repair_writes,
        memory_growth_bytes: grown.max().unwrap_or(0),
        blocks_read: after.blocks - before.blocks,
        is_clean: report["clean"] == true,
    })
}

impl RepairCase {
    fn gigabytes(&self) -> f64 {
        self.data_bytes as f64 / 1e9
    }

    /// CPU time a GB and node, in seconds.
    fn cpu_a_gigabyte(&self) -> f64 {
        self.cpu_seconds / 3.0 / self.gigabytes()
    }

    /// Bytes between the nodes, a GB and node.
    fn network_a_gigabyte(&self) -> f64 {
        self.network_bytes / 3.0 / self.gigabytes()
    }

    /// What was sent over what differed, if something did.
    fn sent_over_missing(&self) -> Option<f64> {
        let missing = (self.missing_keys * (KEY_BYTES + VALUE_BYTES)) as f64;
        statistics::ratio(Some(self.network_bytes), Some(missing))
    }
}

/// A column of the table: its head, and a cell.
type Column = (&'static str, fn(&RepairCase) -> String);

const COLUMNS: [Column; 12] = [
    ("repair", |case| case.kind.to_owned()),
    ("data of a node", |case| {
        units::bytes(case.data_bytes as f64)
    }),
    ("share written", |case| units::share(case.share)),
    ("keys missing", |case| units::count(case.missing_keys)),
    ("versions sent", |case| text::count(case.repair_writes)),
    ("time", |case| units::seconds(case.seconds)),
    ("CPU a GB and node", |case| {
        format!("{} s", text::ratio(case.cpu_a_gigabyte()))
    }),
    ("network a GB and node", |case| {
        units::bytes(case.network_a_gigabyte())
    }),
    ("sent over missing", |case| {
        text::ratio(case.sent_over_missing().unwrap_or(f64::NAN))
    }),
    ("memory grew by", |case| {
        units::bytes(case.memory_growth_bytes as f64)
    }),
    // A full repair reads every block past the counters.
    ("blocks read", |case| match case.kind {
        FULL => units::NONE.to_owned(),
        _ => text::count(case.blocks_read),
    }),
    ("equal", |case| {
        if case.is_clean { "yes" } else { "no" }.to_owned()
    }),
];

fn describe(page: &mut Page, cases: &[RepairCase]) {
    let mut table = MarkdownTable::new(COLUMNS.map(|(head, _)| head));
    for case in cases {
        table.row(COLUMNS.map(|(_, cell)| cell(case)));
        if let Some(times) = case.sent_over_missing() {
            page.keep_value(units::share(case.share), text::ratio(times));
        }
    }
    page.keep_table("measured", table);
    let of_equal = || {
        let full = cases.iter().filter(|case| case.kind == FULL);
        full.filter(|case| case.share == 0.0)
    };
    // The largest size says most, because a repair waits before it begins.
    let largest = |of: fn(&RepairCase) -> f64| of_equal().next_back().map_or(f64::NAN, of);
    page.keep_value("CPU", text::ratio(largest(RepairCase::cpu_a_gigabyte)));
    page.keep_value(
        "network",
        units::bytes(largest(RepairCase::network_a_gigabyte)),
    );
    let incremental = cases.iter().filter(|case| case.kind == INCREMENTAL);
    let blocks = incremental.map(|case| case.blocks_read).sum();
    page.keep_value("blocks", text::count(blocks));
    let equal = cases.iter().filter(|case| case.is_clean).count();
    page.keep_value("equal", format!("{equal} of {}", cases.len()));

    let points = of_equal().map(|case| (case.data_bytes as f64, case.cpu_seconds / 3.0));
    let plot = Lines::new(
        "CPU time of a full repair of equal nodes",
        Axis::linear("data of a node", Unit::Bytes),
        Axis::linear("CPU time of a node", Unit::Seconds),
    );
    let series = Series::new("CPU time", points).style(Style::Dotted);
    page.keep_chart("size", plot.with(series).draw());
    let differing = cases.iter().filter(|case| case.missing_keys > 0);
    let points = differing.map(|case| (case.missing_keys as f64, case.network_bytes));
    let plot = Lines::new(
        "Bytes between the nodes",
        Axis::logarithmic("keys that a node lacked", Unit::Count),
        Axis::logarithmic("bytes", Unit::Bytes),
    );
    let series = Series::new("bytes", points).style(Style::Dotted);
    page.keep_chart("share", plot.with(series).draw());
    page.data("runs", &cases);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::assert_values;

    #[test]
    fn costs_are_told_a_gigabyte_and_node() {
        let equal = RepairCase {
            data_bytes: 1_000_000_000,
            kind: FULL,
            cpu_seconds: 2.4,
            network_bytes: 300_000.0,
            is_clean: true,
            ..RepairCase::default()
        };
        let incremental = RepairCase {
            kind: INCREMENTAL,
            blocks_read: 3.0,
            is_clean: false,
            ..equal
        };
        let differing = RepairCase {
            share: 0.001,
            missing_keys: 1_000,
            network_bytes: 1_144_000.0,
            ..equal
        };
        let expected = [
            ("CPU", "0.80"),
            ("network", "97.7 KiB"),
            ("0.1%", "1.10"),
            ("blocks", "3"),
            ("equal", "2 of 3"),
        ];
        let cases = [equal, incremental, differing];
        assert_values(|page| describe(page, &cases), &expected);
    }
}
