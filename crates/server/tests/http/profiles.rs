//! Profiles over HTTP. A process records one profile at a time, so the tests that record
//! hold a lock.

use crate::support::{Client, config, start, start_with, wait_until};
use lsm_testing::Ends;
use server::Server;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

static RECORDING: Mutex<()> = Mutex::new(());

fn lock_recording() -> MutexGuard<'static, ()> {
    RECORDING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start_with_debug_endpoints() -> Server {
    let mut config = config();
    config.debug_endpoints = true;
    start_with(config)
}

#[test]
fn without_debug_endpoints_the_path_is_unknown() {
    let node = start();
    let mut client = Client::connect(&node);
    for method in ["GET", "HEAD", "POST"] {
        let target = "/debug/profile?kind=cpu&seconds=1";
        let reply = client.request(method, target, "", b"");
        assert_eq!(reply.status, 400, "{method}");
        if method == "GET" {
            assert_eq!(reply.json()["type"], "urn:kvorum:problem:unknown-path");
        }
    }
}

#[test]
fn the_checks_are_made_in_the_documented_order() {
    let node = start_with_debug_endpoints();
    let mut client = Client::connect(&node);
    for (method, target, status) in [
        ("GET", "/debug/profiles?kind=cpu", 400),
        ("GET", "/debug", 400),
        ("PUT", "/debug/profile", 405),
        ("POST", "/debug/profile?kind=cpu", 405),
        ("DELETE", "/debug/profile?kind=nothing", 405),
        ("GET", "/debug/profile", 400),
        ("GET", "/debug/profile?kind=", 400),
        ("GET", "/debug/profile?kind=CPU", 400),
        ("GET", "/debug/profile?kind=span", 400),
        ("GET", "/debug/profile?kind=%ff", 400),
        ("GET", "/debug/profile?kind=cpu&kind=cpu", 400),
        ("GET", "/debug/profile?kind=cpu&seconds=0", 400),
        ("GET", "/debug/profile?kind=cpu&seconds=61", 400),
        ("GET", "/debug/profile?kind=cpu&seconds=1.5", 400),
        ("GET", "/debug/profile?kind=cpu&seconds=", 400),
        ("GET", "/debug/profile?kind=cpu&second=1", 400),
        ("HEAD", "/debug/profile?kind=cpu&seconds=0", 400),
        // HEAD records nothing, so it does not take a minute.
        ("HEAD", "/debug/profile?kind=cpu&seconds=60", 200),
    ] {
        let reply = client.request(method, target, "", b"");
        assert_eq!(reply.status, status, "{method} {target}: {reply:?}");
        assert_eq!(reply.header("allow").is_some(), status == 405, "{target}");
    }
    for (accept, kind) in [
        ("", "image/svg+xml"),
        ("accept: */*\r\n", "image/svg+xml"),
        ("accept: text/html, */*;q=0.8\r\n", "image/svg+xml"),
        ("accept: text/plain, image/svg+xml\r\n", "image/svg+xml"),
        ("accept: text/plain;q=0.5, image/*\r\n", "image/svg+xml"),
        ("accept: text/plain\r\n", "text/plain; charset=utf-8"),
        ("accept: text/*\r\n", "text/plain; charset=utf-8"),
        (
            "accept: image/svg+xml;q=0.5, text/plain\r\n",
            "text/plain; charset=utf-8",
        ),
        (
            "accept: text/plain, */*;q=0.1\r\n",
            "text/plain; charset=utf-8",
        ),
    ] {
        let reply = client.request("HEAD", "/debug/profile?kind=wait", accept, b"");
        assert_eq!(reply.header("content-type"), Some(kind), "{accept}");
    }
}

/// Requests a profile while other clients put and get.
fn profile_under_load(node: &Server, target: &str, headers: &str) -> crate::support::Reply {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..2 {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut client = Client::connect(node);
                while !is_over.load(Ordering::Relaxed) {
                    let target = format!("/v0/entity?id=key{number}");
                    assert_eq!(client.put(&target, &[7; 1000]).status, 201);
                    assert_eq!(client.get(&target).status, 200);
                }
            });
        }
        let _ends = Ends(&is_over);
        Client::connect(node).request("GET", target, headers, b"")
    })
}

#[test]
fn a_cpu_profile_names_functions_of_the_server() {
    let _turn = lock_recording();
    let node = start_with_debug_endpoints();
    let target = "/debug/profile?kind=cpu&seconds=1";
    // A busy machine leaves the node few samples in a second, or none that show a name.
    wait_until("a profile with names of the server", || {
        let reply = profile_under_load(&node, target, "accept: text/plain\r\n");
        assert_eq!(reply.status, 200, "{reply:?}");
        let folded = reply.text();
        let in_runtime = |name: &str| {
            let mut lines = folded.lines();
            lines.any(|line| line.starts_with("runtime;") && line.contains(name))
        };
        in_runtime(";server::http::") && in_runtime("hyper::")
    });
    wait_until("a flame graph with names of the server", || {
        let reply = profile_under_load(&node, target, "");
        assert_eq!(reply.header("content-type"), Some("image/svg+xml"));
        assert!(reply.text().trim_end().ends_with("</svg>"));
        reply.text().contains("<title>server::http::")
    });
}

#[test]
fn a_lock_profile_names_wait_sites() {
    let _turn = lock_recording();
    let node = start_with_debug_endpoints();
    let target = "/debug/profile?kind=wait&seconds=1";
    let places = [
        "queue;engine write;gather",
        "queue;engine write;commit",
        "queue;outbox",
        "disk;log sync",
    ];
    wait_until(places, || {
        let reply = profile_under_load(&node, target, "accept: text/plain\r\n");
        assert_eq!(reply.status, 200, "{reply:?}");
        places.iter().all(|place| reply.text().contains(place))
    });
}

#[test]
fn spans_tell_of_each_write_with_its_steps_and_its_sync() {
    let _turn = lock_recording();
    let node = start_with_debug_endpoints();
    let target = "/debug/profile?kind=spans&seconds=1";
    let mut recorded = None;
    // On a busy machine a second may pass without a sync that is recorded as a whole.
    wait_until("a recording with a sync", || {
        let reply = profile_under_load(&node, target, "");
        let has_sync = reply.text().contains("disk;log sync\n");
        recorded = Some(reply);
        has_sync
    });
    let reply = recorded.unwrap();
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(
        reply.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    let text = reply.text();
    let numbers = |line: &str| -> Vec<u64> {
        let words = line.split(' ').skip(1);
        words.map_while(|word| word.parse().ok()).collect()
    };
    let spans_of = |version: u64| -> Vec<Vec<u64>> {
        let lines = text.lines().filter(|line| line.starts_with("span "));
        let spans = lines.map(numbers);
        spans.filter(|span| span[3] == version).collect()
    };
    let mut writes = 0;
    for steps in text.lines().filter(|line| line.starts_with("steps ")) {
        let steps = numbers(steps);
        let (version, at) = (steps[2], &steps[3..9]);
        // Reads have no version. A write may have begun before the recording.
        if version == 0 || at[0] == 0 || spans_of(version).len() < 2 {
            continue;
        }
        assert!(at.is_sorted(), "{steps:?}");
        for span in spans_of(version) {
            assert!(
                at[3] <= span[0] && span[1] <= at[4],
                "{span:?} of {steps:?}"
            );
        }
        writes += 1;
        if writes == 20 {
            break;
        }
    }
    assert!(writes > 0, "{}", &text[..text.len().min(2_000)]);
}

#[test]
fn a_program_without_the_counting_allocator_answers_501() {
    let _turn = lock_recording();
    let node = start_with_debug_endpoints();
    let reply = Client::connect(&node).get("/debug/profile?kind=alloc&seconds=1");
    assert_eq!(reply.status, 501, "{reply:?}");
}

/// A client that waits for a profile of one minute, which is being recorded.
fn recording_client(node: &Server) -> Client {
    let mut recording = None;
    wait_until("a profile that is being recorded", || {
        let mut client = Client::connect(node);
        client.send("GET /debug/profile?kind=wait&seconds=60 HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let other = Client::connect(node).get("/debug/profile?kind=cpu&seconds=1");
        if other.status != 409 {
            // The other request was first.
            assert_eq!(other.status, 200);
            return false;
        }
        let problem = other.json();
        assert_eq!(problem["type"], "urn:kvorum:problem:profile-running");
        recording = Some(client);
        true
    });
    recording.unwrap()
}

#[test]
fn a_client_that_leaves_ends_its_profile() {
    let _turn = lock_recording();
    let node = start_with_debug_endpoints();
    drop(recording_client(&node));
    // After a minute the client's timeout would end the test.
    while Client::connect(&node)
        .get("/debug/profile?kind=wait&seconds=1")
        .status
        == 409
    {}
    assert_eq!(Client::connect(&node).get("/v0/status").status, 200);
}

#[test]
fn a_node_that_stops_answers_with_the_profile_so_far() {
    let _turn = lock_recording();
    let node = start_with_debug_endpoints();
    let mut client = recording_client(&node);
    node.shutdown().unwrap();
    let reply = client.reply_to("GET");
    assert_eq!(reply.status, 200);
    assert!(reply.text().contains("<svg"));
}
