//! `kvorum load compare`: lays runs side by side that were kept as JSON.

use super::report;
use crate::failure::Failure;
use clap::Args;
use load::Run;
use load::report::units;
use load::results::BreakingPoint;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The options of `load compare`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CompareOptions {
    /// What 'kvorum load --json' wrote; of a search, its best run is taken
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Write a page with the runs' tables and plots over each other
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
}

/// Shows the runs of the files, a line each, and writes their page.
///
/// # Errors
/// A file that cannot be read or is something else, a folder that cannot be written.
pub(super) fn run(options: &CompareOptions) -> Result<(), Failure> {
    let runs: Result<Vec<Run>, Failure> = options.files.iter().map(|file| read(file)).collect();
    let runs = runs?;
    // Who closed stdout does not want to read it.
    let _ = io::stdout().write_all(table(&runs).as_bytes());
    match &options.report {
        Some(directory) => report::write(directory, "Runs side by side", &runs),
        None => Ok(()),
    }
}

fn read(file: &Path) -> Result<Run, Failure> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a file of people, which has nothing to do with a store's disk"
    )]
    let text = std::fs::read(file)
        .map_err(|error| Failure::failed(format!("cannot read {}: {error}", file.display())))?;
    let refused = |why: &dyn std::fmt::Display| {
        Failure::failed(format!(
            "{} is nothing that 'kvorum load --json' wrote: {why}",
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
            .ok_or_else(|| refused(&"no rate of its search held, so there is no run")),
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
