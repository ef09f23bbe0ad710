//! Repair writes that wait in a store, while it holds its writers back.

use super::{
    GC_GRACE, LONG, gc_threshold, is_value, its_tombstone, old_value, places,
    raise_gc_threshold_above, run, store, three,
};
use cluster::comparison::RepairKind;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// An incremental repair has sent a version to a node, and then its sender got a tombstone of one
/// copy for it. The version waits while a full repair scans that node, so that one compares
/// nothing. It must not come in behind it, once all others have dropped the tombstone.
#[test]
fn a_repair_write_that_waits_when_a_timestamp_is_closed_does_not_outlive_its_tombstone() {
    run(three(), async |world| {
        let [own, coordinator, lacking] = places(&world)[..] else {
            unreachable!("the key has three replicas");
        };
        sleep(GC_GRACE).await;
        // The incremental repair goes on for as long as its coordinator waits for the third node.
        for (from, to) in [(own, coordinator), (coordinator, own)] {
            world.network.set_delay(from, to, &(200..=200));
        }
        let hosts = [own, coordinator, lacking].map(|number| &world.hosts[number]);
        hosts[0].order_repair(RepairKind::Incremental);
        sleep(Duration::from_millis(50)).await;
        hosts[2].set_commit_wait(LONG);
        let running = hosts[0].running_session(RepairKind::Incremental).unwrap();
        let session = running.answer.await.unwrap().expect("it is running");
        let late = hosts[0].send_repair_write(session, lacking, old_value(3));
        let late = late.unwrap();
        sleep(Duration::from_millis(50)).await;
        hosts[2].set_commit_wait(Duration::ZERO);
        for (from, to) in [(own, coordinator), (coordinator, own)] {
            world.network.set_delay(from, to, &(0..=1));
        }
        store(hosts[0], &its_tombstone(1)).await;
        let began = Instant::now();
        let timestamp = its_tombstone(1).timestamp();
        let are_all_raised = || hosts.iter().all(|host| gc_threshold(host) > timestamp);
        while !are_all_raised() && began.elapsed() < LONG / 2 {
            hosts[1].order_repair(RepairKind::Full);
            sleep(Duration::from_millis(50)).await;
        }
        assert!(are_all_raised() && !is_value(hosts[2]), "the repair waits");
        late.answer.await.unwrap();
        sleep(LONG).await;
        raise_gc_threshold_above(&world, timestamp).await;
        for _ in 0..4 {
            hosts.iter().for_each(|host| host.compact());
            hosts[1].order_repair(RepairKind::Full);
            sleep(GC_GRACE).await;
        }
        let is_back = hosts.map(|host| is_value(host));
        assert_eq!(is_back, [false; 3]);
    });
}
