//! The options of `kvorum-lab load`, and the plan that they describe.

use super::compare::CompareOptions;
use super::values::{MixOption, PauseOption, RateOption, SizesOption};
use clap::{Args, Subcommand, ValueEnum};
use cli::access::AccessOptions;
use cli::failure::Failure;
use cli::values::{Switch, TimeSpan, count, count_from, url};
use cluster::NodeUrl;
use load::Plan;
use load::plan::{Ask, KeyChoice, Operation};
use load::results::Bound;
use std::path::PathBuf;
use std::time::Duration;

/// The text of `--help` after the options.
pub(crate) const AFTER_HELP: &str = "\
SIZE is a number of bytes: 4096, 64KB (1000 bytes each), 128MiB (1024 KiB each).
SIZES is a fixed SIZE, a uniform distribution MIN..MAX, or an exponential distribution
MEAN~MAX.
TIME is a whole number with the unit ms, s, m, h or d: 500ms.

With --rate NUMBER the load is an open loop: requests fall due at that rate, even if earlier
ones are still unanswered, and latency counts from when a request was due. With --rate max
it is a closed loop: each connection sends its next request once the last one is answered.
A closed loop shows the saturation throughput, but hides how long requests would have had to
wait (coordinated omission).

Keys are numbers; --fill, or 'kvorum-lab load fill', puts each of them once. Values carry a
checksum over themselves and their key; a value that does not match it is counted as
'wrong value'.

A load that ends early writes what was measured until then.";

/// The options of `load`: which requests to send where, how fast, and where to
/// write the results.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct LoadOptions {
    /// Another command, instead of generating load.
    #[command(subcommand)]
    pub(crate) instead: Option<OtherCommand>,
    /// The requests to send
    #[arg(value_enum, value_name = "WORKLOAD", default_value_t = Workload::Mixed)]
    pub(crate) workload: Workload,
    /// Nodes to send requests to, separated by commas; connections are spread over them [default: KVORUM_URL, or http://127.0.0.1:8080]
    #[arg(long = "url", value_parser = url, value_name = "URL", value_delimiter = ',')]
    pub(crate) urls: Vec<NodeUrl>,
    /// Which node gets a request: any, or the first replica of its key
    #[arg(long, value_enum, value_name = "WHICH", default_value_t = AskOption::Any)]
    pub(crate) ask: AskOption,
    /// Send this many requests per second over all connections, or max for as many as possible
    #[arg(long, value_name = "RATE", default_value_t = RateOption(load::plan::Rate::Max))]
    pub(crate) rate: RateOption,
    /// Number of connections, over all threads
    #[arg(long, value_parser = count(1..=60_000_usize), value_name = "COUNT", default_value_t = 64)]
    pub(crate) connections: usize,
    /// Number of threads of the load generator
    #[arg(long, value_parser = count(1..=256_usize), value_name = "COUNT", default_value_t = 1)]
    pub(crate) threads: usize,
    /// How long to measure; with --find-breaking-point, how long at each rate [default: 10s, or 5s at each rate]
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<TimeSpan>,
    /// How long to send requests before the measurement begins; 0 for no
    /// warm-up
    #[arg(long, value_name = "TIME", default_value_t = PauseOption(Duration::from_secs(1)))]
    pub(crate) warmup: PauseOption,
    /// How long a request may take before it counts as timed out
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan(Duration::from_secs(10)))]
    pub(crate) timeout: TimeSpan,

    /// Operations and their weights for the workload 'mixed': put, insert, get, get-missing, delete, read-modify-write, compare-and-set, scan [default: get=50,put=50]
    #[arg(long, value_name = "NAME=WEIGHT,…", help_heading = "Requests")]
    pub(crate) mix: Option<MixOption>,
    /// Number of keys
    #[arg(long, value_parser = count(1..=1_000_000_000_000_u64), value_name = "COUNT", default_value_t = 100_000, help_heading = "Requests")]
    pub(crate) keys: u64,
    /// How the keys of requests are chosen [default: uniform, or as the YCSB
    /// workload defines it]
    #[arg(long, value_enum, value_name = "CHOICE", help_heading = "Requests")]
    pub(crate) key_choice: Option<KeyChoiceOption>,
    /// Size of a key in bytes
    #[arg(
        long,
        value_name = "SIZES",
        default_value = "16",
        help_heading = "Requests"
    )]
    pub(crate) key_bytes: SizesOption,
    /// Size of a value in bytes; values are random, so they do not compress
    #[arg(
        long,
        value_name = "SIZES",
        default_value = "64",
        help_heading = "Requests"
    )]
    pub(crate) value_bytes: SizesOption,
    /// Number of entities that a scan requests
    #[arg(long, value_parser = count_from(1), value_name = "COUNT", default_value_t = 100, help_heading = "Requests")]
    pub(crate) scan_limit: u64,
    /// How many replicas must answer [default: more than half of FROM]
    #[arg(long, value_name = "ACK", value_parser = count(1..=u8::MAX), requires = "from", help_heading = "Requests")]
    pub(crate) ack: Option<u8>,
    /// How many replicas a key has [default: the cluster's default]
    #[arg(long, value_name = "FROM", value_parser = count(1..=u8::MAX), help_heading = "Requests")]
    pub(crate) from: Option<u8>,
    /// Time to live of the values that are put [default: they do not expire]
    #[arg(long, value_parser = count_from(1), value_name = "SECONDS", help_heading = "Requests")]
    pub(crate) ttl: Option<u64>,
    /// Send this many operations in each request, as a batch [default: one, as a request of its own]
    #[arg(long, value_parser = count(1..=100_000_usize), value_name = "COUNT", help_heading = "Requests")]
    pub(crate) batch: Option<usize>,
    /// Let this many batches of a connection wait for their answers, as one request that does not end [default: each batch is a request, which the next one waits for]
    #[arg(long, value_parser = count(1..=1024_usize), value_name = "COUNT", requires = "batch", help_heading = "Requests")]
    pub(crate) pipeline: Option<usize>,
    /// Put each key once before the load, as fast as possible; in sequence with --key-choice sequential, otherwise in random order
    #[arg(long, help_heading = "Requests")]
    pub(crate) fill: bool,
    /// Verify that each value read is one that was put under its key
    #[arg(long, value_enum, value_name = "SWITCH", default_value_t = Switch::On, help_heading = "Requests")]
    pub(crate) verify: Switch,
    /// Seed of all random choices
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 1,
        help_heading = "Requests"
    )]
    pub(crate) seed: u64,

    /// Search for the highest rate that holds: 99% of the requests due succeed, fewer than 0.1% fail, and the 99th percentile is within --p99. Starts at --rate, or at 1000
    #[arg(long, help_heading = "Breaking point")]
    pub(crate) find_breaking_point: bool,
    /// The 99th percentile must not exceed TIME for a rate to count as held
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan(Duration::from_millis(10)), help_heading = "Breaking point")]
    pub(crate) p99: TimeSpan,

    /// Write the measurements as JSON; with - to stdout, and the summary to stderr
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) json: Option<PathBuf>,
    /// Write a page with tables and plots, and the plots as separate files
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) report: Option<PathBuf>,
    /// Name the run in JSON and reports [default: the workload and the rate]
    #[arg(long, value_name = "TEXT", help_heading = "Output")]
    pub(crate) label: Option<String>,
    /// Print all percentiles, too
    #[arg(long, help_heading = "Output")]
    pub(crate) spectrum: bool,
    #[command(flatten)]
    pub(crate) access: AccessOptions,
}

/// Commands about loads that have run.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum OtherCommand {
    /// Show runs that were saved with --json side by side
    Compare(CompareOptions),
}

/// The requests to send.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Workload {
    /// PUT values
    Put,
    /// GET values
    Get,
    /// DELETE values
    Delete,
    /// The operations of --mix
    Mixed,
    /// GET scans
    Scan,
    /// PUT each key once, then end
    Fill,
    /// Half reads, half updates, zipfian
    YcsbA,
    /// 95% reads, 5% updates, zipfian
    YcsbB,
    /// Reads only, zipfian
    YcsbC,
    /// 95% reads of the latest keys, 5% inserts
    YcsbD,
    /// 95% scans, 5% inserts, zipfian
    YcsbE,
    /// Half reads, half read-modify-writes, zipfian
    YcsbF,
}

impl Workload {
    /// Its operations and their weights; [`None`] if `--mix` sets them.
    fn operations(self) -> Option<Vec<(Operation, f64)>> {
        use Operation::{Delete, Get, Insert, Put, ReadModifyWrite, Scan};
        match self {
            Self::Put | Self::Fill => Some(vec![(Put, 1.0)]),
            Self::Get | Self::YcsbC => Some(vec![(Get, 1.0)]),
            Self::Delete => Some(vec![(Delete, 1.0)]),
            Self::Scan => Some(vec![(Scan, 1.0)]),
            Self::Mixed => None,
            Self::YcsbA => Some(vec![(Get, 50.0), (Put, 50.0)]),
            Self::YcsbB => Some(vec![(Get, 95.0), (Put, 5.0)]),
            Self::YcsbD => Some(vec![(Get, 95.0), (Insert, 5.0)]),
            Self::YcsbE => Some(vec![(Scan, 95.0), (Insert, 5.0)]),
            Self::YcsbF => Some(vec![(Get, 50.0), (ReadModifyWrite, 50.0)]),
        }
    }

    /// How it chooses keys by default.
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

/// Which of the targets gets a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum AskOption {
    /// The node of the connection that has been free longest
    Any,
    /// The first replica of the key, of the nodes in --url that can be reached
    FirstReplica,
}

impl From<AskOption> for Ask {
    fn from(which: AskOption) -> Self {
        match which {
            AskOption::Any => Self::Any,
            AskOption::FirstReplica => Self::Owner,
        }
    }
}

/// How the keys of requests are chosen.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum KeyChoiceOption {
    /// In sequence
    Sequential,
    /// Each with equal probability
    Uniform,
    /// A few keys take most requests (Zipf's law)
    Zipfian,
    /// Mostly the keys inserted last
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

/// The default measured time of each rate of a search.
const PROBE_TIME: Duration = Duration::from_secs(5);

/// The default measured time of a run.
const RUN_TIME: Duration = Duration::from_secs(10);

impl LoadOptions {
    /// The plan that these options describe.
    ///
    /// # Errors
    /// Options that contradict each other or are out of bounds, and those of
    /// [`AccessOptions::reach`].
    pub(crate) fn plan(&self) -> Result<Plan, Failure> {
        if self.find_breaking_point && self.workload == Workload::Fill {
            let line = "a fill has no rate: choose another workload for --find-breaking-point";
            return Err(Failure::usage(line));
        }
        if self.workload == Workload::Fill && self.rate.0 != load::plan::Rate::Max {
            let line = "a fill has no rate: omit --rate, or choose another workload";
            return Err(Failure::usage(line));
        }
        if self.workload != Workload::Mixed && self.mix.is_some() {
            let line = "--mix is for the workload mixed: omit it, or choose that workload";
            return Err(Failure::usage(line));
        }
        let default = if self.find_breaking_point {
            PROBE_TIME
        } else {
            RUN_TIME
        };
        let operations = self.workload.operations();
        let (nodes, access) = self.access.reach(&self.urls)?;
        let (tls, token) = access.credentials(&nodes)?;
        let key_choice = self.key_choice.map(KeyChoice::from);
        let plan = Plan {
            targets: nodes.iter().map(NodeUrl::to_string).collect(),
            ask: self.ask.into(),
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
            scan_limit: self.scan_limit,
            replicas: self.replicas()?,
            ttl_seconds: self.ttl,
            batch: self.batch,
            pipeline: self.pipeline,
            verify: self.verify == Switch::On,
            seed: self.seed,
            access: load::Credentials {
                tls,
                token: token.map(str::to_owned),
            },
        };
        plan.check()
            .map_err(|error| Failure::usage(error.to_string()))?;
        Ok(plan)
    }

    /// How many replicas must answer, out of how many; none for the cluster's default.
    fn replicas(&self) -> Result<Option<(u8, u8)>, Failure> {
        let Some(from) = self.from else {
            return Ok(None);
        };
        let ack = self.ack.unwrap_or(from / 2 + 1);
        if ack > from {
            let line = format!("--ack: a key has {from} replicas (--from): give at most {from}");
            return Err(Failure::usage(line));
        }
        Ok(Some((ack, from)))
    }

    /// The bound within which a rate holds.
    pub(crate) fn bound(&self) -> Bound {
        Bound {
            p99_ms: self.p99.0.as_secs_f64() * 1e3,
            ..Bound::default()
        }
    }
}

#[cfg(test)]
mod tests;
