//! `kvorum dev`: a local cluster of child processes.
//!
//! Each node is a process of this program that runs `serve`, with a port and a
//! folder of its own ([`layout`]). The children must not outlive their parent,
//! nor stop before the parent tells them to:
//! - each has a pipe from the parent as its stdin and ends when the pipe
//!   closes. The system closes it however the parent ends, also after `kill
//!   -9`, and then resumes a child that is frozen;
//! - each is in a process group of its own, so that Ctrl-C in a terminal
//!   reaches only the parent, which then stops the children in order.
//!
//! A node that ends unexpectedly is restarted, if the cluster has several nodes and was up. So a
//! user who kills a node sees that the others serve without it and that it catches up. The end of
//! the only node, or of any node before the cluster is up, ends the command.
//!
//! `kvorum dev add` and `remove` change the members of the running cluster ([`member_orders`]).
//! `kvorum dev kill`, `stop`, `start`, `freeze`, `thaw` and `wipe` ([`control`]) act on a
//! node of the running cluster, and so does its console ([`console`]). `skew`, `cut` and
//! `slow` give a running node a fault, and `unskew`, `join` and `unslow` rid it of one
//! ([`node_fault`]). A node that was killed by a command is restarted even
//! if it is the only node. A stopped node stays stopped until it is started.

mod actions;
mod console;
mod control;
mod folder;
mod layout;
mod member_orders;
mod node_fault;
mod nodes;
mod options;
mod probe;
mod supervised_node;
mod welcome;

pub(crate) use options::DevOptions;

use crate::failure::Failure;
use crate::option_sources::EarlyExit;
use crate::signals::{StopSignal, StopSignals};
use crate::stderr;
use crate::threads::on_thread;
use console::DevConsole;
use folder::ClusterFolderLock;
use layout::ClusterLayout;
use member_orders::MemberOrders;
use nodes::Nodes;
use probe::Probe;
use std::convert::Infallible;
use std::io::{self, Write as _};
use std::sync::Arc;
use supervised_node::{STOP_TIME, Stage, SupervisedNode};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Runs a local cluster until a signal stops it, or sends a command to a
/// running cluster.
///
/// # Errors
/// Options that contradict each other, a port in use, a node that ends by
/// itself, no running cluster for a command; also a page to show instead of
/// running.
pub(crate) fn run(options: &DevOptions) -> Result<(), EarlyExit> {
    if let Some(command) = &options.instead {
        return Ok(control::ask(command)?);
    }
    let layout = ClusterLayout::new(options)?;
    // The folder is locked before the ports are checked, because "another
    // cluster runs on this folder" says more than "port in use". A missing
    // folder is created only after all checks.
    let held = layout.take_folder()?;
    layout.check_ports()?;
    let lock = held.map_or_else(|| layout.make_folder(), Ok)?;
    layout.make_folders()?;
    layout.make_tokens()?;
    let probe = Probe::new(layout.make_certificates()?, layout.token()?);
    stderr::write_on_a_thread().map_err(|error| Failure::failed(error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    let result = runtime.block_on(dev(Arc::new(layout), &lock, Arc::new(probe)));
    // The welcome may wait for a reader who never comes.
    runtime.shutdown_background();
    Ok(result?)
}

async fn dev(
    layout: Arc<ClusterLayout>,
    lock: &ClusterFolderLock,
    probe: Arc<Probe>,
) -> Result<(), Failure> {
    let mut signals = StopSignals::install()?;
    let listener = lock.listen()?;
    let console = DevConsole::listen(&layout, probe.tls()).await?;
    let (nodes, started) = Nodes::new(Arc::clone(&layout), probe);
    let mut running = RunningNodes {
        started,
        tasks: JoinSet::new(),
        stage: watch::Sender::new(Stage::Starting),
    };
    let mut ended = layout.nodes().iter().try_for_each(|node| nodes.start(node));
    if ended.is_ok() {
        let url = console.url();
        let members = MemberOrders::of(nodes.clone());
        let stage = running.stage.clone();
        ended = tokio::select! {
            failure = running.run() => Err(failure),
            never = up(&members, &url, &stage) => match never {},
            () = console.serve(members.clone()) => Ok(()),
            () = control::serve(listener, members.clone(), &url) => Ok(()),
            _ = signals.next() => Ok(()),
        };
    }
    running.stop(&mut signals).await;
    ended
}

/// Waits until all nodes answer, and prints the welcome. What an earlier run has not brought to its
/// end of a change of the members follows then.
async fn up(members: &MemberOrders, console: &str, stage: &watch::Sender<Stage>) -> Infallible {
    let Nodes { layout, probe, .. } = members.nodes();
    for node in layout.nodes() {
        probe.wait_until_up(&node).await;
    }
    stage.send_replace(Stage::Up);
    let welcome = welcome::text(layout, console);
    // Neither a closed stdout nor one that nobody reads is a reason to stop the cluster.
    let written = on_thread("welcome", move || {
        let mut stdout = io::stdout().lock();
        let _ = stdout.write_all(welcome.as_bytes());
        let _ = stdout.flush();
    });
    if let Err(failure) = written {
        stderr::say(&format!(
            "kvorum: the cluster is up, at {console}; its welcome could not be printed: {}\n",
            failure.line()
        ));
    }
    members.settle().await;
    std::future::pending().await
}

/// The tasks of the nodes.
struct RunningNodes {
    /// Those that have been started, and have no task yet.
    started: mpsc::Receiver<SupervisedNode>,
    tasks: JoinSet<Result<(), Failure>>,
    stage: watch::Sender<Stage>,
}

impl RunningNodes {
    /// Runs the nodes that are started, until one cannot be kept running.
    async fn run(&mut self) -> Failure {
        loop {
            tokio::select! {
                Some(node) = self.started.recv() => {
                    self.tasks.spawn(node.run(self.stage.subscribe()));
                }
                Some(ended) = self.tasks.join_next() => match ended {
                    // It is no node of the cluster any more.
                    Ok(Ok(())) => {}
                    Ok(Err(failure)) => return failure,
                    Err(error) => return Failure::failed(format!("cannot go on: {error}")),
                },
            }
        }
    }

    /// Stops the nodes and waits for their ends. Nodes that take too long are
    /// killed; on a second signal all are killed at once. A killed store loses
    /// nothing that it acknowledged.
    async fn stop(mut self, signals: &mut StopSignals) {
        while let Ok(node) = self.started.try_recv() {
            self.tasks.spawn(node.run(self.stage.subscribe()));
        }
        self.stage.send_replace(Stage::Stopping);
        // Their stdin stays open: its end would count as a second signal, after
        // which a node does not finish the requests that it admitted.
        let mut second_signal: Option<StopSignal> = None;
        tokio::select! {
            () = end_of_all(&mut self.tasks) => return,
            () = tokio::time::sleep(STOP_TIME) => {}
            signal = signals.next() => second_signal = Some(signal),
        }
        self.stage.send_replace(Stage::Killing);
        end_of_all(&mut self.tasks).await;
        if let Some(signal) = second_signal {
            stderr::flush();
            std::process::exit(signal.exit_code().into());
        }
    }
}

async fn end_of_all(tasks: &mut JoinSet<Result<(), Failure>>) {
    while tasks.join_next().await.is_some() {}
}
