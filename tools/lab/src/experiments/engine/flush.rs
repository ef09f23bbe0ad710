//! The latency of writes during flushes and compactions.

use crate::context::ExperimentContext;
use crate::figures;
use crate::measure::profile::{self, FoldedProfile, ProfileKind};
use crate::measure::{self, Measured};
use crate::nodes::{ClusterLayout, LabCluster, MetricsSnapshot};
use crate::page::{MarkdownTable, Page, text};
use crate::{Error, Experiment, statistics};
use load::Run;
use load::plan::{KeyChoice, Operation, Plan, Rate, SizeDistribution};
use load::report::{plot, units};
use serde::Serialize;

/// The requested rate, as a share of the closed loop.
const SHARE: f64 = 0.4;
/// The greatest requested rate, in requests per second: more would not fit into
/// the memtable of the node that must not flush.
const RATE_MAX: f64 = 5_000.0;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: include_str!("flush.md"),
    name: "flush",
    run,
};

/// A run with its flushes and compactions.
#[derive(Debug, Serialize)]
struct FlushCase {
    run: Measured<Run>,
    flushes: u64,
    compactions: u64,
    /// For each second of the run, whether a flush or a compaction ended in it.
    is_disturbed: Vec<bool>,
}

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let busy = cluster(context, "16MiB")?;
    let mut plan = plan(context, &busy);
    let saturated = measure::run(context, &busy, &plan)?.map_err(Error::Load)?;
    let rate = (saturated.rate() * SHARE).min(RATE_MAX);
    plan.rate = Rate::PerSecond(rate.max(1.0));
    // A new segment of the log is filled with zeros first, which takes longer
    // for a large one.
    plan.warmup_seconds = context.effort().pick(0.2, 8.0, 8.0);
    plan.seconds = context.effort().pick(2.0, 40.0, 120.0);
    let disturbed = watched(context, &busy, &plan)?;
    let mut profiles = Vec::new();
    for kind in [ProfileKind::Cpu, ProfileKind::Wait] {
        let mut plan = plan.clone();
        plan.warmup_seconds = 0.0;
        let profile = profile::under_load(context, &busy.nodes[0], &plan, kind)?;
        profiles.push((kind, profile));
    }
    drop(busy);

    let calm = cluster(context, context.effort().pick("64MiB", "512MiB", "1GiB"))?;
    plan.targets = calm.targets();
    let undisturbed = watched(context, &calm, &plan)?;
    describe(page, &undisturbed, &disturbed, &profiles);
    Ok(())
}

fn cluster(context: &ExperimentContext<'_>, memtable: &str) -> Result<LabCluster, Error> {
    let options = ["--durability", "os", "--memtable-bytes", memtable];
    LabCluster::start(
        context,
        ClusterLayout {
            nodes: 1,
            memory: "6GiB",
            options: &options,
        },
    )
}

fn plan(context: &ExperimentContext<'_>, cluster: &LabCluster) -> Plan {
    Plan {
        // So many keys that hardly any occurs twice in a run.
        keys: 100_000_000,
        key_choice: KeyChoice::Uniform,
        value_bytes: SizeDistribution::Fixed(1024),
        rate: Rate::Max,
        ..measure::plan_on(context, cluster, Operation::Put)
    }
}

fn watched(
    context: &ExperimentContext<'_>,
    cluster: &LabCluster,
    plan: &Plan,
) -> Result<FlushCase, Error> {
    context.log(&format!("PUT for {} s", plan.seconds));
    let node = &cluster.nodes[0];
    let begin = node.metrics()?;
    let mut before = begin.clone();
    let mut is_disturbed = Vec::new();
    let run = measure::run_with(context, plan, |_| {
        let now = node.metrics()?;
        let ended = ended(&before, &now);
        before = now;
        is_disturbed.push(ended.is_some());
        Ok(ended.map(str::to_owned))
    })?;
    Ok(FlushCase {
        run,
        // The counters are whole numbers.
        flushes: before.growth(&begin, FLUSHES) as u64,
        compactions: before.growth(&begin, COMPACTIONS) as u64,
        is_disturbed,
    })
}

const FLUSHES: &str = "kvorum_store_flushes_total";
const COMPACTIONS: &str = "kvorum_store_compactions_total";

/// What has ended between two snapshots.
fn ended(before: &MetricsSnapshot, now: &MetricsSnapshot) -> Option<&'static str> {
    let flushed = now.growth(before, FLUSHES) > 0.0;
    let compacted = now.growth(before, COMPACTIONS) > 0.0;
    match (flushed, compacted) {
        (_, true) => Some("compaction"),
        (true, false) => Some("flush"),
        (false, false) => None,
    }
}

impl FlushCase {
    fn percentile_ms(&self, percentile: f64) -> Option<f64> {
        self.run.as_ref().ok()?.latency.percentile_ms(percentile)
    }

    /// The median of the p99 per second, over the disturbed seconds or over the
    /// others.
    fn median_p99_ms(&self, disturbed: bool) -> Option<f64> {
        let seconds = &self.run.as_ref().ok()?.timeline;
        let chosen = seconds
            .iter()
            .zip(&self.is_disturbed)
            .filter(|(_, is)| **is == disturbed);
        statistics::median(chosen.map(|(second, _)| second.p99_ms))
    }
}

fn describe(
    page: &mut Page,
    undisturbed: &FlushCase,
    disturbed: &FlushCase,
    profiles: &[(ProfileKind, Measured<FoldedProfile>)],
) {
    let cases = [("no flush", undisturbed), ("flushes", disturbed)];
    let mut table = MarkdownTable::new([
        "node",
        "requested",
        "achieved",
        "flushes",
        "compactions",
        "p50",
        "p99",
        "p99.9",
        "max",
    ]);
    for (name, case) in cases {
        let mut row = vec![name.to_owned()];
        if let Ok(run) = &case.run {
            row.extend([
                text::requested(run),
                units::rate(run.achieved()),
                units::count(case.flushes),
                units::count(case.compactions),
            ]);
            row.extend([50.0, 99.0, 99.9, 100.0].map(|p| text::latency(case.percentile_ms(p))));
        }
        table.row(row);
    }
    page.keep_table("measured", table);
    figures::failed_measurements(page, cases.map(|(name, case)| (name.to_owned(), &case.run)));
    for (file, (_, case)) in ["calm", "busy"].into_iter().zip(cases) {
        if let Ok(run) = &case.run {
            page.keep_chart(file, plot::timeline(&[run]));
        }
    }
    let runs: Vec<Run> = cases
        .into_iter()
        .filter_map(|(name, case)| {
            let run = case.run.as_ref().ok()?.clone();
            Some(Run {
                label: name.to_owned(),
                ..run
            })
        })
        .collect();
    let curves = plot::percentiles(&runs.iter().collect::<Vec<_>>());
    page.keep_chart("latency", curves);
    for (kind, profile) in profiles {
        let title = format!("PUT through flushes: {}", kind.title());
        figures::profile(page, &format!("put-{}", kind.name()), &title, profile);
    }

    for (name, is_busy) in [("p99 while busy", true), ("p99 while calm", false)] {
        page.keep_value(name, text::latency(disturbed.median_p99_ms(is_busy)));
    }
    page.data("runs", &[undisturbed, disturbed]);
}
