//! `kvorum dev`: a local cluster of child processes.
//!
//! Each node is this program again, with `serve`, on a port and in a folder of
//! its own. The children must never outlive their parent, nor stop before it
//! has told them to:
//! - each has a pipe from here as its stdin and ends when that closes, which
//!   the system sees to however this process ends, `kill -9` included;
//! - each is a process group of its own, so that Ctrl-C in a terminal reaches
//!   only the parent, which stops them in order.

use crate::failure::Failure;
use crate::layers::{self, Stop};
use crate::options::{Command as CommandOptions, DevOptions, LogOptions};
use crate::signals::{StopSignal, StopSignals};
use clap::ValueEnum;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::future::Future;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin, Command};

/// How often a node that starts is asked whether it is there.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// How long a node may take to stop before it is killed. It needs 10 s at most
/// with its own defaults.
const STOP_TIME: Duration = Duration::from_secs(15);

/// Variables that would give every node the same identity.
const VARIABLES_REMOVED: [&str; 6] = [
    "KVORUM_URL",
    "KVORUM_NAME",
    "KVORUM_LISTEN",
    "KVORUM_CLUSTER",
    "KVORUM_DATA",
    "KVORUM_CONFIG",
];

/// Runs a local cluster until it is told to stop.
///
/// # Errors
/// More nodes than are supported, an option that no node would take, a port in
/// use, a node that ends by itself; and what is to be shown instead of running.
pub(crate) fn run(options: &DevOptions) -> Result<(), Stop> {
    if options.nodes > 1 {
        return Err(Failure::usage(format!(
            "--nodes {}: a cluster of several nodes is not supported yet, use --nodes 1",
            options.nodes
        ))
        .into());
    }
    let plans = plan(options)?;
    for plan in &plans {
        check_options(plan, options)?;
        check_port(plan.address.port())?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    Ok(runtime.block_on(dev(options, &plans))?)
}

/// Reads the options of a node as its process will, so that what is wrong with
/// them is told before anything runs, by one process.
#[expect(clippy::disallowed_methods, reason = "an option may name a file")]
fn check_options(plan: &Plan, options: &DevOptions) -> Result<(), Stop> {
    let mut arguments = vec![OsString::from("kvorum")];
    arguments.extend(serve_arguments(plan, options.log));
    arguments.extend(options.serve.iter().cloned());
    let kept = |name: &OsString| VARIABLES_REMOVED.iter().all(|removed| name != removed);
    let environment = std::env::vars_os().filter(|(name, _)| kept(name));
    let read_file = |file: &std::path::Path| std::fs::read_to_string(file);
    let parsed = layers::parse(&arguments, environment, &read_file)?;
    if let CommandOptions::Serve(serve) = &parsed.cli.command {
        serve.node_config().map_err(|error| parsed.refuse(&error))?;
    }
    Ok(())
}

/// A node that is to run.
struct Plan {
    name: String,
    address: SocketAddr,
    data: PathBuf,
}

impl Plan {
    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

fn plan(options: &DevOptions) -> Result<Vec<Plan>, Failure> {
    (0..options.nodes)
        .map(|index| {
            let port = options.port.checked_add(index).ok_or_else(|| {
                Failure::usage("--port: there are not enough ports above it for all nodes")
            })?;
            let name = format!("node-{}", u32::from(index) + 1);
            Ok(Plan {
                data: options.data.join(&name),
                name,
                address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            })
        })
        .collect()
}

/// Takes a port for a moment, so that one in use is told before anything runs.
fn check_port(port: u16) -> Result<(), Failure> {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(Failure::failed(format!(
            "port {port} of 127.0.0.1 is in use: stop what listens there, or choose another with --port"
        ))),
        Err(error) => Err(Failure::failed(format!(
            "cannot listen on 127.0.0.1:{port}: {error}"
        ))),
    }
}

async fn dev(options: &DevOptions, plans: &[Plan]) -> Result<(), Failure> {
    let mut signals = StopSignals::install()?;
    let mut nodes = Vec::new();
    let mut ended = Ok(());
    for plan in plans {
        match RunningNode::spawn(plan, options) {
            Ok(node) => nodes.push(node),
            Err(failure) => {
                ended = Err(failure);
                break;
            }
        }
    }
    if ended.is_ok() {
        ended = tokio::select! {
            failure = first_end(&mut nodes) => Err(failure),
            _ = signals.next() => Ok(()),
            never = up(options, plans) => match never {},
        };
    }
    stop(nodes, &mut signals).await;
    ended
}

/// Waits until all nodes answer, says so, and then for ever.
async fn up(options: &DevOptions, plans: &[Plan]) -> std::convert::Infallible {
    for plan in plans {
        while !answers(plan.address).await {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
    // Who closed stdout does not want to read it; the cluster runs on.
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(welcome(options, plans).as_bytes());
    let _ = stdout.flush();
    drop(stdout);
    std::future::pending().await
}

fn welcome(options: &DevOptions, plans: &[Plan]) -> String {
    let mut text = String::new();
    let data = options.data.display();
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "The cluster is up. Ctrl-C stops it; its data stays in {data}.\n"
    );
    for plan in plans {
        let _ = writeln!(text, "  {}  {}", plan.name, plan.url());
    }
    if let Some(first) = plans.first() {
        let url = first.url();
        let _ = writeln!(
            text,
            "\nTry:\n  \
             curl -X PUT --data-binary 'world' '{url}/v0/entity?id=hello'\n  \
             curl '{url}/v0/entity?id=hello'\n  \
             curl '{url}/v0/entities?start=a'"
        );
    }
    text
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

/// A child process.
struct RunningNode {
    name: String,
    url: String,
    child: Child,
    /// Waiting for a child closes its stdin, which would stop it: so it is kept here.
    stdin: Option<ChildStdin>,
}

impl RunningNode {
    fn spawn(plan: &Plan, options: &DevOptions) -> Result<Self, Failure> {
        let failed =
            |error: io::Error| Failure::failed(format!("cannot start {}: {error}", plan.name));
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command
            .args(serve_arguments(plan, options.log))
            .args(&options.serve)
            .stdin(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        for variable in VARIABLES_REMOVED {
            command.env_remove(variable);
        }
        let mut child = command.spawn().map_err(failed)?;
        Ok(Self {
            name: plan.name.clone(),
            url: plan.url(),
            stdin: child.stdin.take(),
            child,
        })
    }

    /// Waits until the process ends by itself, and says how.
    async fn end(&mut self) -> Failure {
        let end = match self.child.wait().await {
            Ok(status) => describe(status),
            Err(error) => error.to_string(),
        };
        Failure::failed(format!(
            "{} ({}) ended by itself: {end}",
            self.name, self.url
        ))
    }

    /// Asks the process to stop.
    fn terminate(&self) {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(pid) = id.and_then(Pid::from_raw) {
            // It fails only for a process that has ended, which is what is wanted.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

fn serve_arguments(plan: &Plan, log: LogOptions) -> Vec<OsString> {
    let url = plan.url();
    let mut arguments: Vec<OsString> = vec![
        "serve".into(),
        "--until-stdin-closes".into(),
        "--url".into(),
        url.into(),
        "--data".into(),
        plan.data.clone().into(),
    ];
    let level = log.level.to_possible_value();
    let format = log.format.to_possible_value();
    for (name, value) in [("--log", level), ("--log-format", format)] {
        if let Some(value) = value {
            arguments.extend([name.into(), value.get_name().into()]);
        }
    }
    arguments
}

/// Waits until one of the nodes ends by itself.
async fn first_end(nodes: &mut [RunningNode]) -> Failure {
    let mut ends: Vec<_> = nodes.iter_mut().map(|node| Box::pin(node.end())).collect();
    std::future::poll_fn(|context| {
        for end in &mut ends {
            if let Poll::Ready(failure) = end.as_mut().poll(context) {
                return Poll::Ready(failure);
            }
        }
        Poll::Pending
    })
    .await
}

fn describe(status: ExitStatus) -> String {
    match status.code() {
        Some(1 | 2) => format!("{status}; its own last line says why"),
        _ => status.to_string(),
    }
}

/// Stops the nodes and waits for them. Those that take too long are killed, on
/// a second signal all at once: a store loses nothing by it.
async fn stop(mut nodes: Vec<RunningNode>, signals: &mut StopSignals) {
    for node in &mut nodes {
        node.terminate();
        // A node that is not listening to signals yet still sees its stdin end.
        node.stdin = None;
    }
    let mut impatient: Option<StopSignal> = None;
    {
        let mut all_end = pin!(async {
            for node in &mut nodes {
                // A failed wait leaves nothing to wait for.
                let _ = node.child.wait().await;
            }
        });
        tokio::select! {
            () = &mut all_end => return,
            () = tokio::time::sleep(STOP_TIME) => {}
            signal = signals.next() => impatient = Some(signal),
        }
    }
    for node in &mut nodes {
        let _ = node.child.kill().await;
    }
    if let Some(signal) = impatient {
        std::process::exit(signal.exit_code());
    }
}
