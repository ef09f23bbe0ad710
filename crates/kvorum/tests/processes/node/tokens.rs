//! A node that asks for tokens, from the making of one to its revocation, and who may
//! reach a node without.

#![expect(
    clippy::disallowed_methods,
    reason = "the tokens file belongs to the operator"
)]

use crate::support::{Process, free_port, kvorum, local, run_to_end, serve, wait_until};
use http_testing::Connection;
use rustix::process::Signal;
use std::path::Path;
use std::process::Output;

/// Runs `kvorum admin token new` to its end.
fn new_token(words: &[&str]) -> Output {
    let all = [&["admin", "token", "new"], words].concat();
    run_to_end(&mut kvorum(&all))
}

/// Makes a token with these rights and appends it to the file.
fn append(file: &Path, words: &[&str]) -> String {
    let append = ["--append", file.to_str().unwrap()];
    let output = new_token(&[words, &append].concat());
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.strip_suffix('\n').unwrap().to_owned()
}

/// The status of the answer to a request with a token.
fn status(port: u16, token: &str, method: &str, target: &str) -> Option<u16> {
    let mut connection = Connection::connect(local(port)).ok()?;
    let fields = format!("authorization: Bearer {token}\r\n");
    let answer = connection.request(method, target, &fields, b"").ok()?;
    Some(answer.status)
}

fn wait_for(port: u16, token: &str, method: &str, target: &str, expected: u16) {
    wait_until(&format!("{method} {target} to be {expected}"), || {
        (status(port, token, method, target) == Some(expected)).then_some(())
    });
}

#[test]
fn tokens_are_made_used_refused_and_revoked_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.toml");
    let shop = append(
        &file,
        &["--name", "shop", "--read", "--write", "--prefix", "cart/"],
    );
    assert!(shop.starts_with("kvorum_") && shop.len() == 50, "{shop}");
    assert!(!std::fs::read_to_string(&file).unwrap().contains(&shop));

    let port = free_port();
    let mut command = serve(port, &folder.path().join("data"));
    let mut node = Process::spawn(command.arg("--tokens-file").arg(&file));
    wait_for(port, &shop, "GET", "/v0/status", 200);
    for (token, method, target, expected) in [
        (&*shop, "PUT", "/v0/entity?id=cart/1", 201),
        (&*shop, "GET", "/v0/entity?id=cart/1", 200),
        (&*shop, "PUT", "/v0/entity?id=order/1", 403),
        (&*shop, "GET", "/v0/entities?start=a", 403),
        (&*shop, "GET", "/metrics", 403),
        (&*shop, "POST", "/v0/admin/compact", 415),
        ("kvorum_none", "GET", "/v0/entity?id=cart/1", 401),
        ("kvorum_none", "GET", "/health/live", 200),
    ] {
        let answered = status(port, token, method, target);
        assert_eq!(answered, Some(expected), "{method} {target}");
    }

    // A token more, found without a signal.
    let reader = append(&file, &["--name", "reader", "--read"]);
    wait_for(port, &reader, "GET", "/v0/entity?id=cart/1", 200);
    // One that is revoked, with a signal.
    let text = std::fs::read_to_string(&file).unwrap();
    let (_, only_reader) = text.rsplit_once("[[token]]").unwrap();
    std::fs::write(&file, format!("[[token]]{only_reader}")).unwrap();
    node.signal(Signal::HUP);
    wait_for(port, &shop, "GET", "/v0/entity?id=cart/1", 401);
    // A file that breaks or vanishes locks nobody out.
    std::fs::write(&file, "[[token]]\nname = \"reader\"\n").unwrap();
    node.signal(Signal::HUP);
    std::fs::remove_file(&file).unwrap();
    node.signal(Signal::HUP);
    wait_for(port, &reader, "GET", "/v0/entity?id=cart/1", 200);

    node.signal(Signal::TERM);
    let end = node.end();
    assert_eq!(end.code, Some(0), "{end:?}");
    for words in ["tokens.toml: ", "stay valid"] {
        assert!(end.stderr.contains(words), "{words}: {}", end.stderr);
    }
    for token in [&shop, &reader] {
        assert!(!end.stderr.contains(&token[7..]), "{}", end.stderr);
    }
}

#[test]
fn a_slow_request_is_logged_with_where_its_time_went() {
    let folder = tempfile::tempdir().unwrap();
    let audit = folder.path().join("audit");
    let port = free_port();
    let mut command = serve(port, &folder.path().join("data"));
    let mut node = Process::spawn(
        command
            .args([
                "--slow-request",
                "20ms",
                "--log-keys",
                "plain",
                "--log-format",
                "json",
            ])
            .arg("--audit-log")
            .arg(&audit),
    );
    wait_for(port, "none", "GET", "/v0/entity?id=fast", 404);
    let mut connection = Connection::connect(local(port)).unwrap();
    connection
        .send(
            "PUT /v0/entity?id=slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\
              traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n\r\na",
        )
        .unwrap();
    // The request has to be slow, which is what this test is about: its body takes this long.
    std::thread::sleep(std::time::Duration::from_millis(50));
    connection.send("b").unwrap();
    assert_eq!(connection.reply_to("PUT").unwrap().status, 201);
    // The audit log is opened again when a tool has renamed it.
    std::fs::rename(&audit, folder.path().join("audit.1")).unwrap();
    node.signal(Signal::HUP);
    wait_until("the audit log", || audit.exists().then_some(()));
    node.signal(Signal::TERM);
    let end = node.end();
    let mut lines = end.stderr.lines();
    let line = lines
        .find(|line| line.contains("\"key\":\"slow\""))
        .unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["message"], "a slow request");
    assert_eq!(line["method"], "PUT");
    assert_eq!(line["trace"], "4bf92f3577b34da6a3ce929d0e0e4736");
    let ms = |name: &str| line[name].as_f64().unwrap();
    assert!(
        ms("body_ms") >= 20.0 && ms("took_ms") >= ms("body_ms"),
        "{line}"
    );
    let replicas = line["replicas"].as_str().unwrap();
    let own = format!("127.0.0.1:{port}=");
    assert!(
        replicas.contains(&own) && replicas.ends_with("ms"),
        "{line}"
    );
}

#[test]
fn a_token_is_printed_with_its_lines() {
    let output = new_token(&["--name", "ops", "--admin", "--metrics", "--print"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let (token, lines) = text.split_once("\n\n").unwrap();
    assert!(token.starts_with("kvorum_"), "{text}");
    let table = tokens::read(lines).unwrap();
    let found = table
        .find(&tokens::TokenHash::of(token.as_bytes()))
        .unwrap();
    assert!(found.rights.admin && found.rights.metrics);
    assert_eq!(output.stderr, b"");
}

#[test]
fn a_node_that_others_reach_says_who_may_use_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.toml");
    append(&file, &["--name", "ops", "--admin"]);
    let tokens = file.to_str().unwrap().to_owned();
    let wrong = folder
        .path()
        .join("wrong.toml")
        .to_str()
        .unwrap()
        .to_owned();
    std::fs::write(&wrong, "[[token]]\nnom = \"a\"\n").unwrap();
    let two = "a=http://127.0.0.1:1,b=http://127.0.0.1:2";
    for (words, parts) in [
        (
            &["--listen", "0.0.0.0:0"][..],
            &["--open", "--tokens-file", "--listen 127.0.0.1:"][..],
        ),
        (&["--listen", "[::]:0"], &["--open", "--tokens-file"]),
        (
            &["--listen", "0.0.0.0:0", "--tokens-file", &tokens],
            &["--tokens-in-clear", "in the clear", "--listen 127.0.0.1:"],
        ),
        (&["--open", "--tokens-file", &tokens], &["--open", "omit"]),
        (
            &[
                "--url",
                "http://127.0.0.1:1",
                "--cluster",
                two,
                "--tokens-file",
                &tokens,
            ],
            &["--tokens-file", "--cluster-secret-file"],
        ),
        (
            &["--tokens-file", "no-such-file"],
            &["--tokens-file", "no-such-file", "cannot read"],
        ),
        (
            &["--tokens-file", &wrong],
            &["--tokens-file", "wrong.toml", "line 2", "nom"],
        ),
    ] {
        let data = folder.path().join("data");
        let mut all = vec!["serve", "--data", data.to_str().unwrap()];
        if !words.contains(&"--url") {
            all.extend(["--url", "http://127.0.0.1:1"]);
        }
        all.extend(words);
        let end = Process::spawn(&mut kvorum(&all)).end();
        assert_eq!(end.code, Some(2), "{words:?}: {end:?}");
        for part in parts {
            assert!(end.line().contains(part), "{part}: {}", end.line());
        }
    }
    // It says so and serves.
    let port = free_port();
    let listen = format!("0.0.0.0:{port}");
    for (number, words) in [
        &["--open"][..],
        &["--tokens-in-clear", "--tokens-file", &tokens],
    ]
    .into_iter()
    .enumerate()
    {
        let data = folder.path().join(number.to_string());
        let mut command = serve(port, &data);
        let mut node = Process::spawn(command.args(["--listen", &listen]).args(words));
        wait_for(port, "none", "GET", "/health/live", 200);
        node.signal(Signal::TERM);
        assert_eq!(node.end().code, Some(0));
    }
}
