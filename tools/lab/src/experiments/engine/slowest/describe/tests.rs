use super::super::floor::SyncTimes;
use super::*;
use crate::testing::{assert_contains, page_text, run};

fn write(at_ms: f64, latency_ms: f64, cause: Cause) -> SlowWrite {
    SlowWrite {
        at_seconds: at_ms / 1e3,
        latency_ms,
        cause,
        is_at_peer: false,
        cause_ms: latency_ms / 2.0,
        is_behind_another: false,
        longest_sync_ms: 1.0,
        moments_ms: BTreeMap::from([("sent", 0.0), ("received", latency_ms)]),
    }
}

fn case(goal: Option<f64>, p99_ms: f64, writes: Vec<SlowWrite>) -> Case {
    Case {
        name: "1/1, sync",
        goal,
        flushes: goal.is_none(),
        pairs: Ok(Vec::new()),
        explained: Ok(Explained {
            run: run(15_000.0, 15_000, p99_ms),
            writes,
            syncs: SyncTimes::new([1.0, 2.0, 4.0]),
            group_bytes: 2048.0,
            flushes: 3.0,
            compactions: 1.0,
            left_out: 0,
        }),
    }
}

/// Pairs in which nginx has this p99 while the load has 9 ms.
fn pairs_beside(nginx_p99_ms: &[f64]) -> Vec<Pair> {
    let pair = |p99_ms: &f64| Pair {
        nginx: run(15_000.0, 15_000, *p99_ms),
        own: run(15_000.0, 15_000, 9.0),
    };
    nginx_p99_ms.iter().map(pair).collect()
}

fn page(cases: &[Case]) -> String {
    let floor = Floor {
        syncs: SyncTimes::new([0.5, 0.5, 1.0]),
        group_bytes: 2048,
    };
    page_text(|page| describe(page, cases, Some(&floor)))
}

#[test]
fn causes_are_counted_and_the_goal_is_judged() {
    let writes = vec![
        write(100.0, 30.0, Cause::Sync),
        write(101.0, 20.0, Cause::Sync),
        write(300.0, 10.0, Cause::Generator),
        SlowWrite {
            is_behind_another: true,
            ..write(102.0, 8.0, Cause::Sync)
        },
    ];
    let mut case = case(Some(2.0), 9.0, writes);
    case.pairs = Ok(pairs_beside(&[9.0, 5.0, 3.0]));
    let cases = [case];
    let text = page(&cases);
    assert_contains(
        &text,
        &[
            "The 4 slowest took 8.00 ms or more. They come from 2 stalls; the largest holds 3",
            "the most frequent cause is the sync of its group (75% of the slowest writes, 10.0 ms",
            "the p99.9 is 1.80 times nginx's, which reaches the goal of 2.00",
            "the sync of its group, behind another",
            "| the disk alone ",
            "1.00, 1.80, 3.00",
        ],
    );
    assert!(!text.contains("took longer than"), "{text}");
    let [mut case] = cases;
    case.pairs = Ok(pairs_beside(&[9.0, 4.0, 3.0]));
    let text = page(&[case]);
    assert_contains(
        &text,
        &["2.25 times nginx's, which misses the goal of 2.00"],
    );
}

#[test]
fn a_load_that_is_too_much_is_called_so() {
    let case = |due| {
        let mut case = case(Some(2.0), 9.0, vec![write(1.0, 2.0, Cause::Queue)]);
        if let Ok(explained) = &mut case.explained {
            explained.run.due = Some(due);
        }
        page(&[case])
    };
    let text = case(30_000);
    assert_contains(
        &text,
        &["1/1, sync: only 50% of the writes that were due were done."],
    );
    let text = case(15_001);
    assert!(!text.contains("were due were done"), "{text}");
}

#[test]
fn without_nginx_the_page_says_so() {
    let mut case = case(Some(2.0), 9.0, vec![write(1.0, 2.0, Cause::Queue)]);
    case.pairs = Err("nginx cannot be started: gone".to_owned());
    let text = page(&[case]);
    assert_contains(
        &text,
        &[
            "1/1, sync, beside nginx: nginx cannot be started: gone.",
            "queued otherwise",
        ],
    );
    assert!(!text.contains("times nginx's"), "{text}");
}

#[test]
fn long_writes_count_apart_where_the_device_took_that_long() {
    let synced = SlowWrite {
        longest_sync_ms: 60.0,
        ..write(0.0, 70.0, Cause::Sync)
    };
    let writes = vec![
        synced,
        write(1.0, 60.0, Cause::Queue),
        write(2.0, 40.0, Cause::Queue),
    ];
    let text = page(&[case(None, 9.0, writes)]);
    assert_contains(
        &text,
        &["through 3 flushes and 1 compactions 1 writes took longer than 50.0 ms, and 1 more"],
    );
}

#[test]
fn a_failed_measurement_is_listed() {
    let failed = Case {
        explained: Err("the node answered 404".to_owned()),
        ..case(Some(2.0), 9.0, Vec::new())
    };
    assert_contains(
        &page(&[failed]),
        &["Not measured:", "1/1, sync: the node answered 404"],
    );
}
