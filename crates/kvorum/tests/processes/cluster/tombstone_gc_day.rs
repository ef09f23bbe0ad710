//! A day of writes, deletes and expiries in a minute, with a GC grace of seconds: nodes are
//! killed, away for longer than the GC grace, and restored from an old copy. What was deleted
//! never returns, and nothing of it is left in the end.

use crate::fixtures::cluster::{ClusterNode, TestCluster};
use crate::support::{copy_folder, kvorum, run_to_end, wait_until, wait_until_ok};
use http_testing::Connection;

/// Each round writes so many keys.
const KEYS: usize = 60;
const VALUE_BYTES: usize = 1_000;
/// The rounds of the day.
const ROUNDS: usize = 5;
/// One of so many keys stays.
const KEPT: usize = 10;

/// How a key ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Kept,
    Deleted,
    Expired,
}

fn end_of(key: usize) -> End {
    match (key % KEPT, key % 2) {
        (0, _) => End::Kept,
        (_, 0) => End::Deleted,
        _ => End::Expired,
    }
}

fn target(round: usize, key: usize, pair: &str) -> String {
    format!("/v0/entity?id=r{round}k{key:04}&replicas={pair}")
}

/// Sends a request until it succeeds: a node that was killed takes a moment to be noticed.
fn send(connection: &mut Connection, method: &str, target: &str, body: &[u8]) {
    wait_until_ok(target, || {
        let answer = connection.request(method, target, "", body).unwrap();
        match answer.status {
            200..300 | 404 => Ok(()),
            status => Err(status),
        }
    });
}

/// Writes the keys of a round, and deletes those that do not stay or expire.
fn write_round(node: &ClusterNode, round: usize) {
    let mut connection = node.connect().unwrap();
    for key in 0..KEYS {
        let ttl = match end_of(key) {
            End::Expired => "&ttl=1",
            End::Kept | End::Deleted => "",
        };
        let target = target(round, key, "2/3") + ttl;
        send(&mut connection, "PUT", &target, &[7; VALUE_BYTES]);
    }
    for key in (0..KEYS).filter(|key| end_of(*key) == End::Deleted) {
        send(&mut connection, "DELETE", &target(round, key, "2/3"), b"");
    }
}

/// Checks every key of some rounds at every node, with each pair in turn: every pair meets every
/// node, and every end. `expected` gives the status, unless either will do.
fn check(cluster: &TestCluster, rounds: usize, expected: impl Fn(usize, End) -> Option<u16>) {
    for (place, node) in cluster.nodes.iter().enumerate() {
        let mut connection = node.connect().unwrap();
        for (round, key) in (0..rounds).flat_map(|round| (0..KEYS).map(move |key| (round, key))) {
            let Some(expected) = expected(round, end_of(key)) else {
                continue;
            };
            let pair = ["1/3", "2/3", "3/3"][(place + key + key / KEPT) % 3];
            let target = target(round, key, pair);
            let status = wait_until_ok(&target, || {
                let answer = connection.request("GET", &target, "", b"").unwrap();
                match answer.status {
                    504 => Err("it took too long"),
                    status => Ok(status),
                }
            });
            assert_eq!(status, expected, "{} {target}", node.name);
        }
    }
}

fn now_unix_ms(cluster: &TestCluster) -> u64 {
    let status = cluster[0].status().unwrap();
    status["clock"]["unix_ms"].as_u64().unwrap()
}

fn wait_until_collected(cluster: &TestCluster, up_to_unix_ms: u64) {
    wait_until_ok("the GC threshold to rise on all nodes", || {
        let bounds = cluster.nodes.iter().map(|node| {
            let status = node.status().unwrap();
            status["tombstone_gc"]["gc_threshold_unix_ms"].as_u64()
        });
        let bounds: Vec<Option<u64>> = bounds.collect();
        if bounds.iter().all(|bound| *bound > Some(up_to_unix_ms)) {
            Ok(())
        } else {
            Err((bounds, up_to_unix_ms))
        }
    });
}

#[test]
fn a_day_of_deletes_ends_small_and_brings_nothing_back() {
    let mut cluster = TestCluster::start_with(&[
        "--gc-grace=3s",
        "--hint-age-max=1s",
        "--clock-drift-max=1s",
        "--repair-interval=1s",
        "--full-repair-interval=2s",
        // A store that lacks something is rebuilt once no request from before is left.
        "--timeout=2s",
    ]);

    // Morning: the third node is copied with what is deleted later, and started once more,
    // so that the others know of a later start than the copy has.
    let mut connection = cluster[0].connect().unwrap();
    for key in 0..KEYS {
        let target = target(0, key, "3/3");
        send(&mut connection, "PUT", &target, &[7; VALUE_BYTES]);
    }
    let copy = cluster.folder.path().join("copy");
    cluster[2].stop();
    copy_folder(&cluster[2].data, &copy);
    cluster[2].start(&[]);
    cluster.wait_until_joined();
    write_round(&cluster[0], 0);

    // The coordinator of the full repair sessions is killed in the middle of one.
    wait_until("a session to run", || {
        let status = cluster[0].status().ok()?;
        let running = status["repair"]["running"].as_array()?;
        (!running.is_empty()).then_some(())
    });
    cluster[0].kill();
    write_round(&cluster[1], 1);
    cluster[0].start(&[]);
    cluster.wait_until_joined();
    wait_until_collected(&cluster, now_unix_ms(&cluster));
    check(&cluster, 2, |_, end| match end {
        End::Kept => Some(200),
        End::Deleted => Some(404),
        // By the clock of each node.
        End::Expired => None,
    });

    // Noon: a node is away for longer than the GC grace and all hints, and comes back with
    // what was deleted meanwhile.
    cluster[1].kill();
    let away_since_unix_ms = now_unix_ms(&cluster);
    for round in [0, 1] {
        let mut connection = cluster[0].connect().unwrap();
        for key in (0..KEYS).filter(|key| end_of(*key) == End::Kept) {
            send(&mut connection, "DELETE", &target(round, key, "2/3"), b"");
        }
    }
    write_round(&cluster[2], 2);
    wait_until("the GC grace to pass", || {
        (now_unix_ms(&cluster) > away_since_unix_ms + 4_000).then_some(())
    });
    cluster[1].start(&[]);
    cluster.wait_until_joined();
    write_round(&cluster[1], 3);
    wait_until_collected(&cluster, now_unix_ms(&cluster));
    check(&cluster, 2, |_, end| match end {
        End::Kept | End::Deleted => Some(404),
        End::Expired => None,
    });

    // Evening: the third node's folder is restored from the copy of the morning.
    cluster[2].kill();
    std::fs::remove_dir_all(&cluster[2].data).unwrap();
    copy_folder(&copy, &cluster[2].data);
    cluster[2].start(&[]);
    cluster[2].wait_until_replica_state("voter");
    write_round(&cluster[0], 4);
    let written_unix_ms = now_unix_ms(&cluster);

    // Night: nothing of the deleted is left anywhere. What has expired goes a minute later.
    wait_until_collected(&cluster, written_unix_ms + 2_000);
    let url = format!("http://{}", cluster[0].location.address);
    wait_until_ok("nothing but what was kept, or has expired", || {
        let words = ["admin", "compact", "--wait", "--url", &url];
        let compacted = run_to_end(&mut kvorum(&words));
        assert!(compacted.status.success(), "{compacted:?}");
        let stores = cluster.nodes.iter().map(|node| {
            let store = node.status().unwrap()["store"].clone();
            (store["entries"].as_u64(), store["tombstones"].as_u64())
        });
        let stores: Vec<_> = stores.collect();
        let kept = (ROUNDS - 2) * KEYS / KEPT;
        let most = (kept + ROUNDS * KEYS / 2) as u64;
        let is_small = |(entries, tombstones): &(Option<u64>, Option<u64>)| {
            *entries <= Some(most) && *tombstones == Some(0)
        };
        if stores.iter().all(is_small) {
            Ok(())
        } else {
            Err(stores)
        }
    });
    check(&cluster, ROUNDS, |round, end| {
        let is_kept = end == End::Kept && round > 1;
        Some(if is_kept { 200 } else { 404 })
    });
}
