//! The tests of the simulation: many seeds, and that a seed determines its trace.

use crate::scenario::ScenarioKind;
use crate::world::{self, Report};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many seeds run by default.
const SEEDS: u64 = 200;

/// Seeds that run by default as well, because each has found what no other test found then: a
/// node that gains keys refuses what lies below the GC threshold (3195), a repair session whose
/// coordinator has left the cluster keeps others waiting (3211, 3482), so does one that a store begins
/// while its list of members changes (5764), a read counts a replica that was silent when it was
/// repaired (5818), a store waits for the word of a member that has left (6772), and a promise that
/// cannot be settled keeps a repair out of one of two nodes (7189).
const FOUND: [u64; 7] = [3195, 3211, 3482, 5764, 5818, 6772, 7189];

/// How many failures are printed in full. The others are printed as a line.
const FAILURES_SHOWN: usize = 3;

/// After this many failures no more seeds are started.
const FAILURES_MAX: usize = 10;

/// The seeds to run: from the environment, or the default ones.
fn seeds() -> Vec<u64> {
    let number = |name| {
        let text = std::env::var(name).ok()?;
        let number = text.parse::<u64>();
        Some(number.unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
    };
    match (number("KVORUM_SEED"), number("KVORUM_SEEDS")) {
        (None, None) => (0..SEEDS).chain(FOUND).collect(),
        (Some(seed), None) => vec![seed],
        (first, Some(seeds)) => {
            let first = first.unwrap_or(0);
            (first..first + seeds).collect()
        }
    }
}

/// Runs worlds on as many threads as there are cores, each world on one thread.
fn run_all(seeds: &[u64]) -> BTreeMap<u64, Report> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let failed = AtomicUsize::new(0);
    let reports = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)).copied()
                    else {
                        return;
                    };
                    if failed.load(Ordering::Relaxed) >= FAILURES_MAX {
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
fn every_promise_is_kept_whatever_fails() {
    let reports = run_all(&seeds());
    let failures = reports
        .values()
        .filter_map(|report| Some((report, report.failure.as_ref()?)));
    for (report, failure) in failures.take(FAILURES_SHOWN) {
        println!("{}\n{failure}\n", report.trace.join("\n"));
    }
    let mut passed = reports.values().filter(|report| report.failure.is_none());
    if let (Some(report), 1) = (passed.next(), reports.len()) {
        println!("{}", report.trace.join("\n"));
    }
    let headlines = reports.iter().filter_map(|(seed, report)| {
        let headline = report.headline.as_ref()?;
        Some(format!("seed {seed}, {:?}: {headline}", report.kind))
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
    let of = |kind| {
        reports
            .values()
            .filter(move |each| each.kind == kind)
            .count()
    };
    let (judged, undecided) = (
        sum(|each| each.keys_judged),
        sum(|each| each.keys_undecided),
    );
    println!(
        "{} worlds in which all replicas answer, {judged} keys checked and {undecided} undecided; \
         {} worlds with one unavailable host",
        of(ScenarioKind::AllAnswer),
        of(ScenarioKind::OneUnavailable),
    );
    let tombstone_gc: Vec<usize> = reports
        .values()
        .filter_map(|each| each.gc_threshold)
        .collect();
    let rises = tombstone_gc.iter().sum::<usize>();
    let non_owned: u64 = reports.values().map(|each| each.non_owned_dropped).sum();
    println!(
        "{} worlds with tombstone GC, in which the GC threshold rose {rises} times and {non_owned} \
         non-owned copies were dropped",
        tombstone_gc.len()
    );
    let counted: Vec<usize> = reports
        .values()
        .filter_map(|each| each.increments)
        .collect();
    let increments = counted.iter().sum::<usize>();
    println!(
        "{} worlds with counters, in which {increments} increments were acknowledged",
        counted.len()
    );
    let changed: Vec<u64> = reports.values().filter_map(|each| each.epoch).collect();
    let lists = changed.iter().sum::<u64>();
    println!(
        "{} worlds in which the list of members changes, with {lists} lists",
        changed.len()
    );
    println!(
        "{} seeds, {answered} operations answered, {not_enough} without enough replicas, {} lines",
        reports.len(),
        reports.values().map(|each| each.trace_lines).sum::<u64>()
    );
    assert!(failed.is_empty(), "seeds that fail: {failed:?}");
    // Worlds in which nothing works, or nothing fails, prove nothing.
    if reports.len() >= 100 {
        assert!(answered > 50 * reports.len());
        assert!(not_enough > reports.len());
        assert!(rises > 3 * tombstone_gc.len());
        assert!(increments > 10 * counted.len());
        assert!(lists > 3 * changed.len() as u64);
        assert!(changed.len() * 4 > reports.len());
        assert!(non_owned > tombstone_gc.len() as u64);
        assert!(
            undecided * 20 <= judged,
            "the search gave up on too many keys"
        );
    }
}

#[test]
fn a_seed_always_leads_to_the_same_trace() {
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
