//! What the page says of the slowest writes.

use super::causes::{Cause, MOMENTS, SlowWrite};
use super::{Case, Explained, Floor, LATENCY_MS_MAX, Pair, pairs};
use crate::page::{MarkdownTable, Page, text};
use crate::{sections, statistics};
use load::report::plot::{Axis, Lines, Series, Style};
use load::report::units::{self, Unit};
use serde::Serialize;
use std::collections::BTreeMap;

/// How many of the slowest writes stand on the page with all their steps.
const SHOWN: usize = 10;

/// Writes that are due within so many seconds after one that is not answered yet belong to
/// the same stall.
const STALL_GAP_SECONDS: f64 = 0.000_5;

/// Below this share of the writes that were due a load is more than the machine can do.
const HELD_SHARE: f64 = 0.99;

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
    page.section("Beside nginx");
    beside_nginx(page, cases);
    page.section("While the nodes record");
    recorded(page, cases);
    let problems = cases
        .iter()
        .map(|case| (case.name.to_owned(), &case.explained));
    sections::failed_measurements(page, problems);
    page.subsection("Syncs of the log");
    syncs(page, cases, floor);
    page.section("What they waited for");
    for (number, case) in cases.iter().enumerate() {
        if let Ok(explained) = &case.explained {
            page.subsection(case.name);
            waited(page, number, explained);
        }
    }
    page.section("What it shows");
    page.list(findings(cases));
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
    page.table(&table);
    for case in cases {
        if let Err(problem) = &case.pairs {
            page.paragraph(&format!("{}, beside nginx: {problem}.", case.name));
        }
    }
}

/// The latencies of each load while the nodes recorded it.
fn recorded(page: &mut Page, cases: &[Case]) {
    let mut table = MarkdownTable::new([
        "load",
        "achieved",
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
        let head = [case.name.to_owned(), units::rate(explained.run.achieved())];
        let tail =
            [explained.flushes, explained.compactions].map(|count| units::count(count as u64));
        table.row(
            head.into_iter()
                .chain(latencies(&explained.run))
                .chain(tail),
        );
    }
    page.table(&table);
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
    page.table(&table);
}

/// The causes of the slowest writes of a load, when they were due, and the slowest of them.
fn waited(page: &mut Page, number: usize, explained: &Explained) {
    let writes = &explained.writes;
    if writes.is_empty() {
        page.paragraph("No write succeeded.");
        return;
    }
    let (stalls, most) = stalls(writes);
    let least = writes.last().map(|write| write.latency_ms);
    page.paragraph(&format!(
        "The {} slowest took {} or more. They come from {} stalls; the largest holds {} of them.",
        units::count(writes.len() as u64),
        text::latency(least),
        units::count(stalls as u64),
        units::count(most as u64),
    ));
    if explained.left_out > 0 {
        page.paragraph(&format!(
            "The recordings did not hold {} waits.",
            units::count(explained.left_out)
        ));
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
    page.table(&table);
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
    page.figure(
        &format!("slowest-{}", number + 1),
        "The slowest writes by when they were due",
        plot.draw(),
    );
    page.paragraph("The slowest, with the milliseconds from when they were due to each step:");
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
    page.table(&table);
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

fn findings(cases: &[Case]) -> Vec<String> {
    let mut found = Vec::new();
    for case in cases {
        let Ok(explained) = &case.explained else {
            continue;
        };
        if let Some(share) = explained
            .run
            .achieved_share()
            .filter(|share| *share < HELD_SHARE)
        {
            found.push(format!(
                "{}: only {} of the writes that were due were done. This machine cannot do more \
                 now, so the latencies say how long writes queued, and nothing of the tail.",
                case.name,
                text::percent(share),
            ));
            continue;
        }
        if let Some(first) = causes(&explained.writes).first() {
            found.push(format!(
                "{}: the most frequent cause is {} ({} of the slowest writes, {} at the median).",
                case.name,
                first.name(),
                text::percent(first.writes as f64 / explained.writes.len().max(1) as f64),
                units::latency(first.median_ms),
            ));
        }
        if let (Some(pair), Some(goal)) = (case.median(), case.goal) {
            let ratio = pair.ratio();
            let verdict = if ratio <= goal {
                "which reaches"
            } else {
                "which misses"
            };
            found.push(format!(
                "{}: the p99.9 is {} times nginx's, {verdict} the goal of {}.",
                case.name,
                text::ratio(ratio),
                text::ratio(goal),
            ));
        }
        found.extend(case.flushes.then(|| too_long(case.name, explained)));
    }
    found
}

/// How many writes took too long, apart those that met a sync that took as long by itself.
fn too_long(name: &str, explained: &Explained) -> String {
    let long: Vec<&SlowWrite> = explained
        .writes
        .iter()
        .filter(|write| write.latency_ms > LATENCY_MS_MAX)
        .collect();
    let is_device = |write: &&&SlowWrite| write.longest_sync_ms > LATENCY_MS_MAX;
    let device = long.iter().filter(is_device).count();
    let at_least = if long.len() == explained.writes.len() && !long.is_empty() {
        "at least "
    } else {
        ""
    };
    format!(
        "{name}: through {} flushes and {} compactions {at_least}{} writes took longer than {}, and \
         {} more met a sync that took as long by itself.",
        units::count(explained.flushes as u64),
        units::count(explained.compactions as u64),
        units::count((long.len() - device) as u64),
        units::latency(LATENCY_MS_MAX),
        units::count(device as u64),
    )
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
