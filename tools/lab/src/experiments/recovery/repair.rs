//! What a repair costs, against the size of the data and the share that differs.

use crate::context::ExperimentContext;
use crate::measure;
use crate::nodes::{ClusterLayout, LabCluster, Usage};
use crate::page::{MarkdownTable, Page, text};
use crate::{Error, Experiment, PageText, statistics};
use load::plan::{KeyChoice, Operation, Plan, Rate, SizeDistribution};
use load::report::plot::{Axis, Lines, Series, Style};
use load::report::units::{self, Unit};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const VALUE_BYTES: u64 = 1024;
const KEY_BYTES: u64 = 16;

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

/// What a full repair of equal nodes may take of CPU time a GB and node.
const CPU_SECONDS_A_GB_MAX: f64 = 1.0;
/// What it may take of the network a GB and node, in bytes.
const NETWORK_BYTES_A_GB_MAX: f64 = 0.2 * 1024.0 * 1024.0;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: PageText::Sentences {
        title: "What a repair costs",
        method: &[
            "Three nodes on this machine with `--durability os`, without repairs of their own, and \
         with values of 1 KiB that cannot be compressed. Each node keeps every key. A full repair \
         is driven by the first node (`POST /v0/admin/repair?full=true&wait=true`), without load.",
            "To make the nodes differ, the third one is killed, versions of random keys are written \
         to the other two, and it is started again when its hints have expired. How many keys it \
         lacks is the difference of two digests (`/v0/digest`): of all that another node keeps, \
         and of what is no newer than the kill. How many versions the repair sent is \
         `kvorum_repair_writes_total`.",
            "CPU time is that of all three processes during the repair, divided by three and by the \
         bytes of keys and values that each keeps; the network is what repairs send between the \
         nodes (`kvorum_repair_bytes_total`), divided likewise. Memory is the growth of the node \
         that grew most. The data blocks that a full repair reads are not counted: it reads all.",
        ],
    },
    name: "repair",
    question: "How much CPU time, network, memory and time does a repair of three nodes take, \
               against the size of the data and the share that differs?",
    run,
};

/// A repair, and what it took.
#[derive(Clone, Debug, Default, Serialize)]
struct RepairCase {
    /// Bytes of keys and values that each node keeps.
    data_bytes: u64,
    /// The share of the keys that was written while a node was away.
    share: f64,
    /// `full` or `recent`.
    kind: &'static str,
    seconds: f64,
    /// Of all nodes.
    cpu_seconds: f64,
    /// Between all nodes.
    network_bytes: f64,
    /// Keys whose newest version one node lacked.
    missing_keys: u64,
    /// Versions that the repair sent.
    mends: f64,
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
            ..measure::plan(context, &cluster, Operation::Put)
        };
        measure::fill(context, &plan)?;
        // What the fill left in memtables is written before anything is measured.
        let _unmeasured = sweep(context, &cluster, &plan, "full")?;
        cases.push(sweep(context, &cluster, &plan, "full")?);
        cases.push(sweep(context, &cluster, &plan, "incremental")?);
        // The shares are compared on the middle size.
        if number == sizes.len() / 2 {
            for share in SHARES.into_iter().filter(|share| *share > 0.0) {
                context.log(&format!("{} of the keys differ", units::share(share)));
                let missing_keys = miss(context, &mut cluster, &plan, share)?;
                cases.push(RepairCase {
                    share,
                    missing_keys,
                    ..sweep(context, &cluster, &plan, "full")?
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
        let mut hints = 0;
        for node in &cluster.nodes[..2] {
            let status = node.status()?;
            let members = status["cluster"].as_array().into_iter().flatten();
            hints += members
                .filter_map(|member| member["hints"].as_u64())
                .sum::<u64>();
        }
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
    mends: f64,
    blocks: f64,
}

fn counters(cluster: &LabCluster) -> Result<Counters, Error> {
    std::thread::sleep(PUBLISH_INTERVAL);
    let mut all = Counters::default();
    for node in &cluster.nodes {
        let metrics = node.metrics()?;
        all.bytes += metrics.sum("kvorum_repair_bytes_total", "");
        all.mends += metrics.sum("kvorum_repair_writes_total", "direction=\"received\"");
        all.blocks += metrics.sum("kvorum_store_data_blocks_fetched_total", "");
    }
    Ok(all)
}

/// The greatest resident memory of each node until `is_over`, in bytes.
fn resident_most(cluster: &LabCluster, is_over: &AtomicBool) -> Vec<u64> {
    let mut most = vec![0; cluster.nodes.len()];
    while !is_over.load(Ordering::Relaxed) {
        for (most, node) in most.iter_mut().zip(&cluster.nodes) {
            *most = node.usage().resident_bytes.max(*most);
        }
        std::thread::sleep(SAMPLE_INTERVAL);
    }
    most
}

/// Repairs, and measures it.
fn sweep(
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
    let full = kind == "full";
    let is_over = AtomicBool::new(false);
    let (report, most) = std::thread::scope(|scope| {
        let most = scope.spawn(|| resident_most(cluster, &is_over));
        let report = cluster.nodes[0].sweep(&format!("full={full}&wait=true"));
        is_over.store(true, Ordering::Relaxed);
        (report, most.join().unwrap_or_default())
    });
    let report = report?;
    let seconds = begin.elapsed().as_secs_f64();
    let usages_after = usages();
    let after = counters(cluster)?;
    let pairs = usages_before.iter().zip(&usages_after);
    let growth = most.iter().zip(&usages_before);
    let growth = growth.map(|(most, before)| most.saturating_sub(before.resident_bytes));
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
        mends: after.mends - before.mends,
        memory_growth_bytes: growth.max().unwrap_or(0),
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

fn describe(page: &mut Page, cases: &[RepairCase]) {
    page.section("Measured");
    let mut table = MarkdownTable::new([
        "repair",
        "data of a node",
        "share written",
        "keys missing",
        "versions sent",
        "time",
        "CPU a GB and node",
        "network a GB and node",
        "sent over missing",
        "memory grew by",
        "blocks read",
        "equal",
    ]);
    for case in cases {
        table.row([
            case.kind.to_owned(),
            units::bytes(case.data_bytes as f64),
            units::share(case.share),
            units::count(case.missing_keys),
            units::count(case.mends as u64),
            units::seconds(case.seconds),
            format!("{} s", text::ratio(case.cpu_a_gigabyte())),
            units::bytes(case.network_a_gigabyte()),
            text::ratio(case.sent_over_missing().unwrap_or(f64::NAN)),
            units::bytes(case.memory_growth_bytes as f64),
            match case.kind {
                // It reads every block past the counters.
                "full" => "–".to_owned(),
                _ => units::count(case.blocks_read as u64),
            },
            if case.is_clean { "yes" } else { "no" }.to_owned(),
        ]);
    }
    page.table(&table);
    let of_equal = cases.iter().filter(|case| is_full_and_equal(case));
    let points = of_equal.map(|case| (case.data_bytes as f64, case.cpu_seconds / 3.0));
    let plot = Lines::new(
        "CPU time of a full repair of equal nodes",
        Axis::linear("data of a node", Unit::Bytes),
        Axis::linear("CPU time of a node", Unit::Seconds),
    );
    let series = Series::new("CPU time", points).style(Style::Dotted);
    page.figure("size", "CPU time over the size", plot.with(series).draw());
    let differing = cases.iter().filter(|case| case.missing_keys > 0);
    let points = differing.map(|case| (case.missing_keys as f64, case.network_bytes));
    let plot = Lines::new(
        "Bytes between the nodes",
        Axis::logarithmic("keys that a node lacked", Unit::Count),
        Axis::logarithmic("bytes", Unit::Bytes),
    );
    let series = Series::new("bytes", points).style(Style::Dotted);
    page.figure(
        "share",
        "Bytes over the difference",
        plot.with(series).draw(),
    );
    page.section("What it shows");
    page.list(findings(cases));
    page.paragraph("The studies have no such figures.");
    page.data("repair", &cases);
}

fn is_full_and_equal(case: &RepairCase) -> bool {
    case.kind == "full" && case.share == 0.0
}

fn findings(cases: &[RepairCase]) -> Vec<String> {
    let mut found = Vec::new();
    let within = |value: f64, most: f64| {
        if value <= most {
            "at most"
        } else {
            "more than"
        }
    };
    // The largest size says most, because a repair waits before it begins.
    if let Some(case) = cases.iter().rfind(|case| is_full_and_equal(case)) {
        let (cpu, network) = (case.cpu_a_gigabyte(), case.network_a_gigabyte());
        found.push(format!(
            "A full repair of equal nodes takes {} s of CPU time a GB and node ({} the {} s that \
             it may), and sends {} a GB and node ({} the {} that it may).",
            text::ratio(cpu),
            within(cpu, CPU_SECONDS_A_GB_MAX),
            text::ratio(CPU_SECONDS_A_GB_MAX),
            units::bytes(network),
            within(network, NETWORK_BYTES_A_GB_MAX),
            units::bytes(NETWORK_BYTES_A_GB_MAX),
        ));
    }
    for case in cases {
        if let Some(times) = case.sent_over_missing() {
            found.push(format!(
                "With {} of the keys written while a node was away, a repair sends {} times the \
                 bytes that differ.",
                units::share(case.share),
                text::ratio(times)
            ));
        }
    }
    let recent: Vec<&RepairCase> = cases
        .iter()
        .filter(|case| case.kind == "incremental")
        .collect();
    if !recent.is_empty() {
        let blocks: f64 = recent.iter().map(|case| case.blocks_read).sum();
        found.push(match blocks as u64 {
            0 => "A incremental repair after nothing happened reads no data block.".to_owned(),
            blocks => format!(
                "Recent repairs after nothing happened read {} data blocks.",
                units::count(blocks)
            ),
        });
    }
    let unclean = cases.iter().filter(|case| !case.is_clean).count();
    if unclean > 0 {
        found.push(format!(
            "repairs that did not find all nodes equal: {unclean}."
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_contains, page_text};

    fn cases() -> Vec<RepairCase> {
        let equal = RepairCase {
            data_bytes: 1_000_000_000,
            kind: "full",
            seconds: 4.0,
            cpu_seconds: 2.4,
            network_bytes: 300_000.0,
            blocks_read: 90_000.0,
            is_clean: true,
            ..RepairCase::default()
        };
        let recent = RepairCase {
            kind: "incremental",
            blocks_read: 0.0,
            ..equal
        };
        let differing = RepairCase {
            share: 0.001,
            missing_keys: 1_000,
            mends: 1_000.0,
            network_bytes: 1_144_000.0,
            ..equal
        };
        vec![equal, recent, differing]
    }

    #[test]
    fn costs_are_told_a_gigabyte_and_node() {
        assert_contains(
            &page_text(|page| describe(page, &cases())),
            &[
                "takes 0.80 s of CPU time a GB and node (at most the 1.00 s",
                "With 0.1% of the keys written while a node was away, a repair sends 1.10 times",
                "reads no data block",
            ],
        );
    }

    #[test]
    fn what_is_too_much_or_not_equal_is_said() {
        let mut cases = cases();
        cases[0].cpu_seconds = 6.0;
        cases[1].blocks_read = 3.0;
        cases[2].is_clean = false;
        assert_contains(
            &page_text(|page| describe(page, &cases)),
            &[
                "takes 2.00 s of CPU time a GB and node (more than the 1.00 s",
                "read 3 data blocks",
                "repairs that did not find all nodes equal: 1.",
            ],
        );
    }
}
