//! The figures of the churn.

use super::{Look, NodeLook, TombstoneGcResults};
use crate::page::{MarkdownTable, Page, text};
use crate::{figures, statistics};
use load::Run;
use load::plan::Operation;
use load::report::plot::{self, Axis, Lines, Series};
use load::report::units::{self, Unit};
use load::results::Second;

/// Latencies of the beginning and of the end are those of this share of the run.
const PART: usize = 5;

pub(super) fn describe(page: &mut Page, results: &TombstoneGcResults) {
    match &results.run {
        Ok(run) => describe_run(page, run),
        Err(problem) => page.results.failed.push(format!("the churn: {problem}")),
    }
    let end = results.run.as_ref().map_or(0.0, |run| run.measured_seconds);
    let over_time = |title: &str, y: Axis, of: fn(&NodeLook) -> Option<f64>| {
        let x = Axis::linear("time since the warm-up", Unit::Seconds);
        let mut lines = Lines::new(title, x, y).mark(end, "churn ends");
        for node in 0..results.before.len() {
            let points = results.looks.iter().filter_map(|look| {
                let value = of(look.nodes.get(node)?.as_ref()?)?;
                Some((look.at_seconds, value))
            });
            lines = lines.with(Series::new(format!("node {}", node + 1), points));
        }
        lines.draw()
    };
    let bytes = over_time(
        "Bytes of the tables and the log of each node",
        Axis::linear("bytes", Unit::Bytes),
        |look| Some(look.bytes as f64),
    );
    page.keep_chart("disk", bytes);
    let tombstones = over_time(
        "Tombstones in the tables of each node",
        Axis::linear("tombstones", Unit::Count),
        |look| Some(look.tombstones as f64),
    );
    page.keep_chart("tombstones", tombstones);
    let age = over_time(
        "The age of the GC threshold of each node",
        Axis::linear("age", Unit::Seconds),
        |look| look.gc_threshold_age.map(|seconds| seconds as f64),
    );
    page.keep_chart("age", age);
    page.keep_table("measured", table(results));
    let in_churn = results.looks.iter().filter(|look| look.at_seconds <= end);
    let nodes = in_churn.flat_map(|look| look.nodes.iter().flatten());
    let repairs = nodes.map(|look| look.full_repairs).max();
    let ages = (0..results.before.len()).map(|node| age_most(results, node));
    let pairs = results.before.iter().zip(&results.after);
    let growths = pairs.map(|(before, after)| growth(before.bytes, after.bytes));
    let left: u64 = results.after.iter().map(|after| after.tombstones).sum();
    let seconds = |seconds: u64| units::seconds(seconds as f64);
    for (name, value) in [
        (
            "greatest growth",
            text::ratio(growths.fold(f64::NAN, f64::max)),
        ),
        ("tombstones", units::count(left)),
        ("repairs", units::count(repairs.unwrap_or_default())),
        ("greatest age", seconds(ages.max().unwrap_or_default())),
        ("grace", seconds(results.gc_grace_seconds)),
        ("interval", seconds(results.full_repair_seconds)),
    ] {
        page.keep_value(name, value);
    }
    page.data("runs", results);
}

fn describe_run(page: &mut Page, run: &Run) {
    page.keep_value("achieved", figures::achieved_text(None, run));
    page.keep_value("inserted", units::count(inserted(run)));
    page.keep_value("requests failed", units::count(run.failures()));
    page.keep_chart("latency", plot::timeline(&[run]));
    page.keep_chart("throughput", plot::throughput(&[run]));
    let part = run.timeline.len().div_ceil(PART).max(1);
    let (first, last) = (
        run.timeline.chunks(part).next(),
        run.timeline.rchunks(part).next(),
    );
    for (name, seconds) in [("first fifth", first), ("last fifth", last)] {
        let seconds = seconds.unwrap_or_default();
        let median = |of: fn(&Second) -> f64| statistics::median(seconds.iter().map(of));
        let p50 = median(|second| second.p50_ms);
        let p99 = median(|second| second.p99_ms);
        page.keep_value(format!("{name}: median"), text::latency(p50));
        page.keep_value(format!("{name}: p99"), text::latency(p99));
    }
}

fn table(results: &TombstoneGcResults) -> MarkdownTable {
    let mut table = MarkdownTable::new([
        "node",
        "tables at the beginning",
        "disk at most",
        "tables at the end",
        "end over begin",
        "tombstones at most",
        "tombstones at the end",
        "GC threshold at most",
    ]);
    for (node, (before, after)) in results.before.iter().zip(&results.after).enumerate() {
        let most = |of: fn(&NodeLook) -> u64| most(&results.looks, node, of);
        let age = age_most(results, node);
        table.row([
            (node + 1).to_string(),
            units::bytes(before.bytes as f64),
            units::bytes(most(|look| look.bytes) as f64),
            units::bytes(after.bytes as f64),
            text::ratio(growth(before.bytes, after.bytes)),
            units::count(most(|look| look.tombstones)),
            units::count(after.tombstones),
            units::seconds(age as f64),
        ]);
    }
    table
}

/// The greatest figure of a node.
fn most(looks: &[Look], node: usize, of: fn(&NodeLook) -> u64) -> u64 {
    let looks = looks
        .iter()
        .filter_map(|look| look.nodes.get(node)?.as_ref());
    looks.map(of).max().unwrap_or_default()
}

fn growth(before: u64, after: u64) -> f64 {
    statistics::ratio(Some(after as f64), Some(before as f64)).unwrap_or(f64::NAN)
}

/// How old the GC threshold of a node was at most, in seconds.
fn age_most(results: &TombstoneGcResults, node: usize) -> u64 {
    let age = |look: &NodeLook| look.gc_threshold_age.unwrap_or_default();
    most(&results.looks, node, age)
}

/// About how many keys a run has inserted.
fn inserted(run: &Run) -> u64 {
    let all: f64 = run.plan.operations.iter().map(|(_, weight)| weight).sum();
    let inserts = run.plan.operations.iter();
    let inserts: f64 = inserts
        .filter(|(operation, _)| *operation == Operation::Insert)
        .map(|(_, weight)| weight)
        .sum();
    (run.succeeded as f64 * inserts / all.max(f64::MIN_POSITIVE)).round() as u64
}

#[cfg(test)]
mod tests {
    use super::super::{Compacted, MIX};
    use super::*;
    use crate::testing::{assert_values, run, timeline};

    fn compacted(bytes: u64, tombstones: u64) -> Compacted {
        Compacted {
            bytes,
            entries: 10,
            tombstones,
        }
    }

    fn results() -> TombstoneGcResults {
        let mut run = run(100.0, 1_000, 5.0);
        run.plan.operations = MIX.to_vec();
        run.timeline = timeline(&[2.0, 2.0, 9.0, 2.0, 3.0, 3.0, 3.0, 2.0, 4.0, 4.0]);
        let look = |second: u64| Look {
            at_seconds: second as f64,
            nodes: vec![
                Some(NodeLook {
                    bytes: second << 20,
                    tombstones: 100 * second,
                    gc_threshold_age: (second > 3).then_some(10 + second),
                    full_repairs: 3 + second,
                }),
                None,
            ],
        };
        TombstoneGcResults {
            keys: 1_000,
            gc_grace_seconds: 10,
            full_repair_seconds: 5,
            run: Ok(run),
            looks: (1..=8).map(look).collect(),
            before: vec![compacted(10 << 20, 0); 2],
            after: vec![compacted(11 << 20, 0), compacted(10 << 20, 0)],
        }
    }

    #[test]
    fn growth_tombstones_and_latencies_are_told() {
        let mut results = results();
        results.after[0].tombstones = 7;
        let expected = [
            ("greatest growth", "1.10"),
            ("tombstones", "7"),
            ("inserted", "400"),
            ("requests failed", "0"),
            ("repairs", "4"),
            ("first fifth: median", "1.00 ms"),
            ("last fifth: median", "2.00 ms"),
            ("first fifth: p99", "2.00 ms"),
            ("last fifth: p99", "4.00 ms"),
            ("greatest age", "18 s"),
            ("grace", "10 s"),
            ("interval", "5 s"),
        ];
        assert_values(|page| describe(page, &results), &expected);
        let table = table(&results);
        assert_eq!(table.cell("1", "end over begin"), Some("1.10"));
        assert_eq!(table.cell("1", "tombstones at most"), Some("800"));
    }
}
