//! Four nodes with TLS and tokens, which an operator starts and lets join with nothing but commands,
//! as `docs/how-to/change-the-members.md` says.

#![expect(clippy::disallowed_methods, reason = "the files of an operator")]

use crate::fixtures::authority::{Authority, NodeFiles};
use crate::support::{Process, free_ports, kvorum, local, run_to_end, wait_until_ok};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A cluster of an operator.
struct Operated {
    folder: PathBuf,
    port: u16,
    authority: Authority,
}

impl Operated {
    fn new(folder: &Path, port: u16) -> Self {
        let operated = Self {
            folder: folder.to_owned(),
            port,
            authority: Authority::new("operator"),
        };
        operated.write("ca.pem", &operated.authority.pem);
        operated.write("secret", "a secret of at least 16 bytes\n");
        let tokens = operated.path("tokens.toml");
        let new = [
            "admin", "token", "new", "--name", "operator", "--read", "--write", "--admin",
        ];
        let made = run_to_end(kvorum(&new).args(["--append", &tokens]));
        assert!(made.status.success(), "{made:?}");
        operated.write("token", std::str::from_utf8(&made.stdout).unwrap());
        operated
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    }

    fn url(&self, index: u16) -> String {
        format!("https://127.0.0.1:{}", self.port + index)
    }

    /// Starts a node, with `how` it comes to its cluster.
    fn start(&self, index: u16, name: &str, how: &[&str]) -> Process {
        let files = NodeFiles::new(&self.folder, name);
        self.authority.issue(&files, local(self.port + index));
        files.trust(&[&self.authority]);
        let mut command = kvorum(&["serve", "--url", &self.url(index), "--timeout", "1s"]);
        command.args(["--memory", "128MiB", "--threads", "1", "--log", "warn"]);
        command.args(["--data", &self.path(&format!("data-{name}"))]);
        command.args(["--cluster-secret-file", &self.path("secret")]);
        command.args(["--tokens-file", &self.path("tokens.toml")]);
        command.args(files.options()).args(how);
        Process::spawn(&mut command)
    }

    /// Runs a command against a node; gives what it says, and whether it succeeded.
    fn run(&self, index: u16, words: &[&str]) -> Result<String, String> {
        let mut command = kvorum(words);
        command.args(["--url", &self.url(index), "--ca", &self.path("ca.pem")]);
        let output = run_to_end(command.args(["--token-file", &self.path("token")]));
        let said = [&output.stdout[..], &output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        if output.status.success() {
            Ok(said)
        } else {
            Err(said)
        }
    }

    fn wait_until_done(&self, index: u16, words: &[&str]) -> String {
        wait_until_ok("a command to succeed", || self.run(index, words))
    }
}

#[test]
fn four_nodes_with_tls_and_tokens_become_a_cluster_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Operated::new(folder.path(), free_ports(4));
    let list: Vec<String> = (0..3)
        .zip(["a", "b", "c"])
        .map(|(index, name)| format!("{name}={}", cluster.url(index)))
        .collect();
    let list = list.join(",");
    let founders = ["a", "b", "c"];
    let mut nodes: Vec<Process> = (0..3)
        .zip(founders)
        .map(|(index, name)| cluster.start(index, name, &["--cluster", &list]))
        .collect();
    for key in ["one", "two", "three"] {
        cluster.wait_until_done(0, &["put", key, "value"]);
    }

    let join = format!("--join={}", cluster.url(0));
    let mut joiner = cluster.start(3, "d", &[&join, "--name", "d"]);
    let plan = cluster.wait_until_done(1, &["admin", "members", "join", "d", "--dry-run"]);
    assert!(plan.contains("d joins"), "{plan}");
    // Nobody changes the members without a token that has the right.
    let refused = run_to_end(kvorum(&["admin", "members", "join", "d", "--yes"]).args([
        "--url",
        &cluster.url(1),
        "--ca",
        &cluster.path("ca.pem"),
    ]));
    assert_eq!(refused.status.code(), Some(5), "{refused:?}");
    let end = cluster.run(1, &["admin", "members", "join", "d", "--yes", "--wait"]);
    assert!(
        end.as_ref()
            .unwrap()
            .contains("the members are a, b, c, d "),
        "{end:?}"
    );
    for key in ["one", "two", "three"] {
        assert_eq!(cluster.wait_until_done(3, &["get", key]).trim(), "value");
    }

    // It comes back with the options that it had, and another member leaves by the node itself.
    joiner.signal(rustix::process::Signal::TERM);
    assert_eq!(joiner.end().code, Some(0));
    let _joiner = cluster.start(3, "d", &[&join, "--name", "d"]);
    cluster.wait_until_done(3, &["put", "four", "value"]);
    let end = cluster.run(2, &["admin", "members", "leave", "c", "--yes", "--wait"]);
    assert!(
        end.as_ref().unwrap().contains("the members are a, b, d "),
        "{end:?}"
    );
    let mut left = nodes.pop().unwrap();
    left.signal(rustix::process::Signal::TERM);
    assert_eq!(left.end().code, Some(0));
    for key in ["one", "two", "three", "four"] {
        assert_eq!(cluster.wait_until_done(3, &["get", key]).trim(), "value");
    }
}
