//! The settings of experiments.

use std::path::PathBuf;
use std::time::Duration;

/// How much time an experiment may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effort {
    /// Seconds, to check that everything works. The figures mean nothing.
    Glance,
    /// Two to four minutes on two cores.
    Quick,
    /// Longer runs over more data.
    Full,
}

impl Effort {
    /// One of three values, by the effort.
    pub(crate) fn pick<T>(self, glance: T, quick: T, full: T) -> T {
        match self {
            Self::Glance => glance,
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// The settings of an experiment.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program whose nodes are measured: `kvorum`.
    pub program: PathBuf,
    /// How much time an experiment may take.
    pub effort: Effort,
    /// How long the experiment `tombstone_gc` runs its load; none for a time that follows from
    /// the effort.
    pub duration: Option<Duration>,
    /// The greatest 99th percentile at which a rate holds, in milliseconds.
    pub p99_ms_max: f64,
    /// The folder for pages, which is created if necessary.
    pub output: PathBuf,
    /// The start of the experiment, in milliseconds since 1970.
    pub begun_unix_ms: u64,
    /// The command line, which the page quotes.
    pub command: String,
}
