//! The plots of runs and of searches for a breaking point.

use super::{Axis, Bars, Lines, Series, Style};
use crate::Run;
use crate::plan::Rate;
use crate::report::units::{self, Unit};
use crate::results::{BreakingPoint, LatencyDistribution, Probe, Second};
use std::collections::BTreeSet;

/// Where the greatest latency is so many times the median, equal steps would
/// leave nothing of the median to see.
const RATIO_OF_EQUAL_STEPS_MAX: f64 = 30.0;
/// The places of colours that mean something.
const BLUE: usize = 0;
const VERMILION: usize = 1;
const GREEN: usize = 2;
const GREY: usize = 6;

/// How latency grows toward the last percentiles, a curve for each run.
pub fn percentiles(runs: &[&Run]) -> String {
    let points = runs
        .iter()
        .map(|run| (run.label.as_str(), spectrum(&run.latency)));
    let series: Vec<_> = points
        .map(|(name, points)| Series::new(name, points))
        .collect();
    let medians = runs
        .iter()
        .filter_map(|run| run.latency.percentile_ms(50.0));
    let y = latency_axis(runs.iter().map(|run| run.latency.max_ms), medians);
    let x = Axis::percentile("of the requests took no longer");
    Lines {
        series,
        ..Lines::new("Latency by percentile", x, y)
    }
    .draw()
}

/// The spectrum with the maximum where it can be drawn: beyond all others by
/// the one request that it is.
fn spectrum(latency: &LatencyDistribution) -> Vec<(f64, f64)> {
    let mut points: Vec<_> = latency
        .spectrum
        .iter()
        .copied()
        .filter(|(percentile, _)| *percentile < 100.0)
        .collect();
    if latency.count > 0 {
        let last = 100.0 * (1.0 - 1.0 / latency.count as f64);
        points.push((
            points
                .last()
                .map_or(last, |(percentile, _)| percentile.max(last)),
            latency.max_ms,
        ));
    }
    points
}

/// Latency from second to second: the median, the 99th percentile and the
/// maximum of one run; of several, the median and the 99th percentile of each.
pub fn timeline(runs: &[&Run]) -> String {
    let medians = seconds(runs).map(|second| second.p50_ms);
    let x = Axis::linear("time since the warm-up", Unit::Seconds);
    let lines = match runs {
        [run] => {
            let y = latency_axis(seconds(runs).map(|second| second.max_ms), medians);
            Lines::new("Latency over time", x, y)
                .with(over_time("max", run, |second| second.max_ms).color(GREY))
                .with(over_time("p99", run, |second| second.p99_ms).color(VERMILION))
                .with(over_time("p50", run, |second| second.p50_ms).color(BLUE))
        }
        _ => {
            let y = latency_axis(seconds(runs).map(|second| second.p99_ms), medians);
            let title = "Latency over time: the 99th percentile, and dashed the median";
            let mut lines = Lines::new(title, x, y);
            for (index, run) in runs.iter().enumerate() {
                let median = over_time("", run, |second| second.p50_ms);
                lines = lines
                    .with(median.style(Style::Dashed).color(index))
                    .with(over_time(&run.label, run, |second| second.p99_ms).color(index));
            }
            lines
        }
    };
    with_marks(lines, runs).draw()
}

/// Requests a second that succeeded, and of one run those that failed and the rate asked.
pub fn throughput(runs: &[&Run]) -> String {
    let x = Axis::linear("time since the warm-up", Unit::Seconds);
    let y = Axis::linear("requests", Unit::PerSecond);
    let mut lines = Lines::new("Throughput over time", x, y);
    if let [run] = runs {
        lines = lines.with(rates("succeeded", run, |second| second.succeeded).color(BLUE));
        if run.failures() > 0 {
            lines = lines.with(rates("failed", run, |second| second.failed).color(VERMILION));
        }
        if let Rate::PerSecond(rate) = run.plan.rate {
            lines = lines.bound_line(rate, format!("asked: {}", units::rate(rate)));
        }
    } else {
        for run in runs {
            lines = lines.with(rates(&run.label, run, |second| second.succeeded));
        }
    }
    with_marks(lines, runs).draw()
}

/// Requests that failed, by kind, a bar for each run.
pub fn failures(runs: &[&Run]) -> String {
    let kinds: BTreeSet<&String> = runs.iter().flat_map(|run| run.failed.keys()).collect();
    let kinds: Vec<&String> = kinds.into_iter().collect();
    let counts = |run: &Run| -> Vec<f64> {
        kinds
            .iter()
            .map(|kind| run.failed.get(*kind).copied().unwrap_or(0) as f64)
            .collect()
    };
    let y = Axis::linear("requests", Unit::Count);
    let bars = Bars::new(
        "Requests that failed",
        kinds.iter().map(|kind| kind.as_str()),
        y,
    );
    runs.iter()
        .fold(bars, |bars, run| bars.with(run.label.as_str(), counts(run)))
        .draw()
}

/// Rates achieved against rates asked, a curve for each of `curves` with its
/// name and its points, and where they would lie if all were achieved.
pub fn achieved_against_asked(title: &str, curves: &[(String, Vec<(f64, f64)>)]) -> String {
    let asked = curves
        .iter()
        .flat_map(|(_, points)| points.iter().map(|point| point.0));
    let lines = Lines {
        series: vec![ideal(asked)],
        ..rates_plot(title)
    };
    let curve = |(name, points): &(String, Vec<(f64, f64)>)| {
        Series::new(name.as_str(), points.iter().copied()).style(Style::Dotted)
    };
    curves
        .iter()
        .enumerate()
        .fold(lines, |lines, (index, named)| {
            lines.with(curve(named).color(index))
        })
        .draw()
}

/// The rates that a search for a breaking point tried: what was achieved of each.
pub fn probes(search: &BreakingPoint) -> String {
    let lines = rates_plot(&format!("Rates tried: {}", search.label))
        .with(ideal(search.probes.iter().map(|probe| probe.rate)));
    with_probes(lines, search, |probe| probe.achieved).draw()
}

/// The rates that a search for a breaking point tried: the 99th percentile at each.
pub fn probe_latencies(search: &BreakingPoint) -> String {
    let asked = Axis::linear("asked", Unit::PerSecond);
    let greatest = search.probes.iter().map(|probe| probe.p99_ms);
    let least = greatest.clone().fold(search.bound.p99_ms, f64::min);
    let y = latency_axis(greatest, [least].into_iter());
    let y = Axis {
        label: "99th percentile".to_owned(),
        ..y
    };
    let lines = Lines::new(
        format!("Latency at the rates tried: {}", search.label),
        asked,
        y,
    )
    .bound_line(
        search.bound.p99_ms,
        format!("bound: {}", units::latency(search.bound.p99_ms)),
    );
    with_probes(lines, search, |probe| probe.p99_ms).draw()
}

fn rates_plot(title: &str) -> Lines {
    let axis = |label| Axis::linear(label, Unit::PerSecond);
    Lines::new(title, axis("asked"), axis("achieved"))
}

/// The line that a server keeps to which achieves all that it is asked.
fn ideal(asked: impl Iterator<Item = f64>) -> Series {
    let greatest = asked.fold(0.0, f64::max);
    Series::new("all that is asked", [(0.0, 0.0), (greatest, greatest)])
        .style(Style::Dashed)
        .color(GREY)
}

fn with_probes(lines: Lines, search: &BreakingPoint, value: impl Fn(&Probe) -> f64) -> Lines {
    let of = |held: bool| {
        let probes = search.probes.iter().filter(move |probe| probe.held == held);
        probes
            .map(|probe| (probe.rate, value(probe)))
            .collect::<Vec<_>>()
    };
    let lines = lines
        .with(
            Series::new("held", of(true))
                .style(Style::Dots)
                .color(GREEN),
        )
        .with(
            Series::new("did not hold", of(false))
                .style(Style::Crosses)
                .color(VERMILION),
        );
    match search.rate {
        Some(rate) => lines.mark(rate, format!("breaking point: {}", units::rate(rate))),
        None => lines,
    }
}

fn seconds<'a>(runs: &'a [&Run]) -> impl Iterator<Item = &'a Second> {
    runs.iter()
        .flat_map(|run| &run.timeline)
        .filter(|second| second.succeeded > 0)
}

/// A latency from second to second; a second without an answer is a gap.
fn over_time(name: &str, run: &Run, value: impl Fn(&Second) -> f64) -> Series {
    let value = |second: &Second| {
        if second.succeeded > 0 {
            value(second)
        } else {
            f64::NAN
        }
    };
    Series::new(
        name,
        run.timeline
            .iter()
            .map(|second| (second.at_seconds, value(second))),
    )
}

/// Requests a second: the timeline's last entry may cover less than a second.
fn rates(name: &str, run: &Run, value: impl Fn(&Second) -> u64) -> Series {
    let mut before = 0.0;
    let points = run.timeline.iter().map(|second| {
        let elapsed = second.at_seconds - before;
        before = second.at_seconds;
        (
            second.at_seconds,
            if elapsed > 0.0 {
                value(second) as f64 / elapsed
            } else {
                f64::NAN
            },
        )
    });
    Series::new(name, points)
}

/// An axis for latencies of which the greatest and the typical are given.
fn latency_axis(greatest: impl Iterator<Item = f64>, typical: impl Iterator<Item = f64>) -> Axis {
    let typical = typical.filter(|ms| *ms > 0.0).fold(f64::INFINITY, f64::min);
    if greatest.fold(0.0, f64::max) > RATIO_OF_EQUAL_STEPS_MAX * typical {
        return Axis::logarithmic("latency", Unit::Milliseconds);
    }
    Axis::linear("latency", Unit::Milliseconds)
}

/// The marks of the runs; each once where runs share them.
fn with_marks(mut lines: Lines, runs: &[&Run]) -> Lines {
    for mark in runs.iter().flat_map(|run| &run.marks) {
        let known = |known: &super::Mark| known.x == mark.at_seconds && known.label == mark.label;
        if !lines.marks.iter().any(known) {
            lines = lines.mark(mark.at_seconds, mark.label.as_str());
        }
    }
    lines
}
