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
//!
//! request:  add\n or remove NUMBER\n, or remove\n
//! answer:   said LINE\n …            said copying: waits for node-4 to have the data of node-1
//!           done LINE\n              done node-4 has joined, …
//! ```
//!
//! Signals to process IDs would not work: only the parent of a process can be sure that the ID has
//! not been reused, and only the supervisor can tell a stopped node from a crashed one.
//!
//! The process that holds the lock on the folder runs the cluster, so a socket
//! that an earlier process left behind is not in use. Only the user who runs the
//! cluster, and root, may send commands.

use super::actions::{CommandResult, NodeAction, NodeState, Supervisor};
use super::folder::{open_folder, short_path};
use super::member_orders::{MemberChange, MemberOrder, MemberOrders};
use super::node_fault::NodeFault;
use super::nodes::{Nodes, no_node};
use super::options::{NodeCommand, StatusOptions};
use crate::failure::Failure;
use crate::text;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

/// The longest request, in bytes.
const REQUEST_BYTES_MAX: usize = 64;

/// How long a request may take to arrive.
const REQUEST_TIME: Duration = Duration::from_secs(1);

/// How many commands are carried out at a time. Further ones wait in the
/// socket's queue.
const COMMANDS_MAX: usize = 16;

/// How long an answer may take. It is longer than the time in which a node must
/// stop.
const ANSWER_TIME: Duration = Duration::from_secs(60);

/// The request for the states of all nodes.
const STATUS: &str = "status";

/// The request for the address of the console.
const CONSOLE: &str = "console";

/// The requests for another node, and for one less.
const ADD: &str = "add";
const REMOVE: &str = "remove";

/// How often whoever waits for a change of the members hears of it, changed or not.
const SAID_AGAIN: Duration = Duration::from_secs(10);

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

/// Passes commands to the supervisors of the nodes, forever. `console` is the address of the console.
pub(super) async fn serve(listener: UnixListener, members: MemberOrders, console: &str) {
    let mut under_way = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if under_way.len() < COMMANDS_MAX => match accepted {
                Ok((stream, _)) => {
                    under_way.spawn(serve_connection(stream, members.clone(), console.to_owned()));
                }
                // Too many open files, for example, which is temporary.
                Err(_) => tokio::time::sleep(REQUEST_TIME).await,
            },
            Some(_) = under_way.join_next() => {}
        }
    }
}

async fn serve_connection(mut stream: UnixStream, members: MemberOrders, console: String) {
    let is_own = stream.peer_cred().is_ok_and(|peer| {
        let user = peer.uid();
        user == 0 || user == rustix::process::geteuid().as_raw()
    });
    if !is_own {
        return;
    }
    let request = tokio::time::timeout(REQUEST_TIME, read_line(&mut stream)).await;
    let Ok(Ok(request)) = request else { return };
    let result = match member_order(&request) {
        Some(order) => match members.begin(order) {
            Ok(change) => follow(change, &mut stream).await,
            Err(line) => Err(line),
        },
        None if request == CONSOLE => Ok(console),
        None => carry_out(&request, members.nodes()).await,
    };
    let answer = match result {
        Ok(line) => format!("done {line}\n"),
        Err(line) => format!("refused {line}\n"),
    };
    // The client may have disconnected.
    let _ = stream.write_all(answer.as_bytes()).await;
}

/// The change of the members that a request asks for.
fn member_order(request: &str) -> Option<MemberOrder> {
    if request == ADD {
        return Some(MemberOrder::Add);
    }
    let number = request.strip_prefix(REMOVE)?;
    if number.is_empty() {
        return Some(MemberOrder::Remove(None));
    }
    let number = number.strip_prefix(' ')?.parse().ok()?;
    Some(MemberOrder::Remove(Some(number)))
}

/// Says how far a change is until it has ended. It goes on if the client leaves.
async fn follow(mut change: MemberChange, stream: &mut UnixStream) -> CommandResult {
    loop {
        let line = change.said.borrow_and_update().clone();
        if !line.is_empty() {
            // The client may have disconnected, and the change goes on.
            let _ = stream.write_all(format!("said {line}\n").as_bytes()).await;
        }
        tokio::select! {
            end = &mut change.end => {
                return end.unwrap_or_else(|_| Err("the cluster is stopping".to_owned()));
            }
            Ok(()) = change.said.changed() => {}
            () = tokio::time::sleep(SAID_AGAIN) => {}
        }
    }
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
pub(super) async fn carry_out(request: &str, nodes: &Nodes) -> CommandResult {
    if request == STATUS {
        let nodes: Vec<NodeState> = nodes.list().iter().map(Supervisor::state).collect();
        return serde_json::to_string(&nodes).map_err(|error| error.to_string());
    }
    let (action, number) = parse(request).ok_or("unknown command")?;
    match nodes.get(number) {
        Some(node) => node.carry_out(action).await,
        None => Err(no_node(number, nodes)),
    }
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
        NodeCommand::Add(options) => return change_members(ADD, &options.data),
        NodeCommand::Remove(options) => {
            let request = match options.node {
                Some(number) => format!("{REMOVE} {number}"),
                None => REMOVE.to_owned(),
            };
            return change_members(&request, &options.data);
        }
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

/// Has the members of the cluster change, and prints how far that is.
fn change_members(request: &str, data: &Path) -> Result<(), Failure> {
    let mut last = String::new();
    let line = send_and_hear(request, data, |line| {
        if line != last {
            print(&[line.to_owned()]);
            line.clone_into(&mut last);
        }
    })?;
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
    send_and_hear(request, data, |_| {})
}

/// The same. `hear` gets what the cluster says before that.
fn send_and_hear(request: &str, data: &Path, hear: impl FnMut(&str)) -> Result<String, Failure> {
    let answer = exchange(request, data, hear).map_err(|error| match error.kind() {
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

fn exchange(request: &str, data: &Path, mut hear: impl FnMut(&str)) -> io::Result<String> {
    let folder = open_folder(data)?;
    let mut stream = std::os::unix::net::UnixStream::connect(short_path(&folder))?;
    stream.set_read_timeout(Some(ANSWER_TIME))?;
    stream.write_all(format!("{request}\n").as_bytes())?;
    let mut answers = BufReader::new(stream);
    loop {
        let mut answer = String::new();
        answers.read_line(&mut answer)?;
        match answer.trim_end().strip_prefix("said ") {
            Some(line) => hear(line),
            None => return Ok(answer.trim_end().to_owned()),
        }
    }
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
    fn a_node_is_added_or_one_of_them_removed() {
        assert_eq!(member_order("add"), Some(MemberOrder::Add));
        assert_eq!(member_order("remove"), Some(MemberOrder::Remove(None)));
        assert_eq!(member_order("remove 4"), Some(MemberOrder::Remove(Some(4))));
        for other in ["add 4", "remove x", "remove4", "removed", "kill 2"] {
            assert_eq!(member_order(other), None, "{other}");
        }
    }
}
