//! A handshake with a peer that knows a greater forget bound than a store was ever fenced at.

use super::*;
use crate::config::NodeConfig;
use crate::membership::NodeHandshakes;
use crate::testing::open_node;
use base::Entry;
use peer::HandshakePolicy;
use std::task::{Context, Poll, Waker};

const NOW_UNIX_MS: u64 = 1_800_000_000_000;

/// Old enough for a forget bound.
fn at(ms: u64) -> Timestamp {
    let grace = Duration::from_secs(10 * 24 * 3600);
    Timestamp::from_unix_ms(NOW_UNIX_MS - grace.as_millis() as u64 + ms)
}

/// What the peer sends afterwards may be late, and would come in behind the passes of the
/// others.
#[test]
fn it_ends_only_once_the_store_refuses_what_is_below_the_bound() {
    let clock = Arc::new(ManualClock::new(NOW_UNIX_MS));
    let executor = Arc::new(StepExecutor::new(Arc::clone(&clock)));
    let config = NodeConfig::new(members("a", &NODES), "/data");
    let disk = Arc::new(MemoryDisk::new());
    let node = open_node(config, 1 << 20, disk, &clock, &executor);
    let handshakes = NodeHandshakes::new(
        node.membership.clone(),
        Arc::clone(&node.timestamps),
        Arc::clone(&node.forgetting),
        Arc::clone(&node.dialled),
        Protocol::OWN,
        None,
    );
    let late = Entry::tombstone(b"k", at(9), 3);
    let ours = handshakes.hello_to(Some("b"), NOW_UNIX_MS);
    let theirs = Hello {
        forgotten: at(10),
        fence: at(10),
        unix_ms: NOW_UNIX_MS,
        members_hash: ours.members_hash,
        ..hello(77)
    };
    let theirs = Hello {
        name: "b".to_owned(),
        ..theirs
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
