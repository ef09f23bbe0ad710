//! The numbers of threads and the lengths of queues.

use crate::context::ExperimentContext;
use crate::figures::{self, LATENCIES, RATES};
use crate::measure;
use crate::measure::matrix::{self, Before, Case, Done, Load, Setup, share};
use crate::measure::profile::ProfileKind;
use crate::page::Page;
use crate::{Error, Experiment};
use load::plan::{Operation, Plan, SizeDistribution};
use load::report::plot::Axis;
use load::report::units::{self, Unit};

/// Threads that serve connections.
const THREADS: [&str; 6] = ["1", "2", "4", "8", "16", "64"];
/// The queue lengths, with few requests in flight.
const QUEUES: [&str; 6] = ["0", "32", "64", "128", "256", "512"];
/// The requests in flight then: fewer than connections.
const IN_FLIGHT: &str = "16";
/// The numbers of threads for reads from the disk.
const READ_THREADS: [&str; 5] = ["1", "2", "8", "32", "64"];

/// The most threads per core for the earlier store: its machine had at least eight cores
/// and at most 64 threads.
const EARLIER_THREADS_A_CORE: usize = 8;
/// The earlier store's shortest queue.
const EARLIER_QUEUE_LEAST: usize = 32;

/// The requested rate, as a share of the breaking point with defaults.
const SHARE: f64 = 0.7;
const DEFAULTS: &str = "the defaults";

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: include_str!("queue.md"),
    name: "queue",
    run,
};

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let searched = measure::plan(context, Operation::Put);
    let plan = Plan {
        seconds: context.effort().pick(0.5, 4.0, 15.0),
        ..searched.clone()
    };
    let rate = || share(SHARE, DEFAULTS, Done::breaking_point);
    let sizes = |all: &'static [&'static str]| {
        let first = context.effort().pick(2, all.len(), all.len());
        all.iter().copied().take(first)
    };
    let node = |options: &[&'static str], cases: Vec<Case<'static>>| Setup {
        cases,
        ..Setup::of(1, "1GiB", &[&["--durability", "os"], options].concat())
    };
    let one = |series, size| vec![Case::new(size, plan.clone(), Load::At(rate())).at(series, size)];
    let waits = Case::profile(
        "put-wait",
        "PUT with the defaults",
        plan.clone(),
        ProfileKind::Wait,
        Some(rate()),
    );
    let defaults = Case::new(DEFAULTS, searched, Load::BreakingPoint);
    let mut setups = vec![node(&[], vec![defaults, waits])];
    setups.extend(sizes(&THREADS).map(|size| node(&["--threads", size], one("threads", size))));
    setups.extend(sizes(&QUEUES).map(|size| {
        let options = [
            "--requests-in-flight-max",
            IN_FLIGHT,
            "--requests-queued-max",
            size,
        ];
        node(&options, one("queue length", size))
    }));
    // Its data does not fit into its cache.
    let read = Plan {
        keys: context.effort().pick(1_000, 300_000, 300_000),
        value_bytes: SizeDistribution::Fixed(1024),
        ..measure::with(&plan, Operation::Get)
    };
    let reads = sizes(&READ_THREADS).map(|size| Case {
        before: Before::Restart(Some(("--read-threads", size))),
        ..Case::new(size, read.clone(), Load::Closed).at("read threads", size)
    });
    setups.push(Setup {
        cases: reads.collect(),
        fill: Some(read.clone()),
        ..Setup::of(1, "128MiB", &["--durability", "os"])
    });
    let done = matrix::run(context, setups)?;
    describe(page, &done, context.cores());
    Ok(())
}

fn describe(page: &mut Page, done: &[Done], cores: usize) {
    let of = |series: &'static str| done.iter().filter(move |done| done.at.0 == series);
    for (name, first, series) in [
        ("threads", "threads", "threads"),
        ("queues", "length", "queue length"),
        ("reads", "read threads", "read threads"),
    ] {
        figures::table(page, name, &[first], &[RATES, LATENCIES], of(series));
    }
    let axes = (
        Axis::logarithmic("threads or queue length", Unit::Count),
        Axis::logarithmic("p99", Unit::Milliseconds),
    );
    let title = "p99 by the sizes of pools and queues";
    let sized = done.iter().filter(|done| !done.at.0.is_empty());
    let p99 = |done: &Done| done.latency_ms(99.0);
    page.keep_chart("sizes", figures::lines(title, axes, sized, p99));
    figures::profiles(page, done);

    // Beside the earlier store's, only sizes that it was measured with count.
    let size = |done: &Done| done.at.1.parse().unwrap_or(0);
    let threads = of("threads").filter(|done| size(done) <= cores * EARLIER_THREADS_A_CORE);
    let queues = of("queue length").filter(|done| size(done) >= EARLIER_QUEUE_LEAST);
    for (name, rows) in [
        ("threads", threads.collect::<Vec<_>>()),
        ("queues", queues.collect()),
    ] {
        let extreme = |of: fn(&Done) -> f64, most: fn(f64, f64) -> f64| {
            rows.iter()
                .map(|done| of(done))
                .reduce(most)
                .unwrap_or(f64::NAN)
        };
        for (what, value) in [
            ("worst p99", units::latency(extreme(p99, f64::max))),
            ("best p99", units::latency(extreme(p99, f64::min))),
            ("least rate", units::rate(extreme(Done::rate, f64::min))),
            ("greatest rate", units::rate(extreme(Done::rate, f64::max))),
        ] {
            page.keep_value(format!("{name}: {what}"), value);
        }
    }
    page.data("runs", &done);
}
