//! The commands for one key, as scripts use them: bytes in and out, exit codes, lines that
//! say what to do, and a node that does not answer.

use crate::support::{
    PROGRAM, Process, Watchdog, free_port, free_ports, kvorum, kvorum_by, run_to_end, serve,
    started,
};
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs a command and waits for its end; `input` is its stdin.
pub(crate) fn run(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = kvorum(arguments).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let _watchdog = Watchdog::over(&child, format!("{arguments:?}"));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // A command may end without reading it.
            let _ = stdin.write_all(input);
        });
        child.wait_with_output().unwrap()
    })
}

/// Runs a command that succeeds, and returns its stdout.
pub(crate) fn succeed(arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let output = run(arguments, input);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
    output.stdout
}

/// What a command writes to a terminal, which makes `\r\n` of each line end. `script` gives it a
/// pseudo terminal.
fn on_terminal(arguments: &[&str]) -> String {
    let line = [&[PROGRAM], arguments].concat().join(" ");
    let command = &mut kvorum_by(Command::new("script"), &["-qec", &line, "/dev/null"]);
    let output = run_to_end(command);
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The URL of the node on a port of this machine.
pub(crate) fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// Starts a cluster on ports in a row from `first`.
pub(crate) fn cluster(first: u16, nodes: u16, folder: &std::path::Path) -> Vec<Process> {
    let members: Vec<String> = (0..nodes).map(|node| url(first + node)).collect();
    let members = members.join(",");
    let mut processes: Vec<Process> = (0..nodes)
        .map(|node| {
            let data = folder.join(node.to_string());
            let mut command = serve(first + node, &data);
            Process::spawn(command.args(["--cluster", &members]))
        })
        .collect();
    for (node, process) in (0..nodes).zip(&mut processes) {
        process.wait_until_up(first + node);
    }
    processes
}

#[test]
fn any_bytes_go_in_and_come_out() {
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
    let _node = started(&mut serve(port, folder.path()), port);
    let node = &*url(port);
    let every: Vec<u8> = (0..=u8::MAX).collect();
    succeed(&["put", "k", "-", "--url", node], &every);
    assert_eq!(succeed(&["get", "k", "--url", node], b""), every);
    let file = folder.path().join("value");
    let mut opened = tempfile::NamedTempFile::new_in(folder.path()).unwrap();
    opened.write_all(b"of a file\n").unwrap();
    opened.persist(&file).unwrap();
    let file = file.to_str().unwrap();
    succeed(
        &[
            "put",
            "--key-percent",
            "%00%FF",
            "--file",
            file,
            "--url",
            node,
        ],
        b"",
    );
    let got = succeed(&["get", "--key-base64", "AP8=", "--url", node], b"");
    assert_eq!(got, b"of a file\n");
    // An empty value is a value.
    succeed(&["put", "empty", "", "--url", node], b"");
    assert_eq!(succeed(&["get", "empty", "--url", node], b""), b"");
    // On a terminal a value ends its line; what ends with a line end does so already.
    assert_eq!(on_terminal(&["get", "empty", "--url", node]), "\r\n");
    let got = on_terminal(&["get", "--key-base64", "AP8=", "--url", node]);
    assert_eq!(got, "of a file\r\n");
    let json = succeed(&["get", "k", "--json", "--url", node], b"");
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!((&json["key"], &json["acks"]), (&"k".into(), &"1/1".into()));
    assert!(json["value_base64"].is_string(), "{json}");
    let stored = succeed(&["put", "k", "v", "--ttl", "600", "--url", node], b"");
    let stored = String::from_utf8(stored).unwrap();
    assert!(stored.starts_with("stored: version "), "{stored}");
    assert!(stored.contains("1/1 replicas"), "{stored}");
    succeed(&["delete", "k", "--url", node], b"");
    assert_eq!(
        run(&["get", "k", "--url", node], b"").status.code(),
        Some(1)
    );
}

#[test]
fn the_environment_names_nodes_where_the_command_line_names_none() {
    let (folder, first) = (tempfile::tempdir().unwrap(), free_ports(2));
    let _node = started(&mut serve(first, folder.path()), first);
    let (up, down) = (&*url(first), &*url(first + 1));
    let down_and_up = &*format!("{down},{up}");
    for (words, variable, code, word) in [
        ("put k v", up, 0, "stored"),
        ("put k v", down_and_up, 0, "stored"),
        ("admin status", down_and_up, 0, "serving"),
        ("admin compact --json", down_and_up, 0, "\"state\""),
        ("get k --retries 0", down, 3, "refuses connections"),
        ("get k", "127.0.0.1:1", 2, "KVORUM_URL: "),
        ("profile", down_and_up, 2, "name the node with --url"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let mut command = kvorum(&words);
        command
            .env("KVORUM_URL", variable)
            .current_dir(folder.path());
        let ran = run_to_end(&mut command);
        let said = String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap();
        assert_eq!(ran.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(word), "{words:?}: {said}");
    }
    // What the command line says comes first.
    let mut command = kvorum(&["get", "k", "--url", up]);
    let ran = run_to_end(command.env("KVORUM_URL", down));
    assert_eq!(ran.stdout, b"v");
}

#[test]
fn each_failure_has_its_exit_code_and_one_line() {
    let (folder, first) = (tempfile::tempdir().unwrap(), free_ports(2));
    let mut nodes = cluster(first, 2, folder.path());
    let (one, down) = (&*url(first), &*url(first + 1));
    // The second node is passed over once it is down.
    crate::support::wait_until("the first write", || {
        let output = run(&["put", "k", "v", "--url", one], b"");
        output.status.success().then_some(())
    });
    nodes.pop();
    let both = &*format!("{down},{one}");
    let once = ["--retries", "0"];
    let table: &[(&[&str], i32, &[&str])] = &[
        (&["get", "k", "--ack", "1", "--url", both], 0, &[]),
        (
            &["get", "none", "--ack", "1", "--url", one],
            1,
            &["no value"],
        ),
        (&["get", "", "--url", one], 2, &["KEY is empty"]),
        (
            &["get", "--key-base64", "?", "--url", one],
            2,
            &["KEY", "base64"],
        ),
        (
            &["get", "--key-percent", "%", "--url", one],
            2,
            &["KEY", "percent"],
        ),
        (
            &["get", "k", "--ack", "3", "--url", one],
            2,
            &["`ack`", "1 to 2"],
        ),
        (&["get", "k", "--from", "0", "--url", one], 2, &["--from"]),
        (
            &["get", "k", "--url", "127.0.0.1:1"],
            2,
            &["--url", "http://"],
        ),
        (&["get"], 2, &["KEY"]),
        (&["put", "k"], 2, &["VALUE"]),
        (&["put", "k", "v", "--file", "f"], 2, &["--file"]),
        (
            &["put", "k", "--file", "no-such-file"],
            2,
            &["--file", "no-such-file"],
        ),
        (
            &["put", "k", "v", "--ttl", "0", "--url", one],
            2,
            &["--ttl"],
        ),
        (
            &["get", "k", "--ack", "2", "--url", one],
            3,
            &[down, "refused"],
        ),
        (
            &["put", "k", "w", "--ack", "2", "--url", one],
            3,
            &[down, "newer version"],
        ),
        (
            &["delete", "k", "--ack", "2", "--url", one],
            3,
            &[down, "may still take effect"],
        ),
        (
            &["get", "k", "--url", down],
            3,
            &["refuses connections", "start the node"],
        ),
        (
            &["put", "k", "v", "--url", down],
            3,
            &["refuses connections"],
        ),
        (&["replicas", "k", "--url", both], 0, &[]),
    ];
    for (arguments, code, words) in table {
        let arguments = if arguments.contains(&"--url") && *code == 3 {
            [*arguments, &once].concat()
        } else {
            arguments.to_vec()
        };
        let output = run(&arguments, b"");
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(*code), "{arguments:?}: {line}");
        assert_eq!(line.lines().count(), usize::from(*code != 0), "{line}");
        for word in *words {
            assert!(
                line.contains(word),
                "{arguments:?} should name {word}: {line}"
            );
        }
    }
    let arguments = ["put", "k", "w", "--ack", "2", "--json", "--url", one];
    let output = run(&[&arguments[..], &once].concat(), b"");
    assert_eq!(output.status.code(), Some(3));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["problem"]["status"], 504, "{json}");
    assert_eq!(json["problem"]["replicas"].as_array().unwrap().len(), 2);
}

#[test]
fn several_keys_are_read_and_all_with_a_prefix_are_deleted() {
    let (folder, first) = (tempfile::tempdir().unwrap(), free_ports(3));
    let _nodes = cluster(first, 3, folder.path());
    let node = &*url(first);
    let mut lines = String::new();
    for number in 0..3000 {
        lines += &format!("{{\"key\":\"user/{number}\",\"value\":\"v{number}\"}}\n");
    }
    lines += "{\"key\":\"userx\",\"value\":\"left\"}\n";
    succeed(&["import", "-", "--url", node], lines.as_bytes());

    let keys = ["get", "user/1", "none", "user/2", "--url", node];
    let output = run(&keys, b"");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stdout, b"user/1\tv1\nuser/2\tv2\n");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("none: the key has no value"), "{stderr}");
    assert!(stderr.contains("1 of 3 keys have no value"), "{stderr}");

    let delete = ["delete", "--prefix", "user/", "--url", node];
    let asked = run(&delete, b"y\n");
    assert_eq!(asked.status.code(), Some(2), "only a terminal is asked");
    let deleted = succeed(&[&delete[..], &["--yes", "--json"]].concat(), b"");
    assert_eq!(deleted, b"{\"deleted\":3000}\n");
    let left = succeed(&["scan", "--url", node], b"");
    assert_eq!(left, b"userx\tleft\n");
    let again = succeed(&[&delete[..], &["--yes"]].concat(), b"");
    assert_eq!(again, b"deleted: 0 keys\n");
}

/// What a command prints with `--json`, and its exit code.
fn told(arguments: &[&str]) -> (Option<i32>, serde_json::Value) {
    let output = run(arguments, b"");
    let told = serde_json::from_slice(&output.stdout);
    (output.status.code(), told.unwrap_or_default())
}

#[test]
fn writes_with_conditions_have_exit_codes_of_their_own() {
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
    let _node = started(&mut serve(port, folder.path()), port);
    let node = &*url(port);
    let put = |value: &str, more: &[&str]| {
        let words = ["put", "k", value, "--json", "--url", node];
        told(&[&words[..], more].concat())
    };
    let (code, created) = put("one", &["--if-none-match", "*"]);
    let etag = created["etag"].as_str().unwrap();
    assert_eq!(code, Some(0), "{created}");
    let (code, changed) = put("no", &["--if-none-match", "*"]);
    assert_eq!((code, &changed["etag"]), (Some(6), &created["etag"]));
    assert_eq!(changed["version"], created["version"]);
    // A shell may have taken the quotes away.
    let (code, replaced) = put("two", &["--if-match", etag.trim_matches('"')]);
    assert_eq!(code, Some(0), "{replaced}");
    let (code, got) = told(&["get", "k", "--json", "--url", node]);
    assert_eq!((code, &got["etag"]), (Some(0), &replaced["etag"]));
    let on_key = |command: &str, more: &[&str]| {
        let words = [command, "k", "--json", "--url", node];
        told(&[&words[..], more].concat())
    };
    let (code, _) = on_key("delete", &["--if-match", etag]);
    assert_eq!(code, Some(6));
    let (code, _) = on_key("touch", &["--ttl", "1h", "--if-match", etag]);
    assert_eq!(code, Some(6));
    let current = replaced["etag"].as_str().unwrap();
    let (code, touched) = on_key("touch", &["--ttl", "1h", "--if-match", current]);
    assert_eq!(code, Some(0), "{touched}");
    let (_, got) = told(&["get", "k", "--json", "--url", node]);
    assert_eq!(
        (&got["value"], &got["etag"]),
        (&"two".into(), &touched["etag"])
    );
    assert!(got["expires"].is_string(), "{got}");
    let (code, _) = on_key("delete", &["--if-match", touched["etag"].as_str().unwrap()]);
    assert_eq!(code, Some(0));
    let (code, _) = on_key("touch", &[]);
    assert_eq!(code, Some(6));
    let (code, _) = put("v", &["--if-match", "*", "--retry-writes"]);
    assert_eq!(code, Some(2));
}
