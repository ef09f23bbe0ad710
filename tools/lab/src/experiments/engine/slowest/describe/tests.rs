use super::super::floor::SyncTimes;
use super::*;
use crate::testing::run;

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

fn page(cases: &[Case]) -> Page {
    let floor = Floor {
        syncs: SyncTimes::new([0.5, 0.5, 1.0]),
        group_bytes: 2048,
    };
    let mut page = Page::new("test");
    describe(&mut page, cases, Some(&floor));
    page
}

#[test]
fn causes_stalls_and_pairs_are_counted() {
    let writes = vec![
        write(100.0, 60.0, Cause::Sync),
        SlowWrite {
            longest_sync_ms: 55.0,
            ..write(101.0, 59.0, Cause::Sync)
        },
        write(300.0, 10.0, Cause::Generator),
        SlowWrite {
            is_behind_another: true,
            ..write(102.0, 8.0, Cause::Sync)
        },
    ];
    let mut case = case(Some(2.0), 9.0, writes);
    case.pairs = Ok(pairs_beside(&[9.0, 5.0, 3.0]));
    let results = page(&[case]).results;
    for (name, expected) in [
        ("writes", "4"),
        ("least", "8.00 ms"),
        ("stalls", "2"),
        ("largest stall", "3"),
        ("long", "1"),
        ("long syncs", "1"),
    ] {
        assert_eq!(
            results.values[&format!("1/1, sync: {name}")],
            expected,
            "{name}"
        );
    }
    let cell = |table: &str, row, column| results.tables[table].cell(row, column);
    let nginx = |column| cell("beside-nginx", "1/1, sync", column);
    assert_eq!(nginx("p99.9 beside nginx"), Some("1.80"));
    assert_eq!(nginx("of all pairs"), Some("1.00, 1.80, 3.00"));
    let sync = |column| cell("causes-1", "the sync of its group", column);
    assert_eq!(sync("share of the slowest"), Some("75%"));
    assert_eq!(cell("syncs", "the disk alone", "p50"), Some("500 us"));
    assert_eq!(
        cell("slowest-1", "last", "cause"),
        Some("the sync of its group, behind another")
    );
}

#[test]
fn what_failed_is_listed() {
    let failed = Case {
        pairs: Err("nginx cannot be started: gone".to_owned()),
        explained: Err("the node answered 404".to_owned()),
        ..case(Some(2.0), 9.0, Vec::new())
    };
    assert_eq!(
        page(&[failed]).results.failed,
        [
            "1/1, sync, beside nginx: nginx cannot be started: gone",
            "1/1, sync: the node answered 404"
        ]
    );
}
