//! The local cluster: it starts, it says how to use it, and it leaves nothing behind.

use crate::support::{Process, free_port, kvorum, request, until_closed};
use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;

/// A cluster that has said that it is up, and what it said.
fn started(port: u16, data: &Path) -> (Process, String) {
    let port = port.to_string();
    let mut command = kvorum(&["dev", "--port", &port]);
    command.arg("--data").arg(data);
    // As a terminal has it: Ctrl-C goes to the whole group.
    command.process_group(0);
    // A variable that would keep the node from starting is not passed on.
    command.env("KVORUM_LISTEN", "192.0.2.1:1");
    command.args(["--", "--memory", "128MiB"]);
    let mut dev = Process::spawn(&mut command);
    let mut said = String::new();
    let mut stdout = BufReader::new(dev.child.stdout.take().unwrap());
    while !said.contains("/v0/entities") {
        let bytes = stdout.read_line(&mut said).unwrap();
        assert_ne!(bytes, 0, "it ended early: {:?}", dev.end());
    }
    (dev, said)
}

/// The one child of a process.
#[expect(
    clippy::disallowed_methods,
    reason = "the system lists processes in files"
)]
fn child_of(dev: &Process) -> Pid {
    let pid = dev.pid().as_raw_pid();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let child = children.trim().parse().unwrap();
    Pid::from_raw(child).unwrap()
}

#[test]
fn it_says_what_to_try_and_stops_on_a_signal_with_its_data_kept() {
    let folder = tempfile::tempdir().unwrap();
    for (signal, status) in [(Signal::INT, 404), (Signal::TERM, 200)] {
        let port = free_port();
        let (mut dev, said) = started(port, folder.path());
        let entity = format!("http://127.0.0.1:{port}/v0/entity?id=hello");
        assert_eq!(said.matches("  curl ").count(), 3, "{said}");
        assert!(said.contains(&entity), "{said}");
        let found = request(port, "GET", "/v0/entity?id=hello", b"").unwrap().0;
        assert_eq!(
            found, status,
            "a run of the cluster finds what the one before it stored"
        );
        assert_eq!(
            request(port, "PUT", "/v0/entity?id=hello", b"w").unwrap().0,
            201
        );

        assert_ne!(
            getpgid(Some(child_of(&dev))).unwrap(),
            dev.pid(),
            "Ctrl-C would reach it"
        );
        kill_process_group(dev.pid(), signal).unwrap();
        let end = dev.end();
        assert_eq!(end.code, Some(0), "{end:?}");
        // It has waited for its node.
        assert!(TcpListener::bind(("127.0.0.1", port)).is_ok());
    }
}

#[test]
fn its_nodes_end_with_it_even_when_it_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let (mut dev, _) = started(port, folder.path());
    dev.signal(Signal::KILL);
    // The pipe of stderr is the node's too: its end is the end of both.
    dev.end();
    until_closed(port);
}

#[test]
fn a_node_that_dies_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let (mut dev, _) = started(port, folder.path());
    kill_process(child_of(&dev), Signal::KILL).unwrap();
    let end = dev.end();
    assert_eq!(end.code, Some(1));
    assert!(
        end.stderr.contains("node-1") && end.stderr.contains("signal: 9"),
        "{end:?}"
    );
}

#[test]
fn a_port_in_use_is_one_line() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let end = Process::spawn(&mut kvorum(&["dev", "--port", &port])).end();
    assert_eq!(end.code, Some(1));
    assert!(
        end.line().contains(&port) && end.line().contains("--port"),
        "{end:?}"
    );
}
