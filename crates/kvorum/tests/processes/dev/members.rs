//! `kvorum dev add` and `dev remove`: the members of a local cluster change while it is used.

use crate::dev::commands::{done, refused};
use crate::dev::{children_of, dev_with, name_of, started_by};
use crate::support::{Ends, Process, free_ports, kvorum, request, run_to_end, wait_until_ok};
use rustix::process::Signal;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

const KEYS: usize = 100;

/// Uses a key at a node; says what failed.
fn use_key(port: u16, key: usize) -> Result<(), String> {
    for (method, body, expected) in [("PUT", &b"value"[..], 201), ("GET", &b""[..], 200)] {
        let target = format!("/v0/entity?id=key-{key}&replicas=2/3");
        match request(port, method, &target, body) {
            Some((status, _)) if status == expected => {}
            Some((status, body)) => {
                let body = String::from_utf8_lossy(&body);
                return Err(format!("{method} {key}: {status} {body}"));
            }
            None => return Err(format!("{method} {key}: no answer")),
        }
    }
    Ok(())
}

/// Uses all keys until `change` has ended, and gives what that said.
fn under_load(port: u16, change: impl FnOnce() -> String) -> String {
    let (is_over, requests) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (said, failures) = std::thread::scope(|scope| {
        let ends = Ends(&is_over);
        let load = scope.spawn(|| {
            let mut failures = Vec::new();
            for key in (0..KEYS).cycle() {
                if is_over.load(SeqCst) {
                    return failures;
                }
                // Each of the three nodes that stay coordinates.
                failures.extend(use_key(port + (key % 3) as u16, key).err());
                requests.fetch_add(1, SeqCst);
            }
            failures
        });
        let said = change();
        drop(ends);
        (said, load.join().unwrap())
    });
    assert!(requests.into_inner() > 0);
    assert_eq!(failures, [""; 0]);
    said
}

fn check_keys(port: u16) {
    for key in 0..KEYS {
        let target = format!("/v0/entity?id=key-{key}&replicas=2/3");
        wait_until_ok("a key that is kept", || {
            match request(port, "GET", &target, b"") {
                Some((200, _)) => Ok(()),
                other => Err(other.map(|(status, _)| status)),
            }
        });
    }
}

/// A command with a short time limit, because a member reports a list once no request of an earlier
/// one can be left.
fn quick(mut command: Command) -> Command {
    command.arg("--timeout=1s");
    command
}

/// The command that starts what the folder has.
fn again(data: &Path) -> Command {
    let mut command = kvorum(&["dev", "--data"]);
    command.arg(data).args(["--", "--memory", "128MiB"]);
    quick(command)
}

#[test]
fn a_node_is_added_under_load_comes_back_after_a_restart_and_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let port = free_ports(4);
    let (mut dev, _) = started_by(&mut quick(dev_with(&[], 3, port, data)));
    for key in 0..KEYS {
        wait_until_ok("a first write", || use_key(port, key));
    }
    let said = under_load(port, || done(&["add"], data));
    let url = format!("http://127.0.0.1:{}", port + 3);
    assert!(
        said.contains(&format!("node-4 has joined at {url}")),
        "{said}"
    );
    assert!(said.contains("copying: "), "{said}");
    assert_eq!(children_of(&dev).len(), 4);
    assert_eq!(name_of(port + 3), "node-4");
    check_keys(port + 3);
    let status = done(&["status"], data);
    assert!(
        status.contains("node-4") && status.contains(&url),
        "{status}"
    );
    // It is a node as the others are.
    let killed = done(&["kill", "4"], data);
    assert!(killed.contains("node-4 was killed"), "{killed}");

    dev.signal(Signal::INT);
    assert_eq!(dev.end().code, Some(0));
    let mut other = kvorum(&["dev", "--nodes", "3", "--data"]);
    let end = run_to_end(other.arg(data));
    assert_eq!(end.status.code(), Some(2), "{end:?}");
    let (mut dev, welcome): (Process, String) = started_by(&mut again(data));
    assert!(welcome.contains(&format!("node-4  {url}")), "{welcome}");
    check_keys(port + 3);

    assert!(refused(&["remove", "7"], data).contains("there is no node-7"));
    let said = under_load(port, || done(&["remove"], data));
    assert!(said.contains("node-4 has left"), "{said}");
    assert_eq!(children_of(&dev).len(), 3);
    assert!(!data.join("node-4").exists());
    for node in 0..3 {
        check_keys(port + node);
    }
    dev.signal(Signal::INT);
    assert_eq!(dev.end().code, Some(0));
}
