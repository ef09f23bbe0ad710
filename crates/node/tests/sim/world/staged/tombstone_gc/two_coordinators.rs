//! Several nodes that coordinate full repairs, at the same time or one after the other.

use super::{GC_GRACE, LONG, World, gc_threshold, raise_gc_threshold_above, run, three};
use crate::clock::BEGIN_UNIX_MS;
use crate::host::{Crash, key_bytes};
use crate::network::HostNumber;
use crate::scenario::Scenario;
use crate::value;
use base::{Entry, Expiry, Timestamp};
use checker::OperationId;
use cluster::comparison::RepairKind;
use cluster::repair::SessionId;
use std::ops::RangeInclusive;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const KEYS: u64 = 200;

/// The delay of a path on which a session takes long. A peer connects by six messages within a second,
/// so a longer one would let nobody connect again.
const SLOW_MS: RangeInclusive<u64> = 150..=150;

/// How long a coordinator that was restarted has to go on with its session.
const GOING_ON_MAX: Duration = Duration::from_secs(10);

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

/// The full session that a host takes part in.
async fn running(world: &World, host: HostNumber) -> Option<u64> {
    let running = world.hosts[host].running_session(RepairKind::Full);
    match running?.answer.await.unwrap() {
        Some(SessionId::Full(token)) => Some(token.session),
        _ => None,
    }
}

/// The full session that hosts come to take part in.
async fn begun(world: &World, hosts: [HostNumber; 2]) -> u64 {
    loop {
        let [one, other] = [
            running(world, hosts[0]).await,
            running(world, hosts[1]).await,
        ];
        match one.filter(|_| one == other) {
            Some(session) => return session,
            None => sleep(Duration::from_millis(10)).await,
        }
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
            world.network.set_delay(1, to, &SLOW_MS);
        }
        coordinator.order_repair(RepairKind::Full);
        let session = begun(&world, [0, 2]).await;
        restarted.crash(Crash::Kill);
        world.start(0);
        let began = Instant::now();
        while let Some(running) = running(&world, 2).await
            && began.elapsed() < LONG
        {
            assert_eq!(running, session);
            restarted.order_repair(RepairKind::Full);
            sleep(Duration::from_millis(10)).await;
        }
        assert!(began.elapsed() < LONG, "the session does not end");
    });
}

/// How a coordinator goes away for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Away {
    /// It is restarted before its first checkpoint, so that it knows nothing of its session.
    Restarted,
    /// The network cuts it off until its session has ended without the others.
    CutOff,
}

#[test]
fn another_node_coordinates_after_one_that_is_restarted_and_does_not_go_on() {
    begins_again_after(Away::Restarted);
}

#[test]
fn another_node_coordinates_after_one_that_was_cut_off_and_does_not_go_on() {
    begins_again_after(Away::CutOff);
}

/// A coordinator goes away in a session and comes back, and does not go on with it. The others do
/// not keep to that session until it has been silent for long: another of them coordinates the next
/// one, which brings what the first has not, and the GC threshold rises.
fn begins_again_after(away: Away) {
    const COORDINATOR: HostNumber = 1;
    const OTHERS: [HostNumber; 2] = [0, 2];
    // A coordinator that some store refuses meanwhile gives way for half a minute.
    let over_after = GOING_ON_MAX + Duration::from_secs(40);
    run(scenario(), async |world| {
        for host in &world.hosts[..2] {
            for key in 0..KEYS {
                host.store(old_value(key)).unwrap();
            }
        }
        sleep(GC_GRACE).await;
        for to in OTHERS {
            world.network.set_delay(COORDINATOR, to, &SLOW_MS);
        }
        let coordinator = &world.hosts[COORDINATOR];
        let repairs = coordinator.full_repairs();
        coordinator.order_repair(RepairKind::Full);
        let session = begun(&world, OTHERS).await;
        match away {
            Away::Restarted => {
                coordinator.crash(Crash::Kill);
                world.start(COORDINATOR);
            }
            Away::CutOff => {
                for to in OTHERS {
                    world.network.cut(COORDINATOR, to);
                    world.network.cut(to, COORDINATOR);
                }
                while coordinator.full_repairs() == repairs {
                    sleep(Duration::from_millis(100)).await;
                }
                for to in OTHERS {
                    world.network.heal(COORDINATOR, to);
                    world.network.heal(to, COORDINATOR);
                }
            }
        }
        let back = Instant::now();
        let next = loop {
            world.hosts[0].order_repair(RepairKind::Full);
            match running(&world, 2).await {
                Some(next) if next != session => break next,
                _ => sleep(Duration::from_millis(100)).await,
            }
            assert!(
                back.elapsed() < over_after,
                "{away:?}: the session is not over"
            );
        };
        if away == Away::Restarted {
            assert!(back.elapsed() >= GOING_ON_MAX, "it might have gone on");
        }
        assert!(next > session, "{away:?}");
        raise_gc_threshold_above(&world, old_value(KEYS).timestamp()).await;
        for host in &world.hosts {
            for key in 0..KEYS {
                assert_eq!(host.held(key).unwrap(), Some(old_value(key)), "{away:?}");
            }
        }
    });
}
