//! Each state that needs an operator, as the status of a node says it.

use super::advice::{of, of_node};
use super::overview::{Asked, NoStatus, NodeStatus};
use crate::failure::Failure;
use serde_json::{Value, json};

/// What a node says that is well.
pub(super) fn status() -> Value {
    json!({
        "name": "a", "uptime_seconds": 7200, "state": "serving", "replica_state": "voter",
        "cluster": [
            {
                "name": "a", "url": "http://h:1", "state": "this node",
                "hints": 0, "hint_bytes": 0,
            },
            {
                "name": "b", "url": "http://h:2", "state": "up",
                "hints": 0, "hint_bytes": 0,
                "last_repair_unix_ms": 9_000_000, "last_full_repair_unix_ms": 9_000_000,
            },
        ],
        "clock": {"unix_ms": 10_000_000},
        "hints": {"age_max_seconds": 10_800, "bytes_max": 1000},
        "background": {"share": 1.0},
        "repair": {
            "running": [],
            "incremental": {"interval_seconds": 600, "incomplete": 0},
            "full": {"interval_seconds": 1800, "incomplete": 0},
        },
        "store": {"poisoned": null, "failing": null, "disk_full": false, "tables_damaged": 0, "damaged_ranges": 0},
    })
}

/// A node that has answered with its status.
pub(super) fn asked(status: Value) -> Asked {
    let status: NodeStatus = serde_json::from_value(status).unwrap();
    Asked {
        name: status.name.clone(),
        url: "http://h:1".to_owned(),
        status: Ok(status),
    }
}

/// A node that has not answered.
pub(super) fn unreachable(name: &str) -> Asked {
    Asked {
        name: name.to_owned(),
        url: "http://h:2".to_owned(),
        status: Err(NoStatus::Unreachable(Failure::failed(format!(
            "{name} is gone"
        )))),
    }
}

/// The advice for a node whose status has another value at `pointer`.
fn advice_with(pointer: &str, value: Value, others: &[&str]) -> String {
    let mut status = status();
    match status.pointer_mut(pointer) {
        Some(place) => *place = value,
        None => {
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            status.pointer_mut(parent).unwrap()[name] = value;
        }
    }
    let status: NodeStatus = serde_json::from_value(status).unwrap();
    of_node(&status, others).join("\n")
}

#[test]
fn a_node_that_is_well_needs_nobody() {
    assert_eq!(advice_with("/replica_state", json!("voter"), &[]), "");
    // It is filled, or confirmed, by itself.
    assert_eq!(advice_with("/replica_state", json!("learner"), &[]), "");
    assert_eq!(advice_with("/replica_state", json!("starting"), &[]), "");
    assert_eq!(advice_with("/cluster/0/hints", json!(99), &[]), "");
}

#[test]
fn each_state_that_needs_an_operator_has_a_line() {
    for (pointer, value, others, word) in [
        ("/replica_state", json!("learner"), &["b"][..], "start b"),
        (
            "/replica_state",
            json!("starting"),
            &["b", "c"],
            "start b and c",
        ),
        (
            "/clock/others_ahead_ms",
            json!(-3000),
            &[],
            "clock is 3 s ahead of",
        ),
        ("/clock/others_ahead_ms", json!(9000), &[], "9 s behind"),
        (
            "/cluster/1/hint_bytes",
            json!(600),
            &[],
            "60% of their room",
        ),
        (
            "/cluster/1/last_full_repair_unix_ms",
            json!(6_300_000),
            &[],
            "no full repair has found it equal with b",
        ),
        (
            "/clock/refuses_writes",
            json!("the clock is wrong"),
            &[],
            "the clock is wrong",
        ),
        (
            "/store/poisoned",
            json!("a sync failed"),
            &[],
            "a sync failed",
        ),
        (
            "/store/failing",
            json!("the folder is gone"),
            &[],
            "cannot write files (the folder is gone)",
        ),
        ("/store/disk_full", json!(true), &[], "disk is full"),
        (
            "/store/tables_damaged",
            json!(2),
            &[],
            "2 of its tables are damaged. Check its disk, then run 'kvorum admin repair --full",
        ),
        (
            "/store/damaged_ranges",
            json!(3),
            &[],
            "3 key ranges of its store may lie in a damaged block",
        ),
        ("/store/damaged_ranges", json!(3), &["b"], "start b"),
        (
            "/cluster/1/last_repair_unix_ms",
            json!(6_300_000),
            &[],
            "equal with b",
        ),
        (
            "/cluster/1/last_repair_unix_ms",
            json!(null),
            &[],
            "more than 60 minutes",
        ),
    ] {
        let advice = advice_with(pointer, value, others);
        assert!(advice.starts_with("a: "), "{pointer}: {advice}");
        assert!(advice.contains(word), "{pointer}: {advice}");
        assert_eq!(advice.lines().count(), 1, "{advice}");
    }
}

#[test]
fn what_may_be_lost_is_said_by_the_node_that_knows_most() {
    let asked = |node: &str, writes_max: u64, incomplete: bool, text: &str| {
        let mut status = status();
        status["may_be_lost"] = json!({
            "nodes": [node], "writes_max": writes_max, "incomplete": incomplete, "text": text,
        });
        asked(status)
    };
    let some = |node: &str| asked(node, 7, false, "up to 7 are lost");
    let none = |node: &str| asked(node, 0, false, "none is lost");
    let unknown = |node: &str| asked(node, 0, true, "how many is not known");
    let remedy = ". Clients that know what they wrote can write it again";
    let lines = |texts: &[&str]| -> Vec<String> {
        texts.iter().map(|text| format!("{text}{remedy}")).collect()
    };
    for (reports, expected) in [
        (
            vec![some("b"), some("b"), none("b")],
            lines(&["up to 7 are lost"]),
        ),
        (vec![unknown("b"), none("b")], lines(&[])),
        (
            vec![unknown("b"), unknown("b")],
            lines(&["how many is not known"]),
        ),
        (
            vec![some("b"), unknown("c")],
            lines(&["up to 7 are lost", "how many is not known"]),
        ),
    ] {
        assert_eq!(of(&reports), expected);
    }
}

#[test]
fn sweeps_that_clients_leave_no_time_have_a_line() {
    let advice = |share: f64, running: Value| {
        let mut status = status();
        status["background"]["share"] = json!(share);
        status["repair"]["running"] = running;
        let status: NodeStatus = serde_json::from_value(status).unwrap();
        of_node(&status, &[]).join("\n")
    };
    let running = || json!([{"kind": "full", "began_unix_ms": 9_000_000, "ranges": 3}]);
    assert_eq!(advice(0.02, json!([])), "", "nothing waits for it");
    assert_eq!(advice(0.5, running()), "");
    let low = advice(0.02, running());
    assert!(low.contains("2% of their time"), "{low}");
}

#[test]
fn a_forced_voter_needs_a_full_sweep() {
    let mut status = status();
    status["replica_state"] = json!("forced_voter");
    // Never, and before it was started: it may have been restored from a copy since.
    for last_full_clean in [json!(null), json!(10_000_000 - 8_000_000)] {
        status["cluster"][1]["last_full_repair_unix_ms"] = last_full_clean;
        let status: NodeStatus = serde_json::from_value(status.clone()).unwrap();
        let advice = of_node(&status, &[]).join("\n");
        let accepted = "may lack data: run 'kvorum admin repair --full";
        assert!(advice.contains(accepted), "{advice}");
    }
}

#[test]
fn a_store_that_full_sweeps_have_not_filled_has_a_line() {
    let mut status = status();
    status["replica_state"] = json!("learner");
    status["repair"]["full"]["incomplete"] = json!(3);
    let advice = |status: &Value| {
        let status: NodeStatus = serde_json::from_value(status.clone()).unwrap();
        of_node(&status, &[]).join("\n")
    };
    let failed = advice(&status);
    assert!(
        failed.contains("3 full repairs have not filled"),
        "{failed}"
    );
    // It may be equal with all, and not count for another reason.
    let mut held_back = status.clone();
    held_back["learner_because"] = json!("the clock of c is wrong");
    held_back["repair"]["full"]["incomplete"] = json!(0);
    let held_back = advice(&held_back);
    assert!(
        held_back.contains("not count: the clock of c"),
        "{held_back}"
    );
    let running = json!([{"kind": "full", "began_unix_ms": 9_000_000, "ranges": 3}]);
    status["repair"]["running"] = running;
    assert_eq!(advice(&status), "", "one fills it now");
}

#[test]
fn nobody_mends_a_damaged_table_of_a_lone_node() {
    // A table that does not open leaves a damaged range, also on a node alone.
    for damaged_ranges in [0, 1] {
        let mut status = status();
        status["cluster"].as_array_mut().unwrap().pop();
        status["store"]["tables_damaged"] = json!(1);
        status["store"]["damaged_ranges"] = json!(damaged_ranges);
        let status: NodeStatus = serde_json::from_value(status).unwrap();
        let advice = of_node(&status, &[]).join("\n");
        assert!(advice.contains("restore the last copy"), "{advice}");
        assert!(!advice.contains("repair"), "{advice}");
    }
}

#[test]
fn only_a_node_that_does_not_answer_is_to_be_started() {
    let mut status = status();
    status["replica_state"] = json!("learner");
    let asked = |no_status: NoStatus| {
        let asked = [
            Asked {
                name: "a".to_owned(),
                url: "http://h:1".to_owned(),
                status: Ok(serde_json::from_value(status.clone()).unwrap()),
            },
            Asked {
                name: "b".to_owned(),
                url: "http://h:2".to_owned(),
                status: Err(no_status),
            },
        ];
        of(&asked).join("\n")
    };
    let away = asked(NoStatus::Unreachable(Failure::failed("b is gone")));
    assert!(away.contains("b: b is gone. Start it"), "{away}");
    assert!(away.contains("all nodes are up: start b"), "{away}");
    let other = asked(NoStatus::NotGiven(Failure::failed("b refuses")));
    assert_eq!(other, "b: b refuses");
}

#[test]
fn two_nodes_that_answer_and_cannot_reach_each_other_have_a_line() {
    let mut status = status();
    let member = &mut status["cluster"][1];
    member["state"] = json!("down");
    member["down_seconds"] = json!(59);
    let of = |status: &Value, unreachable: &[&str]| {
        let status: NodeStatus = serde_json::from_value(status.clone()).unwrap();
        of_node(&status, unreachable).join("\n")
    };
    assert_eq!(of(&status, &[]), "", "it may just be starting");
    status["cluster"][1]["down_seconds"] = json!(60);
    let advice = of(&status, &[]);
    assert!(advice.contains("no connection to b for 60s"), "{advice}");
    assert_eq!(of(&status, &["b"]), "");
}

#[test]
fn a_node_that_is_away_longer_than_hints_are_kept_is_told_apart() {
    let advice = |down_seconds: u64| {
        let mut status = status();
        status["cluster"][1]["down_seconds"] = json!(down_seconds);
        of(&[asked(status), unreachable("b")]).join("\n")
    };
    assert!(advice(10_800).starts_with("b: b is gone. Start it,"));
    let longer = advice(20_000);
    let expected = "b: b is gone. It has been away for 5h, and hints are kept for 3h: a repair";
    assert!(longer.starts_with(expected), "{longer}");
}

#[test]
fn a_restored_store_needs_nobody_but_all_nodes() {
    let mut status = status();
    status["replica_state"] = json!("learner");
    status["clock"]["refuses_writes"] = json!("restored");
    let status: NodeStatus = serde_json::from_value(status).unwrap();
    let advice = |unreachable: &[&str]| of_node(&status, unreachable).join("\n");
    assert!(advice(&["c"]).contains("start c"), "{}", advice(&["c"]));
    assert_eq!(advice(&[]), "");
}

#[test]
fn a_store_that_a_full_sweep_has_filled_needs_nobody() {
    let mut status = status();
    status["replica_state"] = json!("forced_voter");
    let status: NodeStatus = serde_json::from_value(status).unwrap();
    assert!(of_node(&status, &[]).is_empty());
}

#[test]
fn no_sweep_is_missed_where_none_is_due() {
    let no_interval = advice_with("/repair/recent", json!({"incomplete": 0}), &[]);
    assert_eq!(no_interval, "");
    // The node that cannot be reached has a line of its own.
    let unreachable = advice_with("/cluster/1/last_repair_unix_ms", json!(null), &["b"]);
    assert_eq!(unreachable, "");
    // A node that has just started has not been found equal yet.
    let mut young = status();
    young["uptime_seconds"] = json!(60);
    young["cluster"][1]["last_repair_unix_ms"] = json!(null);
    let young: NodeStatus = serde_json::from_value(young).unwrap();
    assert!(of_node(&young, &[]).is_empty());
}

#[test]
fn limits_of_values_that_differ_are_named() {
    let nodes = |limits: &[Option<u64>]| -> Vec<Asked> {
        let with = |(limit, name): (&Option<u64>, &str)| {
            let mut status = status();
            status["name"] = json!(name);
            if let Some(limit) = limit {
                status["value_bytes_max"] = json!(limit);
            }
            asked(status)
        };
        limits.iter().zip(["a", "b", "c"]).map(with).collect()
    };
    let named = |limits: &[Option<u64>]| -> Vec<String> {
        let lines = of(&nodes(limits)).into_iter();
        lines.filter(|line| line.contains("413")).collect()
    };
    assert_eq!(named(&[Some(7), None, Some(7)]), [""; 0]);
    let lines = named(&[Some(7), Some(5), Some(7)]);
    let [line] = &*lines else {
        panic!("{lines:?}");
    };
    assert!(line.contains("5 bytes at b and 7 at"), "{line}");
}
