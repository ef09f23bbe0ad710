//! What an experiment has to work with.

use crate::{Effort, Error, Settings};
use load::results::Bound;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often something that is waited for is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// What an experiment has to work with.
pub(crate) struct ExperimentContext<'a> {
    settings: &'a Settings,
    stop: &'a AtomicBool,
    log: &'a dyn Fn(&str),
    has_profiles: bool,
}

impl<'a> ExperimentContext<'a> {
    /// Asks the program what it can do.
    ///
    /// # Errors
    /// It cannot be run.
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

    /// How much time there is.
    pub(crate) fn effort(&self) -> Effort {
        self.settings.effort
    }

    /// What a rate must keep up to count as held.
    pub(crate) fn bound(&self) -> Bound {
        Bound {
            p99_ms: self.settings.p99_ms_max,
            ..Bound::default()
        }
    }

    /// Whether its nodes can be profiled.
    pub(crate) fn has_profiles(&self) -> bool {
        self.has_profiles
    }

    /// The cores that this process and its nodes share.
    pub(crate) fn cores(&self) -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    /// What is to be set to end a load early.
    pub(crate) fn stop(&self) -> &AtomicBool {
        self.stop
    }

    /// Tells who waits what goes on.
    pub(crate) fn log(&self, line: &str) {
        (self.log)(line);
    }

    /// Goes on, unless it is to stop.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub(crate) fn go_on(&self) -> Result<(), Error> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        Ok(())
    }

    /// Looks until something is there, which `what` names.
    ///
    /// # Errors
    /// What the look gives; what takes longer than `patience`; a stop.
    pub(crate) fn wait_until<T>(
        &self,
        what: &str,
        patience: Duration,
        mut look: impl FnMut() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let begin = Instant::now();
        loop {
            self.go_on()?;
            if let Some(found) = look()? {
                return Ok(found);
            }
            if begin.elapsed() >= patience {
                return Err(Error::TimedOut(what.to_owned()));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}
