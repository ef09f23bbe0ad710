//! `kvorum dev`: a local cluster of child processes.
//!
//! Each node is this program again, with `serve`, on a port and in a folder of
//! its own ([`layout`]). The children must never outlive their parent, nor stop
//! before it has told them to:
//! - each has a pipe from here as its stdin and ends when that closes, which
//!   the system sees to however this process ends, `kill -9` included;
//! - each is a process group of its own, so that Ctrl-C in a terminal reaches
//!   only the parent, which stops them in order.
//!
//! A node of several that ends by itself once the cluster is up is started
//! again, as a supervisor would do it: who kills one sees that the others do
//! without it and that it catches up. A lone node, or one that does not get
//! so far, ends the command.
//!
//! `kvorum dev kill`, `stop`, `start`, `freeze` and `thaw` ([`control`]) do
//! something to a node of the cluster that runs. One that was killed so is
//! started again, too, even where it is alone; one that was stopped stays away
//! until it is started.

mod control;
mod layout;
mod options;
mod supervised_node;

pub(crate) use options::DevOptions;

use crate::failure::Failure;
use crate::layers::EarlyExit;
use crate::signals::{StopSignal, StopSignals};
use control::ClusterFolderLock;
use layout::ClusterLayout;
use std::future::Future;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use supervised_node::SupervisedNode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// How often a node that starts is asked whether it is there.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// How long a node may take to stop before it is killed. It needs 10 s at most
/// with its own defaults.
const STOP_TIME: Duration = Duration::from_secs(15);

/// Runs a local cluster until it is told to stop, or has one that runs do
/// something to a node.
///
/// # Errors
/// A plan that cannot be, a port in use, a node that ends by itself; no
/// cluster where one should run; and what is to be shown instead of running.
pub(crate) fn run(options: &DevOptions) -> Result<(), EarlyExit> {
    if let Some(command) = &options.instead {
        return Ok(control::ask(command)?);
    }
    let layout = ClusterLayout::new(options)?;
    // One that is there may have its cluster, which says more than a port in
    // use; one that is not is only made where there is something to put into it.
    let held = layout.take_folder()?;
    layout.check_ports()?;
    let lock = held.map_or_else(|| layout.make_folder(), Ok)?;
    layout.make_folders()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    Ok(runtime.block_on(dev(&layout, &lock))?)
}

async fn dev(layout: &ClusterLayout, lock: &ClusterFolderLock) -> Result<(), Failure> {
    let mut signals = StopSignals::install()?;
    let listener = lock.listen()?;
    let mut nodes = Vec::new();
    let mut senders = Vec::new();
    let mut ended = Ok(());
    for node in &layout.nodes {
        let (way, requests) = mpsc::channel(control::WAITING_MAX);
        match SupervisedNode::spawn(layout, node, requests) {
            Ok(node) => {
                nodes.push(node);
                senders.push(way);
            }
            Err(failure) => {
                ended = Err(failure);
                break;
            }
        }
    }
    if ended.is_ok() {
        ended = tokio::select! {
            failure = keep_running(layout, &mut nodes) => Err(failure),
            () = control::serve(listener, senders) => Ok(()),
            _ = signals.next() => Ok(()),
        };
    }
    stop(nodes, &mut signals).await;
    ended
}

/// Waits until all nodes answer, says so, and keeps them running until one of
/// them cannot be.
async fn keep_running(layout: &ClusterLayout, nodes: &mut [SupervisedNode<'_>]) -> Failure {
    tokio::select! {
        end = first(nodes.iter_mut().map(SupervisedNode::end)) => return Failure::failed(end),
        () = up(layout) => {}
    }
    first(nodes.iter_mut().map(SupervisedNode::keep_running)).await
}

/// Waits until all nodes answer, and says so.
async fn up(layout: &ClusterLayout) {
    for node in &layout.nodes {
        while !answers(node.address).await {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
    // Who closed stdout does not want to read it; the cluster runs on.
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(layout.welcome().as_bytes());
    let _ = stdout.flush();
}

/// Whether a node answers `/v0/status` with 200.
async fn answers(address: SocketAddr) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect(address).await?;
        let head =
            format!("GET /v0/status HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        let mut status = [0; 12];
        stream.read_exact(&mut status).await?;
        io::Result::Ok(&status == b"HTTP/1.1 200")
    };
    ask.await.unwrap_or(false)
}

/// What the first of these to be done comes to.
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

/// Stops the nodes and waits for them. Those that take too long are killed, on
/// a second signal all at once: a store loses nothing by it.
async fn stop(mut nodes: Vec<SupervisedNode<'_>>, signals: &mut StopSignals) {
    // Their stdin stays open: a signal after its end would be a second one,
    // upon which a node does not finish what it has admitted.
    for node in &nodes {
        node.terminate();
    }
    let mut impatient: Option<StopSignal> = None;
    {
        let mut all_end = pin!(async {
            for node in &mut nodes {
                node.wait_for_end().await;
            }
        });
        tokio::select! {
            () = &mut all_end => return,
            () = tokio::time::sleep(STOP_TIME) => {}
            signal = signals.next() => impatient = Some(signal),
        }
    }
    for node in &mut nodes {
        node.kill().await;
    }
    if let Some(signal) = impatient {
        std::process::exit(signal.exit_code().into());
    }
}
