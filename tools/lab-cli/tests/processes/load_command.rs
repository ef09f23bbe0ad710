//! `kvorum-lab load` with a node: what it measures, and how it ends.

use crate::kvorum_lab;
use crate::support::{Process, ProcessEnd, free_port, request, serve, started, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;

/// A node for one test.
struct Node {
    process: Process,
    port: u16,
    folder: tempfile::TempDir,
}

impl Node {
    fn start() -> Self {
        let (port, folder) = (free_port(), tempfile::tempdir().unwrap());
        let mut command = serve(port, &folder.path().join("data"));
        let process = started(command.args(["--durability", "os"]), port);
        Self {
            process,
            port,
            folder,
        }
    }

    /// Starts `kvorum-lab load` on this node; its measurements go to a file.
    fn load(&self, words: &str) -> Process {
        let target = format!("http://127.0.0.1:{}", self.port);
        let mut command = kvorum_lab(&["load"]);
        command.args(words.split_whitespace());
        command.args(["--keys", "100", "--connections", "4", "--url", &target]);
        command.arg("--json").arg(self.file());
        Process::spawn(&mut command)
    }

    fn loaded(&self, words: &str) -> ProcessEnd {
        self.load(words).end()
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("run.json")
    }

    /// Waits until a load over four connections has put so many keys that one of
    /// them must have received a response.
    fn wait_until_put(&self) {
        const ENTITY_BYTES: usize = 16 + 1 + 64;
        wait_until("ten keys that were put", || {
            let target = "/v0/entities?start=0&limit=10";
            let (status, body) = request(self.port, "GET", target, b"")?;
            (status == 200 && body.len() >= 10 * ENTITY_BYTES).then_some(())
        });
    }

    fn measured(&self) -> Value {
        json(&self.file())
    }
}

fn json(file: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

#[test]
fn a_load_reads_the_values_of_a_fill() {
    let node = Node::start();
    let end = node.loaded("fill --value-bytes 10..5000");
    assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""));
    assert_eq!(node.measured()["succeeded"], 100);

    let end = node.loaded("get --duration 1s --warmup 0 --rate 500 --threads 2");
    assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""));
    let run = node.measured();
    assert_eq!(
        (&run["due"], &run["missing"]),
        (&Value::from(500), &Value::from(0))
    );
    assert!(run["succeeded"].as_u64().unwrap() > 0);
    assert!(run["failed"].get("wrong value").is_none(), "{run}");

    // Scans return the stored entities, and no more than the limit.
    let end = node.loaded("scan --scan-limit 10 --duration 1s --warmup 0");
    assert_eq!(end.code, Some(0), "{end:?}");
    let run = node.measured();
    let (entities, scans) = (run["entities"].as_u64(), run["succeeded"].as_u64());
    assert!(
        entities > scans && entities <= scans.map(|scans| scans * 10),
        "{run}"
    );
}

#[test]
fn a_wrong_value_is_an_error() {
    let node = Node::start();
    assert_eq!(node.loaded("fill").code, Some(0));
    let target = "/v0/entity?id=000000000042k---";
    assert_eq!(request(node.port, "GET", target, b"").unwrap().0, 200);
    let wrong = [7; 64];
    assert_eq!(request(node.port, "PUT", target, &wrong).unwrap().0, 201);

    let words = "get --key-choice sequential --duration 1s --warmup 0";
    let end = node.loaded(words);
    assert_eq!(end.code, Some(1));
    assert!(end.line().contains("never put"), "{end:?}");
    let run = node.measured();
    assert!(run["failed"]["wrong value"].as_u64().unwrap() > 0);
    assert!(run["succeeded"].as_u64().unwrap() > 0);

    let end = node.loaded(&format!("{words} --verify off"));
    assert_eq!(end.code, Some(0), "{end:?}");
}

#[test]
fn an_unreachable_node_is_reported_in_one_line() {
    let url = format!("http://127.0.0.1:{}", free_port());
    let end = Process::spawn(&mut kvorum_lab(&["load", "put", "--url", &url])).end();
    assert_eq!(end.code, Some(1));
    assert!(end.line().contains(&url), "{end:?}");
}

#[test]
fn an_interrupted_load_keeps_its_measurements() {
    let node = Node::start();
    let mut load = node.load("put --duration 1h --warmup 0");
    node.wait_until_put();
    load.signal(Signal::INT);
    let end = load.end();
    assert_eq!(end.code, Some(130));
    assert!(end.line().contains("SIGINT"), "{end:?}");
    let run = node.measured();
    assert!(run["succeeded"].as_u64().unwrap() > 0);
    assert!(run["cut_short"].is_string());
}

#[test]
fn the_death_of_the_node_ends_the_load_and_keeps_its_measurements() {
    let node = Node::start();
    let mut load = node.load("put --duration 1h --warmup 0");
    node.wait_until_put();
    node.process.signal(Signal::KILL);
    let end = load.end();
    assert_eq!(end.code, Some(1));
    assert!(end.line().contains("no target could be reached"), "{end:?}");
    assert!(node.measured()["succeeded"].as_u64().unwrap() > 0);
}

#[test]
fn a_search_reports_its_probes() {
    let node = Node::start();
    // A strict bound ends the search soon.
    let words = "put --find-breaking-point --rate 4 --p99 1ms --duration 300ms --warmup 0";
    let end = node.loaded(&format!("{words} --ack 1 --from 1"));
    let found = node.measured();
    let probes = found["probes"].as_array().unwrap();
    assert!(!probes.is_empty());
    match found["rate"].as_f64() {
        Some(rate) => {
            assert_eq!(end.code, Some(0), "{end:?}");
            assert_eq!(found["best"]["plan"]["rate"]["per_second"], rate);
        }
        None => assert!(end.line().contains("no rate held"), "{end:?}"),
    }
}

#[test]
fn reports_show_a_run_and_runs_side_by_side() {
    let node = Node::start();
    let folder = tempfile::tempdir().unwrap();
    let report = |name: &str| folder.path().join(name).display().to_string();
    let page = |name: &str| std::fs::read_to_string(folder.path().join(name).join("index.html"));
    let words = "put --duration 300ms --warmup 0 --label <first>";
    let end = node.loaded(&format!("{words} --report {}", report("one")));
    assert_eq!(end.code, Some(0), "{end:?}");
    assert!(page("one").unwrap().contains("<th>&lt;first&gt;</th>"));

    let kept = node.file().display().to_string();
    let compared = report("two");
    let arguments = ["load", "compare", &kept, &kept, "--report", &compared];
    let end = Process::spawn(&mut kvorum_lab(&arguments)).end();
    assert_eq!(end.code, Some(0), "{end:?}");
    let both = "<th>&lt;first&gt;</th><th>&lt;first&gt;</th>";
    assert!(page("two").unwrap().contains(both));

    std::fs::write(folder.path().join("other"), "{}").unwrap();
    let end = Process::spawn(&mut kvorum_lab(&["load", "compare", &report("other")])).end();
    assert_eq!(end.code, Some(1));
    assert!(end.line().contains("kvorum-lab load --json"), "{end:?}");
}
