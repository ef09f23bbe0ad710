//! Healing under load, as an operator meets it: a node that was away for longer than
//! hints are kept, and a node whose folder is gone. Nobody reads, and no operator does
//! anything but start processes; all stores become equal all the same.

#![expect(
    clippy::disallowed_methods,
    reason = "the folders belong to other processes, and failures are counted by the second"
)]

use crate::fixtures::cluster::TestCluster;
use crate::fixtures::generated_load::GeneratedLoad;
use crate::support::{wait_until, wait_until_ok};
use load::Plan;
use load::plan::{Operation, Rate, SizeDistribution};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Keys that the load writes, and their values in bytes: enough that a session has several
/// ranges, and that a store is rebuilt in more than one step.
const KEYS: u64 = 30_000;
const VALUE_BYTES: usize = 1000;

/// No version is above it.
const CUT: &str = "18446744073709551615";

/// A load of writes with 2/3.
struct Load {
    running: GeneratedLoad,
    begin: Instant,
    /// When something was done to a node, since the begin.
    faults: Vec<Duration>,
}

impl Load {
    /// Starts to write through these nodes.
    fn start(cluster: &TestCluster, targets: &[usize]) -> Self {
        let url = |target: &usize| format!("http://{}", cluster[*target].location.address);
        let plan = Plan {
            targets: targets.iter().map(url).collect(),
            connections: 8,
            warmup_seconds: 0.0,
            seconds: 600.0,
            keys: KEYS,
            value_bytes: SizeDistribution::Fixed(VALUE_BYTES),
            replicas: Some((2, 3)),
            ..Plan::new("", Operation::Put, Rate::PerSecond(300.0))
        };
        Self {
            running: GeneratedLoad::start(plan),
            begin: Instant::now(),
            faults: Vec::new(),
        }
    }

    /// Something is done to a node now: requests of the next second may fail.
    fn fault(&mut self) {
        self.faults.push(self.begin.elapsed());
    }

    /// Ends the load, and checks that no request failed but in the first second after a
    /// fault.
    fn end(self) {
        let run = self.running.end();
        assert!(run.succeeded > 0, "{:?}", run.failed);
        for second in &run.timeline {
            let at = second.at_seconds;
            // A second of the timeline ends where the next one begins.
            let is_expected = |fault: &Duration| {
                let fault = fault.as_secs_f64();
                (fault - 1.0..=fault + 2.0).contains(&at)
            };
            assert!(
                second.failed == 0 || self.faults.iter().any(is_expected),
                "at {at} s, with faults at {:?}: {:?}",
                self.faults,
                run.failed
            );
        }
    }
}

/// What a node keeps, as `/v0/digest` tells.
fn digest(cluster: &TestCluster, node: usize) -> Result<Value, String> {
    digest_of(cluster, node, &format!("start=0&cut={CUT}"))
}

fn digest_of(cluster: &TestCluster, node: usize, query: &str) -> Result<Value, String> {
    let target = format!("/v0/digest?{query}");
    let answer = cluster[node]
        .connect()
        .and_then(|mut connection| connection.request("GET", &target, "", b""));
    let answer = answer.map_err(|error| error.to_string())?;
    assert_eq!(answer.status, 200);
    Ok(answer.json())
}

/// Waits until all three stores keep the same.
fn wait_until_equal(cluster: &TestCluster) {
    wait_until_ok("three equal stores", || {
        // Below the greatest GC threshold one node may have dropped what another still has.
        let bounds =
            [0, 1, 2].map(|node| digest(cluster, node).map(|it| it["gc_threshold"].clone()));
        let bounds = bounds.iter().flatten().filter_map(Value::as_str);
        let greatest = bounds.filter_map(|bound| bound.parse::<u64>().ok()).max();
        let query = format!("start=0&cut={CUT}&gc_threshold={}", greatest.unwrap_or(0));
        let digests = [0, 1, 2].map(|node| digest_of(cluster, node, &query));
        let is_equal = digests
            .iter()
            .all(|other| other.is_ok() && *other == digests[0]);
        if is_equal { Ok(()) } else { Err(digests) }
    });
}

/// Waits until a node takes part in a session.
fn wait_until_in_session(cluster: &TestCluster, node: usize) {
    wait_until("a session to run", || {
        let status = cluster[node].status().ok()?;
        let running = status["repair"]["running"].as_array()?;
        (!running.is_empty()).then_some(())
    });
}

fn start_cluster() -> TestCluster {
    TestCluster::start_with(&[
        // A repair first waits for as long as requests may take.
        "--timeout=3s",
        "--durability",
        "os",
        "--hint-age-max",
        "1s",
        "--repair-interval",
        "1s",
    ])
}

#[test]
fn stores_become_equal_after_a_long_absence_and_after_a_lost_disk() {
    let mut cluster = start_cluster();

    // The third node is away for longer than its hints are kept.
    let mut load = Load::start(&cluster, &[0, 1]);
    wait_until("some writes", || {
        let count = digest(&cluster, 2).ok()?["count"].as_u64()?;
        (count > 100).then_some(())
    });
    load.fault();
    cluster[2].kill();
    wait_until("hints to be dropped", || {
        let page = cluster[0]
            .connect()
            .ok()?
            .request("GET", "/metrics", "", b"")
            .ok()?;
        let page = String::from_utf8(page.body).ok()?;
        let dropped = page
            .lines()
            .filter(|line| line.starts_with("kvorum_hints_dropped_total"));
        let dropped: f64 = dropped
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum();
        (dropped > 0.0).then_some(())
    });
    cluster[2].start(&[]);
    cluster.wait_until_joined();
    load.end();

    // The coordinator of a session is killed in the middle of it, and another node takes over.
    let mut load = Load::start(&cluster, &[1, 2]);
    wait_until_in_session(&cluster, 0);
    load.fault();
    cluster[0].kill();
    wait_until_in_session(&cluster, 1);
    cluster[0].start(&[]);
    cluster.wait_until_joined();
    load.end();
    wait_until_equal(&cluster);

    // The second node loses its folder, and is killed once more while it is rebuilt.
    let mut load = Load::start(&cluster, &[0, 2]);
    load.fault();
    cluster[1].kill();
    std::fs::remove_dir_all(&cluster[1].data).unwrap();
    cluster[1].start(&[]);
    cluster[1].wait_until_replica_state("learner");
    wait_until_in_session(&cluster, 1);
    load.fault();
    cluster[1].kill();
    cluster[1].start(&[]);
    cluster[1].wait_until_replica_state("voter");
    load.end();
    wait_until_equal(&cluster);
}
