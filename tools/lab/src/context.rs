//! What an experiment works with.

use crate::{Effort, Error, Settings};
use load::results::Bound;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a condition is checked that an experiment waits for.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// What an experiment works with.
pub(crate) struct ExperimentContext<'a> {
    settings: &'a Settings,
    stop: &'a AtomicBool,
    log: &'a dyn Fn(&str),
    has_profiles: bool,
}

impl<'a> ExperimentContext<'a> {
    /// Finds out whether the program can record profiles.
    ///
    /// # Errors
    /// The program cannot be run.
    pub(crate) fn new(
        settings: &'a Settings,
        stop: &'a AtomicBool,
        log: &'a dyn Fn(&str),
    ) -> Result<Self, Error> {
        let help = Command::new(&settings.program)
            .args(["serve", "--help"])
            .stdin(Stdio::null())
            .output()
            .map_err(Error::file(&settings.program))?;
        Ok(Self {
            settings,
            stop,
            log,
            has_profiles: String::from_utf8_lossy(&help.stdout).contains("--debug-endpoints"),
        })
    }

    /// The program whose nodes are measured.
    pub(crate) fn program(&self) -> &Path {
        &self.settings.program
    }

    /// How much time the experiment may take.
    pub(crate) fn effort(&self) -> Effort {
        self.settings.effort
    }

    /// How long the experiment runs its load, if the user has said.
    pub(crate) fn duration(&self) -> Option<Duration> {
        self.settings.duration
    }

    /// The bound within which a rate holds.
    pub(crate) fn bound(&self) -> Bound {
        Bound {
            p99_ms: self.settings.p99_ms_max,
            ..Bound::default()
        }
    }

    /// Whether the nodes can be profiled.
    pub(crate) fn has_profiles(&self) -> bool {
        self.has_profiles
    }

    /// The number of cores that this process and its nodes share.
    pub(crate) fn cores(&self) -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    /// The flag that ends a load early.
    pub(crate) fn stop(&self) -> &AtomicBool {
        self.stop
    }

    /// Shows the user a line about the progress.
    pub(crate) fn log(&self, line: &str) {
        (self.log)(line);
    }

    /// Fails if the experiment is to stop.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub(crate) fn fail_if_stopped(&self) -> Result<(), Error> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        Ok(())
    }

    /// Waits until `check` returns something; `what` describes it.
    ///
    /// # Errors
    /// An error of `check`; [`Error::TimedOut`] after `timeout`;
    /// [`Error::Stopped`].
    pub(crate) fn wait_until<T>(
        &self,
        what: &str,
        timeout: Duration,
        mut check: impl FnMut() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let begin = Instant::now();
        loop {
            self.fail_if_stopped()?;
            if let Some(found) = check()? {
                return Ok(found);
            }
            if begin.elapsed() >= timeout {
                return Err(Error::TimedOut(what.to_owned()));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}
