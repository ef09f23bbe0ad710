//! A wrong command line ends with exit code 2 and one line that says why.

use crate::support::{PROGRAM, Process, free_port, kvorum, kvorum_by, local, run_to_end, started};
use http_testing::Connection;
use rustix::process::Signal;
use std::path::Path;
use std::process::Command;

fn line_of(arguments: &[&str], variable: Option<(&str, &str)>) -> String {
    let mut command = kvorum(arguments);
    command.envs(variable);
    let end = Process::spawn(&mut command).end();
    assert_eq!(end.code, Some(2), "{arguments:?}: {end:?}");
    end.line().to_owned()
}

#[test]
fn wrong_options_are_reported_in_one_line() {
    let node = [
        "serve",
        "--url",
        "http://127.0.0.1:1",
        "--data",
        "no-folder",
    ];
    let with = |more: &[&'static str]| [&node[..], more].concat();
    let table: Vec<(Vec<&str>, &[&str])> = vec![
        (vec!["serv"], &["serv", "serve"]),
        (vec!["serve"], &["--url: it is missing", "KVORUM_URL"]),
        (
            vec!["serve", "--url", "http://127.0.0.1:1"],
            &["--data: it is missing"],
        ),
        (vec!["serve", "--url"], &["--url"]),
        (
            vec!["serve", "--url", "127.0.0.1:1", "--data", "d"],
            &["http://"],
        ),
        (
            vec!["serve", "--url", "http://127.0.0.1", "--data", "d"],
            &["port"],
        ),
        (
            vec!["serve", "--url", "ftp://h:1", "--data", "d"],
            &["http://"],
        ),
        (
            vec!["serve", "--url", "https://h:1", "--data", "d"],
            &["--tls-cert", "--tls-key"],
        ),
        (with(&["--memori", "1GiB"]), &["--memori", "--memory"]),
        (with(&["--memory", "12x"]), &["--memory", "12x", "128MiB"]),
        (with(&["--memory", "64MiB"]), &["--memory", "128MiB"]),
        (
            with(&["--memory", "1000TiB"]),
            &["--memory", "1000TiB is more than the", "lower it"],
        ),
        (
            with(&["--cors-origin", "https://a:99999"]),
            &["--cors-origin", "https://a:99999", "1 to 65535"],
        ),
        (
            with(&["--memory", "1GiB", "--memory", "2GiB"]),
            &["--memory", "multiple times"],
        ),
        (
            with(&["--durability", "fsync"]),
            &["--durability", "sync", "interval", "os"],
        ),
        (
            with(&["--compression", "zstd"]),
            &["--compression", "lz4", "none"],
        ),
        (
            with(&["--compaction", "maybe"]),
            &["--compaction", "on", "off"],
        ),
        (
            with(&["--listen", "localhost:80"]),
            &["--listen", "IP address"],
        ),
        (
            with(&["--threads", "-1"]),
            &["--threads", "-1", "from 1 to"],
        ),
        (with(&["--memory", "-1MiB"]), &["-1", "negative"]),
        (
            with(&["--drain-timeout", "1m"]),
            &["--drain-timeout", "1ms to 8s"],
        ),
        (
            vec!["serve", "--url", "http://127.0.0.1:0", "--data", "d"],
            &["--url", "port 0"],
        ),
        (
            with(&["--ack", "3", "--from", "1"]),
            &["--ack", "at most 1"],
        ),
        (
            with(&["--value-bytes-max", "2GiB"]),
            &["--value-bytes-max", "1GiB"],
        ),
        (
            with(&["--cluster", "http://127.0.0.1:2"]),
            &["--cluster", "its own URL"],
        ),
        (
            with(&["--cluster", "http://127.0.0.1:1,a=HTTP://127.0.0.1:01/"]),
            &["--cluster", "http://127.0.0.1:1 twice"],
        ),
        (
            with(&["--cluster", "a=http://127.0.0.1:1,a=http://127.0.0.1:2"]),
            &["--cluster", "two nodes called a"],
        ),
        (
            with(&["--accept-data-loss=maybe"]),
            &["--accept-data-loss", "on", "off"],
        ),
        (with(&["--name", "a b"]), &["--name", "a b", "no space"]),
        (with(&["--log", "verbose"]), &["--log", "info", "debug"]),
        (
            with(&["--config", "no-such.toml"]),
            &["no-such.toml", "cannot read"],
        ),
        (with(&["stray"]), &["stray", "kvorum serve --help"]),
        (with(&["--port", "1"]), &["--port", "kvorum serve --help"]),
        (vec!["dev", "--nodes", "256"], &["--nodes", "255"]),
        (
            vec!["dev", "--", "--cluster", "http://127.0.0.1:1"],
            &["--cluster", "--nodes"],
        ),
        (vec!["dev", "--port", "65536"], &["--port", "65535"]),
        (vec!["dev", "--", "--bogus"], &["--bogus"]),
        (vec!["dev", "--", "stray"], &["stray"]),
        (
            vec!["dev", "--", "--memory", "1MiB"],
            &["--memory", "128MiB"],
        ),
        (
            vec!["dev", "--", "--url", "http://127.0.0.1:1"],
            &["--url", "multiple times"],
        ),
    ];
    for (arguments, words) in table {
        let line = line_of(&arguments, None);
        for word in words {
            assert!(
                line.contains(word),
                "{arguments:?} should name {word}: {line}"
            );
        }
    }
}

#[test]
fn a_bad_variable_is_named() {
    let line = line_of(&["serve"], Some(("KVORUM_MEMORY", "much")));
    assert!(
        line.contains("KVORUM_MEMORY") && line.contains("much"),
        "{line}"
    );
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a configuration file is no part of a store"
)]
fn a_bad_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kvorum.toml");
    let name = file.to_str().unwrap();
    for (text, word) in [
        ("memori = 1", "did you mean `memory`?"),
        ("memory = \"much\"", "much"),
        ("=", "line 1"),
    ] {
        std::fs::write(&file, text).unwrap();
        let line = line_of(&["serve", "--config", name], None);
        assert!(
            line.contains(name) && line.contains(word),
            "{text:?}: {line}"
        );
    }
}

#[test]
fn help_succeeds_and_shows_defaults() {
    let output = run_to_end(&mut kvorum(&["serve", "--help"]));
    assert_eq!(output.status.code(), Some(0));
    let page = String::from_utf8(output.stdout).unwrap();
    // Lines are wrapped at the width of the page.
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "--durability <MODE>",
        "[default: sync]",
        "[default: 16MiB; less if --memory is below 256MiB]",
        "[default: 1s]",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains("until-stdin-closes"));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a file instead of a folder")]
fn a_data_folder_that_is_a_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    for data in [file.clone(), file.join("below").join("it")] {
        let data = data.to_str().unwrap();
        let line = line_of(
            &["serve", "--url", "http://127.0.0.1:1", "--data", data],
            None,
        );
        let said = format!("--data: {} is not a folder", file.display());
        assert!(line.contains(&said), "{line}");
    }
    let variable = ("KVORUM_DATA", file.to_str().unwrap());
    let line = line_of(&["serve", "--url", "http://127.0.0.1:1"], Some(variable));
    assert!(line.contains("KVORUM_DATA: "), "{line}");
}

#[test]
fn every_command_shows_the_version() {
    for words in [&["--version"][..], &["serve", "-V"], &["dev", "--version"]] {
        let output = run_to_end(&mut kvorum(words));
        assert_eq!(output.status.code(), Some(0), "{words:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(
            said.trim_end().ends_with(env!("CARGO_PKG_VERSION")),
            "{said}"
        );
        assert!(said.starts_with("kvorum"), "{said}");
    }
}

#[test]
fn version_names_the_build_and_its_formats() {
    let version = env!("CARGO_PKG_VERSION");
    let output = run_to_end(&mut kvorum(&["version"]));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with(&format!("kvorum {version}")), "{said}");
    assert!(said.contains("\nMANIFEST "), "{said}");

    let output = run_to_end(&mut kvorum(&["version", "--json"]));
    let build: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(build["version"], version);
    let commit = option_env!("KVORUM_COMMIT");
    assert_eq!(build["commit"].as_str(), commit, "{build}");
    let features = build["features"].as_array().unwrap();
    assert!(features.contains(&"tombstone-gc".into()), "{build}");
    let protocol = &build["formats"]["peer protocol"];
    assert!(protocol["reads_from"].as_u64() <= protocol["writes"].as_u64());
    assert!(protocol["writes"].is_u64(), "{build}");
}

/// `serve` by a shell that sets a limit of the system.
fn serve_within(limit: &str, port: u16, data: &Path) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{limit} && exec \"$@\""), "sh", PROGRAM]);
    let url = format!("http://127.0.0.1:{port}");
    let mut command = kvorum_by(shell, &["serve", "--memory", "128MiB", "--log", "warn"]);
    command.args(["--url", &url, "--data"]).arg(data);
    command
}

#[test]
fn a_limit_of_open_files_that_leaves_no_room_ends_a_start_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = serve_within("ulimit -n 40", free_port(), &folder.path().join("data"));
    let end = Process::spawn(&mut command).end();
    assert_eq!(end.code, Some(2), "{end:?}");
    for word in ["limit of open files is 40", "ulimit -n"] {
        assert!(end.line().contains(word), "{end:?}");
    }
}

/// The system would end a process that writes beyond it.
#[test]
fn a_node_whose_files_may_not_grow_serves_and_refuses_puts() {
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
    let mut command = serve_within("ulimit -f 64", port, &folder.path().join("data"));
    let mut node = started(&mut command, port);
    let mut connection = Connection::connect(local(port)).unwrap();
    for (method, status) in [("PUT", 507), ("GET", 404)] {
        let answer = connection.request(method, "/v0/entity?id=k", "", b"v");
        assert_eq!(answer.unwrap().status, status, "{method}");
    }
    node.signal(Signal::TERM);
    let end = node.end();
    assert_eq!(end.code, Some(0), "{end:?}");
    assert!(end.stderr.contains("LimitFSIZE"), "{end:?}");
}
