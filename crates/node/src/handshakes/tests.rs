//! What a node tells and believes in a handshake, with its whole store.

use super::*;
use crate::config::NodeConfig;
use crate::node::Node;
use crate::tests::open_node;
use base::{Entry, Expiry, ManualClock};
use cluster::{Member, Members, NodeUrl};
use lsm::{Disk, Durability};
use lsm_testing::{BlockingWrite, MemoryDisk, StepExecutor};
use std::time::Duration;

const NOW_UNIX_MS: u64 = 1_800_000_000_000;

/// Three nodes, of which this one is `a`.
fn members() -> Members {
    let urls =
        ["http://a:1", "http://b:1", "http://c:1"].map(|url| url.parse::<NodeUrl>().unwrap());
    let nodes = ["a", "b", "c"].into_iter().zip(&urls);
    let nodes = nodes.map(|(name, url)| Member::named(name, url.clone()).unwrap());
    Members::new(nodes.collect(), &urls[0]).unwrap()
}

/// Old enough for a GC threshold.
fn at(ms: u64) -> Timestamp {
    let gc_grace = Duration::from_secs(10 * 24 * 3600);
    Timestamp::from_unix_ms(NOW_UNIX_MS - gc_grace.as_millis() as u64 + ms)
}

/// From the moment when the peer names it the store does not count, unless it has helped to raise
/// it; that becomes durable afterwards.
#[test]
fn the_gc_threshold_of_a_hello_is_heard() {
    let clock = Arc::new(ManualClock::new(NOW_UNIX_MS));
    let executor = Arc::new(StepExecutor::new(Arc::clone(&clock)));
    let config = NodeConfig::new(members(), "/data");
    let disk = Arc::new(MemoryDisk::new());
    let node = open_node(config, 1 << 20, disk, &clock, &executor);
    let handshakes = NodeHandshakes::new(
        node.membership.clone(),
        Arc::clone(&node.timestamps),
        Arc::clone(&node.store_side),
        Arc::clone(&node.dialled),
        Protocol::OWN,
        None,
        0,
    );
    let ours = handshakes.hello_to(Some("b"), NOW_UNIX_MS);
    assert_eq!(ours.gc_threshold, Timestamp::ZERO);
    let theirs = Hello {
        name: "b".to_owned(),
        store_id: 77,
        starts: [77].into(),
        gc_threshold: at(10),
        replica_state: ReplicaState::Voter,
        ..ours.clone()
    };
    let _recorded = handshakes.record_peer(&theirs, &ours);
    assert!(node.store_side.shared().is_behind());
    assert_eq!(node.store_side.record().gc_threshold, Timestamp::ZERO);
    executor.run_all_due();
    assert_eq!(node.store_side.record().gc_threshold, at(10));
    assert_eq!(node.membership.replica_state(), ReplicaState::Learner);
    let next = handshakes.hello_to(Some("b"), NOW_UNIX_MS);
    assert_eq!(next.gc_threshold, at(10));
    assert_eq!(next.replica_state, ReplicaState::Learner);
}

/// A run of a node, on this disk, that does not sync its commits.
fn open(memory: MemoryDisk) -> (Node, Arc<StepExecutor>, Arc<MemoryDisk>) {
    let memory = Arc::new(memory);
    let clock = Arc::new(ManualClock::new(NOW_UNIX_MS));
    let executor = Arc::new(StepExecutor::new(Arc::clone(&clock)));
    let config = NodeConfig {
        durability: Durability::Os,
        ..NodeConfig::new(members(), "/data")
    };
    let disk = Arc::clone(&memory) as Arc<dyn Disk>;
    let node = open_node(config, 4 << 10, disk, &clock, &executor);
    (node, executor, memory)
}

/// So a peer cannot remember more than a power cut leaves.
#[test]
fn what_is_told_of_acknowledged_writes_is_durable() {
    let (node, executor, memory) = open(MemoryDisk::new());
    let (mut told_at_most, mut lost_at_most) = (0, 0);
    for number in 0..400_u64 {
        let key = format!("k{}", number % 40);
        let timestamp = Timestamp::from_unix_ms(NOW_UNIX_MS + number);
        let entry = Entry::value(key.as_bytes(), timestamp, &[7; 100], Expiry::NEVER, 1);
        node.engine.write(entry).unwrap();
        if number % 7 == 0 {
            executor.run_all_due();
        }
        let told = node.membership.durable_acknowledged();
        assert!(told >= told_at_most);
        told_at_most = told;
        if number % 5 == 0 {
            let (after, ..) = open(memory.clone_synced());
            let left = after.engine.acknowledged().total;
            assert!(told <= left, "{told} were told of, and {left} are left");
            lost_at_most = lost_at_most.max(number + 1 - left);
        }
    }
    assert!(
        told_at_most > 50 && lost_at_most > 5,
        "{told_at_most} {lost_at_most}"
    );
}
