//! `kvorum admin check`: what it finds before a node is started, and that it changes nothing.

use crate::support::{Process, free_port, free_ports, kvorum, run_to_end, wait_until};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// The exit code, and the lines of stdout.
fn run(command: &mut Command) -> (Option<i32>, Vec<String>) {
    let output = run_to_end(command);
    let text = String::from_utf8(output.stdout).unwrap();
    (
        output.status.code(),
        text.lines().map(str::to_owned).collect(),
    )
}

fn check(data: &Path, options: &[&str]) -> (Option<i32>, Vec<String>) {
    let mut command = kvorum(&["admin", "check", "--memory", "128MiB", "--data"]);
    run(command.arg(data).args(options))
}

/// The line about something, by its second word.
fn line_of<'a>(lines: &'a [String], what: &str) -> &'a str {
    let is_it = |line: &&String| {
        line.split_once(' ')
            .unwrap()
            .1
            .trim_start()
            .starts_with(what)
    };
    lines
        .iter()
        .find(is_it)
        .unwrap_or_else(|| panic!("{what}: {lines:?}"))
}

#[test]
fn a_node_that_can_start_is_told_so_and_nothing_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let url = format!("http://127.0.0.1:{}", free_port());
    let (code, lines) = check(&data, &["--url", &url]);
    assert_eq!(code, Some(0), "{lines:?}");
    assert!(
        lines.iter().all(|line| line.starts_with("ok ")),
        "{lines:?}"
    );
    assert!(line_of(&lines, "addresses").ends_with(&url["http://".len()..]));
    assert!(!data.exists());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "files of an operator")]
fn all_that_is_wrong_is_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (data, tokens) = (
        folder.path().join("data"),
        folder.path().join("tokens.toml"),
    );
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("thesis.txt"), "of something else").unwrap();
    std::fs::write(&tokens, "no tokens").unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", taken.local_addr().unwrap());
    let options = ["--url", &url, "--tokens-file", tokens.to_str().unwrap()];
    // The options may also be in a file.
    let config = folder.path().join("kvorum.toml");
    std::fs::write(&config, "expect-data = false\n").unwrap();
    let with_file = [&options[..], &["--config", config.to_str().unwrap()]].concat();
    let (code, lines) = check(&data, &with_file);
    assert_eq!(code, Some(1), "{lines:?}");
    for (what, words) in [
        ("tokens", "tokens.toml"),
        ("addresses", "is another node running there?"),
        ("data folder", "thesis.txt"),
    ] {
        let line = line_of(&lines, what);
        assert!(line.starts_with("wrong ") && line.contains(words), "{line}");
    }
    assert!(line_of(&lines, "certificate").starts_with("ok "));
    // An option that is wrong by itself is one of `serve`, with its exit code.
    std::fs::write(&config, "expect-data = \"perhaps\"\n").unwrap();
    assert_eq!(check(&data, &with_file).0, Some(2));
}

#[test]
fn nodes_of_one_authority_find_each_other_and_one_of_another_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let certify = |authority: &Path, words: &[&str]| {
        let words = [&["admin", "cert"], words].concat();
        let output = run_to_end(kvorum(&words).current_dir(authority));
        assert!(output.status.success(), "{words:?}: {output:?}");
    };
    let authorities = ["own", "other"].map(|name| folder.path().join(name));
    for authority in &authorities {
        std::fs::create_dir(authority).unwrap();
        certify(authority, &["ca"]);
        certify(authority, &["node", "127.0.0.1"]);
    }
    let port = free_ports(3);
    let urls = [0, 1, 2].map(|node| format!("https://127.0.0.1:{}", port + node));
    let list = urls.join(",");
    let options = |node: usize, authority: usize| -> Vec<String> {
        let file = |name: &str| authorities[authority].join(name).display().to_string();
        let (certificate, key, ca) = (file("127.0.0.1.pem"), file("127.0.0.1.key"), file("ca.pem"));
        [
            "--url",
            &urls[node],
            "--cluster",
            &list,
            "--tls-cert",
            &certificate,
            "--tls-key",
            &key,
            "--tls-peer-ca",
            &ca,
        ]
        .map(str::to_owned)
        .into()
    };
    let mut node = kvorum(&["serve", "--memory", "128MiB", "--data"]);
    let _node = Process::spawn(node.arg(folder.path().join("a")).args(options(0, 0)));
    let data = folder.path().join("b");
    let checked = |authority: usize| {
        let options = options(1, authority);
        check(
            &data,
            &options.iter().map(String::as_str).collect::<Vec<_>>(),
        )
    };
    let (_, lines) = wait_until("the first node to serve", || {
        let found = checked(0);
        let line = line_of(&found.1, &format!("127.0.0.1:{port}")).to_owned();
        line.contains("its clock shows the same time")
            .then_some(found)
    });
    let third = line_of(&lines, &format!("127.0.0.1:{}", port + 2));
    assert!(
        third.starts_with("ok ") && third.contains("or not yet"),
        "{third}"
    );
    let (code, lines) = checked(1);
    let first = line_of(&lines, &format!("127.0.0.1:{port}"));
    assert_eq!(code, Some(1), "{lines:?}");
    assert!(
        first.starts_with("wrong ") && first.contains("authority"),
        "{first}"
    );
}
