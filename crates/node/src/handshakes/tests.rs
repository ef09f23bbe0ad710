//! What a node tells and believes in a handshake, with its whole store.

use super::*;
use crate::config::NodeConfig;
use crate::node::Node;
use crate::tests::open_node;
use base::{Entry, Expiry, ManualClock};
use cluster::{Member, Members, NodeUrl};
use lsm::{Disk, Durability};
use lsm_testing::{BlockingWrite, MemoryDisk, StepExecutor};
use std::task::{Context, Poll, Waker};
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

/// Old enough for a forget bound.
fn at(ms: u64) -> Timestamp {
    let grace = Duration::from_secs(10 * 24 * 3600);
    Timestamp::from_unix_ms(NOW_UNIX_MS - grace.as_millis() as u64 + ms)
}

/// The peer knows a greater forget bound than the store was ever fenced at. What it sends
/// afterwards may be late, and would come in behind the passes of the
/// others.
#[test]
fn a_handshake_ends_only_once_the_store_refuses_what_is_below_the_bound() {
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
    );
    let late = Entry::tombstone(b"k", at(9), 3);
    let ours = handshakes.hello_to(Some("b"), NOW_UNIX_MS);
    let theirs = Hello {
        name: "b".to_owned(),
        store_id: 77,
        starts: [77].into(),
        forgotten: at(10),
        fence: at(10),
        ..ours.clone()
    };
    let mut recorded = handshakes.record_peer(&theirs, &ours);
    let mut context = Context::from_waker(Waker::noop());
    let is_refused = || {
        let admission = lsm::Admission::Ordinary;
        let mut ingest = node.engine.begin_ingest(admission).unwrap();
        ingest.push(&late).unwrap();
        matches!(ingest.commit(), Err(lsm::Error::Obsolete { .. }))
    };
    assert!(recorded.as_mut().poll(&mut context).is_pending());
    for _ in 0..1_000 {
        executor.run_one(|_| 0);
        clock.advance(Duration::from_millis(1));
        if let Poll::Ready(watch) = recorded.as_mut().poll(&mut context) {
            assert!(
                is_refused(),
                "the handshake ends before the store is fenced"
            );
            assert!(watch.is_some());
            return;
        }
    }
    panic!("the handshake does not end");
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
