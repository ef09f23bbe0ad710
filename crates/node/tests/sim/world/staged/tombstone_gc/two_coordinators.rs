//! Nodes that coordinate full repairs at the same time.

use super::{GC_GRACE, LONG, gc_threshold, raise_gc_threshold_above, run, three};
use crate::clock::BEGIN_UNIX_MS;
use crate::host::{Crash, key_bytes};
use crate::scenario::Scenario;
use crate::value;
use base::{Entry, Expiry, Timestamp};
use checker::OperationId;
use cluster::comparison::RepairKind;
use cluster::repair::SessionId;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const KEYS: u64 = 200;

fn old_value(key: u64) -> Entry {
    let timestamp = Timestamp::from_unix_ms(BEGIN_UNIX_MS - 10_000 + key);
    let value = value::of(OperationId(0), 30);
    Entry::value(&key_bytes(key), timestamp, &value, Expiry::NEVER, 3)
}

/// Several ranges.
fn scenario() -> Scenario {
    Scenario {
        keys: KEYS,
        range_keys: 64,
        ..three()
    }
}

/// Each of the two sees the third node, which takes part in one session at a time. So they do not
/// end each other's sessions for ever, and none of them raises the threshold.
#[test]
fn two_coordinators_that_do_not_see_each_other_both_come_to_the_end() {
    run(scenario(), async |world| {
        for host in &world.hosts {
            for key in 0..KEYS {
                host.store(old_value(key)).unwrap();
            }
        }
        for (from, to) in [(0, 1), (1, 0)] {
            world.network.cut(from, to);
        }
        sleep(GC_GRACE).await;
        let coordinators = [&world.hosts[0], &world.hosts[1]];
        let before = coordinators.map(|host| host.full_repairs());
        for host in coordinators {
            host.order_repair(RepairKind::Full);
        }
        sleep(4 * LONG).await;
        for (host, before) in coordinators.into_iter().zip(before) {
            assert!(host.full_repairs() > before, "its repairs do not end");
        }
        for host in &world.hosts {
            assert_eq!(gc_threshold(host), Timestamp::ZERO, "a member was missing");
        }
        for (from, to) in [(0, 1), (1, 0)] {
            world.network.heal(from, to);
        }
        raise_gc_threshold_above(&world, old_value(KEYS).timestamp()).await;
    });
}

/// A node that was restarted does not know that a session goes on in which it took part. It is the
/// first by name, so it would begin one of its own.
#[test]
fn a_node_that_is_restarted_ends_no_session_of_others() {
    run(scenario(), async |world| {
        for host in &world.hosts {
            for key in 0..KEYS {
                host.store(old_value(key)).unwrap();
            }
        }
        sleep(GC_GRACE).await;
        let (restarted, coordinator) = (&world.hosts[0], &world.hosts[1]);
        for to in [0, 2] {
            world.network.set_delay(1, to, &(200..=200));
        }
        let running = async || {
            let running = world.hosts[2].running_session(RepairKind::Full);
            match running.unwrap().answer.await.unwrap() {
                Some(SessionId::Full(token)) => Some(token.session),
                _ => None,
            }
        };
        coordinator.order_repair(RepairKind::Full);
        let session = loop {
            if let Some(session) = running().await {
                break session;
            }
            sleep(Duration::from_millis(10)).await;
        };
        restarted.crash(Crash::Kill);
        world.start(0);
        let began = Instant::now();
        while running().await.is_some() && began.elapsed() < LONG {
            assert_eq!(running().await.unwrap_or(session), session);
            restarted.order_repair(RepairKind::Full);
            sleep(Duration::from_millis(10)).await;
        }
        assert!(began.elapsed() < LONG, "the session does not end");
    });
}
