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
//! `kvorum dev kill`, `stop`, `start`, `freeze`, `thaw` and `wipe` ([`control`]) act on a
//! node of the running cluster, and so does its console ([`console`]). `skew`, `cut` and
//! `slow` give a running node a fault, and `unskew`, `join` and `unslow` rid it of one
//! ([`node_fault`]). A node that was killed by a command is restarted even
//! if it is the only node. A stopped node stays stopped until it is started.

mod admin_token;
mod authority;
mod console;
mod control;
mod layout;
mod node_fault;
mod options;
mod probe;
mod supervised_node;
mod welcome;

pub(crate) use options::DevOptions;

use crate::failure::Failure;
use crate::layers::EarlyExit;
use crate::signals::{StopSignal, StopSignals};
use crate::stderr;
use crate::threads::on_thread;
use console::DevConsole;
use control::ClusterFolderLock;
use layout::ClusterLayout;
use probe::Probe;
use std::future::Future;
use std::io::{self, Write as _};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use supervised_node::SupervisedNode;

/// How long a node may take to stop before it is killed. With its own defaults
/// it needs at most 10 s.
const STOP_TIME: Duration = Duration::from_secs(15);

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
    let probe = Probe::new(layout.make_certificates()?);
    stderr::write_on_a_thread().map_err(|error| Failure::failed(error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    let result = runtime.block_on(dev(&layout, &lock, &probe));
    // The welcome may wait for a reader who never comes.
    runtime.shutdown_background();
    Ok(result?)
}

async fn dev(
    layout: &ClusterLayout,
    lock: &ClusterFolderLock,
    probe: &Probe,
) -> Result<(), Failure> {
    let mut signals = StopSignals::install()?;
    let listener = lock.listen()?;
    let console = DevConsole::listen(layout, probe.tls()).await?;
    let mut nodes = Vec::new();
    let mut supervisors = Vec::new();
    let mut ended = Ok(());
    for node in &layout.nodes {
        match SupervisedNode::spawn(layout, node, probe) {
            Ok((node, supervisor)) => {
                nodes.push(node);
                supervisors.push(supervisor);
            }
            Err(failure) => {
                ended = Err(failure);
                break;
            }
        }
    }
    if ended.is_ok() {
        let url = console.url();
        ended = tokio::select! {
            failure = keep_running(layout, &url, probe, &mut nodes) => Err(failure),
            () = console.serve(supervisors.clone()) => Ok(()),
            () = control::serve(listener, supervisors, &url) => Ok(()),
            _ = signals.next() => Ok(()),
        };
    }
    stop(nodes, &mut signals).await;
    ended
}

/// Waits until all nodes answer, prints the welcome, and keeps the nodes
/// running until one cannot be restarted.
async fn keep_running(
    layout: &ClusterLayout,
    console: &str,
    probe: &Probe,
    nodes: &mut [SupervisedNode<'_>],
) -> Failure {
    tokio::select! {
        end = first(nodes.iter_mut().map(SupervisedNode::end)) => return Failure::failed(end),
        () = up(layout, console, probe) => {}
    }
    first(nodes.iter_mut().map(SupervisedNode::keep_running)).await
}

/// Waits until all nodes answer, and prints the welcome.
async fn up(layout: &ClusterLayout, console: &str, probe: &Probe) {
    for node in &layout.nodes {
        probe.wait_until_up(node).await;
    }
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
}

/// The output of the first of these futures that completes.
async fn first<F: Future>(all: impl Iterator<Item = F>) -> F::Output {
    let mut all: Vec<_> = all.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        for each in &mut all {
            if let Poll::Ready(output) = each.as_mut().poll(context) {
                return Poll::Ready(output);
            }
        }
        Poll::Pending
    })
    .await
}

/// Stops the nodes and waits for their ends. Nodes that take too long are
/// killed; on a second signal all are killed at once. A killed store loses
/// nothing that it acknowledged.
async fn stop(mut nodes: Vec<SupervisedNode<'_>>, signals: &mut StopSignals) {
    // Their stdin stays open: its end would count as a second signal, after
    // which a node does not finish the requests that it admitted.
    for node in &nodes {
        node.terminate();
    }
    let mut second_signal: Option<StopSignal> = None;
    {
        let mut all_end = pin!(async {
            for node in &mut nodes {
                node.wait_for_end().await;
            }
        });
        tokio::select! {
            () = &mut all_end => return,
            () = tokio::time::sleep(STOP_TIME) => {}
            signal = signals.next() => second_signal = Some(signal),
        }
    }
    for node in &mut nodes {
        node.kill().await;
    }
    if let Some(signal) = second_signal {
        stderr::flush();
        std::process::exit(signal.exit_code().into());
    }
}
