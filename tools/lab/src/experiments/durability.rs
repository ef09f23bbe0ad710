//! The cost of syncing before a write is acknowledged.

use crate::context::ExperimentContext;
use crate::measure::{self, Capacity, CostedRun, Measured};
use crate::nodes::{ClusterLayout, LabCluster};
use crate::page::{MarkdownTable, Page, text};
use crate::profile::{self, FoldedProfile, ProfileKind};
use crate::sections;
use crate::{Error, Experiment, statistics};
use load::plan::{Operation, Plan, Rate};
use load::report::plot;
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

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "durability",
    title: "Durability",
    question: "How much does it cost to put a write on stable storage before it is acknowledged?",
    method: &[
        "Three independent nodes, one for each mode. `sync` acknowledges a write once it is \
         synced, `interval=100ms` immediately, with a sync within 100 ms, and `os` immediately, \
         leaving the sync to the operating system. `PUT` of 64-byte values over 100,000 keys.",
        "Each node is saturated and searched for its breaking point over 64 connections. Then all \
         get the same rate, half of the lowest breaking point, so that their latencies can be \
         compared. Finally a single connection waits for each response, so that no two writes can \
         share a sync.",
    ],
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
    page.section("Measured");
    page.paragraph(&format!(
        "A sync of 4 KiB on the idle disk takes {} at the median.",
        text::latency(Some(sync_ms))
    ));
    let mut table = sections::capacity_table("durability");
    for case in cases {
        table.row(sections::capacity_row(case.mode, &case.capacity));
    }
    page.table(&table);
    let named = |case: &DurabilityCase| case.mode.to_owned();
    sections::failed_measurements(page, cases.iter().map(|case| (named(case), &case.capacity)));
    let axis = Axis::linear("requests", Unit::PerSecond);
    let bars = Bars::new("PUT", cases.iter().map(named), axis);
    let bars = bars.with(
        "breaking point",
        cases.iter().map(|case| case.rate().unwrap_or(f64::NAN)),
    );
    let bars = bars.with(
        "closed loop",
        cases.iter().map(|case| {
            let capacity = case.capacity.as_ref();
            capacity.map_or(f64::NAN, |capacity| capacity.saturated.rate())
        }),
    );
    page.figure(
        "rates",
        "Breaking point and closed loop of each mode",
        bars.draw(),
    );

    page.subsection("At the same rate");
    let mut table = MarkdownTable::new(
        ["durability", "rate"]
            .into_iter()
            .chain(sections::LATENCY_HEAD),
    );
    for case in cases {
        let rate = case.even.as_ref().ok().map(CostedRun::rate);
        let head = [named(case), text::rate(rate)];
        table.row(head.into_iter().chain(sections::latency_cells(&case.even)));
    }
    page.table(&table);
    let runs = sections::labelled(cases.iter().map(|case| (named(case), &case.even)));
    let curves = plot::percentiles(&runs.iter().collect::<Vec<_>>());
    page.figure("latency", "Latency at the same rate, by percentile", curves);

    page.subsection("One connection, one request at a time");
    let mut table = MarkdownTable::new(
        ["durability", "rate"]
            .into_iter()
            .chain(sections::LATENCY_HEAD),
    );
    for case in cases {
        let rate = case.alone.as_ref().ok().map(CostedRun::rate);
        let head = [named(case), text::rate(rate)];
        table.row(head.into_iter().chain(sections::latency_cells(&case.alone)));
    }
    page.table(&table);

    page.section("Where the time goes");
    for (kind, profile) in profiles {
        let title = format!("PUT with sync: {}", kind.title());
        sections::profile(page, &format!("put-{}", kind.name()), &title, profile);
    }

    page.section("What it shows");
    page.list(findings(cases));
    page.paragraph("The studies have no such figures.");
    page.data("runs", &cases);
}

impl DurabilityCase {
    fn rate(&self) -> Option<f64> {
        self.capacity.as_ref().ok()?.search.rate
    }

    fn cpu_us(&self) -> Option<f64> {
        self.capacity.as_ref().ok()?.saturated.cpu_us
    }
}

fn findings(cases: &[DurabilityCase]) -> Vec<String> {
    let mut found = Vec::new();
    let Some(os) = cases.iter().find(|case| case.mode == "os") else {
        return found;
    };
    for case in cases.iter().filter(|case| case.mode != "os") {
        if let Some(share) = statistics::ratio(case.rate(), os.rate()) {
            found.push(format!(
                "Over 64 connections the breaking point of `{}` is {} of that of `os`{}.",
                case.mode,
                text::percent(share),
                sections::for_times_the_cpu(statistics::ratio(case.cpu_us(), os.cpu_us()))
            ));
        }
    }
    let p50 = |mode: &str, load: fn(&DurabilityCase) -> &Measured<CostedRun>| {
        let case = cases.iter().find(|case| case.mode == mode)?;
        load(case).as_ref().ok()?.latency_ms(50.0)
    };
    let (one, many) = (
        p50("sync", |case| &case.alone),
        p50("sync", |case| &case.even),
    );
    if let (Some(one), Some(many)) = (one, many) {
        found.push(format!(
            "With `sync` a single writer waits {} at the median, and one of 64 writers at the \
             same rate for all modes waits {}: writers that wait at the same time share one sync.",
            text::latency(Some(one)),
            text::latency(Some(many))
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_contains, capacity, load, page_text};

    #[test]
    fn modes_are_compared_with_os() {
        let case = |mode, rate, cpu_us| DurabilityCase {
            mode,
            capacity: Ok(capacity(rate, cpu_us)),
            even: Ok(load(500, 4.0, cpu_us)),
            alone: Ok(load(50, 8.0, cpu_us)),
        };
        let mut cases = vec![
            case("sync", 8_000.0, 15.0),
            case("interval=100ms", 9_500.0, 11.0),
            case("os", 10_000.0, 10.0),
        ];
        assert_contains(
            &page_text(|page| describe(page, 0.12, &cases, &[])),
            &[
                "A sync of 4 KiB on the idle disk takes 120 us at the median.",
                "the breaking point of `sync` is 80% of that of `os`, for 1.50 times the CPU time per request.",
                "`interval=100ms` is 95% of that of `os`",
                "a single writer waits 1.00 ms",
            ],
        );
        cases[2].capacity = Err("gone".to_owned());
        let page = page_text(|page| describe(page, 0.12, &cases, &[]));
        assert_contains(&page, &["- os: gone"]);
        assert!(!page.contains("of that of `os`"), "{page}");
    }
}
