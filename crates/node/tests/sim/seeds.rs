//! The tests: many seeds, and that a seed says everything.

use crate::weather::Season;
use crate::world::{self, Report};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How many seeds run when nobody says otherwise.
const SEEDS: u64 = 200;

/// How many seeds that fail are told of in full, the others in a line.
const FAILURES_TOLD: usize = 3;

/// No more seeds are begun once so many have failed.
const FAILURES_MAX: usize = 10;

/// The seeds to run: as the environment says, or the usual ones.
fn seeds() -> Range<u64> {
    let number = |name| {
        let text = std::env::var(name).ok()?;
        let number = text.parse::<u64>();
        Some(number.unwrap_or_else(|_| panic!("{name} is no number: {text}")))
    };
    match (number("KVORUM_SEED"), number("KVORUM_SEEDS")) {
        (None, None) => 0..SEEDS,
        (Some(seed), None) => seed..seed + 1,
        (first, Some(seeds)) => {
            let first = first.unwrap_or(0);
            first..first + seeds
        }
    }
}

/// Runs worlds on as many threads as there are cores; each world has its own thread.
fn run_all(seeds: Range<u64>) -> BTreeMap<u64, Report> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(seeds.start);
    let failed = AtomicUsize::new(0);
    let reports = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || failed.load(Ordering::Relaxed) >= FAILURES_MAX {
                        return;
                    }
                    let report = world::run(seed);
                    failed.fetch_add(usize::from(report.failure.is_some()), Ordering::Relaxed);
                    reports.lock().unwrap().insert(seed, report);
                }
            });
        }
    });
    reports.into_inner().unwrap()
}

#[test]
fn every_promise_is_kept_whatever_breaks() {
    let reports = run_all(seeds());
    let told = reports
        .values()
        .filter_map(|report| Some((report, report.failure.as_ref()?)));
    for (report, failure) in told.take(FAILURES_TOLD) {
        println!("{}\n{failure}\n", report.trace.join("\n"));
    }
    let mut passed = reports.values().filter(|report| report.failure.is_none());
    if let (Some(report), 1) = (passed.next(), reports.len()) {
        println!("{}", report.trace.join("\n"));
    }
    let headlines = reports.iter().filter_map(|(seed, report)| {
        let headline = report.headline.as_ref()?;
        Some(format!("seed {seed}, {:?}: {headline}", report.season))
    });
    for headline in headlines {
        println!("{headline}");
    }
    let failed: Vec<u64> = reports
        .iter()
        .filter(|(_, report)| report.failure.is_some())
        .map(|(seed, _)| *seed)
        .collect();
    let sum = |of: fn(&Report) -> usize| reports.values().map(of).sum::<usize>();
    let (answered, not_enough) = (sum(|each| each.answered), sum(|each| each.not_enough));
    let of = |season| {
        reports
            .values()
            .filter(move |each| each.season == season)
            .count()
    };
    let (judged, undecided) = (
        sum(|each| each.keys_judged),
        sum(|each| each.keys_undecided),
    );
    println!(
        "{} calm worlds, {judged} keys judged and {undecided} given up; {} worlds with one away",
        of(Season::Calm),
        of(Season::OneAway),
    );
    println!(
        "{} seeds, {answered} operations answered, {not_enough} without enough replicas, {} lines",
        reports.len(),
        reports.values().map(|each| each.trace_lines).sum::<u64>()
    );
    assert!(failed.is_empty(), "seeds that fail: {failed:?}");
    // A world in which nothing works, or nothing breaks, proves nothing.
    if reports.len() >= 100 {
        assert!(answered > 50 * reports.len());
        assert!(not_enough > reports.len());
        assert!(undecided * 20 <= judged, "too many keys are given up");
    }
}

#[test]
fn a_seed_gives_the_same_trace() {
    for seed in [1, 2, 3] {
        let (one, other) = (world::run(seed), world::run(seed));
        assert!(one.trace_lines > 100);
        assert_eq!(
            (one.trace_lines, one.trace_hash),
            (other.trace_lines, other.trace_hash),
            "seed {seed}"
        );
    }
    assert_ne!(world::run(1).trace_hash, world::run(2).trace_hash);
}
