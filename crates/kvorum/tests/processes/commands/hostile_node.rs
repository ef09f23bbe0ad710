//! Whoever answers at the address of a node may be somebody else: what it says neither steers
//! the terminal nor passes for a line of the program.

use crate::support::{kvorum, run_to_end};
use http_testing::Connection;
use serde_json::{Value, json};
use std::net::{TcpListener, TcpStream};

/// Sets the title, changes the colour, begins a line, and the same with a control of one byte.
const HOSTILE: &str = "d\x1b]0;owned\x07\x1b[31m\r\nFALSE LINE\u{9b}31m\u{202e}";

/// The names of nodes that the server tells.
fn names() -> [String; 2] {
    ["a", &"long".repeat(30_000)].map(|name| format!("{name}{HOSTILE}"))
}

/// What the server says of itself as a node. It names another one, which it is, too.
fn status(url: &str) -> Value {
    json!({"cluster": names().map(|name| json!({"name": name, "url": url}))})
}

/// What it says of all nodes.
fn cluster(url: &str) -> Value {
    let node = |name: String| json!({"name": name, "url": url, "missed": HOSTILE});
    let advice = json!({
        "severity": "bad", "node": HOSTILE, "what": HOSTILE, "remedy": HOSTILE, "runbook": HOSTILE,
        "runbook_url": HOSTILE,
    });
    json!({"asked_by": HOSTILE, "nodes": names().map(node), "advice": [advice]})
}

/// Answers one request.
fn answer(stream: TcpStream, url: &str) -> std::io::Result<()> {
    let mut connection = Connection::over(stream)?;
    let target = connection.receive()?.target;
    let (status, page) = if target.contains("/v0/status") {
        (200, status(url))
    } else if target.contains("/v0/cluster") {
        (200, cluster(url))
    } else if target.contains("/v0/replicas") {
        let replica = json!({
            "name": HOSTILE, "url": HOSTILE, "version": HOSTILE, "kind": HOSTILE, "copies": 3,
        });
        (200, json!({"replicas": [replica]}))
    } else {
        let replica = json!({"url": HOSTILE, "outcome": HOSTILE});
        let problem = json!({
            "type": "urn:kvorum:problem:not-enough-replicas", "status": 504, "title": HOSTILE,
            "detail": HOSTILE, "timestamp": "1", "replicas": [replica],
        });
        (504, problem)
    };
    let page = page.to_string();
    let length = page.len();
    connection.send(format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{page}"
    ))
}

#[test]
#[expect(clippy::disallowed_methods, reason = "lines to import")]
fn what_a_node_says_steers_no_terminal() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let own = url.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A command may have seen enough.
            let _ = answer(stream, &own);
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let lines = folder.path().join("lines");
    std::fs::write(&lines, "{\"key\":\"a\",\"value\":\"b\"}\n").unwrap();
    let lines = lines.to_str().unwrap();
    let export = folder.path().join("export");
    for (words, code) in [
        (&["get", "k", "--retries", "0"][..], 3),
        (&["put", "k", "v", "--retries", "0"], 3),
        (&["delete", "k", "--retries", "0"], 3),
        (&["scan", "--retries", "0"], 3),
        (&["scan", "--count", "--retries", "0"], 3),
        (&["replicas", "k", "--versions"], 0),
        (&["replicas", "k"], 0),
        (&["export", export.to_str().unwrap(), "--retries", "0"], 3),
        (&["import", lines, "--patience", "1ms"], 3),
        (&["profile", "--seconds", "1"], 1),
        (&["admin", "status"], 1),
        (&["admin", "repair"], 1),
        (&["admin", "compact"], 1),
        (&["admin", "compact", "x"], 2),
    ] {
        let mut command = kvorum(words);
        command.args(["--url", &url]).current_dir(folder.path());
        let output = run_to_end(&mut command);
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains("FALSE LINE"), "{words:?}: {said}");
        let steers = |character: char| {
            character.is_control() && character != '\n' || character == '\u{202e}'
        };
        assert!(!said.contains(steers), "{words:?}: {said:?}");
        assert!(!said.contains("\nFALSE LINE"), "{words:?}: {said}");
    }
}
