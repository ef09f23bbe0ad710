//! `kvorum lab`: runs experiments on clusters of its own, which write their pages.

use crate::failure::{self, Failure};
use crate::signals::{StopSignal, StopSignals};
use crate::values::TimeSpan;
use base::{Clock, SystemClock};
use clap::Args;
use clap::builder::PossibleValuesParser;
use lab::{EXPERIMENTS, Effort, Experiment, Settings};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;

/// Asks for the list of experiments.
const LIST: &str = "list";
/// Asks for all of them.
const ALL: &str = "all";

/// Where the pages belong.
const PAGES: &str = "docs/lab";

/// The studies' own bound.
const P99_MAX: TimeSpan = TimeSpan(Duration::from_millis(10));

/// The options of `lab`.
#[derive(Args, Clone, Debug)]
pub(crate) struct LabOptions {
    /// The experiment; list shows what each asks, all runs one after another
    #[arg(value_name = "EXPERIMENT", value_parser = names())]
    pub(crate) experiment: String,
    /// Take longer runs, over more data
    #[arg(long)]
    pub(crate) full: bool,
    /// Take seconds, to see that everything works; the figures mean nothing
    #[arg(long, conflicts_with = "full")]
    pub(crate) glance: bool,
    /// The longest 99th percentile of a rate that counts as held; longer ones suit machines that stall by themselves
    #[arg(long, value_name = "TIME", default_value_t = P99_MAX)]
    pub(crate) p99: TimeSpan,
    /// The folder that the pages are written to [default: docs/lab; of a glance, whose figures mean nothing, a new folder that is told]
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// The program whose nodes are measured [default: this one]
    #[arg(long, value_name = "PATH")]
    pub(crate) binary: Option<PathBuf>,
}

fn names() -> PossibleValuesParser {
    let experiments = EXPERIMENTS.iter().map(|experiment| experiment.name);
    PossibleValuesParser::new(experiments.chain([LIST, ALL]))
}

/// Runs the experiments that `options` name.
///
/// # Errors
/// An experiment that could not be made. Of several, the others are made all the same.
pub(crate) fn run(options: &LabOptions) -> Result<(), Failure> {
    if options.experiment == LIST {
        list();
        return Ok(());
    }
    let chosen: Vec<&'static Experiment> = EXPERIMENTS
        .iter()
        .filter(|experiment| [experiment.name, ALL].contains(&&*options.experiment))
        .collect();
    let program = match &options.binary {
        Some(program) => Ok(program.clone()),
        None => std::env::current_exe(),
    };
    let program = program
        .map_err(|error| Failure::failed(format!("cannot tell where this program is: {error}")))?;
    let output = match &options.output {
        Some(output) => output.clone(),
        None => folder_for_pages(options.glance)?,
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "how long experiments take is told to people"
    )]
    let begun = Instant::now();
    let lab = Laboratory {
        program,
        effort: match (options.full, options.glance) {
            (true, _) => Effort::Full,
            (false, true) => Effort::Glance,
            (false, false) => Effort::Quick,
        },
        p99: options.p99,
        output,
        begun,
    };
    // The laboratory has a thread of its own; this one waits for signals.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    runtime.block_on(until_done(lab, chosen))
}

/// Where pages go unless it is said: the figures of a glance mean nothing, and
/// must not take the place of those that do.
fn folder_for_pages(is_glance: bool) -> Result<PathBuf, Failure> {
    if !is_glance {
        return Ok(PathBuf::from(PAGES));
    }
    let folder = tempfile::Builder::new().prefix("kvorum-lab-").tempdir();
    folder
        .map(tempfile::TempDir::keep)
        .map_err(|error| Failure::failed(format!("cannot make a folder for the pages: {error}")))
}

async fn until_done(lab: Laboratory, chosen: Vec<&'static Experiment>) -> Result<(), Failure> {
    let mut signals = StopSignals::install()?;
    let stop = Arc::new(AtomicBool::new(false));
    let is_to_stop = Arc::clone(&stop);
    let mut working = spawn_blocking(move || lab.run(&chosen, &is_to_stop));
    let mut stopped_by: Option<StopSignal> = None;
    let result = loop {
        tokio::select! {
            ended = &mut working => {
                break ended.unwrap_or_else(|_| Err(Failure::failed("the laboratory panicked")));
            }
            signal = signals.next() => {
                if stopped_by.is_some() {
                    // Its nodes end by themselves when this process is gone.
                    std::process::exit(signal.exit_code().into());
                }
                stopped_by = Some(signal);
                stop.store(true, Ordering::Relaxed);
            }
        }
    };
    match stopped_by {
        Some(signal) => Err(Failure::stopped(signal.exit_code(), signal.name())),
        None => result,
    }
}

/// Tells each experiment and its question.
fn list() {
    let mut stdout = io::stdout().lock();
    for Experiment { name, question, .. } in EXPERIMENTS {
        // Who closed stdout does not want to read it.
        let _ = writeln!(stdout, "{name:12} {question}");
    }
}

/// How the experiments are made.
struct Laboratory {
    program: PathBuf,
    effort: Effort,
    p99: TimeSpan,
    output: PathBuf,
    begun: Instant,
}

impl Laboratory {
    /// Makes one after another.
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
            let settings = Settings {
                program: self.program.clone(),
                effort: self.effort,
                p99_ms_max: self.p99.0.as_secs_f64() * 1e3,
                output: self.output.clone(),
                begun_unix_ms: SystemClock::new().unix_ms(),
                command: format!("kvorum lab {name}{effort}{p99}"),
            };
            let told = |line: &str| {
                let seconds = self.begun.elapsed().as_secs();
                // Who closed stderr does not want to read it.
                let _ = writeln!(io::stderr(), "[{seconds:4} s] {name}: {line}");
            };
            match experiment.run(&settings, stop, &told) {
                Ok(page) => told(&format!("{} is written", page.display())),
                Err(error) => {
                    let line = format!("lab {name}: {error}");
                    if let Some(earlier) = failed.replace(line) {
                        failure::report_line(&earlier);
                    }
                }
            }
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        failed.map_or(Ok(()), |line| Err(Failure::failed(line)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glance_leaves_the_pages_alone() {
        let folders = [true, true].map(|glance| folder_for_pages(glance).unwrap());
        for folder in &folders {
            assert!(folder.is_dir() && !folder.ends_with(PAGES));
            std::fs::remove_dir(folder).unwrap();
        }
        assert_ne!(folders[0], folders[1], "nobody else has it");
        assert_eq!(folder_for_pages(false).unwrap(), PathBuf::from("docs/lab"));
    }
}
