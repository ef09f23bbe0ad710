//! How commands reach the process that runs the cluster: over a socket in the
//! cluster's folder.
//!
//! ```text
//! request:  ACTION NUMBER\n          kill 2
//! answer:   done LINE\n              done node-2 was killed; it restarts …
//!           refused LINE\n           refused node-2 is stopped: …
//!
//! request:  status\n
//! answer:   done JSON\n              done [{"name":"node-1","url":…},…]
//!
//! request:  console\n
//! answer:   done URL\n               done http://127.0.0.1:40001/#dev=…
//! ```
//!
//! Signals to process IDs would not work: only the parent of a process can be sure that the ID has
//! not been reused, and only the supervisor can tell a stopped node from a crashed one.
//!
//! The process that holds the lock on the folder runs the cluster, so a socket
//! that an earlier process left behind is not in use. Only the user who runs the
//! cluster, and root, may send commands.

use super::node_fault::NodeFault;
use super::options::{NodeCommand, StatusOptions};
use crate::failure::Failure;
use crate::text;
use lsm::{Disk, RealDisk};
use rustix::fs::{FlockOperation, Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

/// The name of the socket in the folder.
const SOCKET: &str = "CONTROL";

/// The longest request, in bytes.
const REQUEST_BYTES_MAX: usize = 64;

/// How long a request may take to arrive.
const REQUEST_TIME: Duration = Duration::from_secs(1);

/// How many commands are carried out at a time. Further ones wait in the
/// socket's queue.
const COMMANDS_MAX: usize = 16;

/// How many commands may wait for the supervisor of a node.
pub(super) const WAITING_MAX: usize = 4;

/// How long an answer may take. It is longer than the time in which a node must
/// stop.
const ANSWER_TIME: Duration = Duration::from_secs(60);

/// What a command does to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeAction {
    Kill,
    Stop,
    Start,
    Freeze,
    Thaw,
    /// Loses its folder, as with a disk that dies, and starts it again.
    Wipe,
    /// Gives it a fault.
    Set(NodeFault),
    /// Rids it of a fault.
    Clear(NodeFault),
}

/// The request for the states of all nodes.
const STATUS: &str = "status";

/// The request for the address of the console.
const CONSOLE: &str = "console";

const ACTIONS: [(NodeAction, &str); 12] = [
    (NodeAction::Kill, "kill"),
    (NodeAction::Stop, "stop"),
    (NodeAction::Start, "start"),
    (NodeAction::Freeze, "freeze"),
    (NodeAction::Thaw, "thaw"),
    (NodeAction::Wipe, "wipe"),
    (NodeAction::Set(NodeFault::ClockAhead), "skew"),
    (NodeAction::Clear(NodeFault::ClockAhead), "unskew"),
    (NodeAction::Set(NodeFault::CutOff), "cut"),
    (NodeAction::Clear(NodeFault::CutOff), "join"),
    (NodeAction::Set(NodeFault::Slow), "slow"),
    (NodeAction::Clear(NodeFault::Slow), "unslow"),
];

/// The result of a command as a line: what was done, or why it was refused.
pub(super) type CommandResult = Result<String, String>;

/// A command on its way to the supervisor of a node.
pub(super) struct ActionRequest {
    pub(super) action: NodeAction,
    pub(super) reply: oneshot::Sender<CommandResult>,
}

/// How the supervisor of a node is reached.
#[derive(Clone)]
pub(super) struct Supervisor {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) requests: mpsc::Sender<ActionRequest>,
    /// What the node is, in a word, and the faults that it has, in further words. It is as of
    /// the last command that has ended, so that nobody waits for one that is being carried out.
    pub(super) shown: watch::Receiver<String>,
}

/// What a node is, for those who ask.
#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
struct NodeState {
    name: String,
    url: String,
    state: String,
    faults: Vec<String>,
}

impl Supervisor {
    fn state(&self) -> NodeState {
        let shown = self.shown.borrow();
        let mut words = shown.split_whitespace().map(str::to_owned);
        NodeState {
            name: self.name.clone(),
            url: self.url.clone(),
            state: words.next().unwrap_or_default(),
            faults: words.collect(),
        }
    }
}

/// The lock on the folder of a cluster, which the process that runs the cluster
/// holds.
pub(super) struct ClusterFolderLock {
    folder: OwnedFd,
    socket: PathBuf,
}

impl ClusterFolderLock {
    /// Locks the folder, which must exist.
    ///
    /// # Errors
    /// Another process runs a cluster in the folder; errors of the system.
    pub(super) fn take(data: &Path) -> Result<Self, Failure> {
        let failed = |error: rustix::io::Errno| match error {
            rustix::io::Errno::NOTDIR => {
                Failure::usage(format!("--data: {} is not a folder", data.display()))
            }
            _ => Failure::failed(format!("cannot lock {}: {error}", data.display())),
        };
        let folder = open_folder(data).map_err(failed)?;
        // It also has the token that may do everything, and the authority's key.
        RealDisk::default()
            .check_folder(data)
            .map_err(|error| Failure::failed(format!("cannot use {}: {error}", data.display())))?;
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self {
                folder,
                socket: data.join(SOCKET),
            }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Failure::failed(format!(
                "another 'kvorum dev' runs on {}: stop it first, or choose another folder with \
                 --data",
                data.display()
            ))),
            Err(error) => Err(failed(error)),
        }
    }

    /// Begins to listen for commands.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn listen(&self) -> Result<UnixListener, Failure> {
        self.remove_socket();
        let failed = |error: io::Error| {
            Failure::failed(format!("cannot make {}: {error}", self.socket.display()))
        };
        let path = short_path(&self.folder);
        let listener = UnixListener::bind(&path).map_err(failed)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        Ok(listener)
    }

    fn remove_socket(&self) {
        #[expect(
            clippy::disallowed_methods,
            reason = "the folder of a local cluster is no part of a store"
        )]
        // A socket that does not exist need not be removed. If an existing one
        // cannot be removed, the next bind reports it.
        let _ = std::fs::remove_file(&self.socket);
    }
}

impl Drop for ClusterFolderLock {
    fn drop(&mut self) {
        self.remove_socket();
    }
}

fn open_folder(data: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(data, flags, Mode::empty())
}

/// The path of the socket through the open folder, because a socket's path may
/// have at most 107 bytes and the path of a folder many more.
fn short_path(folder: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()))
}

/// Passes commands to the supervisors of the nodes, forever. `console` is the address of the console.
pub(super) async fn serve(listener: UnixListener, nodes: Vec<Supervisor>, console: &str) {
    let mut under_way = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if under_way.len() < COMMANDS_MAX => match accepted {
                Ok((stream, _)) => {
                    under_way.spawn(serve_connection(stream, nodes.clone(), console.to_owned()));
                }
                // Too many open files, for example, which is temporary.
                Err(_) => tokio::time::sleep(REQUEST_TIME).await,
            },
            Some(_) = under_way.join_next() => {}
        }
    }
}

async fn serve_connection(mut stream: UnixStream, nodes: Vec<Supervisor>, console: String) {
    let is_own = stream.peer_cred().is_ok_and(|peer| {
        let user = peer.uid();
        user == 0 || user == rustix::process::geteuid().as_raw()
    });
    if !is_own {
        return;
    }
    let request = tokio::time::timeout(REQUEST_TIME, read_line(&mut stream)).await;
    let Ok(Ok(request)) = request else { return };
    let result = if request == CONSOLE {
        Ok(console)
    } else {
        carry_out(&request, &nodes).await
    };
    let answer = match result {
        Ok(line) => format!("done {line}\n"),
        Err(line) => format!("refused {line}\n"),
    };
    // The client may have disconnected.
    let _ = stream.write_all(answer.as_bytes()).await;
}

/// Reads a line of at most [`REQUEST_BYTES_MAX`] bytes, without its end.
async fn read_line(stream: &mut UnixStream) -> io::Result<String> {
    let mut line = Vec::new();
    loop {
        match stream.read_u8().await? {
            b'\n' => return String::from_utf8(line).map_err(io::Error::other),
            byte if line.len() < REQUEST_BYTES_MAX => line.push(byte),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Has the supervisor of a node do what a request says.
///
/// # Errors
/// Why it is not done.
pub(super) async fn carry_out(request: &str, nodes: &[Supervisor]) -> CommandResult {
    if request == STATUS {
        let nodes: Vec<NodeState> = nodes.iter().map(Supervisor::state).collect();
        return serde_json::to_string(&nodes).map_err(|error| error.to_string());
    }
    let (action, number) = parse(request).ok_or("unknown command")?;
    let Some(node) = number.checked_sub(1).and_then(|index| nodes.get(index)) else {
        let last = nodes.len();
        return Err(match last {
            1 => "the cluster has one node, node-1".to_owned(),
            _ => format!("there is no node-{number}: the cluster has node-1 to node-{last}"),
        });
    };
    let (reply, outcome) = oneshot::channel();
    node.requests
        .try_send(ActionRequest { action, reply })
        .map_err(|_| format!("node-{number} has other commands to finish first"))?;
    outcome
        .await
        .unwrap_or_else(|_| Err("the cluster is stopping".to_owned()))
}

fn parse(request: &str) -> Option<(NodeAction, usize)> {
    let (word, number) = request.split_once(' ')?;
    let (action, _) = ACTIONS.iter().find(|(_, known)| *known == word)?;
    Some((*action, number.parse().ok()?))
}

/// Sends a command to the cluster that runs on a folder and prints the result.
///
/// # Errors
/// No cluster runs on the folder, or the command is refused.
pub(super) fn ask(command: &NodeCommand) -> Result<(), Failure> {
    let (action, options) = match command {
        NodeCommand::Status(options) => return status(options),
        NodeCommand::Kill(options) => (NodeAction::Kill, options),
        NodeCommand::Stop(options) => (NodeAction::Stop, options),
        NodeCommand::Start(options) => (NodeAction::Start, options),
        NodeCommand::Freeze(options) => (NodeAction::Freeze, options),
        NodeCommand::Thaw(options) => (NodeAction::Thaw, options),
        NodeCommand::Wipe(options) => (NodeAction::Wipe, options),
        NodeCommand::Skew(options) => (NodeAction::Set(NodeFault::ClockAhead), options),
        NodeCommand::Unskew(options) => (NodeAction::Clear(NodeFault::ClockAhead), options),
        NodeCommand::Cut(options) => (NodeAction::Set(NodeFault::CutOff), options),
        NodeCommand::Join(options) => (NodeAction::Clear(NodeFault::CutOff), options),
        NodeCommand::Slow(options) => (NodeAction::Set(NodeFault::Slow), options),
        NodeCommand::Unslow(options) => (NodeAction::Clear(NodeFault::Slow), options),
    };
    let words = ACTIONS.iter().find(|(known, _)| *known == action);
    let word = words.map_or("", |(_, word)| word);
    let line = send(&format!("{word} {}", options.node), &options.data)?;
    print(&[line]);
    Ok(())
}

/// Prints the states of all nodes.
fn status(options: &StatusOptions) -> Result<(), Failure> {
    let line = send(STATUS, &options.data)?;
    if options.json {
        print(&[line]);
        return Ok(());
    }
    let nodes: Vec<NodeState> = serde_json::from_str(&line).map_err(|error| {
        Failure::failed(format!("the cluster is run by another program: {error}"))
    })?;
    let rows = nodes.into_iter().map(|node| {
        let faults = node.faults.join(", ");
        [node.name, node.url, node.state, faults]
    });
    let rows: Vec<_> = rows.collect();
    print(&units::lines_of(units::Columns::Left, &rows));
    let console = send(CONSOLE, &options.data)?;
    print(&[format!("The console: {console}")]);
    Ok(())
}

/// Prints lines. A closed stdout is no reason to fail.
fn print(lines: &[String]) {
    let _ = io::stdout().write_all(text::of_lines(lines).as_bytes());
}

/// Sends a request to the cluster that runs on a folder. Returns the line of its answer.
fn send(request: &str, data: &Path) -> Result<String, Failure> {
    let answer = exchange(request, data).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Failure::failed(format!(
            "no cluster runs on {}: start one with 'kvorum dev', or name its folder with --data",
            data.display()
        )),
        _ => Failure::failed(format!("cannot reach the cluster: {error}")),
    })?;
    match answer.split_once(' ') {
        Some(("done", line)) => Ok(line.to_owned()),
        Some(("refused", line)) => Err(Failure::failed(line)),
        _ => Err(Failure::failed("the cluster ended before it answered")),
    }
}

fn exchange(request: &str, data: &Path) -> io::Result<String> {
    let folder = open_folder(data)?;
    let mut stream = std::os::unix::net::UnixStream::connect(short_path(&folder))?;
    stream.set_read_timeout(Some(ANSWER_TIME))?;
    stream.write_all(format!("{request}\n").as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(answer.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_an_action_and_a_number() {
        assert_eq!(parse("kill 2"), Some((NodeAction::Kill, 2)));
        assert_eq!(parse("thaw 255"), Some((NodeAction::Thaw, 255)));
        let join = NodeAction::Clear(NodeFault::CutOff);
        assert_eq!(parse("join 1"), Some((join, 1)));
        for wrong in ["", "kill", "kill x", "eat 2", "kill -1", "kill 2 "] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_folder_has_one_cluster_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let lock = ClusterFolderLock::take(folder.path()).ok().unwrap();
        let refused = ClusterFolderLock::take(folder.path()).err().unwrap();
        assert!(refused.line().contains("another 'kvorum dev' runs"));
        drop(lock);
        assert!(ClusterFolderLock::take(folder.path()).is_ok());
        // Others could put a token or an authority of their own there.
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder.path(), open).unwrap();
        let refused = ClusterFolderLock::take(folder.path()).err().unwrap();
        assert!(refused.line().contains("chmod 700"), "{}", refused.line());
    }
}
