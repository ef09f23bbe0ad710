//! The faults that `kvorum dev` gives a running node: it is cut off from the other nodes, or
//! hears them late.

#![expect(
    clippy::disallowed_methods,
    reason = "these tests watch other processes, which have clocks of their own"
)]

use crate::dev::commands::{done, refused};
use crate::dev::started;
use crate::support::{Process, free_port, free_ports, request, serve, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

/// The line about a node in the status of the one at a port.
fn member(port: u16, name: &str) -> Option<Value> {
    let (_, status) = request(port, "GET", "/v0/status", b"")?;
    let status: Value = serde_json::from_slice(&status).ok()?;
    let all = status["cluster"].as_array()?;
    all.iter().find(|member| member["name"] == name).cloned()
}

/// Waits until the node at a port reaches another one, or does not.
fn wait_until_seen(port: u16, name: &str, reaches: bool) {
    wait_until(&format!("a node to see {name}"), || {
        let member = member(port, name)?;
        ((member["state"] == "up") == reaches).then_some(())
    });
}

/// The status of an answer and its body.
fn ask(port: u16, method: &str, key: &str, pair: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let target = format!("/v0/entity?id={key}&replicas={pair}");
    request(port, method, &target, body).unwrap()
}

#[test]
fn a_node_that_is_cut_off_serves_clients_alone_and_catches_up_once_it_is_joined() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let port = free_ports(3);
    let (mut dev, _) = started(3, port, data);
    let [first, second, third] = [port, port + 1, port + 2];
    assert_eq!(ask(first, "PUT", "k", "3/3", b"old").0, 201);

    let said = done(&["cut", "3"], data);
    assert!(said.contains("node-3 is cut off"), "{said}");
    wait_until_seen(first, "node-3", false);
    wait_until_seen(second, "node-3", false);
    wait_until_seen(third, "node-1", false);
    wait_until_seen(third, "node-2", false);
    assert_eq!(member(first, "node-2").unwrap()["state"], "up");
    assert_eq!(ask(first, "PUT", "k", "2/3", b"new").0, 201);
    assert_eq!(ask(first, "PUT", "k3", "3/3", b"new").0, 504);
    // Clients reach it, and it has nothing but its own store.
    assert_eq!(ask(third, "GET", "k", "1/3", b""), (200, b"old".to_vec()));
    for method in ["GET", "PUT"] {
        assert_eq!(ask(third, method, "k", "2/3", b"x").0, 504, "{method}");
    }
    wait_until("a hint for the node", || {
        let hints = member(first, "node-3")?["hints"].as_u64()?;
        (hints > 0).then_some(())
    });

    let said = done(&["join", "3"], data);
    assert!(said.contains("reach each other again"), "{said}");
    wait_until("the hint to arrive", || {
        let (status, value) = ask(third, "GET", "k", "1/3", b"");
        // The write through the node that ended in 504 may win.
        (status == 200 && value != b"old").then_some(())
    });
    // The hint came from one node; the links to the other may still be down.
    wait_until_seen(third, "node-1", true);
    wait_until_seen(third, "node-2", true);
    assert_eq!(ask(third, "PUT", "k", "3/3", b"all").0, 201);
    assert_eq!(ask(second, "GET", "k", "2/3", b""), (200, b"all".to_vec()));
    dev.signal(Signal::INT);
    assert_eq!(dev.end().code, Some(0));
}

#[test]
fn a_slow_node_answers_late_and_is_taken_for_alive() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let port = free_ports(3);
    let (mut dev, _) = started(3, port, data);
    assert_eq!(ask(port, "PUT", "k", "3/3", b"1").0, 201);
    let said = done(&["slow", "3"], data);
    assert!(said.contains("250 ms late"), "{said}");
    for _ in 0..4 {
        let begun = Instant::now();
        assert_eq!(ask(port, "PUT", "k", "3/3", b"2").0, 201);
        let took = begun.elapsed();
        assert!(took >= Duration::from_millis(250), "{took:?}");
    }
    let member = member(port, "node-3").unwrap();
    assert_eq!(member["state"], "up", "{member}");
    // Through the slow node itself, whose own store is quick, the other answers come late.
    let begun = Instant::now();
    assert_eq!(ask(port + 2, "PUT", "k", "2/3", b"3").0, 201);
    assert!(begun.elapsed() >= Duration::from_millis(250));
    done(&["unslow", "3"], data);
    assert_eq!(ask(port, "PUT", "k", "3/3", b"4").0, 201);
    dev.signal(Signal::INT);
    assert_eq!(dev.end().code, Some(0));
}

#[test]
fn a_node_loses_its_faults_when_it_starts_anew() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let port = free_ports(2);
    let (_dev, _) = started(2, port, data);
    done(&["cut", "2"], data);
    wait_until_seen(port, "node-2", false);
    done(&["stop", "2"], data);
    let said = refused(&["join", "2"], data);
    assert!(said.contains("node-2 is stopped"), "{said}");
    done(&["start", "2"], data);
    wait_until_seen(port, "node-2", true);
    wait_until_seen(port + 1, "node-1", true);
    let answer = wait_until("a write on both", || {
        let (status, _) = ask(port, "PUT", "k", "2/2", b"v");
        (status == 201).then_some(status)
    });
    assert_eq!(answer, 201);
}

#[test]
fn a_node_that_no_dev_has_started_takes_no_faults() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut command = serve(port, folder.path());
    let mut node = Process::spawn(command.stdin(Stdio::piped()));
    node.wait_until_up(port);
    let mut stdin = node.child.stdin.take().unwrap();
    stdin.write_all(b"clock 5400000\ncut 1\n").unwrap();
    for _ in 0..20 {
        let (_, status) = request(port, "GET", "/v0/status", b"").unwrap();
        let status: Value = serde_json::from_slice(&status).unwrap();
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis();
        let node_now = status["clock"]["unix_ms"].as_u64().unwrap();
        assert!(u128::from(node_now) < now + 60_000, "{node_now} and {now}");
    }
}
