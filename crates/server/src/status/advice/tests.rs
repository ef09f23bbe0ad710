//! The cases of `cases.txt`, and that alerts and runbooks are those that the advice means.

use super::thresholds::*;
use super::*;
use api::cluster::ReportNumbers;
use api::status::Status;
use serde_json::{Value, json};

/// The handbook.
const RUNBOOKS: &str = include_str!("../../../../../docs/how-to/runbooks.md");

/// What a node of a cluster says that is well.
pub(in crate::status) fn well(name: &str, names: &[&str]) -> Value {
    let member = |member: &&str| {
        json!({
            "name": member, "url": format!("http://{member}:1"),
            "state": if *member == name { "this node" } else { "up" }, "replica_state": "voter",
            "hints": 0, "hint_bytes": 0,
            "last_repair_unix_ms": 9_999_000_000_u64, "last_full_repair_unix_ms": 9_999_000_000_u64,
        })
    };
    json!({
        "name": name, "url": format!("http://{name}:1"), "version": "1", "uptime_seconds": 7200,
        "state": "serving", "replica_state": "voter",
        "cluster": names.iter().map(member).collect::<Vec<_>>(),
        "value_bytes_max": 1000,
        "clock": {
            "unix_ms": 10_000_000_000_u64, "greatest_timestamp": "1", "timestamp_ahead_ms": 0,
            "timestamp_bound": "1", "proven": true,
        },
        "hints": {"age_max_seconds": 10_800, "bytes_max": 1000},
        "repair": {
            "running": [],
            "incremental": {"interval_seconds": 600, "succeeded": 1, "incomplete": 0},
            "full": {"interval_seconds": 604_800, "succeeded": 1, "incomplete": 0},
            "repair_writes_sent": 0, "repair_writes_received": 0, "ranges_compared": 0,
            "ranges_differing": 0, "non_owned_offered": 0,
        },
        "tombstone_gc": {"gc_grace_seconds": 864_000},
        "background": {"share": 1.0},
        "store": {
            "id": "1", "state": "open", "entries": 0, "tombstones": 0, "tables_damaged": 0,
            "damaged_ranges": 0, "table_bytes": 0, "memtable_bytes": 0, "log_bytes": 0,
            "cache_bytes": 0, "disk_full": false, "failing": null, "poisoned": null,
        },
    })
}

/// A node of a case.
struct Node {
    status: Value,
    missed: Option<String>,
    status_missed: Option<String>,
    requests_a_second: f64,
    free_bytes: Option<u64>,
    disk_bytes: Option<u64>,
}

impl Node {
    /// Sets a value, where a pointer may name a node of the cluster instead of its index.
    fn set(&mut self, pointer: &str, value: Value) {
        let mut at = &mut self.status;
        for part in pointer.split('/').skip(1) {
            at = if let Value::Array(nodes) = at {
                let mut nodes = nodes.iter_mut();
                nodes.find(|node| node["name"] == part).unwrap()
            } else {
                &mut at[part]
            };
        }
        *at = value;
    }
}

/// The advice on what the lines of a case say, a line each.
fn advised(lines: &[&str]) -> String {
    let (mut names, mut own) = (vec!["a", "b", "c"], "a");
    for line in lines {
        if let Some(given) = line.strip_prefix("nodes ") {
            names = given.split(' ').collect();
        } else if let Some(given) = line.strip_prefix("asked ") {
            own = given;
        }
    }
    let node = |name: &&str| Node {
        status: well(name, &names),
        missed: None,
        status_missed: None,
        requests_a_second: 0.0,
        free_bytes: None,
        disk_bytes: None,
    };
    let mut nodes: Vec<Node> = names.iter().map(node).collect();
    let facts = lines.iter();
    for line in facts.filter(|line| !line.starts_with("nodes ") && !line.starts_with("asked ")) {
        let (of, fact) = line.split_once(' ').unwrap();
        let (what, value) = fact.split_once(' ').unwrap_or((fact, ""));
        for (name, node) in names.iter().zip(&mut nodes) {
            if *name != of && of != "all" {
                continue;
            }
            match what {
                "misses" => node.missed = Some(value.to_owned()),
                "untold" => node.status_missed = Some(value.to_owned()),
                "requests" => node.requests_a_second = value.parse().unwrap(),
                "free" => node.free_bytes = Some(value.parse().unwrap()),
                "disk" => node.disk_bytes = Some(value.parse().unwrap()),
                pointer => node.set(pointer, serde_json::from_str(value).unwrap()),
            }
        }
    }
    let nodes: Vec<ClusterNode> = names.iter().zip(nodes).map(seen).collect();
    let lines = of(own, &nodes, None).into_iter().map(|advice| {
        assert!(
            RUNBOOKS.contains(&format!("\n## {}\n", advice.runbook)),
            "no runbook has the heading {:?}",
            advice.runbook
        );
        format!("{} {advice} [{}]", advice.severity.word(), advice.runbook)
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn seen((name, node): (&&str, Node)) -> ClusterNode {
    let has_told = node.missed.is_none();
    ClusterNode {
        name: (*name).to_owned(),
        url: format!("http://{name}:1"),
        missed: node.missed,
        report: has_told.then_some(ReportNumbers {
            data_bytes: 0,
            free_bytes: node.free_bytes,
            disk_bytes: node.disk_bytes,
            hints: 0,
            background_share: 1.0,
            requests_a_second: node.requests_a_second,
            reads: None,
            writes: None,
        }),
        status: (has_told && node.status_missed.is_none())
            .then(|| serde_json::from_value(node.status).unwrap()),
        status_missed: node.status_missed,
        recent: None,
    }
}

#[test]
fn the_advice_is_that_of_the_cases() {
    let cases = include_str!("cases.txt");
    let (mut found, mut number) = (String::new(), 0);
    for case in cases.split("\n== ").skip(1) {
        let (title, rest) = case.split_once('\n').unwrap();
        let (facts, _) = rest.split_once("--\n").unwrap();
        let lines: Vec<&str> = facts.lines().filter(|line| !line.is_empty()).collect();
        found += &format!("\n== {title}\n{facts}--\n");
        let advice = advised(&lines);
        if !advice.is_empty() {
            found += &advice;
            found += "\n";
        }
        number += 1;
    }
    let (head, _) = cases.split_once("\n== ").unwrap();
    assert!(number > 30, "{number}");
    let found = format!("{head}{found}");
    assert!(
        found == cases,
        "if this is what the advice should be, paste it into cases.txt:\n{found}"
    );
}

#[test]
fn a_status_that_is_told_is_read_and_one_of_a_later_release_too() {
    let mut told = well("a", &["a", "b"]);
    told["later"] = json!({"field": 1});
    told["cluster"][0]["later"] = json!(2);
    let status: Status = serde_json::from_value(told).unwrap();
    let again: Status = serde_json::from_slice(&serde_json::to_vec(&status).unwrap()).unwrap();
    assert_eq!(again.cluster.len(), 2);
}

/// The thresholds that alerts share, by the alert and the part of its expression.
#[test]
fn alerts_have_the_thresholds_of_the_advice() {
    let week = FULL_REPAIR_INTERVAL_SECONDS;
    let full = repair_seconds_max(week, FULL_REPAIR_INTERVALS_MAX);
    let grace = 10 * 86_400;
    let recent = repair_seconds_max(600, REPAIR_INTERVALS_MAX);
    let clock_seconds = CLOCK_AHEAD_MS_MAX / 1000;
    for (alert, parts) in [
        ("clock wrong", vec![format!("> {clock_seconds}`")]),
        (
            "repairs get no time",
            vec![format!(
                "kvorum_background_share <= {BACKGROUND_SHARE_LOW} "
            )],
        ),
        ("hints fill up", vec![format!("> {HINT_SHARE_MAX} * ")]),
        (
            "no successful repair",
            vec![
                format!("last_success_timestamp_seconds > {recent} "),
                format!("> {recent})`"),
            ],
        ),
        (
            "no full repair",
            vec![
                format!("last_full_success_timestamp_seconds > {full} "),
                format!("> {full})`"),
            ],
        ),
        (
            "GC threshold is old",
            vec![format!("> {} ", grace + full), format!("> {full})`")],
        ),
        (
            "certificate expires",
            vec![format!("time() < {CERTIFICATE_SECONDS_MIN} ")],
        ),
    ] {
        let begin = format!("\n| {alert} | ");
        let (_, row) = RUNBOOKS.split_once(&begin).expect(alert);
        let row = row.lines().next().unwrap();
        for part in parts {
            assert!(row.contains(&part), "{alert}: no {part:?} in {row}");
        }
    }
}
