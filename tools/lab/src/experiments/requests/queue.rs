//! The numbers of threads and the lengths of queues.

use crate::context::ExperimentContext;
use crate::measure::profile::{self, FoldedProfile, ProfileKind};
use crate::measure::{self, CostedRun, Measured};
use crate::nodes::{ClusterLayout, LabCluster};
use crate::page::{MarkdownTable, Page, text};
use crate::sections::{self, Better, StudyComparison};
use crate::{Error, Experiment, PageText, statistics};
use load::plan::{Operation, Plan, Rate, SizeDistribution};
use load::report::plot::{Axis, Lines, Series, Style};
use load::report::units::{self, Unit};
use load::results::MachineInfo;
use serde::Serialize;

/// The study's p99 with its best thread pool, in milliseconds.
const STUDY_POOL_BEST_MS: f64 = 13.5;
/// The study's p99 with its worst pool, of 64 threads.
const STUDY_POOL_WORST_MS: f64 = 756.0;
/// The study's p99 with its best queue.
const STUDY_QUEUE_BEST_MS: f64 = 9.0;
/// The study's p99 with its worst queues, of 32 and 512 places.
const STUDY_QUEUE_WORST_MS: f64 = 3_600.0;

/// Threads that serve connections.
const THREADS: [&str; 6] = ["1", "2", "4", "8", "16", "64"];
/// The queue lengths, with few requests in flight.
const QUEUES: [&str; 6] = ["0", "32", "64", "128", "256", "512"];
/// The requests in flight then: fewer than connections.
const IN_FLIGHT: &str = "16";
/// The numbers of threads for reads from the disk.
const READ_THREADS: [&str; 5] = ["1", "2", "8", "32", "64"];

/// The most threads per core in the study: its machine had at least eight cores
/// and at most 64 threads.
const STUDY_THREADS_A_CORE: usize = 8;
/// The study's shortest queue.
const STUDY_QUEUE_LEAST: usize = 32;

/// The requested rate, as a share of the breaking point with defaults.
const SHARE: f64 = 0.7;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: PageText::Sentences {
        title: "Workers and queues",
        method: &[
            "The study's server handed each request through a queue to a pool of threads; both sizes \
         decided whether it kept up. Here the thread that reads a request also serves it; there is \
         one thread per core (`--threads`). Admission limits the requests that are processed \
         (`--requests-in-flight-max`) and those that wait (`--requests-queued-max`). Only a read \
         that misses the cache goes to a pool (`--read-threads`).",
            "`PUT` of 64-byte values with `--durability os` over 64 connections, at 70% of the \
         breaking point of a node with its defaults, on a new node for each row. For the queues \
         only 16 requests are processed at a time, so that the requests of 64 connections have to \
         queue. For the read pool the node has 128 MiB of memory and more than twice as much data, \
         and is read in a closed loop.",
        ],
    },
    name: "queue",
    question: "Which numbers of threads and which queue lengths collapse under load, and which \
               make no difference?",
    run,
};

/// The measurement of one size.
#[derive(Debug, Serialize)]
struct PoolSizeCase {
    size: &'static str,
    load: Measured<CostedRun>,
}

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    context.log("the defaults");
    let defaults = cluster(context, &[])?;
    let plan = measure::plan(context, &defaults, Operation::Put);
    let capacity = measure::capacity(context, &defaults, &plan)?.map_err(Error::Load)?;
    let plan = Plan {
        rate: measure::share_of(capacity.rate(), SHARE),
        seconds: context.effort().pick(0.5, 4.0, 15.0),
        ..plan
    };
    let profile = profile::under_load(context, &defaults.nodes[0], &plan, ProfileKind::Lock)?;
    drop(defaults);
    let sizes = |list: &[&'static str]| -> Vec<&'static str> {
        let first = context.effort().pick(2, list.len(), list.len());
        list.iter().copied().take(first).collect()
    };

    let mut threads = Vec::new();
    for size in sizes(&THREADS) {
        threads.push(row(context, &plan, size, &["--threads", size])?);
    }
    let mut queues = Vec::new();
    for size in sizes(&QUEUES) {
        let options = [
            "--requests-in-flight-max",
            IN_FLIGHT,
            "--requests-queued-max",
            size,
        ];
        queues.push(row(context, &plan, size, &options)?);
    }
    let reads = reads(context, &sizes(&READ_THREADS))?;
    describe(
        page,
        &threads,
        &queues,
        &reads,
        &profile,
        MachineInfo::read().cores,
    );
    Ok(())
}

fn cluster(context: &ExperimentContext<'_>, options: &[&str]) -> Result<LabCluster, Error> {
    LabCluster::start(
        context,
        ClusterLayout {
            nodes: 1,
            memory: "1GiB",
            options: &[&["--durability", "os"], options].concat(),
        },
    )
}

fn row(
    context: &ExperimentContext<'_>,
    plan: &Plan,
    size: &'static str,
    options: &[&str],
) -> Result<PoolSizeCase, Error> {
    context.log(&options.join(" "));
    let cluster = cluster(context, options)?;
    let plan = Plan {
        targets: cluster.targets(),
        ..plan.clone()
    };
    let load = measure::run(context, &cluster, &plan)?;
    Ok(PoolSizeCase { size, load })
}

/// Measures reads of a node whose data does not fit into its cache, over
/// numbers of read threads.
fn reads(
    context: &ExperimentContext<'_>,
    sizes: &[&'static str],
) -> Result<Vec<PoolSizeCase>, Error> {
    let mut cluster = LabCluster::start(
        context,
        ClusterLayout {
            nodes: 1,
            memory: "128MiB",
            options: &["--durability", "os"],
        },
    )?;
    let plan = Plan {
        keys: context.effort().pick(1_000, 300_000, 300_000),
        value_bytes: SizeDistribution::Fixed(1024),
        rate: Rate::Max,
        seconds: context.effort().pick(0.5, 4.0, 15.0),
        ..measure::plan(context, &cluster, Operation::Get)
    };
    measure::fill(context, &plan)?;
    let mut rows = Vec::new();
    for size in sizes {
        context.log(&format!("--read-threads {size}"));
        let node = &mut cluster.nodes[0];
        node.stop(context)?;
        node.set_option("--read-threads", size);
        node.start()?;
        node.wait_until_up(context)?;
        let load = measure::run(context, &cluster, &plan)?;
        rows.push(PoolSizeCase { size, load });
    }
    Ok(rows)
}

fn describe(
    page: &mut Page,
    threads: &[PoolSizeCase],
    queues: &[PoolSizeCase],
    reads: &[PoolSizeCase],
    profile: &Measured<FoldedProfile>,
    cores: usize,
) {
    page.section("Threads that serve connections");
    rows(page, "threads", threads);
    page.section("Queue length");
    page.paragraph(&format!(
        "At most {IN_FLIGHT} requests of 64 connections are processed at a time."
    ));
    rows(page, "length", queues);
    page.section("Threads that read from the disk");
    rows(page, "read threads", reads);

    let x = Axis::logarithmic("threads or queue length", Unit::Count);
    let y = Axis::logarithmic("p99", Unit::Milliseconds);
    let mut lines = Lines::new("p99 by the sizes of pools and queues", x, y);
    for (name, list) in [
        ("threads", threads),
        ("queue length", queues),
        ("read threads", reads),
    ] {
        let points = list.iter().filter_map(|row| {
            let size: f64 = row.size.parse().ok()?;
            Some((size, row.p99_ms()?))
        });
        lines = lines.with(Series::new(name, points).style(Style::Dotted));
    }
    page.figure(
        "sizes",
        "p99 by the sizes of pools and queues",
        lines.draw(),
    );

    page.section("Waits");
    sections::profile(
        page,
        "put-lock",
        "PUT with the defaults: time waited",
        profile,
    );

    page.section("What it shows");
    page.list(findings(threads, queues, reads, cores));
    let rows = [
        (
            "number of threads, up to 8 per core",
            threads_like_study(threads, cores),
            STUDY_POOL_WORST_MS,
            STUDY_POOL_BEST_MS,
        ),
        (
            "queue length from 32 to 512",
            queues_like_study(queues),
            STUDY_QUEUE_WORST_MS,
            STUDY_QUEUE_BEST_MS,
        ),
    ];
    let rows = rows.map(|(what, list, worst, best)| {
        let (our_worst, our_best) = (extreme(list, f64::max), extreme(list, f64::min));
        StudyComparison {
            what: format!("p99 with the worst {what}, over the best"),
            study: format!("{} / {}", units::latency(worst), units::latency(best)),
            study_ratio: worst / best,
            ours: format!("{} / {}", text::latency(our_worst), text::latency(our_best)),
            our_ratio: statistics::ratio(our_worst, our_best),
            better: Better::Smaller,
        }
    });
    sections::compare_with_study(page, &rows);
    page.data("threads", &threads);
    page.data("queues", &queues);
    page.data("reads", &reads);
}

impl PoolSizeCase {
    fn number(&self) -> usize {
        self.size.parse().unwrap_or(0)
    }

    fn p99_ms(&self) -> Option<f64> {
        self.load.as_ref().ok()?.latency_ms(99.0)
    }

    fn rate(&self) -> Option<f64> {
        Some(self.load.as_ref().ok()?.rate())
    }

    fn refused(&self) -> u64 {
        let failed = self.load.as_ref().ok().map(|load| &load.run.failed);
        failed
            .and_then(|failed| failed.get("503").copied())
            .unwrap_or(0)
    }
}

fn rows(page: &mut Page, first: &str, list: &[PoolSizeCase]) {
    let head = [first, "requested", "achieved", "refused", "CPU per request"];
    let mut table = MarkdownTable::new(head.into_iter().chain(sections::LATENCY_HEAD));
    for row in list {
        let mut cells = vec![row.size.to_owned()];
        if let Ok(load) = &row.load {
            cells.extend([
                text::requested(&load.run),
                units::rate(load.rate()),
                units::count(row.refused()),
                text::cpu(load.cpu_us),
            ]);
        }
        cells.resize(head.len(), units::NONE.to_owned());
        table.row(cells.into_iter().chain(sections::latency_cells(&row.load)));
    }
    page.table(&table);
    let named = list
        .iter()
        .map(|row| (format!("{first} {}", row.size), &row.load));
    sections::failed_measurements(page, named);
}

/// The cases with at most as many threads per core as in the study.
fn threads_like_study(threads: &[PoolSizeCase], cores: usize) -> &[PoolSizeCase] {
    let most = cores * STUDY_THREADS_A_CORE;
    &threads[..threads.partition_point(|row| row.number() <= most)]
}

/// The cases with at least as long queues as in the study.
fn queues_like_study(queues: &[PoolSizeCase]) -> &[PoolSizeCase] {
    &queues[queues.partition_point(|row| row.number() < STUDY_QUEUE_LEAST)..]
}

/// The greatest or the smallest p99 of the cases.
fn extreme(list: &[PoolSizeCase], of: fn(f64, f64) -> f64) -> Option<f64> {
    list.iter().filter_map(PoolSizeCase::p99_ms).reduce(of)
}

fn findings(
    threads: &[PoolSizeCase],
    queues: &[PoolSizeCase],
    reads: &[PoolSizeCase],
    cores: usize,
) -> Vec<String> {
    let mut found = Vec::new();
    for (what, list, why) in [
        (
            "numbers of threads that serve connections, up to eight per core,",
            threads_like_study(threads, cores),
            "A thread serves its own connections and hands nothing over, so threads beyond the \
             number of cores only take turns.",
        ),
        (
            "queue lengths from 32 on,",
            queues_like_study(queues),
            "A request beyond the queue is answered 503 at once, and a queued one does not wait \
             for a thread to wake up, so the wait is only as long as the work in front of it.",
        ),
    ] {
        let (worst, best) = (extreme(list, f64::max), extreme(list, f64::min));
        if let Some(times) = statistics::ratio(worst, best) {
            let least = list.iter().filter_map(PoolSizeCase::rate).reduce(f64::min);
            let most = list.iter().filter_map(PoolSizeCase::rate).reduce(f64::max);
            let kept = statistics::ratio(least, most).unwrap_or(0.0);
            found.push(format!(
                "Among the {what} the worst has {} times the p99 of the best, and all achieve at \
                 least {} of the best rate. {}",
                text::ratio(times),
                text::percent(kept),
                if times < 5.0 && kept > 0.95 {
                    why
                } else {
                    "So the number matters."
                }
            ));
        }
    }
    if let Some(most) = threads.last()
        && most.number()
            > threads_like_study(threads, cores)
                .last()
                .map_or(0, PoolSizeCase::number)
        && let Some(times) = statistics::ratio(most.p99_ms(), extreme(threads, f64::min))
    {
        found.push(format!(
            "{} threads have {} times the p99 of the best: with one connection per thread, nearly \
             every request costs a wake-up and a context switch.",
            most.size,
            text::ratio(times),
        ));
    }
    let refused: u64 = queues.iter().map(PoolSizeCase::refused).sum();
    found.push(match refused {
        0 => "No queue was too short for this load: no request was refused.".to_owned(),
        some => format!(
            "{} requests were refused, most of them with a queue length of {}.",
            units::count(some),
            queues
                .iter()
                .max_by_key(|row| row.refused())
                .map_or("no", |row| row.size)
        ),
    });
    let rate = |size: &str| reads.iter().find(|row| row.size == size)?.rate();
    if let (Some(first), Some(last)) = (reads.first(), reads.last())
        && let Some(times) = statistics::ratio(rate(last.size), rate(first.size))
    {
        found.push(format!(
            "{} read threads achieve {} times the rate of {}.",
            last.size,
            text::ratio(times),
            first.size
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_contains, load, page_text};

    fn rows(figures: &[(&'static str, u64, f64)]) -> Vec<PoolSizeCase> {
        let rows = figures
            .iter()
            .map(|(size, succeeded, p99_ms)| PoolSizeCase {
                size,
                load: Ok(load(*succeeded, *p99_ms, 10.0)),
            });
        rows.collect()
    }

    fn no_profile() -> Measured<FoldedProfile> {
        Err("none was asked for".to_owned())
    }

    #[test]
    fn sizes_that_collapse_are_reported_as_such() {
        let alike = rows(&[("1", 1_000, 2.0), ("64", 990, 3.0)]);
        let mut collapsed = rows(&[("0", 200, 95.0), ("32", 300, 90.0), ("64", 1_000, 3.0)]);
        if let Ok(load) = &mut collapsed[0].load {
            load.run.failed.insert("503".to_owned(), 800);
        }
        let reads = rows(&[("1", 100, 9.0), ("8", 400, 2.0)]);
        assert_contains(
            &page_text(|page| describe(page, &alike, &collapsed, &reads, &no_profile(), 8)),
            &[
                "numbers of threads that serve connections, up to eight per core, the worst has \
                 1.50 times the p99 of the best, and all achieve at least 99% of the best rate. A \
                 thread serves",
                "queue lengths from 32 on, the worst has 30.0 times the p99 of the best, and \
                 all achieve at least 30% of the best rate. So the number matters.",
                "800 requests were refused, most of them with a queue length of 0.",
                "8 read threads achieve 4.00 times the rate of 1.",
                "90.0 ms / 3.00 ms",
            ],
        );
        assert_contains(
            &page_text(|page| describe(page, &alike, &alike, &[], &no_profile(), 1)),
            &[
                "64 threads have 1.50 times the p99 of the best",
                "no request was refused",
            ],
        );
    }
}
