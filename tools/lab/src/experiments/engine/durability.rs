//! The cost of syncing before a write is acknowledged.

use crate::context::ExperimentContext;
use crate::measure::profile::{self, FoldedProfile, ProfileKind};
use crate::measure::{self, Capacity, CostedRun, Measured};
use crate::nodes::{ClusterLayout, LabCluster};
use crate::page::{Page, text};
use crate::sections;
use crate::{Error, Experiment, PageText, statistics};
use load::plan::{Operation, Plan, Rate};
use load::report::plot::{Axis, Bars};
use load::report::units::Unit;
use serde::Serialize;
use std::io::Write as _;
use std::time::Instant;

/// The modes, as `--durability` takes them.
const MODES: [&str; 3] = ["sync", "interval=100ms", "os"];

/// How often the idle disk is synced.
const SYNCS: usize = 200;
/// How many bytes are written before each sync.
const SYNC_BYTES: usize = 4096;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: PageText::Template(include_str!("durability.md")),
    name: "durability",
    question: "How much does it cost to put a write on stable storage before it is acknowledged?",
    run,
};

/// The measurements of a mode.
#[derive(Debug, Serialize)]
struct DurabilityCase {
    mode: &'static str,
    capacity: Measured<Capacity>,
    /// At the same rate for all modes.
    even: Measured<CostedRun>,
    /// Over one connection, in a closed loop.
    alone: Measured<CostedRun>,
}

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let sync_ms = idle_sync_ms()?;
    let mut clusters = Vec::new();
    let mut capacities = Vec::new();
    for mode in MODES {
        context.log(mode);
        let options = ["--durability", mode];
        let cluster = LabCluster::start(
            context,
            ClusterLayout {
                nodes: 1,
                memory: "1GiB",
                options: &options,
            },
        )?;
        let plan = measure::plan(context, &cluster, Operation::Put);
        capacities.push(measure::capacity(context, &cluster, &plan)?);
        clusters.push((mode, cluster, plan));
    }
    let rates = capacities.iter().flatten().map(Capacity::rate);
    let least = rates.fold(f64::INFINITY, f64::min);
    let rate = if least.is_finite() { least / 2.0 } else { 0.0 };
    let mut cases = Vec::new();
    let mut profiles = Vec::new();
    for ((mode, cluster, plan), capacity) in clusters.iter().zip(capacities) {
        context.log(&format!(
            "{mode} at the common rate, and over one connection"
        ));
        let even = Plan {
            rate: Rate::PerSecond(rate.max(1.0)),
            seconds: context.effort().pick(0.5, 8.0, 30.0),
            ..plan.clone()
        };
        let alone = Plan {
            connections: 1,
            ..plan.clone()
        };
        cases.push(DurabilityCase {
            mode,
            capacity,
            even: measure::run(context, cluster, &even)?,
            alone: measure::run(context, cluster, &alone)?,
        });
        if *mode == "sync" {
            for kind in [ProfileKind::Cpu, ProfileKind::Lock] {
                let node = &cluster.nodes[0];
                profiles.push((kind, profile::under_load(context, node, &even, kind)?));
            }
        }
    }
    describe(page, sync_ms, &cases, &profiles);
    Ok(())
}

/// The median time of a sync of 4 KiB on the idle disk, in milliseconds.
fn idle_sync_ms() -> Result<f64, Error> {
    let mut file = tempfile::tempfile().map_err(Error::system("a temporary file"))?;
    let mut times = Vec::new();
    for _ in 0..SYNCS {
        file.write_all(&[1; SYNC_BYTES])
            .map_err(Error::system("write to a temporary file"))?;
        let begin = Instant::now();
        file.sync_data()
            .map_err(Error::system("sync a temporary file"))?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    Ok(statistics::median(times).unwrap_or(0.0))
}

fn describe(
    page: &mut Page,
    sync_ms: f64,
    cases: &[DurabilityCase],
    profiles: &[(ProfileKind, Measured<FoldedProfile>)],
) {
    page.keep_value("idle sync", text::latency(Some(sync_ms)));
    let each = |load: fn(&DurabilityCase) -> &Measured<CostedRun>| {
        cases
            .iter()
            .map(move |case| (case.mode.to_owned(), load(case)))
    };
    sections::capacities(
        page,
        "durability",
        cases
            .iter()
            .map(|case| (case.mode.to_owned(), &case.capacity)),
    );
    sections::latencies(
        page,
        "at-the-same-rate",
        "durability",
        each(|case| &case.even),
    );
    sections::latencies(
        page,
        "one-connection",
        "durability",
        each(|case| &case.alone),
    );
    page.keep_chart("latency", sections::percentiles(each(|case| &case.even)));
    let rates = |rate: fn(&Capacity) -> f64| {
        cases
            .iter()
            .map(move |case| case.capacity.as_ref().map_or(f64::NAN, rate))
    };
    let axis = Axis::linear("requests", Unit::PerSecond);
    let bars = Bars::new(
        "What each mode holds",
        cases.iter().map(|case| case.mode),
        axis,
    )
    .with("breaking point", rates(Capacity::rate))
    .with("closed loop", rates(|capacity| capacity.saturated.rate()));
    page.keep_chart("rates", bars.draw());
    for (kind, profile) in profiles {
        let title = format!("PUT with sync: {}", kind.title());
        sections::profile(page, &format!("put-{}", kind.name()), &title, profile);
    }
    page.data("runs", &cases);
}
