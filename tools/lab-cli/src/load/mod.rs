//! `kvorum-lab load`: generates load and reports what it measured.
//!
//! This module shows progress, and writes the measurements, also if the load ended early.

mod compare;
mod failures;
mod options;
mod report;
mod values;

pub(crate) use options::{AFTER_HELP, LoadOptions};

use crate::until_stopped::until_stopped;
use cli::access;
use cli::failure::Failure;
use cli::progress::{Progress, Stage};
use cli::stdout::Output;
use cli::text::report_line;
use load::results::Run;
use load::{Error, Plan, summary};
use options::{OtherCommand, Workload};
use serde::Serialize;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use units::count;

/// Generates the load that `options` describe.
///
/// # Errors
/// Wrong options, a node that cannot be reached, a file that cannot be written,
/// and a load that reveals an error.
pub(crate) fn run(options: &LoadOptions) -> Result<(), Failure> {
    if let Some(OtherCommand::Compare(options)) = &options.instead {
        return compare::run(options);
    }
    let plan = options.plan()?;
    if let Some(directory) = &options.report {
        report::make_folder(directory)?;
    }
    if let Some(file) = &options.json {
        check_writable(file)?;
    }
    let options = options.clone();
    until_stopped("load", move |stop| {
        LoadCommand {
            options,
            plan,
            stop,
        }
        .run()
    })
}

/// The command with its options.
struct LoadCommand<'a> {
    options: LoadOptions,
    plan: Plan,
    stop: &'a AtomicBool,
}

impl LoadCommand<'_> {
    fn run(&self) -> Result<(), Failure> {
        if self.options.workload == Workload::Fill {
            let filled = self.fill()?;
            return self.finish_run(filled, failures::of_fill);
        }
        if self.options.fill {
            let filled = self.fill()?;
            report_line(&format!(
                "{} keys put in {:.1} s",
                filled.succeeded, filled.measured_seconds
            ));
            if self.stop.load(Relaxed) {
                return Ok(());
            }
            failures::of_fill(&filled)?;
        }
        if self.options.find_breaking_point {
            return self.search();
        }
        let mut progress = Progress::new();
        let seconds_all = self.plan.warmup_seconds + self.plan.seconds;
        let run = load::run(&self.plan, self.stop, &mut |second| {
            progress.show(|seconds| Stage {
                share: Some(seconds / seconds_all),
                text: summary::of_second(second),
            });
        });
        drop(progress);
        self.finish_run(run.map_err(|error| failure(&error))?, failures::of_run)
    }

    fn finish_run(
        &self,
        mut run: Run,
        verdict: fn(&Run) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if let Some(label) = &self.options.label {
            run.label.clone_from(label);
        }
        let mut text = summary::of_run(&run);
        if self.options.spectrum {
            text.push('\n');
            text.push_str(&summary::spectrum(&run));
        }
        let report =
            |directory: &Path| report::write(directory, &run.label, std::slice::from_ref(&run));
        self.finish(&run, &text, report, verdict(&run))
    }

    fn fill(&self) -> Result<Run, Failure> {
        let mut progress = Progress::new();
        let mut done = 0;
        let keys = self.plan.keys;
        let filled = load::fill(&self.plan, self.stop, &mut |second| {
            done += second.succeeded;
            progress.show(|_| Stage {
                share: Some(done as f64 / keys as f64),
                text: format!("{} of {} keys put", count(done), count(keys)),
            });
        });
        drop(progress);
        filled.map_err(|error| failure(&error))
    }

    fn search(&self) -> Result<(), Failure> {
        let mut progress = Progress::new();
        let bound = self.options.bound();
        let found = load::find_breaking_point(&self.plan, bound, self.stop, &mut |probe| {
            progress.add(&summary::of_probe(probe));
        });
        let mut found = found.map_err(|error| failure(&error))?;
        if let Some(label) = &self.options.label {
            found.label.clone_from(label);
        }
        let mut text = summary::of_search(&found);
        if let Some(best) = &found.best {
            text.push('\n');
            text.push_str(&summary::of_run(best));
        }
        let report = |directory: &Path| report::write_search(directory, &found);
        self.finish(&found, &text, report, failures::of_search(&found))
    }

    /// Writes what was measured, then fails if something is wrong with it.
    fn finish(
        &self,
        measured: &impl Serialize,
        text: &str,
        report: impl FnOnce(&Path) -> Result<(), Failure>,
        verdict: Result<(), Failure>,
    ) -> Result<(), Failure> {
        let json = self.options.json.as_deref();
        let is_json_on_stdout = json == Some(Path::new("-"));
        let printed = if is_json_on_stdout {
            let _ = io::stderr().write_all(text.as_bytes());
            Ok(())
        } else {
            print(text.as_bytes())
        };
        // Whether somebody reads that or not, the measurement is kept.
        if let Some(file) = json {
            write_json(file, measured)?;
        }
        if let Some(directory) = &self.options.report {
            report(directory)?;
        }
        printed?;
        if self.stop.load(Relaxed) {
            return Ok(());
        }
        verdict
    }
}

/// Checks before the load that the file can be written, so that no measurement
/// is lost.
fn check_writable(file: &Path) -> Result<(), Failure> {
    if file == Path::new("-") {
        return Ok(());
    }
    let mut options = std::fs::OpenOptions::new();
    let opened = options.create(true).append(true).open(file);
    opened
        .map(|_| ())
        .map_err(|error| cannot_write(file, &error))
}

fn cannot_write(file: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot write {}: {error}", file.display()))
}

/// Writes JSON to a file, or to stdout for `-`.
fn write_json(file: &Path, measured: &impl Serialize) -> Result<(), Failure> {
    let mut json = serde_json::to_vec_pretty(measured)
        .map_err(|error| Failure::failed(format!("cannot write JSON: {error}")))?;
    json.push(b'\n');
    if file == Path::new("-") {
        return print(&json);
    }
    std::fs::write(file, &json).map_err(|error| cannot_write(file, &error))
}

/// Writes to stdout.
fn print(bytes: &[u8]) -> Result<(), Failure> {
    Output::new(Failure::failed).print(bytes)
}

fn failure(error: &Error) -> Failure {
    match error {
        Error::Distrusted { failure, .. } => access::distrusted(error.to_string(), *failure),
        Error::Refused { status, .. } => access::refused(*status, error.to_string()),
        Error::Plan(_) => Failure::usage(error.to_string()),
        Error::Unreachable { .. } | Error::System(_) => Failure::failed(error.to_string()),
    }
}
