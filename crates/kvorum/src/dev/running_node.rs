//! A node as a child process.

use super::plan::{NodePlan, Plan, VARIABLES_REMOVED};
use crate::failure::{self, Failure};
use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::{Child, ChildStdin, Command};

/// How often in a row a node is started again. One that ends that often will
/// not get better by itself.
const RESTARTS_MAX: usize = 5;

/// How long a node stays away before it is started again: long enough to see
/// that the others do without it.
const RESTART_PAUSE: Duration = Duration::from_secs(2);

/// How long a node must run for its earlier ends to be forgotten.
const STEADY_TIME: Duration = Duration::from_secs(60);

/// A child process.
pub(super) struct RunningNode<'a> {
    cluster: &'a Plan,
    plan: &'a NodePlan,
    pub(super) child: Child,
    /// Open as long as this process lives, whose end it tells to the child.
    /// Waiting for a child closes its stdin, so it is kept here.
    _stdin: Option<ChildStdin>,
}

impl<'a> RunningNode<'a> {
    /// Starts a node of a cluster.
    ///
    /// # Errors
    /// The system's refusal of the process.
    pub(super) fn spawn(cluster: &'a Plan, plan: &'a NodePlan) -> Result<Self, Failure> {
        let failed =
            |error: io::Error| Failure::failed(format!("cannot start {}: {error}", plan.name));
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command
            .args(cluster.arguments(plan))
            .stdin(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        for variable in VARIABLES_REMOVED {
            command.env_remove(variable);
        }
        let mut child = command.spawn().map_err(failed)?;
        Ok(Self {
            cluster,
            plan,
            _stdin: child.stdin.take(),
            child,
        })
    }

    /// Waits until the process ends by itself, and says how.
    pub(super) async fn end(&mut self) -> String {
        let end = match self.child.wait().await {
            Ok(status) => describe(status),
            Err(error) => error.to_string(),
        };
        let NodePlan { name, .. } = self.plan;
        format!("{name} ({}) ended by itself: {end}", self.plan.url())
    }

    /// Starts the node again whenever it ends, and returns when that helps no more.
    pub(super) async fn keep_running(&mut self) -> Failure {
        let mut restarts = 0;
        loop {
            let end = match tokio::time::timeout(STEADY_TIME, self.end()).await {
                Ok(end) => end,
                Err(_) => {
                    restarts = 0;
                    self.end().await
                }
            };
            if restarts == RESTARTS_MAX {
                return Failure::failed(format!("{end}; it was started {restarts} times again"));
            }
            restarts += 1;
            failure::tell(&format!("{end}; it starts again"));
            tokio::time::sleep(RESTART_PAUSE).await;
            match Self::spawn(self.cluster, self.plan) {
                Ok(node) => *self = node,
                Err(failure) => return failure,
            }
        }
    }

    /// Asks the process to stop, and one that is frozen to go on, so that it can.
    pub(super) fn terminate(&self) {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(pid) = id.and_then(Pid::from_raw) {
            for signal in [Signal::TERM, Signal::CONT] {
                // It fails only for a process that has ended, which is what is wanted.
                let _ = kill_process(pid, signal);
            }
        }
    }
}

fn describe(status: ExitStatus) -> String {
    match status.code() {
        Some(1 | 2) => format!("{status}; its own last line says why"),
        _ => status.to_string(),
    }
}
