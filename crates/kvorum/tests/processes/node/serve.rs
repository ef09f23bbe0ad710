//! `kvorum serve`: what a node keeps, how it stops, what it refuses.

use crate::support::{
    Process, free_port, full_pipe, kvorum, local, request, serve, started, wait_until,
    wait_until_closed,
};
use http_testing::Connection;
use rustix::process::Signal;
use std::fs::Permissions;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

/// Puts a value under the key `k`.
fn put(port: u16, value: &[u8]) {
    let (status, _) = request(port, "PUT", "/v0/entity?id=k", value).unwrap();
    assert_eq!(status, 201);
}

#[test]
fn a_signal_to_stop_ends_in_success_and_keeps_the_data() {
    let folder = tempfile::tempdir().unwrap();
    for (signal, value) in [(Signal::TERM, b"first"), (Signal::INT, b"other")] {
        let port = free_port();
        let mut node = started(&mut serve(port, folder.path()), port);
        put(port, value);
        node.signal(signal);
        assert_eq!(node.end().code, Some(0), "{signal:?}");
        wait_until_closed(port);

        let port = free_port();
        let _node = started(&mut serve(port, folder.path()), port);
        let answer = request(port, "GET", "/v0/entity?id=k", b"");
        assert_eq!(answer, Some((200, value.to_vec())), "{signal:?}");
    }
}

#[test]
fn a_request_that_was_admitted_is_finished_and_a_second_signal_does_not_wait() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut node = started(&mut serve(port, folder.path()), port);
    // An endless upload delays the first stop.
    let mut upload = Connection::connect(local(port)).unwrap();
    upload
        .send("PUT /v0/entity?id=k HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n")
        .unwrap();
    // The node has admitted the request once it requests the body.
    assert_eq!(upload.head().unwrap().0, 100);
    node.signal(Signal::TERM);
    wait_until_closed(port);
    assert!(
        node.child.try_wait().unwrap().is_none(),
        "the node did not wait for the upload"
    );
    node.signal(Signal::INT);
    assert_eq!(node.end().code, Some(130));
}

#[test]
fn a_node_waits_for_a_huge_page_to_be_zeroed_only_if_its_operator_wants_them() {
    for (options, expected) in [
        (&[][..], "THP_enabled:\t0"),
        (&["--huge-pages"], "THP_enabled:\t1"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let node = started(serve(port, folder.path()).args(options), port);
        let status = std::fs::read_to_string(format!("/proc/{}/status", node.child.id())).unwrap();
        let enabled = status.lines().find(|line| line.starts_with("THP_enabled"));
        assert_eq!(enabled, Some(expected));
    }
}

#[test]
fn a_second_node_on_the_same_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let _node = started(&mut serve(port, folder.path()), port);
    let end = Process::spawn(&mut serve(free_port(), folder.path())).end();
    assert_eq!(end.code, Some(1));
    let name = folder.path().to_str().unwrap();
    assert!(
        end.line().contains(name) && end.line().contains("in use"),
        "{end:?}"
    );
}

#[test]
fn a_second_node_on_the_same_port_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let end = Process::spawn(&mut serve(port, folder.path())).end();
    assert_eq!(end.code, Some(1));
    assert!(end.line().contains(&format!("127.0.0.1:{port}")), "{end:?}");
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test damages what is on the real disk"
)]
fn a_damaged_store_is_refused_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut node = started(&mut serve(port, folder.path()), port);
    put(port, b"value");
    node.signal(Signal::TERM);
    assert_eq!(node.end().code, Some(0));
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let file = file.unwrap().path();
        if file.is_dir() {
            continue;
        }
        let bytes = std::fs::read(&file).unwrap();
        std::fs::write(&file, vec![0xa5; bytes.len()]).unwrap();
    }
    let end = Process::spawn(&mut serve(free_port(), folder.path())).end();
    assert_eq!(end.code, Some(2), "a restart does not help");
    // The line ends with what to run.
    let data = folder.path().to_str().unwrap();
    let command = format!(": mkdir {data}.damaged && mv {data}/* {data}.damaged");
    assert!(end.line().ends_with(&command), "{end:?}");
}

#[test]
fn a_folder_that_is_not_the_nodes_alone_is_refused_so_that_no_supervisor_tries_again() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("linked");
    let shared = folder.path().join("shared");
    for data in [&link, &shared] {
        std::fs::create_dir(data).unwrap();
        std::fs::set_permissions(data, Permissions::from_mode(0o700)).unwrap();
    }
    std::os::unix::fs::symlink("/dev/null", link.join("LOCK")).unwrap();
    std::fs::set_permissions(&shared, Permissions::from_mode(0o777)).unwrap();
    for (data, words) in [(&link, "symbolic link"), (&shared, "chmod 700")] {
        let end = Process::spawn(&mut serve(free_port(), data)).end();
        assert_eq!(end.code, Some(2), "{end:?}");
        assert!(end.stderr.contains(words), "{end:?}");
    }
}

#[test]
fn a_node_whose_folder_is_removed_takes_no_writes() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("node");
    let port = free_port();
    let mut node = started(&mut serve(port, &folder), port);
    put(port, b"value");
    std::fs::remove_dir_all(&folder).unwrap();
    let failing = wait_until("the node says that its folder is gone", || {
        let (_, body) = request(port, "GET", "/v0/status", b"")?;
        let status: serde_json::Value = serde_json::from_slice(&body).unwrap();
        status["store"]["failing"].as_str().map(str::to_owned)
    });
    assert!(failing.contains("cannot be reached any more"), "{failing}");
    let refused = request(port, "PUT", "/v0/entity?id=lost", b"value");
    assert!(matches!(refused, Some((503, _))), "{refused:?}");
    let read = request(port, "GET", "/v0/entity?id=k", b"");
    assert!(matches!(read, Some((200, _))), "{read:?}");
    let (_, metrics) = request(port, "GET", "/metrics", b"").unwrap();
    let metrics = String::from_utf8(metrics).unwrap();
    assert!(metrics.contains("\nkvorum_store_failing 1"), "{metrics}");
    node.signal(Signal::TERM);
    node.end();
}

#[test]
fn a_child_ends_when_its_stdin_closes() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut command = serve(port, folder.path());
    command.arg("--until-stdin-closes").stdin(Stdio::piped());
    let mut node = started(&mut command, port);
    let mut stdin = node.child.stdin.take().unwrap();
    stdin.write_all(b"what is written is ignored").unwrap();
    assert!(matches!(
        request(port, "GET", "/v0/status", b""),
        Some((200, _))
    ));
    drop(stdin);
    assert_eq!(node.end().code, Some(0));
}

#[test]
fn a_node_whose_output_nobody_reads_serves_and_stops() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let (_reader, writer) = full_pipe();
    let mut command = kvorum(&[
        "serve", "--memory", "128MiB", "--log", "debug", "--url", &url,
    ]);
    command.arg("--data").arg(folder.path());
    command.args(["--audit-log", "stderr"]);
    command.stdout(writer.try_clone().unwrap()).stderr(writer);
    let mut node = started(&mut command, port);
    put(port, b"value");
    // This is a line of the audit log.
    let mut other = Connection::connect(local(port)).unwrap();
    other
        .send("GET /v0/status HTTP/1.1\r\nHost: other.example\r\n\r\n")
        .unwrap();
    assert_eq!(other.reply_to("GET").unwrap().status, 421);
    node.signal(Signal::TERM);
    assert_eq!(node.end().code, Some(0));
}

#[test]
fn a_node_with_a_closed_stderr_stops_gracefully() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let mut command = kvorum(&["serve", "--memory", "128MiB", "--url", &url]);
    command.arg("--data").arg(folder.path());
    command.arg("--until-stdin-closes").stdin(Stdio::piped());
    let mut node = started(&mut command, port);
    drop(node.child.stderr.take());
    drop(node.child.stdin.take());
    assert_eq!(node.end().code, Some(0));
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a configuration file is no part of a store"
)]
fn the_command_line_overrides_the_environment_and_that_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (in_file, in_environment, on_line) = (free_port(), free_port(), free_port());
    let file = folder.path().join("kvorum.toml");
    let data = folder.path().join("data");
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    let text = format!(
        "url = {:?}\ndata = {data:?}\nmemory = \"128MiB\"",
        url(in_file)
    );
    std::fs::write(&file, text).unwrap();

    let mut command = kvorum(&["serve", "--config"]);
    command.arg(&file);
    started(&mut command, in_file);
    command.env("KVORUM_URL", url(in_environment));
    started(&mut command, in_environment);
    command.args(["--url", &url(on_line)]);
    started(&mut command, on_line);
}

#[test]
fn the_log_can_be_lines_of_json() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut command = serve(port, folder.path());
    command
        .args(["--log-format", "json"])
        .env("KVORUM_PORT", "tcp://10.0.0.1:80");
    let mut node = started(&mut command, port);
    node.signal(Signal::TERM);
    let end = node.end();
    let lines: Vec<serde_json::Value> = end
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let warned = lines.iter().any(|line| {
        line["level"] == "WARN" && line["message"].as_str().unwrap().contains("KVORUM_PORT")
    });
    assert!(warned, "{lines:?}");
}
