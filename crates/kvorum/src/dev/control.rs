//! How commands reach the process that runs the cluster.
//!
//! ```text
//! request:  WISH NUMBER\n            kill 2
//! answer:   done LINE\n              done node-2 is killed; it starts again …
//!           refused LINE\n           refused node-2 is stopped: …
//! ```
//!
//! They go over a socket in the folder of the cluster, and not by the numbers
//! of processes: only the parent of a process can be sure that its number has
//! not become another's, and only the supervisor can tell a node that was
//! stopped from one that broke. Who has locked the folder runs the cluster, so
//! a socket that an earlier one left behind is in nobody's use. Only the user
//! who runs the cluster is listened to.

use super::options::{NodeCommand, NodeOptions};
use crate::failure::Failure;
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// The socket's name in the folder.
const SOCKET: &str = "CONTROL";

/// The longest request, in bytes.
const REQUEST_BYTES_MAX: usize = 64;

/// How long a request may take to arrive.
const REQUEST_TIME: Duration = Duration::from_secs(1);

/// Commands that are carried out at a time; more wait for their connection.
const COMMANDS_MAX: usize = 16;

/// Commands that may wait for a node.
pub(super) const WAITING_MAX: usize = 4;

/// How long an answer may take: longer than a node may take to stop.
const ANSWER_TIME: Duration = Duration::from_secs(60);

/// What is to be done to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeAction {
    Kill,
    Stop,
    Start,
    Freeze,
    Thaw,
}

const ACTIONS: [(NodeAction, &str); 5] = [
    (NodeAction::Kill, "kill"),
    (NodeAction::Stop, "stop"),
    (NodeAction::Start, "start"),
    (NodeAction::Freeze, "freeze"),
    (NodeAction::Thaw, "thaw"),
];

/// What became of a wish, as a line.
pub(super) type CommandResult = Result<String, String>;

/// A wish on its way to the supervisor of a node.
pub(super) struct ActionRequest {
    pub(super) action: NodeAction,
    pub(super) reply: oneshot::Sender<CommandResult>,
}

/// The folder of a cluster, locked by the process that runs it.
pub(super) struct ClusterFolderLock {
    folder: OwnedFd,
    socket: PathBuf,
}

impl ClusterFolderLock {
    /// Locks the folder, which must be there.
    ///
    /// # Errors
    /// Another process runs a cluster there; those of the system.
    pub(super) fn take(data: &Path) -> Result<Self, Failure> {
        let failed = |error: rustix::io::Errno| match error {
            rustix::io::Errno::NOTDIR => {
                Failure::usage(format!("--data: {} is not a folder", data.display()))
            }
            _ => Failure::failed(format!("cannot lock {}: {error}", data.display())),
        };
        let folder = open_folder(data).map_err(failed)?;
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self {
                folder,
                socket: data.join(SOCKET),
            }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Failure::failed(format!(
                "another 'kvorum dev' runs on {}: stop it first, or give another folder with --data",
                data.display()
            ))),
            Err(error) => Err(failed(error)),
        }
    }

    /// Listens for commands.
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
        // What is not there need not go; what cannot go is told of when it is made anew.
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

/// The socket by way of the open folder: a socket's path may have 107 bytes,
/// and a folder's many more.
fn short_path(folder: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()))
}

/// Hands commands to the supervisors of the nodes, forever; `nodes` has the
/// way to each.
pub(super) async fn serve(listener: UnixListener, nodes: Vec<mpsc::Sender<ActionRequest>>) {
    let mut under_way = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if under_way.len() < COMMANDS_MAX => match accepted {
                Ok((stream, _)) => {
                    under_way.spawn(serve_connection(stream, nodes.clone()));
                }
                // Out of files, say: that passes.
                Err(_) => tokio::time::sleep(REQUEST_TIME).await,
            },
            Some(_) = under_way.join_next() => {}
        }
    }
}

async fn serve_connection(mut stream: UnixStream, nodes: Vec<mpsc::Sender<ActionRequest>>) {
    let is_own = stream.peer_cred().is_ok_and(|peer| {
        let user = peer.uid();
        user == 0 || user == rustix::process::geteuid().as_raw()
    });
    if !is_own {
        return;
    }
    let request = tokio::time::timeout(REQUEST_TIME, read_line(&mut stream)).await;
    let Ok(Ok(request)) = request else { return };
    let answer = match carry_out(&request, &nodes).await {
        Ok(line) => format!("done {line}\n"),
        Err(line) => format!("refused {line}\n"),
    };
    // Who asked may have left.
    let _ = stream.write_all(answer.as_bytes()).await;
}

/// A line without its end, which must not be longer than a request is.
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

async fn carry_out(request: &str, nodes: &[mpsc::Sender<ActionRequest>]) -> CommandResult {
    let (action, number) = parse(request).ok_or("that is no command")?;
    let Some(node) = number.checked_sub(1).and_then(|index| nodes.get(index)) else {
        let last = nodes.len();
        return Err(match last {
            1 => "the cluster has one node, node-1".to_owned(),
            _ => format!("there is no node-{number}: the cluster has node-1 to node-{last}"),
        });
    };
    let (reply, outcome) = oneshot::channel();
    node.try_send(ActionRequest { action, reply })
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

/// Has the cluster of a folder carry out a command, and says what became of it.
///
/// # Errors
/// No cluster runs there, or it refuses.
pub(super) fn ask(command: &NodeCommand) -> Result<(), Failure> {
    let (action, options) = match command {
        NodeCommand::Kill(options) => (NodeAction::Kill, options),
        NodeCommand::Stop(options) => (NodeAction::Stop, options),
        NodeCommand::Start(options) => (NodeAction::Start, options),
        NodeCommand::Freeze(options) => (NodeAction::Freeze, options),
        NodeCommand::Thaw(options) => (NodeAction::Thaw, options),
    };
    let answer = exchange(action, options).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Failure::failed(format!(
            "no cluster runs on {}: start one with 'kvorum dev', or give its folder with --data",
            options.data.display()
        )),
        _ => Failure::failed(format!("cannot reach the cluster: {error}")),
    })?;
    match answer.split_once(' ') {
        Some(("done", line)) => {
            // Who closed stdout does not want to read it.
            let _ = writeln!(io::stdout(), "{line}");
            Ok(())
        }
        Some(("refused", line)) => Err(Failure::failed(line)),
        _ => Err(Failure::failed("the cluster ended before it answered")),
    }
}

fn exchange(action: NodeAction, options: &NodeOptions) -> io::Result<String> {
    let folder = open_folder(&options.data)?;
    let mut stream = std::os::unix::net::UnixStream::connect(short_path(&folder))?;
    stream.set_read_timeout(Some(ANSWER_TIME))?;
    let words = ACTIONS.iter().filter(|(known, _)| *known == action);
    for (_, word) in words {
        stream.write_all(format!("{word} {}\n", options.node).as_bytes())?;
    }
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(answer.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_a_wish_and_a_number() {
        assert_eq!(parse("kill 2"), Some((NodeAction::Kill, 2)));
        assert_eq!(parse("thaw 255"), Some((NodeAction::Thaw, 255)));
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
    }
}
