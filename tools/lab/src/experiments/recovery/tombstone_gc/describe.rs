//! What the page says about the churn.

use super::{Look, NodeLook, TombstoneGcResults};
use crate::page::{MarkdownTable, Page, text};
use crate::{sections, statistics};
use load::Run;
use load::plan::Operation;
use load::report::plot::{self, Axis, Lines, Series};
use load::report::units::{self, Unit};
use load::results::Second;

/// How much more room the tables of a node may take at the end than at the beginning.
const GROWTH_MAX: f64 = 1.1;

/// Latencies of the beginning and of the end are those of this share of the run.
const PART: usize = 5;

pub(super) fn describe(page: &mut Page, results: &TombstoneGcResults) {
    page.section("Measured");
    match &results.run {
        Ok(run) => describe_run(page, run),
        Err(problem) => page.paragraph(&format!("Not measured: {problem}.")),
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
    page.figure("disk", "disk over time", bytes);
    let tombstones = over_time(
        "Tombstones in the tables of each node",
        Axis::linear("tombstones", Unit::Count),
        |look| Some(look.tombstones as f64),
    );
    page.figure("tombstones", "tombstones over time", tombstones);
    let age = over_time(
        "The age of the GC threshold of each node",
        Axis::linear("age", Unit::Seconds),
        |look| look.forgotten_age.map(|seconds| seconds as f64),
    );
    page.figure("age", "age of the GC threshold over time", age);
    page.table(&table(results));
    page.section("What it shows");
    page.list(findings(results));
    page.paragraph("The studies have no such figures.");
    page.data("run", results);
}

fn describe_run(page: &mut Page, run: &Run) {
    sections::achieved(page, None, run);
    page.figure("latency", "latency over time", plot::timeline(&[run]));
    page.figure("throughput", "requests over time", plot::throughput(&[run]));
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
        let age = most(|look| look.forgotten_age.unwrap_or_default());
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

fn findings(results: &TombstoneGcResults) -> Vec<String> {
    let mut found = vec![verdict(results)];
    if let Ok(run) = &results.run {
        found.push(format!(
            "About {} keys came and went. Had their tombstones stayed, each node would keep as \
             many.",
            units::count(inserted(run))
        ));
        found.push(match run.failures() {
            0 => "No request failed.".to_owned(),
            failed => format!("{} requests failed.", units::count(failed)),
        });
        let part = run.timeline.len().div_ceil(PART);
        let (first, last) = (
            run.timeline.get(..part).unwrap_or_default(),
            run.timeline
                .len()
                .checked_sub(part)
                .and_then(|at| run.timeline.get(at..)),
        );
        let median =
            |seconds: &[Second], of: fn(&Second) -> f64| statistics::median(seconds.iter().map(of));
        let last = last.unwrap_or_default();
        for (name, of) in [
            (
                "The median latency",
                (|second| second.p50_ms) as fn(&Second) -> f64,
            ),
            ("The 99th percentile", |second| second.p99_ms),
        ] {
            found.push(format!(
                "{name} was {} in the first fifth of the churn, and {} in the last.",
                text::latency(median(first, of)),
                text::latency(median(last, of))
            ));
        }
    }
    let end = results.run.as_ref().map_or(0.0, |run| run.measured_seconds);
    let in_churn = results.looks.iter().filter(|look| look.at_seconds <= end);
    let nodes = in_churn.flat_map(|look| look.nodes.iter().flatten());
    let repair = nodes.map(|look| look.clean_sweeps).max();
    found.push(format!(
        "Full repairs that ended while the churn ran, and found all nodes equal: {}.",
        units::count(repair.unwrap_or_default())
    ));
    let nodes = 0..results.before.len();
    let ages = nodes.map(|node| {
        most(&results.looks, node, |look| {
            look.forgotten_age.unwrap_or_default()
        })
    });
    found.push(format!(
        "The GC threshold was at most {} old, with a grace of {} and a full repair every {}.",
        units::seconds(ages.max().unwrap_or_default() as f64),
        units::seconds(results.gc_grace_seconds as f64),
        units::seconds(results.full_sweep_seconds as f64)
    ));
    found
}

/// Whether the cluster ends as small as it began.
fn verdict(results: &TombstoneGcResults) -> String {
    let pairs = results.before.iter().zip(&results.after);
    let worst = pairs.max_by(|one, other| {
        let growth = |(before, after): &(&super::Compacted, &super::Compacted)| {
            growth(before.bytes, after.bytes)
        };
        growth(one).total_cmp(&growth(other))
    });
    let Some((before, after)) = worst else {
        return "No node was compacted.".to_owned();
    };
    let left: u64 = results.after.iter().map(|after| after.tombstones).sum();
    let growth = growth(before.bytes, after.bytes);
    let sizes = format!(
        "the tables of the node that grew most take {} after {} at the beginning ({} times)",
        units::bytes(after.bytes as f64),
        units::bytes(before.bytes as f64),
        text::ratio(growth)
    );
    let begin = if growth <= GROWTH_MAX && left == 0 {
        "The cluster ends as small as it began"
    } else {
        "The cluster does not end as small as it began"
    };
    match left {
        0 => format!("{begin}: {sizes}, and no tombstone is left."),
        left => format!(
            "{begin}: {sizes}, and {} tombstones are left.",
            units::count(left)
        ),
    }
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
    use crate::testing::{assert_contains, page_text, run, timeline};

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
                    forgotten_age: (second > 3).then_some(10 + second),
                    clean_sweeps: 3 + second,
                }),
                None,
            ],
        };
        TombstoneGcResults {
            keys: 1_000,
            gc_grace_seconds: 10,
            full_sweep_seconds: 5,
            run: Ok(run),
            looks: (1..=8).map(look).collect(),
            before: vec![compacted(10 << 20, 0); 2],
            after: vec![compacted(11 << 20, 0), compacted(10 << 20, 0)],
        }
    }

    #[test]
    fn the_page_says_whether_the_cluster_ends_as_small_as_it_began() {
        let page = page_text(|page| describe(page, &results()));
        assert_contains(
            &page,
            &[
                "The cluster ends as small as it began: the tables of the node that grew most \
                 take 11.0 MiB after 10.0 MiB at the beginning (1.10 times), and no tombstone is \
                 left.",
                "About 400 keys came and went.",
                "No request failed.",
                "Full repairs that ended while the churn ran, and found all nodes equal: 4.",
                "The median latency was 1.00 ms in the first fifth of the churn, and 2.00 ms in \
                 the last.",
                "The 99th percentile was 2.00 ms in the first fifth of the churn, and 4.00 ms in \
                 the last.",
                "at most 18 s old, with a grace of 10 s and a full repair every 5 s",
                "](test/disk.svg)",
                "](test/tombstones.svg)",
                "](test/age.svg)",
            ],
        );
        let row = "| 1    |                10.0 MiB |     8.00 MiB |          11.0 MiB |           1.10 |                800 |                     0 |                 18 s |";
        assert_contains(&page, &[row]);
    }

    #[test]
    fn growth_and_tombstones_that_are_left_are_said() {
        let mut grown = results();
        grown.after[1].bytes = 12 << 20;
        let page = page_text(|page| describe(page, &grown));
        assert_contains(
            &page,
            &[
                "The cluster does not end as small as it began: the tables of the node that grew \
               most take 12.0 MiB after 10.0 MiB at the beginning (1.20 times), and no tombstone is left.",
            ],
        );
        let mut left = results();
        left.after[0].tombstones = 7;
        let page = page_text(|page| describe(page, &left));
        assert_contains(
            &page,
            &["does not end as small", "and 7 tombstones are left"],
        );
        left.run = Err("cannot connect".to_owned());
        let page = page_text(|page| describe(page, &left));
        assert_contains(&page, &["Not measured: cannot connect."]);
    }
}
