//! A node as a child process, and its supervisor.
//!
//! ```text
//!              it ends or is killed                2 s later
//!   Running ---------------------------> Pausing ------------> Running
//!      |                                    |
//!      | stop                               | stop
//!      v                                    v
//!   Stopped <-------------------------------+        start: Running
//! ```

use super::actions::{ActionRequest, CommandResult, NodeAction, Supervisor, WAITING_MAX};
use super::layout::{ClusterLayout, NodeLayout, variables_removed};
use super::node_fault::NodeFault;
use super::probe::Probe;
use crate::failure::Failure;
use crate::text;
use crate::threads::RAISE_LIMIT;
use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// How often in a row a node is restarted. A node that ends this often will not
/// get better by itself.
const RESTARTS_MAX: usize = 5;

/// How long a node stays down before it is restarted: long enough to see that
/// the others serve without it.
const RESTART_PAUSE: Duration = Duration::from_secs(2);

/// How long a node must run until its earlier ends no longer count.
const STEADY_TIME: Duration = Duration::from_secs(60);

/// How long `dev start` waits for an answer of the node.
const START_TIME: Duration = Duration::from_secs(30);

/// How long a node may take to stop before it is killed. With its own defaults
/// it needs at most 10 s.
pub(super) const STOP_TIME: Duration = Duration::from_secs(15);

/// How far the cluster is, as its nodes need to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Not all nodes have answered.
    Starting,
    Up,
    /// All nodes are to stop.
    Stopping,
    /// They took too long.
    Killing,
}

/// A node of the cluster.
pub(super) struct SupervisedNode {
    cluster: Arc<ClusterLayout>,
    layout: Arc<NodeLayout>,
    probe: Arc<Probe>,
    requests: mpsc::Receiver<ActionRequest>,
    /// What the console shows of it.
    shown: watch::Sender<String>,
    state: ProcessState,
    /// How often in a row it has ended by itself.
    restarts: usize,
}

enum ProcessState {
    Running(Box<NodeProcess>),
    /// It is restarted at this moment.
    Pausing {
        until: Instant,
        /// Whether a command has killed it; otherwise it has ended by itself.
        is_killed: bool,
    },
    /// Down until a command starts it.
    Stopped,
}

impl ProcessState {
    /// The state in a word, and the faults in further words, for the console.
    fn words(&self) -> String {
        let words: Vec<&str> = match self {
            Self::Running(process) => {
                let state = if process.is_frozen {
                    "frozen"
                } else {
                    "running"
                };
                let faults = process.faults.iter().map(|fault| fault.word());
                std::iter::once(state).chain(faults).collect()
            }
            Self::Pausing {
                is_killed: true, ..
            } => vec!["killed"],
            Self::Pausing { .. } => vec!["restarting"],
            Self::Stopped => vec!["stopped"],
        };
        words.join(" ")
    }
}

/// A child process.
struct NodeProcess {
    child: Child,
    /// The write end of the child's stdin, which is open as long as this
    /// process lives: the child ends when it closes. Waiting for a child closes
    /// a stdin that is left in [`Child`], so it is kept here.
    /// Lines on it put faults into the node.
    stdin: Option<ChildStdin>,
    started: Instant,
    is_frozen: bool,
    /// Each at most once.
    faults: Vec<NodeFault>,
}

impl NodeProcess {
    fn spawn(cluster: &ClusterLayout, layout: &NodeLayout) -> Result<Self, Failure> {
        let failed = |error: io::Error| {
            let advice = match error.kind() {
                io::ErrorKind::WouldBlock => format!("; {RAISE_LIMIT}"),
                _ => String::new(),
            };
            Failure::failed(format!("cannot start {}: {error}{advice}", layout.name))
        };
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command
            .args(cluster.arguments(layout))
            .stdin(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        for variable in variables_removed() {
            command.env_remove(variable);
        }
        let mut child = command.spawn().map_err(failed)?;
        Ok(Self {
            stdin: child.stdin.take(),
            child,
            started: Instant::now(),
            is_frozen: false,
            faults: Vec::new(),
        })
    }

    /// Waits until the process has ended, and returns how it ended.
    async fn end(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => describe(status),
            Err(error) => error.to_string(),
        }
    }

    /// Sends a signal. The process id of a child is not reused until its end
    /// was waited for, and [`Child`] has no id after that.
    fn signal(&self, signal: Signal) {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(pid) = id.and_then(Pid::from_raw) {
            // It fails only if the process has ended, which [`Self::end`]
            // reports.
            let _ = kill_process(pid, signal);
        }
    }

    /// Gives the node a fault, or rids it of one.
    async fn set_fault(&mut self, fault: NodeFault, is_set: bool) -> io::Result<()> {
        let stdin = self.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        stdin.write_all(fault.line(is_set).as_bytes()).await?;
        stdin.flush().await?;
        self.faults.retain(|known| *known != fault);
        if is_set {
            self.faults.push(fault);
        }
        Ok(())
    }

    /// Stops the process: kills it if that takes too long.
    async fn stop(&mut self) {
        self.terminate();
        let in_time = tokio::time::timeout(STOP_TIME, self.end()).await;
        if in_time.is_err() {
            self.signal(Signal::KILL);
            self.end().await;
        }
    }

    /// Asks the process to stop. A frozen process is resumed, so that it can.
    fn terminate(&self) {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
    }
}

impl SupervisedNode {
    /// Starts a node of a cluster, and says how its supervisor is reached.
    ///
    /// # Errors
    /// The system cannot start the process.
    pub(super) fn spawn(
        cluster: Arc<ClusterLayout>,
        layout: Arc<NodeLayout>,
        probe: Arc<Probe>,
    ) -> Result<(Self, Supervisor), Failure> {
        let state = ProcessState::Running(Box::new(NodeProcess::spawn(&cluster, &layout)?));
        let (sender, requests) = mpsc::channel(WAITING_MAX);
        let (shown, seen) = watch::channel(state.words());
        let supervisor = Supervisor {
            number: layout.number,
            name: layout.name.clone(),
            url: layout.url(),
            address: layout.address,
            requests: sender,
            shown: seen,
        };
        let node = Self {
            cluster,
            layout,
            probe,
            requests,
            shown,
            state,
            restarts: 0,
        };
        Ok((node, supervisor))
    }

    /// Runs the node until it is retired or the cluster stops; `stage` says how far the cluster is.
    ///
    /// # Errors
    /// The node cannot be kept running.
    pub(super) async fn run(mut self, stage: watch::Receiver<Stage>) -> Result<(), Failure> {
        let mut stopping = stage.clone();
        let ended = tokio::select! {
            ended = self.keep(stage.clone()) => ended,
            _ = stopping.wait_for(|stage| *stage >= Stage::Stopping) => Ok(()),
        };
        self.stop(stage).await;
        ended
    }

    /// Keeps the node running until it is retired. Before the cluster is up, it must not end.
    async fn keep(&mut self, mut stage: watch::Receiver<Stage>) -> Result<(), Failure> {
        tokio::select! {
            end = self.end() => return Err(Failure::failed(end)),
            _ = stage.wait_for(|stage| *stage >= Stage::Up) => {}
        }
        self.keep_running().await
    }

    /// Stops the process, if it is running: gracefully, until it is to be killed.
    async fn stop(&mut self, mut stage: watch::Receiver<Stage>) {
        self.terminate();
        tokio::select! {
            () = self.wait_for_end() => return,
            _ = stage.wait_for(|stage| *stage == Stage::Killing) => {}
        }
        self.kill().await;
    }

    /// Waits until the process ends by itself, and returns how it ended.
    async fn end(&mut self) -> String {
        match &mut self.state {
            ProcessState::Running(process) => {
                let end = process.end().await;
                self.ended(&end)
            }
            ProcessState::Pausing { .. } | ProcessState::Stopped => std::future::pending().await,
        }
    }

    fn ended(&self, end: &str) -> String {
        format!(
            "{} ({}) ended unexpectedly: {end}",
            self.layout.name,
            self.layout.url()
        )
    }

    /// Carries out commands, and restarts the node when it ends by itself,
    /// unless it is the only node. Returns when the node is retired.
    ///
    /// # Errors
    /// It cannot be kept running.
    async fn keep_running(&mut self) -> Result<(), Failure> {
        loop {
            self.shown.send_replace(self.state.words());
            let event = match &mut self.state {
                ProcessState::Running(process) => tokio::select! {
                    end = process.end() => SupervisorEvent::Ended(end),
                    Some(request) = self.requests.recv() => SupervisorEvent::Requested(request),
                },
                ProcessState::Pausing { until, .. } => tokio::select! {
                    () = tokio::time::sleep_until(*until) => SupervisorEvent::PauseOver,
                    Some(request) = self.requests.recv() => SupervisorEvent::Requested(request),
                },
                ProcessState::Stopped => match self.requests.recv().await {
                    Some(request) => SupervisorEvent::Requested(request),
                    // No command can arrive any more.
                    None => std::future::pending().await,
                },
            };
            match event {
                SupervisorEvent::Ended(end) => self.restart_after(&end)?,
                SupervisorEvent::PauseOver => self.start()?,
                SupervisorEvent::Requested(ActionRequest { action, reply }) => {
                    let outcome = self.carry_out(action).await;
                    // The client may have disconnected.
                    let _ = reply.send(outcome);
                    if action == NodeAction::Retire {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Handles an end of the process that no command caused.
    fn restart_after(&mut self, end: &str) -> Result<(), Failure> {
        let end = self.ended(end);
        if let ProcessState::Running(process) = &self.state
            && process.started.elapsed() >= STEADY_TIME
        {
            self.restarts = 0;
        }
        if self.cluster.nodes().len() == 1 {
            return Err(Failure::failed(end));
        }
        if self.restarts == RESTARTS_MAX {
            return Err(Failure::failed(format!(
                "{end}; it was restarted {RESTARTS_MAX} times before"
            )));
        }
        self.restarts += 1;
        text::report_line(&format!("{end}; it restarts"));
        self.pause(false);
        Ok(())
    }

    fn pause(&mut self, is_killed: bool) {
        self.state = ProcessState::Pausing {
            until: Instant::now() + RESTART_PAUSE,
            is_killed,
        };
    }

    fn start(&mut self) -> Result<(), Failure> {
        let process = NodeProcess::spawn(&self.cluster, &self.layout)?;
        self.state = ProcessState::Running(Box::new(process));
        Ok(())
    }

    async fn carry_out(&mut self, action: NodeAction) -> CommandResult {
        let name = &self.layout.name;
        match (action, &mut self.state) {
            (NodeAction::Retire, state) => {
                if let ProcessState::Running(process) = state {
                    process.stop().await;
                }
                let line = format!("{name} is stopped for good");
                self.state = ProcessState::Stopped;
                Ok(line)
            }
            (NodeAction::Kill, ProcessState::Running(process)) => {
                process.signal(Signal::KILL);
                process.end().await;
                // A kill by a command says nothing about how well the node
                // runs.
                self.restarts = 0;
                let seconds = RESTART_PAUSE.as_secs();
                let line = format!("{name} was killed; it restarts in {seconds} s");
                self.pause(true);
                Ok(line)
            }
            (NodeAction::Kill, ProcessState::Pausing { .. }) => {
                Err(format!("{name} is not running: it restarts in a moment"))
            }
            (NodeAction::Stop, ProcessState::Running(process)) => {
                process.stop().await;
                let line = format!(
                    "{name} is stopped until '{}'",
                    self.cluster.command("start", name)
                );
                self.state = ProcessState::Stopped;
                Ok(line)
            }
            (NodeAction::Stop, ProcessState::Pausing { .. }) => {
                let line = format!(
                    "{name} stays stopped until '{}'",
                    self.cluster.command("start", name)
                );
                self.state = ProcessState::Stopped;
                Ok(line)
            }
            (NodeAction::Start, ProcessState::Running(_)) => {
                Err(format!("{name} is already running"))
            }
            (NodeAction::Start, ProcessState::Pausing { .. } | ProcessState::Stopped) => {
                self.restarts = 0;
                self.start().map_err(|failure| failure.line().to_owned())?;
                self.wait_until_up().await
            }
            (NodeAction::Freeze, ProcessState::Running(process)) => {
                process.is_frozen = true;
                process.signal(Signal::STOP);
                Ok(format!(
                    "{name} is frozen until '{}'",
                    self.cluster.command("thaw", name)
                ))
            }
            (NodeAction::Thaw, ProcessState::Running(process)) if process.is_frozen => {
                process.is_frozen = false;
                process.signal(Signal::CONT);
                Ok(format!("{name} is running again"))
            }
            (NodeAction::Thaw, ProcessState::Running(_)) => Err(format!("{name} is not frozen")),
            (
                NodeAction::Freeze | NodeAction::Thaw | NodeAction::Set(_) | NodeAction::Clear(_),
                ProcessState::Pausing { .. },
            ) => Err(format!("{name} is not running: it restarts in a moment")),
            (NodeAction::Wipe, state) => {
                if let ProcessState::Running(process) = state {
                    process.signal(Signal::KILL);
                    process.end().await;
                }
                self.state = ProcessState::Stopped;
                let folder = self.layout.lose_folder();
                folder.map_err(|failure| failure.line().to_owned())?;
                self.restarts = 0;
                self.start().map_err(|failure| failure.line().to_owned())?;
                let up = self.wait_until_up().await?;
                Ok(format!("{up}, with an empty folder"))
            }
            (NodeAction::Set(fault) | NodeAction::Clear(fault), ProcessState::Running(process)) => {
                let is_set = action == NodeAction::Set(fault);
                let set = process.set_fault(fault, is_set).await;
                set.map_err(|error| format!("cannot reach {name}: {error}"))?;
                Ok(fault.told(name, is_set))
            }
            (
                NodeAction::Kill
                | NodeAction::Stop
                | NodeAction::Freeze
                | NodeAction::Thaw
                | NodeAction::Set(_)
                | NodeAction::Clear(_),
                ProcessState::Stopped,
            ) => Err(format!(
                "{name} is stopped: start it with 'kvorum dev start'"
            )),
        }
    }

    /// Waits until the node answers, so that the user can use it after the
    /// command.
    async fn wait_until_up(&mut self) -> CommandResult {
        let name = &self.layout.name;
        let ProcessState::Running(process) = &mut self.state else {
            return Err(format!("{name} is not running"));
        };
        tokio::select! {
            () = self.probe.wait_until_up(&self.layout) => Ok(format!("{name} is up again")),
            // [`Self::keep_running`] sees the end again and handles it.
            end = process.end() => Err(format!("{name} ended while it started: {end}")),
            () = tokio::time::sleep(START_TIME) => Ok(format!("{name} is started, but does not \
                                                               answer yet")),
        }
    }

    /// Asks the process to stop.
    fn terminate(&self) {
        if let ProcessState::Running(process) = &self.state {
            process.terminate();
        }
    }

    /// Waits until the process has ended, if it is running.
    async fn wait_for_end(&mut self) {
        if let ProcessState::Running(process) = &mut self.state {
            process.end().await;
        }
    }

    /// Kills the process, if it is running, and waits for its end.
    async fn kill(&mut self) {
        if let ProcessState::Running(process) = &self.state {
            process.signal(Signal::KILL);
        }
        self.wait_for_end().await;
    }
}

/// What the supervisor of a node reacts to.
enum SupervisorEvent {
    Ended(String),
    /// The pause before a restart is over.
    PauseOver,
    Requested(ActionRequest),
}

fn describe(status: ExitStatus) -> String {
    match status.code() {
        Some(1 | 2) => format!("{status}; the last line of its log says why"),
        _ => status.to_string(),
    }
}
