//! `kvorum-lab load compare`: shows runs that were saved as JSON side by side.

use super::report;
use clap::Args;
use cli::failure::Failure;
use cli::stdout::Output;
use cli::text;
use load::Run;
use load::results::BreakingPoint;
use serde::Serialize;
use std::path::{Path, PathBuf};
use units::Columns;

/// The options of `load compare`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CompareOptions {
    /// Files that 'kvorum-lab load --json' wrote; for a search, its best run is
    /// shown
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Print JSON for programs instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page with tables and plots of all runs
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
}

/// Prints a line for each run and writes the page.
///
/// # Errors
/// A file that cannot be read or is no run, a folder that cannot be written.
pub(super) fn run(options: &CompareOptions) -> Result<(), Failure> {
    let runs: Result<Vec<Run>, Failure> = options.files.iter().map(|file| read(file)).collect();
    let runs = runs?;
    let figures: Vec<Figures<'_>> = runs.iter().map(Figures::of).collect();
    let text = if options.json {
        let json = serde_json::to_string_pretty(&figures);
        json.map_err(|error| Failure::failed(format!("cannot write JSON: {error}")))? + "\n"
    } else {
        table(&figures)
    };
    if let Some(directory) = &options.report {
        report::write(directory, "Comparison of runs", &runs)?;
    }
    Output::new(Failure::failed).print(text.as_bytes())
}

fn read(file: &Path) -> Result<Run, Failure> {
    let text = std::fs::read(file)
        .map_err(|error| Failure::failed(format!("cannot read {}: {error}", file.display())))?;
    let refused = |why: &dyn std::fmt::Display| {
        Failure::failed(format!(
            "{} was not written by 'kvorum-lab load --json': {why}",
            file.display()
        ))
    };
    let error = match serde_json::from_slice::<Run>(&text) {
        Ok(run) => return Ok(run),
        Err(error) => error,
    };
    match serde_json::from_slice::<BreakingPoint>(&text) {
        Ok(search) => search
            .best
            .ok_or_else(|| refused(&"no rate of its search held, so it has no run")),
        Err(_) => Err(refused(&error)),
    }
}

/// What is compared of a run.
#[derive(Serialize)]
struct Figures<'a> {
    label: &'a str,
    succeeded_per_second: f64,
    failed_share: f64,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    p999_ms: Option<f64>,
    max_ms: Option<f64>,
}

impl<'a> Figures<'a> {
    fn of(run: &'a Run) -> Self {
        let latency = |percentile| run.latency.percentile_ms(percentile);
        Self {
            label: &run.label,
            succeeded_per_second: run.achieved(),
            failed_share: run.failed_share(),
            p50_ms: latency(50.0),
            p99_ms: latency(99.0),
            p999_ms: latency(99.9),
            max_ms: latency(100.0),
        }
    }

    fn row(&self) -> [String; 7] {
        let latency = |ms: Option<f64>| units::latency(ms.unwrap_or(f64::NAN));
        [
            self.label.to_owned(),
            units::rate(self.succeeded_per_second),
            units::share(self.failed_share),
            latency(self.p50_ms),
            latency(self.p99_ms),
            latency(self.p999_ms),
            latency(self.max_ms),
        ]
    }
}

fn table(runs: &[Figures<'_>]) -> String {
    let heads = ["", "succeeded", "failed", "p50", "p99", "p99.9", "max"];
    let mut rows = vec![heads.map(str::to_owned)];
    rows.extend(runs.iter().map(Figures::row));
    text::of_lines(units::lines_of(Columns::NameAndFigures, &rows))
}
