//! Report pages: one self-contained HTML file, and its plots as separate files.

use super::{plot, units};
use crate::plan::{KeyChoice, Plan, Rate, SizeDistribution};
use crate::results::{BreakingPoint, Probe, Run};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::io;
use std::path::Path;

/// The name of the page in its folder.
pub const PAGE: &str = "index.html";

/// The percentiles of the table.
const PERCENTILES: [f64; 8] = [50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0];

/// The style of the page: readable on paper and screen, with wide tables that
/// scroll, and dark if the reader prefers that. The backgrounds are those of
/// the plots.
const STYLE: &str = "\
:root{color-scheme:light dark;background:#fff;color:#24292f}\
@media (prefers-color-scheme:dark){:root{background:#0d1117;color:#e6edf3}}\
body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.5rem}\
table{border-collapse:collapse;display:block;overflow-x:auto}\
th,td{padding:.25rem .9rem .25rem 0;text-align:right;white-space:nowrap;\
border-bottom:1px solid #8884;font-variant-numeric:tabular-nums}\
th:first-child,td:first-child{text-align:left}\
td.text{text-align:left;white-space:normal}\
figure{margin:1rem 0}svg{max-width:100%;height:auto}\
.wrong{color:#c0392b;font-weight:600}";

/// Writes the page about `runs`, side by side if there are several, and its
/// plots into `directory`, which is created if necessary. Files of an earlier
/// page are replaced.
///
/// # Errors
/// Those of the system.
pub fn write(directory: &Path, title: &str, runs: &[Run]) -> io::Result<()> {
    let shown: Vec<&Run> = runs.iter().collect();
    let plots = Plots::of_runs(&shown);
    let body = html! {
        (summary(&shown))
        (plots.figures())
        (percentiles(&shown))
        (failures(&shown))
        (parameters(&shown))
    };
    plots.write(directory)?;
    write_page(directory, title, &body)
}

/// Writes the page about a search for the breaking point: the rates that were
/// tried, and the run at the highest rate that held.
///
/// # Errors
/// Those of the system.
pub fn write_search(directory: &Path, title: &str, search: &BreakingPoint) -> io::Result<()> {
    let mut plots = Plots(vec![
        ("probes.svg", plot::probes(search)),
        ("probe-latencies.svg", plot::probe_latencies(search)),
    ]);
    let best: Vec<&Run> = search.best.iter().collect();
    let of_best = if best.is_empty() {
        Plots(Vec::new())
    } else {
        Plots::of_runs(&best)
    };
    let body = html! {
        (outcome(search))
        (plots.figures())
        (probes(&search.probes))
        @if !best.is_empty() {
            h2 { "The run at the highest rate that held" }
            (summary(&best))
            (of_best.figures())
            (percentiles(&best))
            (failures(&best))
            (parameters(&best))
        }
    };
    plots.0.extend(of_best.0);
    plots.write(directory)?;
    write_page(directory, title, &body)
}

/// Plots and the names of their files.
struct Plots(Vec<(&'static str, String)>);

impl Plots {
    fn of_runs(runs: &[&Run]) -> Self {
        let mut plots = vec![
            ("percentiles.svg", plot::percentiles(runs)),
            ("latency.svg", plot::timeline(runs)),
            ("throughput.svg", plot::throughput(runs)),
        ];
        if runs.iter().any(|run| run.failures() > 0) {
            plots.push(("failures.svg", plot::failures(runs)));
        }
        Self(plots)
    }

    fn figures(&self) -> Markup {
        html! {
            @for (_, svg) in &self.0 {
                figure { (PreEscaped(svg)) }
            }
        }
    }

    fn write(&self, directory: &Path) -> io::Result<()> {
        std::fs::create_dir_all(directory)?;
        for (name, svg) in &self.0 {
            std::fs::write(directory.join(name), svg)?;
        }
        Ok(())
    }
}

fn write_page(directory: &Path, title: &str, body: &Markup) -> io::Result<()> {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                (body)
            }
        }
    };
    std::fs::write(directory.join(PAGE), page.into_string())
}

/// A row of a table: a name and a cell for each run.
fn row(name: &str, runs: &[&Run], cell: impl Fn(&Run) -> String) -> Markup {
    html! { tr { td { (name) } @for run in runs { td { (cell(run)) } } } }
}

fn head(runs: &[&Run]) -> Markup {
    html! { tr { th { } @for run in runs { th { (run.label) } } } }
}

fn summary(runs: &[&Run]) -> Markup {
    let latency = |percentile| {
        move |run: &Run| {
            let ms = run.latency.percentile_ms(percentile);
            units::latency(ms.unwrap_or(f64::NAN))
        }
    };
    html! {
        @for run in runs {
            @if let Some(why) = &run.cut_short {
                p.wrong { (run.label) ": cut short after " (units::seconds(run.measured_seconds)) ": " (why) }
            }
        }
        table {
            (head(runs))
            (row("started", runs, |run| units::moment(run.started_unix_ms)))
            (row("requested rate", runs, |run| asked(run.plan.rate)))
            (row("succeeded", runs, |run| units::rate(run.achieved())))
            (row("share of requests due", runs, |run| {
                run.achieved_share().map_or_else(|| units::NONE.to_owned(), units::share)
            }))
            (row("failed", runs, |run| units::share(run.failed_share())))
            (row("median", runs, latency(50.0)))
            (row("99th percentile", runs, latency(99.0)))
            (row("99.9th percentile", runs, latency(99.9)))
            (row("maximum", runs, latency(100.0)))
            (row("measured time", runs, |run| units::seconds(run.measured_seconds)))
            (row("bodies", runs, |run| {
                format!("{}/s", units::bytes(run.body_bytes_per_second()))
            }))
        }
    }
}

fn percentiles(runs: &[&Run]) -> Markup {
    html! {
        h2 { "Latency by percentile" }
        table {
            (head(runs))
            @for percentile in PERCENTILES {
                (row(&units::percentile(percentile), runs, |run| {
                    let ms = run.latency.percentile_ms(percentile);
                    units::latency(ms.unwrap_or(f64::NAN))
                }))
            }
            (row("mean", runs, |run| units::latency(run.latency.mean_ms)))
            (row("recorded", runs, |run| units::count(run.latency.count)))
        }
        p {
            "In an open loop, latency counts from when a request was due: "
            "it includes the time that the request waited because earlier ones were late."
        }
    }
}

fn failures(runs: &[&Run]) -> Markup {
    let mut kinds: Vec<&String> = runs.iter().flat_map(|run| run.failed.keys()).collect();
    kinds.sort();
    kinds.dedup();
    html! {
        h2 { "Failures" }
        @if kinds.is_empty() {
            p { "No request failed." }
        } @else {
            table {
                (head(runs))
                @for kind in kinds {
                    (row(kind, runs, |run| units::count(run.failed.get(kind).copied().unwrap_or(0))))
                }
            }
        }
    }
}

fn parameters(runs: &[&Run]) -> Markup {
    let of_plan = |cell: fn(&Plan) -> String| move |run: &Run| cell(&run.plan);
    html! {
        h2 { "Plan and machine" }
        table {
            (head(runs))
            (row("operations", runs, of_plan(Plan::operations_label)))
            (row("nodes", runs, of_plan(|plan| plan.targets.join(" "))))
            (row("replicas", runs, of_plan(|plan| {
                plan.replicas.map_or_else(|| "the store's default".to_owned(), |(ack, from)| format!("{ack}/{from}"))
            })))
            (row("connections", runs, of_plan(|plan| plan.connections.to_string())))
            (row("threads", runs, of_plan(|plan| plan.threads.to_string())))
            (row("warm-up", runs, of_plan(|plan| units::seconds(plan.warmup_seconds))))
            (row("keys", runs, of_plan(|plan| {
                format!("{}, {}", units::count(plan.keys), choice(plan.key_choice))
            })))
            (row("key size in bytes", runs, of_plan(|plan| size(plan.key_bytes))))
            (row("value size in bytes", runs, of_plan(|plan| size(plan.value_bytes))))
            (row("seed", runs, of_plan(|plan| plan.seed.to_string())))
            (row("kvorum", runs, |run| run.version.clone()))
            (row("processor", runs, |run| run.machine.processor.clone()))
            (row("cores", runs, |run| run.machine.cores.to_string()))
            (row("memory", runs, |run| units::bytes(run.machine.memory_bytes as f64)))
            (row("system", runs, |run| run.machine.system.clone()))
        }
        p { "The generator ran on this machine, as did nodes at loopback addresses." }
    }
}

fn outcome(search: &BreakingPoint) -> Markup {
    let bound = &search.bound;
    html! {
        p { "Started " (units::moment(search.started_unix_ms)) " with kvorum " (search.version) "." }
        @if let Some(why) = &search.cut_short {
            p.wrong { "Cut short: " (why) }
        }
        p {
            @match search.rate {
                Some(rate) => { strong { (units::rate(rate)) } " is the highest rate that held: " }
                None => { strong { "No rate held: " } }
            }
            "at least " (units::share(bound.achieved_share)) " of the requests due succeeded, 99% of them within "
            (units::latency(bound.p99_ms)) ", and at most " (units::share(bound.failed_share)) " failed."
        }
    }
}

fn probes(probes: &[Probe]) -> Markup {
    html! {
        h2 { "The rates tried" }
        table {
            tr { th { "requested" } th { "achieved" } th { "99th percentile" } th { "failed" } th { "held" } }
            @for probe in probes {
                tr {
                    td { (units::rate(probe.rate)) }
                    td { (units::rate(probe.achieved)) }
                    td { (units::latency(probe.p99_ms)) }
                    td { (units::share(probe.failed_share)) }
                    td { @if probe.held { "yes" } @else { "no" } }
                }
            }
        }
    }
}

fn asked(rate: Rate) -> String {
    match rate {
        Rate::PerSecond(rate) => units::rate(rate),
        Rate::Max => "closed loop".to_owned(),
    }
}

fn choice(choice: KeyChoice) -> &'static str {
    match choice {
        KeyChoice::Sequential => "in sequence",
        KeyChoice::Uniform => "uniform",
        KeyChoice::Zipfian => "zipfian",
        KeyChoice::Latest => "latest",
    }
}

fn size(size: SizeDistribution) -> String {
    match size {
        SizeDistribution::Fixed(bytes) => bytes.to_string(),
        SizeDistribution::Uniform(least, most) => format!("{least} to {most}, uniform"),
        SizeDistribution::Exponential(mean, most) => {
            format!("exponential, mean {mean}, at most {most}")
        }
    }
}
