//! `kvorum profile` and a node, as processes.

use crate::support::{
    Ends, Process, free_port, kvorum, local, run_to_end, serve, started, wait_until_ok,
};
use http_testing::Connection;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// How many clients load a node.
const CLIENTS: usize = 4;

/// Starts a node; `debug` is the value of `--debug-endpoints`.
fn start(port: u16, data: &Path, debug: &str) -> Process {
    let debug = format!("--debug-endpoints={debug}");
    started(serve(port, data).arg(debug), port)
}

fn profile(port: u16, words: &[&str]) -> Command {
    let url = format!("http://127.0.0.1:{port}");
    kvorum(&[&["profile", "--url", &url], words].concat())
}

/// Runs `meanwhile` while clients put and get, so many that the node has always something to
/// do, and gets its part of a busy machine.
fn under_load<T>(port: u16, meanwhile: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut connection = Connection::connect(local(port)).unwrap();
                let mut send = |method: &str, body: &[u8]| {
                    let answer = connection.request(method, "/v0/entity?id=key", "", body);
                    answer.unwrap().status
                };
                while !is_over.load(Ordering::Relaxed) {
                    // Of longer values the kernel would have most samples.
                    assert_eq!(send("PUT", &[7; 1000]), 201);
                    assert_eq!(send("GET", b""), 200);
                }
            });
        }
        let _ends = Ends(&is_over);
        meanwhile()
    })
}

/// Records profiles of a node under load until one shows a word.
fn until_it_shows(port: u16, word: &str, mut record: impl FnMut() -> String) {
    under_load(port, || {
        wait_until_ok(&format!("a profile with {word}"), || {
            let profile = record();
            if profile.contains(word) {
                Ok(())
            } else {
                Err(profile)
            }
        });
    });
}

#[test]
fn each_kind_of_profile_is_recorded_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let _node = start(port, &folder.path().join("data"), "on");
    for (kind, word) in [
        // How much of an async function is in its name depends on the debug information.
        ("cpu", "<title>server::http::"),
        ("alloc", "server::http"),
        ("wait", "engine write"),
    ] {
        let name = format!("profile-{kind}.svg");
        // A busy machine leaves a node few samples in a second, or none that show the word.
        until_it_shows(port, word, || {
            let mut command = profile(port, &["--kind", kind, "--seconds", "3"]);
            let end = Process::spawn(command.current_dir(&folder)).end();
            assert_eq!(end.code, Some(0), "{end:?}");
            assert!(end.line().contains(&name), "{end:?}");
            let svg = std::fs::read_to_string(folder.path().join(&name)).unwrap();
            assert!(svg.contains("</svg>"), "{kind}: {svg}");
            svg
        });
    }
    until_it_shows(port, ";server::http::", || {
        let words = ["--seconds", "3", "--format", "folded", "--output", "-"];
        let output = run_to_end(&mut profile(port, &words));
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    });
}

#[test]
fn failures_are_reported_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |port: u16, words: &[&str]| {
        let mut command = profile(port, words);
        Process::spawn(command.current_dir(&folder)).end()
    };
    for (words, line) in [
        (&["--kind", "heap"][..], "cpu, alloc, wait"),
        (&["--seconds", "0"], "1 to 60"),
        (&["--seconds", "61"], "1 to 60"),
        (&["--output", "."], "folder"),
        (&["--output", "nowhere/a.svg"], "does not exist"),
    ] {
        let end = refused(1, words);
        assert_eq!(end.code, Some(2), "{words:?}: {end:?}");
        assert!(end.line().contains(line), "{words:?}: {end:?}");
    }
    // Nothing listens on the port.
    let end = refused(free_port(), &[]);
    assert_eq!(end.code, Some(1), "{end:?}");
    assert!(end.line().contains("refuses connections"), "{end:?}");

    // Another protocol, or another server, is on the port.
    let page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>";
    for answer in ["SSH-2.0-Other\r\n", page] {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = other.local_addr().unwrap().port();
        let end = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = other.accept().unwrap();
                let read = std::io::Read::read(&mut stream, &mut [0; 1000]).unwrap();
                assert!(read > 0);
                std::io::Write::write_all(&mut stream, answer.as_bytes()).unwrap();
            });
            let end = refused(port, &[]);
            // Ends the thread if the command has not connected.
            drop(std::net::TcpStream::connect(("127.0.0.1", port)));
            end
        });
        assert_eq!(end.code, Some(1), "{end:?}");
        assert!(end.line().contains("may not be a Kvorum node"), "{end:?}");
    }

    // A node without debug endpoints.
    let port = free_port();
    let _node = start(port, &folder.path().join("data"), "off");
    let end = refused(port, &["--seconds", "1"]);
    assert_eq!(end.code, Some(1), "{end:?}");
    assert!(end.line().contains("--debug-endpoints"), "{end:?}");
    assert!(!folder.path().join("profile-cpu.svg").exists());
}
