use super::*;
use crate::Plan;
use crate::plan::Operation;
use crate::results::{Bound, LatencyDistribution, MachineInfo};
use std::collections::BTreeMap;

fn run() -> Run {
    Run {
        format: 1,
        label: "get at 1000/s".to_owned(),
        plan: Plan::new("http://h:1", Operation::Get, Rate::PerSecond(1_000.0)),
        machine: MachineInfo::default(),
        started_unix_ms: 0,
        version: "0.1.0".to_owned(),
        measured_seconds: 10.0,
        cut_short: None,
        due: Some(10_000),
        succeeded: 9_000,
        failed: BTreeMap::from([("503".to_owned(), 900)]),
        missing: 3,
        entities: 0,
        operations: 0,
        body_bytes: 640_000,
        latency: LatencyDistribution {
            count: 9_000,
            mean_ms: 0.25,
            max_ms: 12.0,
            spectrum: vec![(50.0, 0.2), (99.0, 1.5), (100.0, 12.0)],
        },
        timeline: Vec::new(),
        marks: Vec::new(),
    }
}

#[test]
fn a_summary_counts_all_requests_that_did_not_succeed() {
    let text = of_run(&run());
    let lines = [
        "get at 1000/s: 10.0 s over 64 connections and 1 thread to http://h:1",
        "100000 keys of 16 B, uniform; values of 64 B",
        "  due         10000 requests, 1000/s",
        "  succeeded   9000 requests, 900/s, 90.00% of requests due",
        "  failed      900 × 503",
        "  unanswered  100 requests due had no response at the end",
        "  missing     3 successful requests found nothing",
        "  bodies      62.5 KiB/s",
        "  latency, from when a request was due",
        "         50%      200 us",
        "         99%     1.50 ms",
        "        100%     12.0 ms",
        "        mean      250 us",
    ];
    for line in lines {
        assert!(text.lines().any(|shown| shown == line), "{line} in\n{text}");
    }
    assert!(
        !text.contains("cut short") && !text.contains("entities"),
        "{text}"
    );
}

#[test]
fn the_summary_of_a_closed_loop_does_not_mention_due_requests() {
    let closed = Run {
        due: None,
        cut_short: Some("it was stopped".to_owned()),
        ..run()
    };
    let text = of_run(&closed);
    assert!(text.contains("cut short: it was stopped"), "{text}");
    assert!(!text.contains("due"), "{text}");
    assert!(text.contains("from when a request was sent"), "{text}");
}

#[test]
fn the_summary_of_a_search_lists_its_probes() {
    let probe = |rate, held| Probe {
        rate,
        achieved: rate,
        p99_ms: 3.0,
        failed_share: 0.0,
        held,
    };
    let found = BreakingPoint {
        format: 1,
        label: "breaking point of put".to_owned(),
        started_unix_ms: 0,
        version: "0.1.0".to_owned(),
        bound: Bound::default(),
        rate: Some(1_000.0),
        probes: vec![probe(1_000.0, true), probe(2_000.0, false)],
        best: None,
        cut_short: None,
    };
    let text = of_search(&found);
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].ends_with("held") && lines[1].ends_with("not held"),
        "{text}"
    );
    assert_eq!(
        lines[2],
        "breaking point of put: 1000/s (at least 99% of the requests due, \
         99% of them within 10.0 ms, at most 0.1% failed)"
    );
}

#[test]
fn a_run_survives_a_round_trip_through_json() {
    let run = run();
    let json = serde_json::to_string(&run).unwrap();
    assert_eq!(serde_json::from_str::<Run>(&json).unwrap(), run);
}
