//! The audit log of a node, and the trace of a request in its answers.

use crate::support::{Client, config, start, start_with};
use serde_json::{Value, json};
use server::{AuditTarget, LogKeys, Server};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokens::TokenHash;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn traceparent() -> String {
    format!("traceparent: 00-{TRACE}-00f067aa0ba902b7-01\r\n")
}

/// A node with an audit log, and with tokens `shop` (some keys) and `ops` (admin) if it
/// asks for tokens.
fn audited(folder: &TempDir, asks_for_tokens: bool, log_keys: LogKeys) -> (Server, PathBuf) {
    let log = folder.path().join("audit.ndjson");
    let mut config = config();
    config.trust.audit_log = Some(AuditTarget::File(log.clone()));
    config.trust.log_keys = log_keys;
    if asks_for_tokens {
        let file = folder.path().join("tokens.toml");
        let stanza = |name: &str, rights: &str| {
            let hash = TokenHash::of(name.as_bytes());
            format!("[[token]]\nname = \"{name}\"\nsha256 = \"{hash}\"\n{rights}\n")
        };
        let text =
            stanza("shop", "read = true\nwrite = [\"cart/\"]") + &stanza("ops", "admin = true");
        #[expect(clippy::disallowed_methods, reason = "no part of a store")]
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        config.trust.tokens_file = Some(file);
    }
    (start_with(config), log)
}

/// The lines of the log of a node that has stopped, without times and ports.
fn lines(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap();
    let lines = text.lines();
    lines
        .map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            let fields = line.as_object_mut().unwrap();
            assert!(
                fields
                    .remove("time")
                    .unwrap()
                    .as_str()
                    .unwrap()
                    .ends_with('Z')
            );
            let client = fields.remove("client").unwrap();
            assert!(
                client.as_str().unwrap().starts_with("127.0.0.1:"),
                "{client}"
            );
            line
        })
        .collect()
}

#[test]
fn refusals_and_what_operators_do_are_lines_of_the_audit_log() {
    let folder = tempfile::tempdir().unwrap();
    let (node, log) = audited(&folder, true, LogKeys::Plain);
    let json = "content-type: application/json\r\n";
    let batch = b"{\"op\":\"delete\",\"key\":\"order/2\"}\n";
    for (token, method, target, body, status) in [
        ("none", "GET", "/v0/entity?id=k", &b""[..], 401),
        ("shop", "PUT", "/v0/entity?id=order/1", b"v", 403),
        ("shop", "PUT", "/v0/entity?id=cart/1", b"v", 201),
        ("shop", "POST", "/v0/admin/compact", b"", 403),
        // It is refused for its parameters, before its right: nobody has ordered anything.
        ("shop", "POST", "/v0/admin/repair?no=such", b"", 400),
        ("shop", "POST", "/v0/batch", batch, 200),
        ("ops", "POST", "/v0/admin/compact", b"", 202),
        ("ops", "POST", "/v0/admin/repair?no=such", b"", 400),
        // Whoever lists what is set aside sees keys of all users.
        ("shop", "DELETE", "/v0/admin/set-aside?up_to=1", b"", 403),
        ("ops", "GET", "/v0/admin/set-aside", b"", 200),
        ("ops", "POST", "/v0/admin/set-aside?id=k", b"", 404),
        ("ops", "DELETE", "/v0/admin/set-aside?up_to=1", b"", 200),
    ] {
        let fields = format!("authorization: Bearer {token}\r\n{json}{}", traceparent());
        let reply = Client::connect(&node).request(method, target, &fields, body);
        assert_eq!(reply.status, status, "{method} {target}");
    }
    let fields = "authorization: Bearer shop\r\norigin: http://evil.example\r\n";
    let reply = Client::connect(&node).request("GET", "/v0/entity?id=k", fields, b"");
    assert_eq!(reply.status, 403);
    // Who does not know the protocol of peers is no peer.
    let mut stranger = Client::connect(&node);
    stranger.send(format!(
        "GET /v0/peer HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: {}\r\n\r\n",
        peer::PEER_PROTOCOL
    ));
    assert_eq!(stranger.head().0, 101);
    stranger.send([0xff; 64]);
    stranger.rest();
    drop(node);

    let expected = json!([
        {"event": "no-token", "method": "GET", "path": "/v0/entity", "status": 401, "trace": TRACE},
        {"event": "no-right", "method": "PUT", "path": "/v0/entity", "status": 403,
         "token": "shop", "key": "order/1", "trace": TRACE},
        {"event": "no-right", "method": "POST", "path": "/v0/admin/compact", "status": 403,
         "token": "shop", "trace": TRACE},
        {"event": "no-right", "method": "POST", "path": "/v0/batch", "status": 403,
         "token": "shop", "key": "order/2", "trace": TRACE},
        {"event": "admin", "method": "POST", "path": "/v0/admin/compact", "status": 202,
         "token": "ops", "trace": TRACE},
        {"event": "admin", "method": "POST", "path": "/v0/admin/repair", "status": 400,
         "token": "ops", "trace": TRACE},
        {"event": "no-right", "method": "DELETE", "path": "/v0/admin/set-aside", "status": 403,
         "token": "shop", "trace": TRACE},
        {"event": "admin", "method": "GET", "path": "/v0/admin/set-aside", "status": 200,
         "token": "ops", "trace": TRACE},
        {"event": "admin", "method": "POST", "path": "/v0/admin/set-aside", "status": 404,
         "token": "ops", "trace": TRACE},
        {"event": "admin", "method": "DELETE", "path": "/v0/admin/set-aside", "status": 200,
         "token": "ops", "trace": TRACE},
        {"event": "other-origin", "method": "GET", "path": "/v0/entity", "status": 403},
        {"event": "no-peer", "path": "/v0/peer"},
    ]);
    assert_eq!(Value::from(lines(&log)), expected);
}

#[test]
fn keys_are_hidden_where_the_operator_hides_them_and_other_hosts_are_noted() {
    for (log_keys, key) in [
        (LogKeys::Hash, Some("sha256:8254c329a92850f6")),
        (LogKeys::Off, None),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (node, log) = audited(&folder, true, log_keys);
        let fields = "authorization: Bearer shop\r\n";
        Client::connect(&node).request("DELETE", "/v0/entity?id=k", fields, b"");
        drop(node);
        let [line] = &lines(&log)[..] else {
            panic!("one line for one refusal");
        };
        assert_eq!(line.get("key").and_then(Value::as_str), key);
    }
    let folder = tempfile::tempdir().unwrap();
    let (node, log) = audited(&folder, false, LogKeys::Plain);
    let mut client = Client::connect(&node);
    client.send("GET /v0/entity?id=k HTTP/1.1\r\nhost: evil.example\r\n\r\n");
    assert_eq!(client.reply_to("GET").status, 421);
    drop(client);
    drop(node);
    let expected = json!([
        {"event": "other-host", "method": "GET", "path": "/v0/entity", "status": 421},
    ]);
    assert_eq!(Value::from(lines(&log)), expected);
}

/// Whoever is refused must not fill the disk with what they choose.
#[test]
fn a_line_has_the_beginning_of_a_long_path() {
    let folder = tempfile::tempdir().unwrap();
    let (node, log) = audited(&folder, false, LogKeys::Plain);
    let mut client = Client::connect(&node);
    let path = format!("/{}", "p".repeat(5000));
    client.send(format!("GET {path} HTTP/1.1\r\nhost: evil.example\r\n\r\n"));
    assert_eq!(client.reply_to("GET").status, 421);
    drop(client);
    drop(node);
    let expected = json!([
        {"event": "other-host", "method": "GET", "path": path[..256], "status": 421},
    ]);
    assert_eq!(Value::from(lines(&log)), expected);
}

#[test]
fn the_trace_of_a_request_is_in_its_problem() {
    let node = start();
    let mut client = Client::connect(&node);
    let right = traceparent();
    let twice = format!("{right}{right}");
    let wrong = right.replace("00-", "0-");
    for (fields, trace) in [
        (&*right, json!(TRACE)),
        (&*twice, Value::Null),
        (&*wrong, Value::Null),
        ("", Value::Null),
    ] {
        for (method, target) in [
            ("GET", "/v0/entity?id=none"),
            ("GET", "/v0/entity"),
            ("PUT", "/v0/entity?id=k&ttl=0"),
            ("GET", "/abracadabra"),
        ] {
            let reply = client.request(method, target, fields, b"");
            assert_eq!(reply.json()["trace"], trace, "{method} {target} {fields}");
        }
        let lines = b"{\"op\":\"get\",\"key\":\"none\"}\nwrong\n";
        let fields = format!("content-type: application/x-ndjson\r\n{fields}");
        let reply = client.request("POST", "/v0/batch", &fields, lines);
        for line in reply.text().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["problem"]["trace"], trace, "{line}");
        }
    }
}
