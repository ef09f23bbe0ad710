//! The figures of the slowest writes.

use super::causes::{Cause, MOMENTS, SlowWrite};
use super::{Case, Explained, Floor, LATENCY_MS_MAX, Pair, pairs};
use crate::page::{MarkdownTable, Page, text};
use crate::{figures, statistics};
use load::report::plot::{Axis, Lines, Series, Style};
use load::report::units::{self, Unit};
use serde::Serialize;
use std::collections::BTreeMap;

/// How many of the slowest writes stand on the page with all their steps.
const SHOWN: usize = 10;

/// Writes that are due within so many seconds after one that is not answered yet belong to
/// the same stall.
const STALL_GAP_SECONDS: f64 = 0.000_5;

/// The writes of one cause.
struct CauseRow {
    cause: Cause,
    is_at_peer: bool,
    writes: usize,
    behind_another: usize,
    median_ms: f64,
    max_ms: f64,
}

/// The slowest writes as rows, which take less room than as maps.
#[derive(Serialize)]
struct Rows {
    name: &'static str,
    columns: Vec<&'static str>,
    /// Each with the name of its cause last.
    rows: Vec<(Vec<Option<f64>>, &'static str)>,
}

pub(super) fn describe(page: &mut Page, cases: &[Case], floor: Option<&Floor>) {
    beside_nginx(page, cases);
    recorded(page, cases);
    let problems = cases
        .iter()
        .map(|case| (case.name.to_owned(), &case.explained));
    figures::failed_measurements(page, problems);
    syncs(page, cases, floor);
    for (case, number) in cases.iter().zip(1..) {
        if let Ok(explained) = &case.explained {
            waited(page, case.name, number, explained);
        }
    }
    page.data("runs", &cases);
    let rows: Vec<Rows> = cases.iter().filter_map(rows).collect();
    page.data("writes", &rows);
}

/// The latencies of each load beside those of nginx.
fn beside_nginx(page: &mut Page, cases: &[Case]) {
    let mut table = MarkdownTable::new([
        "load",
        "achieved",
        "p50",
        "p99",
        "p99.9",
        "max",
        "nginx: p50",
        "p99",
        "p99.9",
        "max",
        "p99.9 beside nginx",
        "goal",
        "of all pairs",
    ]);
    for case in cases {
        let Some(pair) = case.median() else {
            continue;
        };
        let ratios = case.pairs.iter().flatten().map(Pair::ratio);
        let ratios: Vec<String> = ratios.map(text::ratio).collect();
        let head = [case.name.to_owned(), units::rate(pair.own.achieved())];
        let tail = [
            text::ratio(pair.ratio()),
            case.goal.map_or(units::NONE.to_owned(), text::ratio),
            ratios.join(", "),
        ];
        table.row(
            head.into_iter()
                .chain(latencies(&pair.own))
                .chain(latencies(&pair.nginx))
                .chain(tail),
        );
    }
    page.keep_table("beside-nginx", table);
    let pairs = cases
        .iter()
        .map(|case| (format!("{}, beside nginx", case.name), &case.pairs));
    figures::failed_measurements(page, pairs);
}

/// The latencies of each load while the nodes recorded it.
fn recorded(page: &mut Page, cases: &[Case]) {
    let mut table = MarkdownTable::new([
        "load",
        "achieved",
        "of those due",
        "p50",
        "p99",
        "p99.9",
        "max",
        "flushes",
        "compactions",
    ]);
    for case in cases {
        let Ok(explained) = &case.explained else {
            continue;
        };
        let share = explained.run.achieved_share();
        let head = [
            case.name.to_owned(),
            units::rate(explained.run.achieved()),
            share.map_or(units::NONE.to_owned(), text::percent),
        ];
        let tail =
            [explained.flushes, explained.compactions].map(|count| units::count(count as u64));
        table.row(
            head.into_iter()
                .chain(latencies(&explained.run))
                .chain(tail),
        );
    }
    page.keep_table("recorded", table);
}

fn latencies(run: &load::Run) -> [String; 4] {
    [50.0, 99.0, 99.9, 100.0].map(|percent| text::latency(run.latency.percentile_ms(percent)))
}

/// How long syncs took, beside those of the idle disk.
fn syncs(page: &mut Page, cases: &[Case], floor: Option<&Floor>) {
    let mut table = MarkdownTable::new(["load", "bytes", "syncs", "p50", "p99", "p99.9", "max"]);
    let alone = floor.map(|floor| ("the disk alone", floor.group_bytes as f64, &floor.syncs));
    let under_load = cases.iter().filter_map(|case| {
        let explained = case.explained.as_ref().ok()?;
        Some((case.name, explained.group_bytes, &explained.syncs))
    });
    for (name, bytes, syncs) in alone.into_iter().chain(under_load) {
        if syncs.count == 0 {
            continue;
        }
        let times = [syncs.p50_ms, syncs.p99_ms, syncs.p999_ms, syncs.max_ms];
        let head = [
            name.to_owned(),
            units::bytes(bytes),
            units::count(syncs.count as u64),
        ];
        table.row(head.into_iter().chain(times.map(units::latency)));
    }
    page.keep_table("syncs", table);
}

/// The causes of the slowest writes of a load, when they were due, and the slowest of them.
fn waited(page: &mut Page, load: &str, number: usize, explained: &Explained) {
    let writes = &explained.writes;
    let (stalls, most) = stalls(writes);
    let least = writes.last().map(|write| write.latency_ms);
    let is_long = |write: &&SlowWrite| write.latency_ms > LATENCY_MS_MAX;
    let is_device = |write: &&SlowWrite| write.longest_sync_ms > LATENCY_MS_MAX;
    let (device, other): (Vec<_>, Vec<_>) = writes.iter().filter(is_long).partition(is_device);
    for (name, value) in [
        ("writes", units::count(writes.len() as u64)),
        ("least", text::latency(least)),
        ("stalls", units::count(stalls as u64)),
        ("largest stall", units::count(most as u64)),
        ("left out", units::count(explained.left_out)),
        ("long", units::count(other.len() as u64)),
        ("long syncs", units::count(device.len() as u64)),
    ] {
        page.keep_value(format!("{load}: {name}"), value);
    }
    let mut table = MarkdownTable::new([
        "cause",
        "share of the slowest",
        "of these behind another request",
        "median",
        "max",
    ]);
    let all = writes.len().max(1) as f64;
    let causes = causes(writes);
    for row in &causes {
        table.row([
            row.name(),
            text::percent(row.writes as f64 / all),
            text::percent(row.behind_another as f64 / row.writes.max(1) as f64),
            units::latency(row.median_ms),
            units::latency(row.max_ms),
        ]);
    }
    page.keep_table(&format!("causes-{number}"), table);
    let axes = (
        Axis::linear("when it was due", Unit::Seconds),
        Axis::linear("latency", Unit::Milliseconds),
    );
    let mut plot = Lines::new("The slowest writes, by cause", axes.0, axes.1);
    for row in &causes {
        let of_cause = writes
            .iter()
            .filter(|write| (write.cause, write.is_at_peer) == (row.cause, row.is_at_peer));
        let mut points: Vec<(f64, f64)> = of_cause
            .map(|write| (write.at_seconds, write.latency_ms))
            .collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        plot = plot.with(Series::new(row.name(), points).style(Style::Dots));
    }
    page.keep_chart(&format!("slowest-{number}"), plot.draw());
    let steps = MOMENTS.iter().filter(|moment| {
        let mut shown = writes.iter().take(SHOWN);
        shown.any(|write| write.moments_ms.contains_key(*moment))
    });
    let steps: Vec<&str> = steps.copied().collect();
    let head = ["cause"].into_iter().chain(steps.iter().copied());
    let mut table = MarkdownTable::new(head);
    for write in writes.iter().take(SHOWN) {
        let cells = steps.iter().map(|step| {
            let at = write.moments_ms.get(step);
            at.map_or(units::NONE.to_owned(), |ms| text::ratio(*ms))
        });
        let behind = if write.is_behind_another {
            ", behind another"
        } else {
            ""
        };
        let name = format!("{}{behind}", name(write.cause, write.is_at_peer));
        table.row([name].into_iter().chain(cells));
    }
    page.keep_table(&format!("slowest-{number}"), table);
}

/// The causes, the most frequent first.
fn causes(writes: &[SlowWrite]) -> Vec<CauseRow> {
    let mut by_cause: BTreeMap<(Cause, bool), Vec<&SlowWrite>> = BTreeMap::new();
    for write in writes {
        let cause = (write.cause, write.is_at_peer);
        by_cause.entry(cause).or_default().push(write);
    }
    let mut rows: Vec<CauseRow> = by_cause
        .into_iter()
        .map(|((cause, is_at_peer), writes)| {
            let times = || writes.iter().map(|write| write.cause_ms);
            CauseRow {
                cause,
                is_at_peer,
                writes: writes.len(),
                behind_another: writes
                    .iter()
                    .filter(|write| write.is_behind_another)
                    .count(),
                median_ms: statistics::median(times()).unwrap_or(f64::NAN),
                max_ms: times().fold(f64::NAN, f64::max),
            }
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.writes));
    rows
}

impl CauseRow {
    fn name(&self) -> String {
        name(self.cause, self.is_at_peer)
    }
}

fn name(cause: Cause, is_at_peer: bool) -> String {
    if is_at_peer {
        format!("{}, at a peer", cause.name())
    } else {
        cause.name().to_owned()
    }
}

/// How many stalls the writes come from, and how many of them come from the largest.
fn stalls(writes: &[SlowWrite]) -> (usize, usize) {
    let mut spans: Vec<(f64, f64)> = writes
        .iter()
        .map(|write| (write.at_seconds, write.at_seconds + write.latency_ms / 1e3))
        .collect();
    spans.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (mut stalls, mut most, mut held, mut end) = (0, 0, 0, f64::NEG_INFINITY);
    for (began, ended) in spans {
        if began > end + STALL_GAP_SECONDS {
            (stalls, held) = (stalls + 1, 0);
        }
        held += 1;
        most = most.max(held);
        end = end.max(ended);
    }
    (stalls, most)
}

impl Case {
    /// The pair whose ratio counts.
    fn median(&self) -> Option<&Pair> {
        self.pairs.as_ref().ok().and_then(|all| pairs::median(all))
    }
}

fn rows(case: &Case) -> Option<Rows> {
    let explained = case.explained.as_ref().ok()?;
    let rounded = |ms: f64| (ms * 1e3).round() / 1e3;
    let rows = explained.writes.iter().map(|write| {
        let moments = MOMENTS.iter().map(|moment| write.moments_ms.get(moment));
        let moments = moments.map(|ms| ms.map(|ms| rounded(*ms)));
        let head = [rounded(write.at_seconds * 1e3), rounded(write.latency_ms)];
        let numbers = head.map(Some).into_iter().chain(moments).collect();
        (numbers, write.cause.name())
    });
    Some(Rows {
        name: case.name,
        columns: ["due", "latency"].into_iter().chain(MOMENTS).collect(),
        rows: rows.collect(),
    })
}

#[cfg(test)]
mod tests;
