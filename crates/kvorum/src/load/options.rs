//! The options of `kvorum load`, and the plan that they describe.

use super::compare::CompareOptions;
use super::values::{MixOption, PauseOption, RateOption, SizesOption};
use crate::failure::Failure;
use crate::values::{ReplicasOption, Switch, TimeSpan, count, url};
use clap::{Args, Subcommand, ValueEnum};
use cluster::NodeUrl;
use load::Plan;
use load::plan::{KeyChoice, Operation};
use load::results::Bound;
use std::path::PathBuf;
use std::time::Duration;

/// What `--help` says behind the options.
pub(crate) const AFTER_HELP: &str = "\
SIZE is a number of bytes: 4096, 64KB (1000 bytes each), 128MiB (1024 KiB each).
SIZES is one SIZE for all, LEAST..MOST for any between, each as likely as another, or
MEAN~MOST for exponentially distributed ones.
TIME is a whole number with ms, s, m or h: 500ms.

With --rate a request is due at its time whatever became of those before it, and its
latency counts from then. With --rate max each connection asks as soon as it is answered;
that shows how much can be done, but hides how long a request would have waited.

Keys are numbers; --fill, or 'kvorum load fill', puts each of them once. Values carry a
checksum. What is read and is no value that was put there is counted as 'wrong value'.

Exit codes: 0 when the load was made, whatever the node refused; 1 when a value was wrong,
nothing succeeded, a fill was not complete, no rate held, or no node could be reached; 2 for
wrong options; 130 after Ctrl-C, 143 after SIGTERM. What was measured until then is written
in any case.";

/// The options of `load`: what to ask of whom, how fast, and where to write
/// what came of it.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct LoadOptions {
    /// What to do instead of making a load.
    #[command(subcommand)]
    pub(crate) instead: Option<OtherCommand>,
    /// What to ask
    #[arg(value_enum, value_name = "WORKLOAD", default_value_t = Workload::Mixed)]
    pub(crate) workload: Workload,
    /// The nodes to ask; connections take them in turn
    #[arg(long = "target", value_parser = url, value_name = "URL", value_delimiter = ',', default_value = "http://127.0.0.1:8080")]
    pub(crate) targets: Vec<NodeUrl>,
    /// Requests a second over all connections, or max for as many as can be
    #[arg(long, value_name = "RATE", default_value_t = RateOption(load::plan::Rate::Max))]
    pub(crate) rate: RateOption,
    /// Open connections, over all threads
    #[arg(long, value_parser = count(1..=60_000), value_name = "COUNT", default_value_t = 64)]
    pub(crate) connections: usize,
    /// Threads of the generator
    #[arg(long, value_parser = count(1..=256), value_name = "COUNT", default_value_t = 1)]
    pub(crate) threads: usize,
    /// How long to count; with --find-breaking-point, how long for each rate [default: 10s, or 5s for each rate]
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<TimeSpan>,
    /// How long to make the load before anything is counted; 0 for not at all
    #[arg(long, value_name = "TIME", default_value_t = PauseOption(Duration::from_secs(1)))]
    pub(crate) warmup: PauseOption,
    /// How long a request may take before it is given up
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan(Duration::from_secs(10)))]
    pub(crate) timeout: TimeSpan,

    /// Operations and their weights for the workload mixed: put, insert, get, get-missing, delete, read-modify-write, range [default: get=50,put=50]
    #[arg(long, value_name = "NAME=WEIGHT,…", help_heading = "Requests")]
    pub(crate) mix: Option<MixOption>,
    /// How many keys there are
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000), value_name = "COUNT", default_value_t = 100_000, help_heading = "Requests")]
    pub(crate) keys: u64,
    /// Which key a request takes [default: uniform, or what the YCSB mix says]
    #[arg(long, value_enum, value_name = "CHOICE", help_heading = "Requests")]
    pub(crate) key_choice: Option<KeyChoiceOption>,
    /// The bytes of a key
    #[arg(
        long,
        value_name = "SIZES",
        default_value = "16",
        help_heading = "Requests"
    )]
    pub(crate) key_bytes: SizesOption,
    /// The bytes of a value; they do not compress
    #[arg(
        long,
        value_name = "SIZES",
        default_value = "64",
        help_heading = "Requests"
    )]
    pub(crate) value_bytes: SizesOption,
    /// How many entities a range asks for
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..), value_name = "COUNT", default_value_t = 100, help_heading = "Requests")]
    pub(crate) range_limit: u64,
    /// ACK/FROM of each request: the replicas that must answer, of how many [default: the cluster's own]
    #[arg(long, value_name = "ACK/FROM", help_heading = "Requests")]
    pub(crate) replicas: Option<ReplicasOption>,
    /// Put each key once before the load, as fast as can be, in sequence with --key-choice sequential, else in a random order
    #[arg(long, help_heading = "Requests")]
    pub(crate) fill: bool,
    /// Whether values read are verified
    #[arg(long, value_enum, value_name = "SWITCH", default_value_t = Switch::On, help_heading = "Requests")]
    pub(crate) verify: Switch,
    /// What all choices are derived from
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 1,
        help_heading = "Requests"
    )]
    pub(crate) seed: u64,

    /// Search the highest rate that holds: 99% of the requests due succeed, fewer than 0.1% fail, and --p99. Begins at --rate, or at 1000
    #[arg(long, help_heading = "Breaking point")]
    pub(crate) find_breaking_point: bool,
    /// The longest 99th percentile of a rate that holds
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan(Duration::from_millis(10)), help_heading = "Breaking point")]
    pub(crate) p99: TimeSpan,

    /// Write what was measured as JSON; - for stdout, the summary then goes to stderr
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) json: Option<PathBuf>,
    /// Write a page with tables and plots, and the plots as files beside it
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) report: Option<PathBuf>,
    /// What to call the run in JSON and reports [default: from the workload and the rate]
    #[arg(long, value_name = "TEXT", help_heading = "Output")]
    pub(crate) label: Option<String>,
    /// Write all steps of the percentiles, too
    #[arg(long, help_heading = "Output")]
    pub(crate) spectrum: bool,
}

/// What can be done with loads that were made.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum OtherCommand {
    /// Lay runs side by side that were kept with --json
    Compare(CompareOptions),
}

/// What to ask.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Workload {
    /// Values under chosen keys
    Put,
    /// Values of chosen keys
    Get,
    /// Deletes of chosen keys
    Delete,
    /// What --mix says
    Mixed,
    /// Ranges from chosen keys on
    Range,
    /// Each key once, and no more
    Fill,
    /// Half reads, half updates, zipfian
    YcsbA,
    /// 95% reads, 5% updates, zipfian
    YcsbB,
    /// Reads, zipfian
    YcsbC,
    /// 95% reads of the latest, 5% inserts
    YcsbD,
    /// 95% ranges, 5% inserts, zipfian
    YcsbE,
    /// Half reads, half read-modify-writes, zipfian
    YcsbF,
}

impl Workload {
    /// Its operations with their weights; [`None`] where `--mix` says them.
    fn operations(self) -> Option<Vec<(Operation, f64)>> {
        use Operation::{Delete, Get, Insert, Put, Range, ReadModifyWrite};
        match self {
            Self::Put | Self::Fill => Some(vec![(Put, 1.0)]),
            Self::Get | Self::YcsbC => Some(vec![(Get, 1.0)]),
            Self::Delete => Some(vec![(Delete, 1.0)]),
            Self::Range => Some(vec![(Range, 1.0)]),
            Self::Mixed => None,
            Self::YcsbA => Some(vec![(Get, 50.0), (Put, 50.0)]),
            Self::YcsbB => Some(vec![(Get, 95.0), (Put, 5.0)]),
            Self::YcsbD => Some(vec![(Get, 95.0), (Insert, 5.0)]),
            Self::YcsbE => Some(vec![(Range, 95.0), (Insert, 5.0)]),
            Self::YcsbF => Some(vec![(Get, 50.0), (ReadModifyWrite, 50.0)]),
        }
    }

    /// How it chooses keys unless it is told.
    fn key_choice(self) -> KeyChoice {
        match self {
            Self::YcsbD => KeyChoice::Latest,
            Self::YcsbA | Self::YcsbB | Self::YcsbC | Self::YcsbE | Self::YcsbF => {
                KeyChoice::Zipfian
            }
            _ => KeyChoice::Uniform,
        }
    }
}

/// Which key a request takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum KeyChoiceOption {
    /// One after the other
    Sequential,
    /// Any
    Uniform,
    /// Few keys most of the time
    Zipfian,
    /// Mostly those inserted last
    Latest,
}

impl From<KeyChoiceOption> for KeyChoice {
    fn from(choice: KeyChoiceOption) -> Self {
        match choice {
            KeyChoiceOption::Sequential => Self::Sequential,
            KeyChoiceOption::Uniform => Self::Uniform,
            KeyChoiceOption::Zipfian => Self::Zipfian,
            KeyChoiceOption::Latest => Self::Latest,
        }
    }
}

/// How long each rate of a search is made.
const PROBE_TIME: Duration = Duration::from_secs(5);

/// How long a run counts.
const RUN_TIME: Duration = Duration::from_secs(10);

impl LoadOptions {
    /// The plan that these options describe.
    ///
    /// # Errors
    /// What cannot be as it was given.
    pub(crate) fn plan(&self) -> Result<Plan, Failure> {
        if self.find_breaking_point && self.workload == Workload::Fill {
            let line = "a fill has no rate: choose another workload for --find-breaking-point";
            return Err(Failure::usage(line));
        }
        if self.workload == Workload::Fill && self.rate.0 != load::plan::Rate::Max {
            let line = "a fill has no rate: leave --rate out, or choose another workload";
            return Err(Failure::usage(line));
        }
        if self.workload != Workload::Mixed && self.mix.is_some() {
            let line = "--mix is for the workload mixed: leave it out, or choose that";
            return Err(Failure::usage(line));
        }
        let default = if self.find_breaking_point {
            PROBE_TIME
        } else {
            RUN_TIME
        };
        let operations = self.workload.operations();
        let key_choice = self.key_choice.map(KeyChoice::from);
        let plan = Plan {
            targets: self.targets.iter().map(NodeUrl::to_string).collect(),
            connections: self.connections,
            threads: self.threads,
            rate: self.rate.0,
            warmup_seconds: self.warmup.0.as_secs_f64(),
            seconds: self.duration.map_or(default, |span| span.0).as_secs_f64(),
            timeout_seconds: self.timeout.0.as_secs_f64(),
            operations: match (operations, &self.mix) {
                (Some(operations), _) => operations,
                (None, Some(mix)) => mix.0.clone(),
                (None, None) => vec![(Operation::Get, 50.0), (Operation::Put, 50.0)],
            },
            keys: self.keys,
            key_choice: key_choice.unwrap_or_else(|| self.workload.key_choice()),
            key_bytes: self.key_bytes.0,
            value_bytes: self.value_bytes.0,
            range_limit: self.range_limit,
            replicas: self.replicas.map(|pair| (pair.0.ack, pair.0.from)),
            verify: self.verify == Switch::On,
            seed: self.seed,
        };
        plan.check()
            .map_err(|error| Failure::usage(error.to_string()))?;
        Ok(plan)
    }

    /// What a rate must keep up to hold.
    pub(crate) fn bound(&self) -> Bound {
        Bound {
            p99_ms: self.p99.0.as_secs_f64() * 1e3,
            ..Bound::default()
        }
    }
}

#[cfg(test)]
mod tests;
