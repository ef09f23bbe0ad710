//! Commands whose output nobody reads any more, as in `kvorum scan | head`.

use super::keys::{cluster, succeed, url};
use crate::support::{Process, free_ports, kvorum};
use std::io::{self, BufRead, BufReader};

/// The exit code of a process that SIGPIPE ended.
const UNREAD: Option<i32> = Some(141);

/// Checks that a process ends as one that SIGPIPE ended, and says nothing.
fn assert_ends_unread(mut process: Process, words: &[&str]) {
    let end = process.end();
    assert_eq!((end.code, &*end.stderr), (UNREAD, ""), "{words:?}");
}

#[test]
fn a_command_whose_output_is_closed_ends_without_a_word() {
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = free_ports(1);
    let _nodes = cluster(first, 1, folder.path());
    let node = &*url(first);
    for key in ["a", "b"] {
        succeed(&["put", key, "v", "--url", node], b"");
    }
    for (words, asks_node) in [
        ("get a", true),
        ("get a b", true),
        ("get a b --json", true),
        ("scan", true),
        ("scan --count", true),
        ("scan --json", true),
        ("replicas a", true),
        ("export -", true),
        ("delete b --json", true),
        ("admin status", true),
        ("admin status --json", true),
        ("admin status --watch 100ms", true),
        ("admin compact --wait", true),
        ("completions bash", false),
        ("version", false),
        ("version --json", false),
        ("--help", false),
        ("help scan", false),
    ] {
        let mut words: Vec<&str> = words.split(' ').collect();
        if asks_node {
            words.extend(["--url", node]);
        }
        let mut command = kvorum(&words);
        command.env("XDG_CONFIG_HOME", home.path());
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        assert_ends_unread(Process::spawn(command.stdout(writer)), &words);
    }
}

#[test]
fn a_scan_of_which_only_the_head_is_read_ends_without_a_word() {
    const KEYS: usize = 3000;
    let folder = tempfile::tempdir().unwrap();
    let first = free_ports(1);
    let _nodes = cluster(first, 1, folder.path());
    let node = &*url(first);
    // Much more than a pipe holds.
    let value = "v".repeat(100);
    let lines: String = (0..KEYS)
        .map(|key| format!("{{\"key\":\"{key:04}\",\"value\":\"{value}\"}}\n"))
        .collect();
    succeed(&["import", "-", "--url", node], lines.as_bytes());
    for words in [&["scan"][..], &["scan", "--json"], &["export", "-"]] {
        let mut process = Process::spawn(kvorum(words).args(["--url", node]));
        let stdout = process.child.stdout.take().unwrap();
        let mut head = String::new();
        BufReader::new(stdout).read_line(&mut head).unwrap();
        assert!(head.contains("0000"), "{head}");
        assert_ends_unread(process, words);
    }
}
