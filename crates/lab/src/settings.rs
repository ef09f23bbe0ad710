//! How experiments are run.

use std::path::PathBuf;

/// How much time an experiment takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effort {
    /// Seconds: just enough to see that everything works. Its figures mean nothing.
    Glance,
    /// Two to four minutes on two cores.
    Quick,
    /// Longer runs over more data.
    Full,
}

impl Effort {
    /// One of three, by the effort.
    pub(crate) fn pick<T>(self, glance: T, quick: T, full: T) -> T {
        match self {
            Self::Glance => glance,
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// How experiments are run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program whose nodes are measured: `kvorum`.
    pub program: PathBuf,
    /// How much time there is.
    pub effort: Effort,
    /// The longest 99th percentile of a rate that counts as held, in milliseconds.
    pub p99_ms_max: f64,
    /// The folder that pages are written to; made if it is not there.
    pub output: PathBuf,
    /// When the experiment begins, in milliseconds since 1970.
    pub begun_unix_ms: u64,
    /// The command line that the page is said to be written by.
    pub command: String,
}
