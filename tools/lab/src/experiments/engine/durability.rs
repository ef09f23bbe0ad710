//! The cost of syncing before a write is acknowledged.

use crate::context::ExperimentContext;
use crate::figures::{self, CAPACITY, LATENCIES, RATE};
use crate::measure;
use crate::measure::matrix::{self, Case, Done, Load, RateOf, Setup};
use crate::measure::profile::ProfileKind;
use crate::page::{Page, text};
use crate::{Error, Experiment, statistics};
use load::plan::{Operation, Plan};
use load::report::plot::{Axis, Bars};
use load::report::units::Unit;
use std::io::Write as _;
use std::time::Instant;

/// The modes, as `--durability` takes them.
const MODES: [&str; 3] = ["sync", "interval=100ms", "os"];

/// How often the idle disk is synced.
const SYNCS: usize = 200;
/// How many bytes are written before each sync.
const SYNC_BYTES: usize = 4096;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: include_str!("durability.md"),
    name: "durability",
    run,
};

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let sync_ms = idle_sync_ms()?;
    let plan = measure::plan(context, Operation::Put);
    let one_connection = Plan {
        connections: 1,
        ..plan.clone()
    };
    let longer = Plan {
        seconds: context.effort().pick(0.5, 8.0, 30.0),
        ..plan.clone()
    };
    let node = |mode, cases| Setup {
        cases,
        ..Setup::of(1, "1GiB", &["--durability", mode])
    };
    let searched = MODES.map(|mode| {
        let cases = vec![
            Case::new(mode, plan.clone(), Load::BreakingPoint).at("capacity", mode),
            Case::new(mode, one_connection.clone(), Load::Closed).at("alone", mode),
        ];
        node(mode, cases)
    });
    // The same rate for all: half of the least breaking point.
    let rate = || -> RateOf<'_> {
        Box::new(|done| {
            let rates = done.iter().map(Done::breaking_point);
            rates.fold(f64::NAN, f64::min) / 2.0
        })
    };
    let even = MODES.map(|mode| {
        let load = Load::At(rate());
        let mut cases = vec![Case::new(mode, longer.clone(), load).at("even", mode)];
        if mode == "sync" {
            for kind in [ProfileKind::Cpu, ProfileKind::Wait] {
                let file = format!("put-{}", kind.name());
                let plan = longer.clone();
                cases.push(Case::profile(
                    file,
                    "PUT with sync",
                    plan,
                    kind,
                    Some(rate()),
                ));
            }
        }
        node(mode, cases)
    });
    let done = matrix::run(context, searched.into_iter().chain(even))?;
    page.keep_value("idle sync", text::latency(Some(sync_ms)));
    describe(page, &done);
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

fn describe(page: &mut Page, done: &[Done]) {
    let of = |series: &'static str| done.iter().filter(move |done| done.at.0 == series);
    let first = ["durability"];
    figures::table(page, "measured", &first, &[CAPACITY], of("capacity"));
    for (name, series) in [("at-the-same-rate", "even"), ("one-connection", "alone")] {
        figures::table(page, name, &first, &[&[RATE], LATENCIES], of(series));
    }
    page.keep_chart("latency", figures::percentiles(of("even")));
    let axis = Axis::linear("requests", Unit::PerSecond);
    let bars = Bars::new("What each mode holds", MODES.map(str::to_owned), axis)
        .with("breaking point", of("capacity").map(Done::breaking_point))
        .with("closed loop", of("capacity").map(Done::rate));
    page.keep_chart("rates", bars.draw());
    figures::profiles(page, done);
    page.data("runs", &done);
}
