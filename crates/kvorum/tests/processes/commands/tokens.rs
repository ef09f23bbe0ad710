//! Commands with and without a token, on a cluster of `kvorum dev --tokens`.

#![expect(clippy::disallowed_methods, reason = "files of users")]

use crate::dev::started_with;
use crate::support::{free_port, free_ports, kvorum, run_to_end, wait_until};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

fn command(words: &str) -> Command {
    kvorum(&words.split(' ').collect::<Vec<_>>())
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8(both).unwrap()
}

fn write(file: &Path, text: &str, mode: u32) -> String {
    std::fs::write(file, text).unwrap();
    std::fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn every_command_shows_its_token_and_none_prints_it() {
    let folder = tempfile::tempdir().unwrap();
    // Also nodes have to know each other.
    let port = free_ports(3);
    let (_dev, said) = started_with(&["--tokens"], 3, port, folder.path());
    let url = format!("http://127.0.0.1:{port}");
    let file = folder.path().join("admin-token");
    let token = std::fs::read_to_string(&file).unwrap().trim().to_owned();
    assert!(!said.contains(&token), "{said}");

    // What it tells users to try works.
    let lines = |words: &'static str| said.lines().filter(move |line| line.contains(words));
    assert_eq!(lines(" --token-file ").count(), 6, "{said}");
    for line in lines(" --token-file ") {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        // The nodes may not have found each other yet.
        let printed = wait_until("the command to succeed", || {
            let output = run_to_end(&mut kvorum(&words));
            let printed = text(&output);
            assert!(!printed.contains(&token), "{line}: {printed}");
            output.status.success().then_some(printed)
        });
        assert!(!printed.is_empty() || line.contains("scan"), "{line}");
    }
    assert_eq!(lines("  curl ").count(), 3, "{said}");
    let has_curl = Command::new("curl").arg("--version").output().is_ok();
    for line in lines("  curl ").take_while(|_| has_curl) {
        let ran = run_to_end(Command::new("sh").args(["-c", &format!("{line} -sSf")]));
        assert!(ran.status.success(), "{line}: {}", text(&ran));
    }

    // The environment names the node and the token for every command.
    let named = [
        ("KVORUM_URL", &*url),
        ("KVORUM_TOKEN_FILE", file.to_str().unwrap()),
    ];
    let lines_file = folder.path().join("lines");
    let lines_file = write(&lines_file, "{\"key\":\"a\",\"value\":\"b\"}\n", 0o600);
    let export = folder.path().join("export");
    for words in [
        "put hello world".to_owned(),
        "get hello".to_owned(),
        "replicas hello".to_owned(),
        "delete hello".to_owned(),
        "scan".to_owned(),
        format!("import {lines_file}"),
        format!("export {}", export.display()),
        "admin repair".to_owned(),
        "admin compact".to_owned(),
    ] {
        let ran = run_to_end(command(&words).envs(named));
        assert_eq!(ran.status.code(), Some(0), "{words}: {}", text(&ran));
    }
    // The nodes may still have something to do.
    let status = run_to_end(command("admin status --json").envs(named));
    assert!(text(&status).contains("\"serving\""), "{}", text(&status));

    for words in [
        format!("get hello --url {url}"),
        format!("put hello w --url {url}"),
        format!("scan --url {url}"),
        format!("admin status --url {url}"),
        format!("admin repair --url {url}"),
    ] {
        for wrong in [None, Some("kvorum_wrong")] {
            let token = wrong.map(|token| ("KVORUM_TOKEN", token));
            let output = run_to_end(command(&words).envs(token));
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(5), "{words}: {said}");
            assert!(
                said.contains("--token-file") && said.contains("KVORUM_TOKEN"),
                "{said}"
            );
            assert!(!said.contains("kvorum_wrong"), "{said}");
            assert_eq!(said.lines().count(), 1, "{words}: {said}");
        }
    }
}

#[test]
fn a_token_without_the_right_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let (_dev, _) = started_with(&["--tokens"], 1, port, folder.path());
    let url = format!("http://127.0.0.1:{port}");
    let new = "admin token new --name reader --read --append";
    let tokens_file = folder.path().join("tokens.toml");
    let token = run_to_end(&mut command(&format!("{new} {}", tokens_file.display())));
    let token = String::from_utf8(token.stdout).unwrap();
    let file = write(&folder.path().join("reader"), &token, 0o600);
    let run = |words: &str| {
        let words = format!("{words} --url {url} --token-file {file}");
        let output = run_to_end(&mut command(&words));
        (output.status.code(), text(&output))
    };
    // The node reads the file again.
    wait_until("the new token to be in force", || {
        (run("get none").0 == Some(1)).then_some(())
    });
    let lines = folder.path().join("lines");
    let lines = write(&lines, "{\"key\":\"a\",\"value\":\"b\"}\n", 0o600);
    for words in ["put k v", "delete k"] {
        let (code, said) = run(words);
        assert_eq!(code, Some(5), "{said}");
        assert!(
            said.contains("write") && !said.contains(token.trim()),
            "{said}"
        );
    }
    let (code, said) = run(&format!("import {lines}"));
    assert_ne!(code, Some(0), "{said}");
    assert!(said.contains("write"), "{said}");
}

#[test]
fn a_token_goes_neither_over_the_network_in_clear_nor_into_other_hands() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str, mode| write(&folder.path().join(name), text, mode);
    let good = file("good", "kvorum_hidden\n", 0o600);
    let open = file("open", "kvorum_hidden\n", 0o644);
    let odd = file("odd", "kvorum hidden\n", 0o600);
    let empty = file("empty", "\n", 0o600);
    let far = "http://192.0.2.1:1";
    let near = format!("http://127.0.0.1:{}", free_port());
    let token = Some("kvorum_hidden");
    for (words, variable, code, said) in [
        (
            format!("get k --url {far} --token-file {good}"),
            None,
            5,
            "--token-in-clear",
        ),
        (
            format!("get k --url {near},{far}"),
            token,
            5,
            "--token-in-clear",
        ),
        (
            format!("admin status --url {far}"),
            token,
            5,
            "--token-in-clear",
        ),
        (
            format!("get k --url {near} --retries 0"),
            token,
            3,
            "refuses connections",
        ),
        (
            format!("get k --url {near} --token-file {open}"),
            None,
            2,
            "chmod 600",
        ),
        (
            format!("get k --url {near} --token-file {odd}"),
            None,
            2,
            "has no token",
        ),
        (
            format!("get k --url {near} --token-file {empty}"),
            token,
            2,
            "has no token",
        ),
        (
            format!("get k --url {near}"),
            Some("kvorum hidden"),
            2,
            "KVORUM_TOKEN has no token",
        ),
    ] {
        let token = variable.map(|token| ("KVORUM_TOKEN", token));
        let output = run_to_end(command(&words).envs(token));
        let all = text(&output);
        assert_eq!(output.status.code(), Some(code), "{words}: {all}");
        assert!(all.contains(said), "{words} should say {said}: {all}");
        assert!(!all.contains("hidden"), "{words}: {all}");
    }
}

#[test]
fn all_nodes_share_a_token_until_it_is_revoked_also_one_that_was_down() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_ports(3);
    let (_dev, _) = started_with(&["--tokens"], 3, port, folder.path());
    let url = |node: u16| format!("http://127.0.0.1:{}", port + node);
    let admin = folder.path().join("admin-token").display().to_string();
    let run = |words: &str, token: &str| {
        let words = format!("{words} --url {} --token-file {token}", url(0));
        let output = run_to_end(&mut command(&words));
        (output.status.code(), text(&output))
    };
    let (code, token) = run(
        "admin token new --name reader --read --prefix cart/ --expires 1d",
        &admin,
    );
    assert_eq!(code, Some(0), "{token}");
    let reader = write(&folder.path().join("reader"), &token, 0o600);
    let reads = |node: u16, key: &str| {
        let words = format!("get {key} --url {} --token-file {reader}", url(node));
        run_to_end(&mut command(&words)).status.code()
    };
    for node in 0..3 {
        assert_eq!(reads(node, "cart/none"), Some(1), "{node}");
        assert_eq!(reads(node, "other"), Some(5), "{node}");
    }
    // Nobody gives more than they have.
    let operator = "admin token new --name operator --admin";
    let (code, operator) = run(operator, &admin);
    assert_eq!(code, Some(0), "{operator}");
    let operator = write(&folder.path().join("operator"), &operator, 0o600);
    let (code, said) = run("admin token new --name thief --read", &operator);
    assert_eq!(code, Some(5), "{said}");
    let (code, said) = run("admin token list", &operator);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("read of cart/") && !said.contains("thief"),
        "{said}"
    );

    let dev = |words: &str| {
        let words = format!("dev {words} --data {}", folder.path().display());
        assert!(run_to_end(&mut command(&words)).status.success(), "{words}");
    };
    dev("stop 3");
    let (code, said) = run("admin token revoke reader", &operator);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("node-3 has not been told"), "{said}");
    for node in 0..2 {
        assert_eq!(reads(node, "cart/none"), Some(5), "{node}");
    }
    dev("start 3");
    wait_until("the node to serve what it knew", || {
        (reads(2, "cart/none") == Some(1)).then_some(())
    });
    let (code, said) = run("admin token list", &operator);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("revoked") && said.contains("node-3"),
        "{said}"
    );
    let (code, said) = run("admin token sync", &operator);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(reads(2, "cart/none"), Some(5));
    let (code, said) = run("admin token list", &operator);
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("reader"), "{said}");
}
