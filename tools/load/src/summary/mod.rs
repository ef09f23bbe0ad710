//! Summaries of runs and searches as text, similar to wrk2's.

use crate::plan::{KeyChoice, Rate, SizeDistribution};
use crate::report::units;
use crate::results::{BreakingPoint, Probe, Run, Second};
use std::fmt::Write as _;

/// The percentiles of the short table.
const PERCENTILES: [f64; 8] = [50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0];

/// The summary of a run: its plan, how many requests succeeded, and the
/// latencies.
pub fn of_run(run: &Run) -> String {
    let mut text = String::new();
    // Writing to memory does not fail, here and below.
    let _ = write_run(&mut text, run);
    text
}

fn write_run(text: &mut String, run: &Run) -> std::fmt::Result {
    let plan = &run.plan;
    writeln!(
        text,
        "{}: {:.1} s over {} connections and {} {} to {}",
        run.label,
        run.measured_seconds,
        plan.connections,
        plan.threads,
        if plan.threads == 1 {
            "thread"
        } else {
            "threads"
        },
        plan.targets.join(", "),
    )?;
    let choice = match plan.key_choice {
        KeyChoice::Sequential => "sequential",
        KeyChoice::Uniform => "uniform",
        KeyChoice::Zipfian => "zipfian",
        KeyChoice::Latest => "latest",
    };
    let keys = format!("{} keys of {}, {choice}", plan.keys, size(plan.key_bytes));
    let batches = plan
        .batch
        .map_or_else(String::new, |operations| match plan.pipeline {
            None => format!("; {operations} operations a request"),
            Some(batches) => {
                format!("; batches of {operations} operations, {batches} in a pipeline")
            }
        });
    let values = size(plan.value_bytes);
    writeln!(text, "{keys}; values of {values}{batches}")?;
    if let Some(why) = &run.cut_short {
        writeln!(text, "cut short: {why}")?;
    }
    writeln!(text)?;

    let seconds = run.measured_seconds.max(1e-9);
    let rate = run.succeeded as f64 / seconds;
    match run.due {
        Some(due) => {
            let share = 100.0 * run.succeeded as f64 / due.max(1) as f64;
            writeln!(
                text,
                "  due         {due} requests, {:.0}/s",
                due as f64 / seconds
            )?;
            writeln!(
                text,
                "  succeeded   {} requests, {rate:.0}/s, {share:.2}% of requests due",
                run.succeeded
            )?;
        }
        None => writeln!(
            text,
            "  succeeded   {} requests, {rate:.0}/s",
            run.succeeded
        )?,
    }
    let failed: Vec<String> = run
        .failed
        .iter()
        .map(|(why, count)| format!("{count} × {why}"))
        .collect();
    if !failed.is_empty() {
        writeln!(text, "  failed      {}", failed.join(", "))?;
    }
    let answered = run.succeeded + run.failed.values().sum::<u64>();
    let unanswered = run.due.unwrap_or(0).saturating_sub(answered);
    if unanswered > 0 {
        writeln!(
            text,
            "  unanswered  {unanswered} requests due had no response at the end"
        )?;
    }
    if run.missing > 0 {
        writeln!(
            text,
            "  missing     {} successful requests found nothing",
            run.missing
        )?;
    }
    if run.entities > 0 {
        let each_second = run.entities as f64 / seconds;
        writeln!(text, "  entities    {}, {each_second:.0}/s", run.entities)?;
    }
    if run.operations > 0 {
        let each_second = run.operations as f64 / seconds;
        writeln!(text, "  operations  {}, {each_second:.0}/s", run.operations)?;
    }
    writeln!(
        text,
        "  bodies      {}/s",
        units::bytes(run.body_bytes as f64 / seconds)
    )?;

    let since = match plan.rate {
        Rate::PerSecond(_) if run.due.is_some() => "from when a request was due",
        _ => "from when a request was sent",
    };
    writeln!(text, "\n  latency, {since}")?;
    for percentile in PERCENTILES {
        if let Some(ms) = run.latency.percentile_ms(percentile) {
            writeln!(
                text,
                "  {:>10}  {:>10}",
                format!("{percentile}%"),
                latency(ms)
            )?;
        }
    }
    writeln!(
        text,
        "  {:>10}  {:>10}",
        "mean",
        latency(run.latency.mean_ms)
    )
}

/// The full latency spectrum of a run, in the format of HdrHistogram's tools.
pub fn spectrum(run: &Run) -> String {
    let mut text = String::from("  latency ms   percentile   1/(1-percentile)\n");
    for (percentile, ms) in &run.latency.spectrum {
        let inverse = 1.0 / (1.0 - percentile / 100.0);
        let _ = if inverse.is_finite() {
            writeln!(text, "  {ms:>10.3}   {percentile:>10.6}   {inverse:>16.2}")
        } else {
            writeln!(text, "  {ms:>10.3}   {percentile:>10.6}                  -")
        };
    }
    text
}

/// The summary of a search: its probes and the rate that it found.
pub fn of_search(found: &BreakingPoint) -> String {
    let mut text = String::new();
    for probe in &found.probes {
        text.push_str(&of_probe(probe));
        text.push('\n');
    }
    if let Some(why) = &found.cut_short {
        let _ = writeln!(text, "cut short: {why}");
    }
    let bound = &found.bound;
    let _ = match found.rate {
        Some(rate) => write!(text, "{}: {rate:.0}/s", found.label),
        None => write!(text, "{}: no rate held", found.label),
    };
    let _ = writeln!(
        text,
        " (at least {}% of the requests due, 99% of them within {}, at most {}% failed)",
        percent(bound.achieved_share),
        latency(bound.p99_ms),
        percent(bound.failed_share),
    );
    text
}

/// The line of a probe, without a line end.
pub fn of_probe(probe: &Probe) -> String {
    let p99 = match probe.p99_ms {
        ms if ms < f64::MAX => latency(ms),
        _ => "-".to_owned(),
    };
    format!(
        "{:>10.0}/s requested {:>10.0}/s achieved   p99 {p99:>10}   {:>7}% failed   {}",
        probe.rate,
        probe.achieved,
        format!("{:.3}", probe.failed_share * 100.0),
        if probe.held { "held" } else { "not held" },
    )
}

/// The line of a second of a run, without a line end.
pub fn of_second(second: &Second) -> String {
    format!(
        "{:>5.0} s {:>9}/s   p50 {:>9}   p99 {:>9}   max {:>9}   {} failed",
        second.at_seconds,
        second.succeeded,
        latency(second.p50_ms),
        latency(second.p99_ms),
        latency(second.max_ms),
        second.failed,
    )
}

/// A latency with three significant digits in a suitable unit.
fn latency(ms: f64) -> String {
    let (number, unit) = match ms {
        ms if ms < 1.0 => (ms * 1e3, "us"),
        ms if ms < 1e3 => (ms, "ms"),
        ms => (ms / 1e3, "s"),
    };
    let decimals = match number {
        number if number < 10.0 => 2,
        number if number < 100.0 => 1,
        _ => 0,
    };
    format!("{number:.decimals$} {unit}")
}

/// A share in percent, without trailing zeros.
fn percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

fn size(size: SizeDistribution) -> String {
    match size {
        SizeDistribution::Fixed(bytes) => format!("{bytes} B"),
        SizeDistribution::Uniform(least, most) => format!("{least} to {most} B"),
        SizeDistribution::Exponential(mean, most) => {
            format!("{mean} B on average, at most {most} B")
        }
    }
}

#[cfg(test)]
mod tests;
