//! The plots of runs and of searches for a breaking point.

use super::{Axis, Bars, Lines, Series, Style};
use crate::Run;
use crate::plan::Rate;
use crate::report::units::{self, Unit};
use crate::results::{BreakingPoint, LatencyDistribution, Probe, Second};
use std::collections::BTreeSet;

/// If the greatest latency is more than this many times the median, a linear
/// axis would hide the median.
const RATIO_OF_EQUAL_STEPS_MAX: f64 = 30.0;
/// The indexes of colours with a fixed meaning.
const BLUE: usize = 0;
const VERMILION: usize = 1;
const GREEN: usize = 2;
const GREY: usize = 6;

/// Latency by percentile, a curve for each run.
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
    let x = Axis::percentile("percentile");
    Lines {
        series,
        ..Lines::new("Latency by percentile", x, y)
    }
    .draw()
}

/// The spectrum, with the maximum at the percentile that one request lies
/// beyond.
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

/// Latency per second. For one run: the median, the 99th percentile and the
/// maximum. For several: the median and the 99th percentile of each.
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
            let title = "Latency over time: 99th percentile (solid) and median (dashed)";
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

/// Successful requests per second. For one run also the failed ones and the
/// requested rate.
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
            lines = lines.bound_line(rate, format!("requested: {}", units::rate(rate)));
        }
    } else {
        for run in runs {
            lines = lines.with(rates(&run.label, run, |second| second.succeeded));
        }
    }
    with_marks(lines, runs).draw()
}

/// Failed requests by cause, with a bar for each run.
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

/// Achieved rates over requested rates: a curve for each of `curves`, and the
/// line where all requests succeed.
pub fn achieved_over_requested(title: &str, curves: &[(String, Vec<(f64, f64)>)]) -> String {
    let requested = curves
        .iter()
        .flat_map(|(_, points)| points.iter().map(|point| point.0));
    let lines = Lines {
        series: vec![ideal(requested)],
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

/// The probes of a search: the achieved rate of each.
pub fn probes(search: &BreakingPoint) -> String {
    let lines = rates_plot(&format!("Achieved rate of each probe: {}", search.label))
        .with(ideal(search.probes.iter().map(|probe| probe.rate)));
    with_probes(lines, search, |probe| probe.achieved).draw()
}

/// The probes of a search: the 99th percentile of each.
pub fn probe_latencies(search: &BreakingPoint) -> String {
    let requested = Axis::linear("requested", Unit::PerSecond);
    let greatest = search.probes.iter().map(|probe| probe.p99_ms);
    let least = greatest.clone().fold(search.bound.p99_ms, f64::min);
    let y = latency_axis(greatest, [least].into_iter());
    let y = Axis {
        label: "99th percentile".to_owned(),
        ..y
    };
    let lines = Lines::new(
        format!("Latency of each probe: {}", search.label),
        requested,
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
    Lines::new(title, axis("requested"), axis("achieved"))
}

/// The line of a server that achieves each requested rate.
fn ideal(requested: impl Iterator<Item = f64>) -> Series {
    let greatest = requested.fold(0.0, f64::max);
    Series::new("all requests succeed", [(0.0, 0.0), (greatest, greatest)])
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

/// A latency per second. A second without a response is a gap.
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

/// Requests per second. The last entry of the timeline may cover less than a
/// second.
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

/// An axis for latencies with these greatest and typical values.
fn latency_axis(greatest: impl Iterator<Item = f64>, typical: impl Iterator<Item = f64>) -> Axis {
    let typical = typical.filter(|ms| *ms > 0.0).fold(f64::INFINITY, f64::min);
    if greatest.fold(0.0, f64::max) > RATIO_OF_EQUAL_STEPS_MAX * typical {
        return Axis::logarithmic("latency", Unit::Milliseconds);
    }
    Axis::linear("latency", Unit::Milliseconds)
}

/// Adds the marks of the runs. A mark that several runs share is added once.
fn with_marks(mut lines: Lines, runs: &[&Run]) -> Lines {
    for mark in runs.iter().flat_map(|run| &run.marks) {
        let known = |known: &super::Mark| known.x == mark.at_seconds && known.label == mark.label;
        if !lines.marks.iter().any(known) {
            lines = lines.mark(mark.at_seconds, mark.label.as_str());
        }
    }
    lines
}
