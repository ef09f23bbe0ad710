//! `kvorum-lab lab`: runs experiments on clusters of their own and writes a page
//! about each.

use crate::until_stopped::until_stopped;
use clap::Args;
use clap::builder::PossibleValuesParser;
use cli::failure::Failure;
use cli::stdout::Output;
use cli::text;
use cli::values::{TimeSpan, span};
use lab::{EXPERIMENTS, Effort, Experiment, Settings};
use std::io::{self, Write as _};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// The argument that asks for the list of experiments.
const LIST: &str = "list";
/// The argument that asks for all experiments.
const ALL: &str = "all";

/// The experiment whose length the user can choose.
const TIMED: &str = "tombstone_gc";

/// The folder of the committed pages.
const PAGES: &str = "docs/lab";

/// The bound of the studies that the laboratory compares with.
const P99_MAX: TimeSpan = TimeSpan(Duration::from_millis(10));

/// What the options with a time may be.
const TIMES: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(7 * 24 * 3600);

/// The options of `lab`.
#[derive(Args, Clone, Debug)]
pub(crate) struct LabOptions {
    /// The experiment; 'list' prints the question of each, 'all' runs all of them
    #[arg(value_name = "EXPERIMENT", value_parser = names(&[LIST, ALL]))]
    pub(crate) experiment: String,
    /// Run three times as long or more, over more data; a normal run of an experiment takes minutes
    #[arg(long)]
    pub(crate) full: bool,
    /// Run for seconds instead of minutes, to check that everything works; the figures mean nothing
    #[arg(long, conflicts_with = "full")]
    pub(crate) glance: bool,
    /// The 99th percentile must not exceed TIME for a rate to count as held; use a greater one on a machine that stalls by itself
    #[arg(long, value_name = "TIME", default_value_t = P99_MAX, value_parser = span(TIMES))]
    pub(crate) p99: TimeSpan,
    /// How long the experiment 'tombstone_gc' writes and deletes [default: 90s; with --full 30m]
    #[arg(long, value_name = "TIME", value_parser = span(TIMES))]
    pub(crate) duration: Option<TimeSpan>,
    /// The folder that the pages are written to [default: docs/lab; with --glance a new temporary folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// The program whose nodes are measured [default: kvorum in the folder of this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) binary: Option<PathBuf>,
}

/// The options of `report`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReportOptions {
    /// The experiment, or 'all'
    #[arg(value_name = "EXPERIMENT", value_parser = names(&[ALL]))]
    pub(crate) experiment: String,
    /// The folder of the pages
    #[arg(long, value_name = "DIR", default_value = PAGES)]
    pub(crate) output: PathBuf,
}

/// Writes pages again.
///
/// # Errors
/// The results of a page cannot be read or do not fit to its text.
pub(crate) fn report(options: &ReportOptions) -> Result<(), Failure> {
    let chosen = EXPERIMENTS
        .iter()
        .filter(|known| is_chosen(known, &options.experiment));
    for experiment in chosen {
        let written = experiment.report(&options.output);
        written.map_err(|error| Failure::failed(error.to_string()))?;
        text::report_line(&format!("wrote {}.md", experiment.name));
    }
    Ok(())
}

fn is_chosen(experiment: &Experiment, name: &str) -> bool {
    [experiment.name, ALL].contains(&name)
}

/// The names of all experiments, and further words.
fn names(further: &[&'static str]) -> PossibleValuesParser {
    let experiments = EXPERIMENTS.iter().map(|experiment| experiment.name);
    PossibleValuesParser::new(experiments.chain(further.iter().copied()))
}

/// Runs the experiments that `options` name.
///
/// # Errors
/// An experiment that failed. The other experiments still run.
pub(crate) fn run(options: &LabOptions) -> Result<(), Failure> {
    if options.experiment == LIST {
        return list();
    }
    if options.duration.is_some() && options.experiment != TIMED {
        return Err(Failure::usage(format!(
            "--duration is only for the experiment '{TIMED}': omit --duration"
        )));
    }
    let chosen: Vec<&'static Experiment> = EXPERIMENTS
        .iter()
        .filter(|experiment| is_chosen(experiment, &options.experiment))
        .collect();
    let program = match &options.binary {
        Some(program) => program.clone(),
        None => program_beside_this()?,
    };
    let output = match &options.output {
        Some(output) => output.clone(),
        None => folder_for_pages(options.glance)?,
    };
    let lab = Laboratory {
        program,
        effort: match (options.full, options.glance) {
            (true, _) => Effort::Full,
            (false, true) => Effort::Glance,
            (false, false) => Effort::Quick,
        },
        p99: options.p99,
        duration: options.duration,
        output,
        begun: Instant::now(),
    };
    until_stopped("lab", move |stop| lab.run(&chosen, stop))
}

/// The program `kvorum` in the folder of this one, where cargo puts both.
fn program_beside_this() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(|error| {
        Failure::failed(format!(
            "cannot find the folder of this program: {error}; name the program kvorum with --binary"
        ))
    })?;
    let program = own.with_file_name("kvorum");
    if program.is_file() {
        return Ok(program);
    }
    Err(Failure::usage(format!(
        "there is no {}: build it, or name it with --binary",
        program.display()
    )))
}

/// The default folder for pages. The pages of a glance must not replace pages
/// whose figures mean something.
fn folder_for_pages(is_glance: bool) -> Result<PathBuf, Failure> {
    if !is_glance {
        return Ok(PathBuf::from(PAGES));
    }
    let folder = tempfile::Builder::new().prefix("kvorum-lab-").tempdir();
    folder
        .map(tempfile::TempDir::keep)
        .map_err(|error| Failure::failed(format!("cannot create a folder for the pages: {error}")))
}

/// Prints each experiment and its question.
fn list() -> Result<(), Failure> {
    let line =
        |experiment: &Experiment| format!("{:12} {}\n", experiment.name, experiment.question());
    let lines: String = EXPERIMENTS.iter().map(line).collect();
    Output::new(Failure::failed).print(lines.as_bytes())
}

/// The settings of all experiments of the command.
struct Laboratory {
    program: PathBuf,
    effort: Effort,
    p99: TimeSpan,
    duration: Option<TimeSpan>,
    output: PathBuf,
    begun: Instant,
}

impl Laboratory {
    /// Runs one experiment after another.
    fn run(&self, chosen: &[&Experiment], stop: &AtomicBool) -> Result<(), Failure> {
        let mut failed = None;
        for experiment in chosen {
            let name = experiment.name;
            let effort = match self.effort {
                Effort::Glance => " --glance",
                Effort::Quick => "",
                Effort::Full => " --full",
            };
            let p99 = match self.p99 {
                P99_MAX => String::new(),
                p99 => format!(" --p99 {p99}"),
            };
            let duration = self
                .duration
                .map_or(String::new(), |duration| format!(" --duration {duration}"));
            let settings = Settings {
                program: self.program.clone(),
                effort: self.effort,
                p99_ms_max: self.p99.0.as_secs_f64() * 1e3,
                output: self.output.clone(),
                begun_unix_ms: unix_ms(),
                duration: self.duration.map(|duration| duration.0),
                command: format!("kvorum-lab lab {name}{effort}{p99}{duration}"),
            };
            let log = |line: &str| {
                let seconds = self.begun.elapsed().as_secs();
                // A closed stderr is no reason to stop.
                let line = text::of_lines([format!("[{seconds:4} s] {name}: {line}")]);
                let _ = io::stderr().write_all(line.as_bytes());
            };
            let written = experiment.run(&settings, stop, &log);
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            match written {
                Ok(page) => log(&format!("wrote {}", page.display())),
                Err(error) => {
                    let line = format!("lab {name}: {error}");
                    if let Some(earlier) = failed.replace(line) {
                        text::report_line(&earlier);
                    }
                }
            }
        }
        failed.map_or(Ok(()), |line| Err(Failure::failed(line)))
    }
}

/// Milliseconds since 1970.
fn unix_ms() -> u64 {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    time.map_or(0, |time| {
        u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glance_does_not_replace_the_pages() {
        let folders = [true, true].map(|glance| folder_for_pages(glance).unwrap());
        for folder in &folders {
            assert!(folder.is_dir() && !folder.ends_with(PAGES));
            std::fs::remove_dir(folder).unwrap();
        }
        assert_ne!(
            folders[0], folders[1],
            "each glance has a folder of its own"
        );
        assert_eq!(folder_for_pages(false).unwrap(), PathBuf::from("docs/lab"));
    }
}
