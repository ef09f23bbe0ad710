//! The commands of `kvorum dev` to a node of a running cluster: what they do,
//! and how they refuse.

use crate::dev::{child_of, children_of, dev, name_of, started};
use crate::support::{
    Process, free_port, free_ports, kvorum, request, run_to_end, wait_until, wait_until_closed,
};
use rustix::process::{Pid, Signal};
use std::path::Path;

/// Runs a command, and returns its exit code and output.
fn command(words: &[&str], data: &Path) -> (Option<i32>, String) {
    let mut command = kvorum(&["dev"]);
    command.args(words).arg("--data").arg(data);
    let output = run_to_end(&mut command);
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

/// The output of a command that must succeed.
pub(crate) fn done(words: &[&str], data: &Path) -> String {
    let (code, said) = command(words, data);
    assert_eq!(code, Some(0), "{words:?}: {said}");
    said
}

/// The output of a command that must be refused.
pub(crate) fn refused(words: &[&str], data: &Path) -> String {
    let (code, said) = command(words, data);
    assert_eq!(code, Some(1), "{words:?}: {said}");
    said
}

/// Whether a process is stopped by a signal.
fn is_frozen(process: Pid) -> bool {
    let file = format!("/proc/{}/stat", process.as_raw_pid());
    let stat = std::fs::read_to_string(file).unwrap();
    let (_, state) = stat.rsplit_once(") ").unwrap();
    state.starts_with('T')
}

#[test]
fn a_node_is_killed_stopped_and_started_by_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let port = free_ports(2);
    let (mut cluster, _) = started(2, port, data);
    let before = children_of(&cluster);

    let said = done(&["kill", "2"], data);
    assert!(said.contains("node-2 was killed; it restarts"), "{said}");
    let after = wait_until("another process", || {
        let after = children_of(&cluster);
        (after.len() == 2).then_some(after)
    });
    assert_eq!(after[0], before[0], "the other node was not restarted");
    assert_ne!(after[1], before[1]);
    assert_eq!(name_of(port + 1), "node-2");

    let said = done(&["stop", "node-2"], data);
    assert!(said.contains("node-2 is stopped"), "{said}");
    wait_until_closed(port + 1);
    wait_until("the status to say so", || {
        let said = done(&["status"], data);
        let (nodes, console) = said.split_once("The console: ").unwrap();
        let is_address = console.starts_with("http://127.0.0.1:") && console.contains("/#dev=");
        assert!(is_address, "{said}");
        let lines: Vec<Vec<&str>> = nodes
            .lines()
            .map(|line| line.split("  ").collect())
            .collect();
        let urls = [port, port + 1].map(|port| format!("http://127.0.0.1:{port}"));
        let expected = [
            ["node-1", &urls[0], "running"],
            ["node-2", &urls[1], "stopped"],
        ];
        (lines == expected).then_some(())
    });
    let json = done(&["status", "--json"], data);
    let nodes: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(nodes[1]["state"], "stopped", "{json}");
    assert_eq!(children_of(&cluster), [before[0]]);
    for words in [["kill", "2"], ["freeze", "2"], ["thaw", "2"], ["stop", "2"]] {
        let said = refused(&words, data);
        assert!(said.contains("node-2 is stopped"), "{words:?}: {said}");
    }
    let said = done(&["start", "2"], data);
    assert!(said.contains("node-2 is up again"), "{said}");
    let status = request(port + 1, "GET", "/v0/status", b"").unwrap().0;
    assert_eq!(status, 200, "the node answers once its command has ended");
    assert!(refused(&["start", "2"], data).contains("is already running"));

    // A node that waits for its restart can be stopped.
    done(&["kill", "2"], data);
    assert!(refused(&["freeze", "2"], data).contains("restarts"));
    let stopped = done(&["stop", "2"], data);
    let start = format!(
        "stays stopped until 'kvorum dev start 2 --data {}'",
        data.display()
    );
    assert!(stopped.contains(&start), "{stopped}");
    assert!(refused(&["kill", "2"], data).contains("is stopped"));

    cluster.signal(Signal::INT);
    let end = cluster.end();
    assert_eq!(end.code, Some(0), "{end:?}");
    assert!(!data.join("CONTROL").exists());
}

#[test]
fn a_frozen_node_can_be_resumed_stopped_and_killed() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let (mut cluster, _) = started(2, free_ports(2), data);
    let nodes = children_of(&cluster);
    assert!(refused(&["thaw", "1"], data).contains("is not frozen"));
    done(&["freeze", "1"], data);
    wait_until("the node to freeze", || is_frozen(nodes[0]).then_some(()));
    assert!(!is_frozen(nodes[1]));
    done(&["thaw", "1"], data);
    wait_until("the node to go on", || (!is_frozen(nodes[0])).then_some(()));
    // A frozen node can be stopped gracefully, and killed.
    done(&["freeze", "1"], data);
    done(&["stop", "1"], data);
    done(&["freeze", "2"], data);
    done(&["kill", "2"], data);
    cluster.signal(Signal::INT);
    let end = cluster.end();
    assert_eq!(end.code, Some(0), "{end:?}");
    let stopped = |line: &&str| line.starts_with("node-1 ") && line.ends_with("serve: stopped");
    assert_eq!(end.stderr.lines().filter(stopped).count(), 1, "{end:?}");
}

#[test]
fn the_only_node_restarts_whenever_a_command_kills_it() {
    let folder = tempfile::tempdir().unwrap();
    // Longer than the path of a socket may be.
    let data = folder.path().join("d".repeat(200));
    let port = free_port();
    let (cluster, _) = started(1, port, &data);
    for _ in 0..3 {
        let before = child_of(&cluster);
        done(&["kill", "1"], &data);
        done(&["start", "1"], &data);
        assert_ne!(child_of(&cluster), before);
    }
    assert_eq!(name_of(port), "node-1");
}

#[test]
fn a_command_without_a_cluster_or_a_node_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let nowhere = data.join("nowhere");
    for data in [data, &nowhere] {
        let said = refused(&["kill", "1"], data);
        assert!(
            said.contains("no cluster runs on") && said.contains("--data"),
            "{said}"
        );
    }
    let (mut cluster, _) = started(2, free_ports(2), data);
    let said = refused(&["kill", "3"], data);
    assert!(
        said.contains("there is no node-3") && said.contains("node-2"),
        "{said}"
    );
    for word in ["0", "x", "256", "node-"] {
        let (code, said) = command(&["kill", word], data);
        assert_eq!(code, Some(2), "{word}: {said}");
    }
    // A cluster already runs on the folder.
    let end = Process::spawn(&mut dev(2, free_ports(2), data)).end();
    assert_eq!(end.code, Some(1));
    assert!(
        end.line().contains("another 'kvorum dev' runs on"),
        "{end:?}"
    );
    // A killed cluster leaves its socket behind, which must not disturb the
    // next one.
    cluster.signal(Signal::KILL);
    cluster.end();
    assert!(data.join("CONTROL").exists());
    assert!(refused(&["kill", "1"], data).contains("no cluster runs on"));
    let (_cluster, _) = started(2, free_ports(2), data);
    done(&["kill", "1"], data);
}
