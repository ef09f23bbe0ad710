//! A node as a child process.

use super::{MetricsSnapshot, Usage};
use crate::context::ExperimentContext;
use crate::{Error, http};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a node has for an answer of its own.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// How long a node may take to start (a log may have to be replayed), to stop,
/// and to find its peers.
const CHANGE_PATIENCE: Duration = Duration::from_secs(60);

/// The variables that would set options of a node beside those of the experiment.
const VARIABLE_PREFIX: &str = "KVORUM_";

/// A node of a cluster, running or not. Dropped, it is killed.
pub(crate) struct LabNode {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) data: PathBuf,
    /// What it writes to stderr.
    pub(super) log: PathBuf,
    /// Its process, while there is one. The pipe to its stdin is open as long
    /// as this process lives, and tells the node when it does no more.
    pub(super) process: Option<Child>,
}

impl LabNode {
    /// Where it is asked.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Sets an option for its next start.
    pub(crate) fn set_option(&mut self, name: &str, value: &str) {
        let mut given = self.arguments.iter_mut();
        let found = given.find(|argument| *argument == name);
        match found.and_then(|_| given.next()) {
            Some(old) => *old = value.into(),
            None => self.arguments.extend([name.into(), value.into()]),
        }
    }

    /// Starts its process, and does not wait until it answers.
    ///
    /// # Errors
    /// The system's refusal.
    pub(crate) fn start(&mut self) -> Result<(), Error> {
        self.kill();
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .map_err(Error::file(&self.log))?;
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with(VARIABLE_PREFIX) {
                command.env_remove(name);
            }
        }
        let child = command
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            // Ctrl-C in a terminal reaches the laboratory alone, which ends its
            // nodes; and the system lets a frozen one go on when its parent is gone.
            .process_group(0)
            .spawn();
        self.process = Some(child.map_err(Error::file(&self.program))?);
        Ok(())
    }

    /// Waits until it answers its status.
    ///
    /// # Errors
    /// Its process ended, or it took longer than any node should.
    pub(crate) fn wait_until_up(&mut self, context: &ExperimentContext<'_>) -> Result<(), Error> {
        let what = format!("an answer of {}", self.name);
        context.wait_until(&what, CHANGE_PATIENCE, || {
            if let Some(status) = self.ended() {
                return Err(self.trouble(format!("it ended by itself: {status}")));
            }
            Ok(self.status().is_ok().then_some(()))
        })
    }

    /// Waits until it sees all nodes of its cluster up.
    ///
    /// # Errors
    /// As [`Self::wait_until_up`].
    pub(crate) fn wait_until_complete(
        &mut self,
        context: &ExperimentContext<'_>,
    ) -> Result<(), Error> {
        let what = format!("{} to see all nodes up", self.name);
        context.wait_until(&what, CHANGE_PATIENCE, || {
            let status = self.status()?;
            let members = status["cluster"].as_array().into_iter().flatten();
            let mut states = members.filter_map(|member| member["state"].as_str());
            Ok(states
                .all(|state| matches!(state, "up" | "this node"))
                .then_some(()))
        })
    }

    /// Ends it as a power cut would, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // They fail for a process that has ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Ends it in order: what it has in memory is written to tables.
    ///
    /// # Errors
    /// It does not end.
    pub(crate) fn stop(&mut self, context: &ExperimentContext<'_>) -> Result<(), Error> {
        self.signal(Signal::TERM);
        let what = format!("{} to end", self.name);
        context.wait_until(&what, CHANGE_PATIENCE, || Ok(self.ended()))?;
        self.process = None;
        Ok(())
    }

    /// Stops it where it is: its connections stay open and nobody answers.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        if let Some(process) = &self.process {
            // It fails for a process that has ended, which the next question shows.
            let _ = kill_process(Pid::from_child(process), signal);
        }
    }

    /// How its process ended, if it has.
    fn ended(&mut self) -> Option<String> {
        let ended = self.process.as_mut()?.try_wait().ok()??;
        Some(ended.to_string())
    }

    /// What it has used; nothing while it does not run.
    pub(crate) fn usage(&self) -> Usage {
        let process = self.process.as_ref().map(Child::id);
        process.and_then(Usage::of).unwrap_or_default()
    }

    /// Its metrics now.
    ///
    /// # Errors
    /// No answer.
    pub(crate) fn metrics(&self) -> Result<MetricsSnapshot, Error> {
        let url = format!("{}/metrics", self.url);
        Ok(MetricsSnapshot::parse(&http::get_page(
            &url,
            ANSWER_PATIENCE,
        )?))
    }

    /// Its status page.
    ///
    /// # Errors
    /// No answer.
    pub(crate) fn status(&self) -> Result<Value, Error> {
        let url = format!("{}/v0/status", self.url);
        let page = http::get_page(&url, ANSWER_PATIENCE)?;
        serde_json::from_str(&page).map_err(|error| Error::http(url, &error))
    }

    /// Bytes of the tables in its folder.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub(crate) fn table_bytes(&self) -> Result<u64, Error> {
        let mut bytes = 0;
        let entries = std::fs::read_dir(&self.data).map_err(Error::file(&self.data))?;
        for entry in entries {
            let entry = entry.map_err(Error::file(&self.data))?;
            if entry.path().extension().is_some_and(|name| name == "sst") {
                // A table that compaction has just removed holds nothing any more.
                bytes += entry.metadata().map_or(0, |metadata| metadata.len());
            }
        }
        Ok(bytes)
    }

    /// What went wrong with it, and the last line that it wrote.
    fn trouble(&self, problem: String) -> Error {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        Error::Node {
            node: self.name.clone(),
            problem: match log.lines().next_back() {
                Some(line) => format!("{problem}: {line}"),
                None => problem,
            },
        }
    }
}

impl Drop for LabNode {
    fn drop(&mut self) {
        self.kill();
    }
}
