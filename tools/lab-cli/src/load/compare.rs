//! `kvorum-lab load compare`: shows runs that were saved as JSON side by side.

use super::report;
use clap::Args;
use cli::failure::Failure;
use load::Run;
use load::report::units;
use load::results::BreakingPoint;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The options of `load compare`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CompareOptions {
    /// Files that 'kvorum-lab load --json' wrote; for a search, its best run is
    /// shown
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
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
    // A closed stdout is no reason to fail.
    let _ = io::stdout().write_all(table(&runs).as_bytes());
    match &options.report {
        Some(directory) => report::write(directory, "Comparison of runs", &runs),
        None => Ok(()),
    }
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

fn table(runs: &[Run]) -> String {
    let heads = ["", "succeeded", "failed", "p50", "p99", "p99.9", "max"].map(str::to_owned);
    let lines: Vec<[String; 7]> = std::iter::once(heads)
        .chain(runs.iter().map(line))
        .collect();
    let widths: [usize; 7] = std::array::from_fn(|column| {
        let cells = lines.iter().map(|line| line[column].chars().count());
        cells.max().unwrap_or_default()
    });
    let mut text = String::new();
    for [label, figures @ ..] in &lines {
        text.push_str(&format!("{label:width$}", width = widths[0]));
        for (figure, width) in figures.iter().zip(&widths[1..]) {
            text.push_str(&format!("  {figure:>width$}"));
        }
        text.push('\n');
    }
    text
}

fn line(run: &Run) -> [String; 7] {
    let latency = |percentile| {
        let ms = run.latency.percentile_ms(percentile);
        units::latency(ms.unwrap_or(f64::NAN))
    };
    [
        run.label.clone(),
        units::rate(run.achieved()),
        units::share(run.failed_share()),
        latency(50.0),
        latency(99.0),
        latency(99.9),
        latency(100.0),
    ]
}
