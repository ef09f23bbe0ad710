//! A node as a child process.

use super::{MetricsSnapshot, Usage};
use crate::context::ExperimentContext;
use crate::{Error, http};
use api::members::MembersPlan;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a node may take to answer a request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a node may take to start (its log may have to be replayed), to
/// stop, or to find its peers.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a repair or a compaction may take.
const LONG_TIMEOUT: Duration = Duration::from_secs(3600);

/// The prefix of variables that would set options in addition to those of the
/// experiment.
const VARIABLE_PREFIX: &str = "KVORUM_";

/// A node of a cluster, which may be running. It is killed when it is dropped.
pub(crate) struct LabNode {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) data: PathBuf,
    /// The file for its stderr.
    pub(super) log: PathBuf,
    /// Its process, if it is running. The pipe to its stdin is open as long as
    /// this process lives; the node ends when it closes.
    pub(super) process: Option<Child>,
}

impl LabNode {
    /// Its URL.
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

    /// Starts its process without waiting for an answer.
    ///
    /// # Errors
    /// The system cannot start the process.
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
            // Ctrl-C in a terminal reaches only the laboratory, which ends its
            // nodes. And when the parent is gone, the system resumes a frozen
            // process of such a group.
            .process_group(0)
            .spawn();
        self.process = Some(child.map_err(Error::file(&self.program))?);
        Ok(())
    }

    /// Waits until it answers a request for its status.
    ///
    /// # Errors
    /// Its process ended, or did not answer in time.
    pub(crate) fn wait_until_up(&mut self, context: &ExperimentContext<'_>) -> Result<(), Error> {
        let what = format!("an answer of {}", self.name);
        context.wait_until(&what, CHANGE_TIMEOUT, || {
            if let Some(status) = self.ended() {
                return Err(self.error(format!("it ended by itself: {status}")));
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
        context.wait_until(&what, CHANGE_TIMEOUT, || {
            let status = self.status()?;
            let members = status["cluster"].as_array().into_iter().flatten();
            let mut states = members.filter_map(|member| member["state"].as_str());
            Ok(states
                .all(|state| matches!(state, "up" | "this node"))
                .then_some(()))
        })
    }

    /// Kills its process and waits for its end.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Both fail if the process has already ended.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Kills its process and removes its folder, as if its disk was lost.
    ///
    /// # Errors
    /// The folder cannot be removed.
    pub(crate) fn lose_data(&mut self) -> Result<(), Error> {
        self.kill();
        std::fs::remove_dir_all(&self.data).map_err(Error::file(&self.data))
    }

    /// Has it coordinate a full repair, and does not wait for the end.
    ///
    /// # Errors
    /// It does not answer, or refuses.
    pub(crate) fn repair(&self) -> Result<(), Error> {
        let url = format!("{}/v0/admin/repair?full=true", self.url);
        match http::post(&url, LONG_TIMEOUT)?.status {
            200 | 202 => Ok(()),
            status => Err(Error::http(url, &format!("it answered {status}"))),
        }
    }

    /// Has its cluster change its members, as a query of `/v0/admin/members` says. Gives about how
    /// many bytes will move, or none if the change is refused for now, because another one is under way or
    /// a node is not heard yet.
    ///
    /// # Errors
    /// It does not answer, or something else is wrong.
    pub(crate) fn change_members(&self, query: &str) -> Result<Option<u64>, Error> {
        let url = format!("{}/v0/admin/members?{query}", self.url);
        let answer = http::post(&url, ANSWER_TIMEOUT)?;
        match answer.status {
            202 => {}
            // Refused, or not decided.
            409 | 504 => return Ok(None),
            _ => return Err(Error::http(url, &answer.body)),
        }
        let plan: MembersPlan =
            serde_json::from_str(&answer.body).map_err(|error| Error::http(url, &error))?;
        Ok(Some(plan.moved_bytes.unwrap_or(0)))
    }

    /// Whether the change of members that it knows of has ended.
    ///
    /// # Errors
    /// It does not answer.
    pub(crate) fn has_stable_members(&self) -> Result<bool, Error> {
        let url = format!("{}/v0/cluster", self.url);
        let page = http::get(&url, Some("application/json"), ANSWER_TIMEOUT)?;
        let page: Value =
            serde_json::from_str(&page.body).map_err(|error| Error::http(url, &error))?;
        Ok(page["members"]["phase"] == "stable")
    }

    /// Has it compact its store, and waits for the end.
    ///
    /// # Errors
    /// It does not answer, or fails.
    pub(crate) fn compact(&self) -> Result<Value, Error> {
        let url = format!("{}/v0/admin/compact?wait=true", self.url);
        let answer = http::post(&url, LONG_TIMEOUT)?;
        match answer.status {
            200 => serde_json::from_str(&answer.body).map_err(|error| Error::http(url, &error)),
            status => Err(Error::http(url, &format!("it answered {status}"))),
        }
    }

    /// Stops it gracefully, so that it flushes its memtables to tables.
    ///
    /// # Errors
    /// It does not stop.
    pub(crate) fn stop(&mut self, context: &ExperimentContext<'_>) -> Result<(), Error> {
        self.signal(Signal::TERM);
        let what = format!("{} to stop", self.name);
        context.wait_until(&what, CHANGE_TIMEOUT, || Ok(self.ended()))?;
        self.process = None;
        Ok(())
    }

    /// Freezes it: its connections stay open, but it does not answer.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Resumes it.
    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        if let Some(process) = &self.process {
            // It fails only if the process has ended, which the next request
            // shows.
            let _ = kill_process(Pid::from_child(process), signal);
        }
    }

    /// The exit status of its process, if it has ended.
    fn ended(&mut self) -> Option<String> {
        let ended = self.process.as_mut()?.try_wait().ok()??;
        Some(ended.to_string())
    }

    /// Its usage; zero while it is not running.
    pub(crate) fn usage(&self) -> Usage {
        let process = self.process.as_ref().map(Child::id);
        process.and_then(Usage::of).unwrap_or_default()
    }

    /// Its current metrics.
    ///
    /// # Errors
    /// It does not answer.
    pub(crate) fn metrics(&self) -> Result<MetricsSnapshot, Error> {
        let url = format!("{}/metrics", self.url);
        Ok(MetricsSnapshot::parse(&http::get_page(
            &url,
            ANSWER_TIMEOUT,
        )?))
    }

    /// Its status page.
    ///
    /// # Errors
    /// It does not answer.
    pub(crate) fn status(&self) -> Result<Value, Error> {
        let url = format!("{}/v0/status", self.url);
        let page = http::get_page(&url, ANSWER_TIMEOUT)?;
        serde_json::from_str(&page).map_err(|error| Error::http(url, &error))
    }

    /// The size of the tables in its folder, in bytes.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub(crate) fn table_bytes(&self) -> Result<u64, Error> {
        self.file_bytes(&["sst"])
    }

    /// The size of the tables and of the log in its folder, in bytes.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub(crate) fn store_bytes(&self) -> Result<u64, Error> {
        self.file_bytes(&["sst", "wal"])
    }

    /// The size of the files in its folder whose names end so.
    fn file_bytes(&self, extensions: &[&str]) -> Result<u64, Error> {
        let mut bytes = 0;
        let entries = std::fs::read_dir(&self.data).map_err(Error::file(&self.data))?;
        for entry in entries {
            let entry = entry.map_err(Error::file(&self.data))?;
            let path = entry.path();
            let is_counted = |extension: &&str| path.extension().is_some_and(|of| of == *extension);
            if extensions.iter().any(is_counted) {
                // A file that has just been removed has no size.
                bytes += entry.metadata().map_or(0, |metadata| metadata.len());
            }
        }
        Ok(bytes)
    }

    /// An error about it, with the last line of its log.
    fn error(&self, problem: String) -> Error {
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
