//! `kvorum dev`: it starts, it prints how to use the cluster, and it leaves no
//! process behind.

mod commands;
mod console;
mod faults;
mod members;
mod pages;
mod screenshots;

use crate::support::{
    Process, free_port, free_ports, full_pipe, kvorum, request, run_to_end, wait_until,
    wait_until_closed,
};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group, test_kill_process};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The command for a cluster of `nodes` nodes.
pub(crate) fn dev(nodes: u16, port: u16, data: &Path) -> Command {
    dev_with(&[], nodes, port, data)
}

/// The same with more options.
fn dev_with(options: &[&str], nodes: u16, port: u16, data: &Path) -> Command {
    let (nodes, port) = (nodes.to_string(), port.to_string());
    let mut command = kvorum(&["dev", "--nodes", &nodes, "--port", &port]);
    command.args(options);
    command.arg("--data").arg(data);
    // As in a terminal, where Ctrl-C goes to the whole group.
    command.process_group(0);
    // This variable would keep the nodes from starting, but `dev` removes it.
    command.env("KVORUM_LISTEN", "192.0.2.1:1");
    command.args(["--", "--memory", "128MiB"]);
    command
}

/// Starts a cluster, and returns it with its welcome.
pub(crate) fn started(nodes: u16, port: u16, data: &Path) -> (Process, String) {
    started_with(&[], nodes, port, data)
}

/// The same with more options.
pub(crate) fn started_with(
    options: &[&str],
    nodes: u16,
    port: u16,
    data: &Path,
) -> (Process, String) {
    started_by(&mut dev_with(options, nodes, port, data))
}

/// The same by a command.
pub(crate) fn started_by(command: &mut Command) -> (Process, String) {
    let mut dev = Process::spawn(command);
    let mut said = String::new();
    let mut stdout = BufReader::new(dev.child.stdout.take().unwrap());
    while !said.contains("admin status") {
        let bytes = stdout.read_line(&mut said).unwrap();
        assert_ne!(bytes, 0, "it ended early: {:?}", dev.end());
    }
    (dev, said)
}

/// The children of a process, in the order in which they were started.
pub(crate) fn children_of(dev: &Process) -> Vec<Pid> {
    let pid = dev.pid().as_raw_pid();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let children = children.split_whitespace();
    children
        .map(|child| Pid::from_raw(child.parse().unwrap()).unwrap())
        .collect()
}

/// The only child of a process.
pub(crate) fn child_of(dev: &Process) -> Pid {
    let children = children_of(dev);
    assert_eq!(children.len(), 1);
    children[0]
}

/// The process that has just ended has waited for the end of this child.
fn assert_ended(child: Pid) {
    assert_eq!(test_kill_process(child), Err(Errno::SRCH), "{child:?}");
}

/// The name of the node on `port`, once it answers.
pub(crate) fn name_of(port: u16) -> String {
    wait_until("the status of a node", || {
        let (status, page) = request(port, "GET", "/v0/status", b"")?;
        let page: serde_json::Value = serde_json::from_slice(&page).ok()?;
        (status == 200).then(|| page["name"].as_str().unwrap().to_owned())
    })
}

#[test]
fn it_prints_examples_and_stops_on_a_signal_and_keeps_its_data() {
    let folder = tempfile::tempdir().unwrap();
    for (signal, status) in [(Signal::INT, 404), (Signal::TERM, 200)] {
        let port = free_port();
        let (mut dev, said) = started(1, port, folder.path());
        let entity = format!("http://127.0.0.1:{port}/v0/entity?id=hello");
        assert_eq!(said.matches("  curl ").count(), 3, "{said}");
        assert!(said.contains(&entity), "{said}");
        assert!(
            !said.contains("tour") && !said.contains("cut off"),
            "{said}"
        );
        let found = request(port, "GET", "/v0/entity?id=hello", b"").unwrap().0;
        assert_eq!(found, status, "the cluster finds what its last run stored");
        assert_eq!(
            request(port, "PUT", "/v0/entity?id=hello", b"w").unwrap().0,
            201
        );

        let node = child_of(&dev);
        assert_ne!(
            getpgid(Some(node)).unwrap(),
            dev.pid(),
            "Ctrl-C would reach the node"
        );
        kill_process_group(dev.pid(), signal).unwrap();
        let end = dev.end();
        assert_eq!(end.code, Some(0), "{end:?}");
        assert_ended(node);
    }
}

#[test]
fn its_nodes_end_with_it_even_when_it_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let (mut dev, _) = started(1, port, folder.path());
    // One that is frozen does not see its stdin close.
    kill_process(child_of(&dev), Signal::STOP).unwrap();
    dev.signal(Signal::KILL);
    // The node shares the pipe of stderr, so this waits for the end of both.
    dev.end();
    wait_until_closed(port);
}

#[test]
fn the_end_of_the_only_node_is_reported_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let (mut dev, _) = started(1, port, folder.path());
    kill_process(child_of(&dev), Signal::KILL).unwrap();
    let end = dev.end();
    assert_eq!(end.code, Some(1));
    assert!(
        end.stderr.contains("node-1") && end.stderr.contains("signal: 9"),
        "{end:?}"
    );
}

#[test]
fn a_port_in_use_is_reported_in_one_line() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let end = Process::spawn(&mut kvorum(&["dev", "--port", &port])).end();
    assert_eq!(end.code, Some(1));
    assert!(
        end.line().contains(&port) && end.line().contains("--port"),
        "{end:?}"
    );
}

#[test]
fn three_nodes_know_their_names_and_end_together() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_ports(3);
    let (mut dev, said) = started(3, port, folder.path());
    for number in 1..=3 {
        let name = format!("node-{number}");
        let port = port + number - 1;
        assert_eq!(name_of(port), name);
        assert!(said.contains(&format!("{name}  http://127.0.0.1:{port}")));
        assert!(folder.path().join(name).join("MANIFEST").exists());
    }
    assert_eq!(said.matches("  curl ").count(), 3, "{said}");
    assert_eq!(said.matches("&ack=2&from=3").count(), 2, "{said}");
    assert!(said.contains("/v0/entities?scope=cluster'"), "{said}");
    assert!(
        said.contains("take the tour") && said.contains("lose its network"),
        "{said}"
    );
    // What it tells users to try does what it says.
    for (command, printed) in [
        ("put hello", "stored: version"),
        ("get hello", "world"),
        ("scan --url", "hello\tworld\n"),
    ] {
        let line = said.lines().find(|line| line.contains(command)).unwrap();
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let output = wait_until("an answer", || {
            let output = run_to_end(&mut kvorum(&words));
            output.status.success().then_some(output.stdout)
        });
        let output = String::from_utf8(output).unwrap();
        assert!(output.starts_with(printed), "{command}: {output}");
    }
    let nodes = children_of(&dev);
    kill_process_group(dev.pid(), Signal::INT).unwrap();
    let end = dev.end();
    assert_eq!(end.code, Some(0));
    let mut warnings = end.stderr.lines().filter(|line| line.contains("WARN"));
    assert!(
        !warnings.any(|line| line.contains("holds no store")),
        "a first start is no reason to warn: {end:?}"
    );
    assert_eq!(nodes.len(), 3);
    nodes.into_iter().for_each(assert_ended);
}

#[test]
fn one_of_several_nodes_restarts_when_it_dies() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_ports(2);
    let (mut dev, _) = started(2, port, folder.path());
    let before = children_of(&dev);
    kill_process(before[1], Signal::KILL).unwrap();
    let after = wait_until("another child", || {
        let after = children_of(&dev);
        (after.len() == 2 && after != before).then_some(after)
    });
    assert!(
        after.contains(&before[0]),
        "the other node was not restarted"
    );
    assert_eq!(name_of(port + 1), "node-2");
    // A frozen node stops gracefully too.
    kill_process(before[0], Signal::STOP).unwrap();
    dev.signal(Signal::INT);
    let end = dev.end();
    assert_eq!(end.code, Some(0));
    for node in ["node-1 ", "node-2 "] {
        let stopped = |line: &&str| line.starts_with(node) && line.ends_with("serve: stopped");
        assert_eq!(end.stderr.lines().filter(stopped).count(), 1, "{end:?}");
    }
    assert!(
        end.stderr.contains("node-2") && end.stderr.contains("it restarts"),
        "{end:?}"
    );
}

#[test]
fn another_number_of_nodes_is_refused_and_the_data_is_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let (mut cluster, _) = started(1, free_port(), folder.path());
    cluster.signal(Signal::INT);
    assert_eq!(cluster.end().code, Some(0));

    let end = Process::spawn(&mut dev(3, free_ports(3), folder.path())).end();
    assert_eq!(end.code, Some(2));
    let name = folder.path().to_str().unwrap();
    for word in ["--nodes 3: ", name, "1 node", "--nodes 1", "--data"] {
        assert!(end.line().contains(word), "{word}: {end:?}");
    }
    assert!(!folder.path().join("node-2").exists());
    started(1, free_port(), folder.path());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a file that is no folder")]
fn a_file_instead_of_the_folder_is_reported_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    for data in [file.clone(), file.join("below")] {
        let end = Process::spawn(&mut dev(1, free_port(), &data)).end();
        assert_eq!(end.code, Some(2), "{end:?}");
        assert!(end.line().contains("is not a folder"), "{end:?}");
    }
}

#[test]
fn a_cluster_whose_output_nobody_reads_is_supervised_and_stops() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let (_reader, writer) = full_pipe();
    let mut command = dev(1, port, folder.path());
    command.stdout(writer.try_clone().unwrap()).stderr(writer);
    let mut dev = Process::spawn(&mut command);
    dev.wait_until_up(port);
    // It is answered once the welcome is on its way.
    let mut kill = kvorum(&["dev", "kill", "1", "--data"]);
    let killed = run_to_end(kill.arg(folder.path()));
    assert!(killed.status.success(), "{killed:?}");
    dev.signal(Signal::TERM);
    assert_eq!(dev.end().code, Some(0));
}
