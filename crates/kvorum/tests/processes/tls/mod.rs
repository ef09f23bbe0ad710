//! `kvorum dev --tls`: curl and every command over TLS, and who is not trusted.

mod certificates;
mod changes;
mod members;

use crate::commands::keys::{run, succeed};
use crate::dev::started_with;
use crate::support::{Process, free_port, free_ports, kvorum, run_to_end, wait_until};
use rustix::process::Signal;
use std::path::Path;
use std::process::Command;

/// A cluster with TLS.
struct TlsCluster {
    process: Process,
    welcome: String,
    /// Its URLs, with commas between them.
    urls: String,
    /// The file of its authority.
    ca: String,
}

impl TlsCluster {
    fn start(nodes: u16, port: u16, data: &Path) -> Self {
        let (process, welcome) = started_with(&["--tls"], nodes, port, data);
        let urls = (port..port + nodes).map(|port| format!("https://127.0.0.1:{port}"));
        Self {
            process,
            welcome,
            urls: urls.collect::<Vec<_>>().join(","),
            ca: data.join("tls/authority.pem").to_str().unwrap().to_owned(),
        }
    }

    /// The first URL.
    fn url(&self) -> &str {
        self.urls.split(',').next().unwrap()
    }

    /// Runs a command on entities that succeeds, and returns its stdout.
    fn entities(&self, words: &str, input: &[u8]) -> String {
        let words = format!("{words} --url {} --ca {}", self.urls, self.ca);
        self.succeed(&words, input)
    }

    fn succeed(&self, words: &str, input: &[u8]) -> String {
        let words: Vec<&str> = words.split(' ').collect();
        String::from_utf8(succeed(&words, input)).unwrap()
    }
}

#[test]
fn every_command_works_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = TlsCluster::start(3, free_ports(3), folder.path());
    // The nodes may not have found each other yet.
    let words = format!("put k v --url {} --ca {}", cluster.urls, cluster.ca);
    let words: Vec<&str> = words.split(' ').collect();
    wait_until("the first write", || {
        run(&words, b"").status.success().then_some(())
    });
    assert_eq!(cluster.entities("get k", b""), "v");
    let listed = wait_until("the copies on all nodes", || {
        let listed = cluster.entities("replicas k --versions", b"");
        (listed.matches("value of 1 byte").count() == 3).then_some(listed)
    });
    assert!(listed.contains(cluster.url()), "{listed}");
    let long = "l".repeat(1 << 20);
    cluster.entities("put long -", long.as_bytes());
    assert_eq!(
        cluster.entities("scan", b""),
        format!("k\tv\nlong\t{long}\n")
    );

    let file = folder.path().join("entities");
    let file = file.to_str().unwrap();
    cluster.entities(&format!("export {file}"), b"");
    cluster.entities("delete k", b"");
    assert_eq!(cluster.entities("scan --count", b""), "1\n");
    cluster.entities(&format!("import {file}"), b"");
    assert_eq!(cluster.entities("get k", b""), "v");

    let target = format!("--url {} --ca {}", cluster.url(), cluster.ca);
    let words = format!("admin status --json {target}");
    let words: Vec<&str> = words.split(' ').collect();
    // On a busy machine a node may warn of that, or miss another one, for a moment.
    wait_until("a status in which all nodes serve", || {
        let output = run(&words, b"");
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        let states = status["nodes"].as_array().unwrap().iter();
        let serve = states.filter(|node| node["state"] == "serving").count();
        (output.status.success() && serve == 3).then_some(())
    });
    let repaired = cluster.succeed(&format!("admin repair --wait {target}"), b"");
    assert!(repaired.contains("all nodes are equal"), "{repaired}");
    cluster.succeed(&format!("admin compact --wait {target}"), b"");
}

#[test]
fn curl_does_what_the_welcome_says_and_a_restart_keeps_the_authority() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    for (round, signal) in [Signal::INT, Signal::TERM].into_iter().enumerate() {
        let mut cluster = TlsCluster::start(1, port, folder.path());
        assert!(
            cluster.welcome.contains(cluster.url()),
            "{}",
            cluster.welcome
        );
        if round == 1 {
            // The client has trusted it before.
            assert_eq!(cluster.entities("get hello", b""), "world");
        }
        // What it tells users to try works.
        let lines = |words: &'static str| {
            let lines = cluster.welcome.lines();
            lines.filter(move |line| line.contains(words))
        };
        assert_eq!(lines(" --ca ").count(), 4, "{}", cluster.welcome);
        for line in lines(" --ca ") {
            let words: Vec<&str> = line.split_whitespace().skip(1).collect();
            succeed(&words, b"");
        }
        assert_eq!(lines(" --cacert ").count(), 3, "{}", cluster.welcome);
        let has_curl = Command::new("curl").arg("--version").output().is_ok();
        for line in lines(" --cacert ").take_while(|_| has_curl) {
            let ran = run_to_end(Command::new("sh").args(["-c", &format!("{line} -sSf")]));
            let stderr = String::from_utf8_lossy(&ran.stderr);
            assert!(ran.status.success(), "{line}: {stderr}");
        }
        cluster.process.signal(signal);
        assert_eq!(cluster.process.end().code, Some(0));
    }
}

#[test]
fn without_trust_there_is_no_request_and_the_line_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let data = |name: &str| folder.path().join(name);
    let cluster = TlsCluster::start(1, free_port(), &data("one"));
    let other = TlsCluster::start(1, free_port(), &data("other"));
    let (url, ca) = (cluster.url(), &*cluster.ca);
    let plain = url.replacen("https", "http", 1);
    let missing = data("missing").to_str().unwrap().to_owned();
    for (words, code, texts) in [
        (
            format!("get k --url {url} --ca {}", other.ca),
            5,
            &["from an authority that is trusted", "--ca"][..],
        ),
        (
            format!("put k v --url {url} --ca {}", other.ca),
            5,
            &["from an authority that is trusted", "--ca"],
        ),
        (
            format!("get k --url {url}"),
            5,
            &["from an authority that is trusted", "--ca"],
        ),
        (format!("get k --url {plain}"), 5, &["https://"]),
        (format!("admin status --url {plain}"), 5, &["https://"]),
        (format!("admin repair --url {plain}"), 5, &["https://"]),
        (
            format!("get k --url {plain} --ca {ca}"),
            2,
            &["--ca", "write https://"],
        ),
        (
            format!("get k --url {url} --ca {missing}"),
            2,
            &[&missing, "cannot read"],
        ),
        (
            format!("admin status --url {url} --ca {}", other.ca),
            5,
            &["from an authority that is trusted", "--ca"],
        ),
        (
            format!("get k --url {url} --client-cert {ca}"),
            2,
            &["--client-key"],
        ),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        // The system trusts an authority, and not the right one.
        let mut command = kvorum(&words);
        let output = run_to_end(command.env("SSL_CERT_FILE", &other.ca));
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {line}");
        assert_eq!(line.lines().count(), 1, "{line}");
        for text in texts {
            assert!(line.contains(text), "{words:?} should say {text}: {line}");
        }
    }
}
