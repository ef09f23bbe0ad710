//! Repair writes of a session from before it went back to a checkpoint.

use super::{GC_GRACE, LONG, gc_threshold, raise_gc_threshold_above, run, three};
use crate::clock::BEGIN_UNIX_MS;
use crate::host::{Crash, key_bytes};
use crate::network::HostNumber;
use crate::scenario::Scenario;
use crate::value;
use base::{Entry, Expiry, Kind, Timestamp};
use checker::OperationId;
use cluster::comparison::RepairKind;
use cluster::repair::SessionId;
use std::cell::Cell;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const KEYS: u64 = 200;

/// The last key, as they are ordered by their bytes. It is behind the first checkpoint.
const LAST: u64 = 99;

fn old_value(key: u64) -> Entry {
    let timestamp = Timestamp::from_unix_ms(BEGIN_UNIX_MS - 10_000 + key);
    let value = value::of(OperationId(0), 30);
    Entry::value(&key_bytes(key), timestamp, &value, Expiry::NEVER, 3)
}

/// A session sends a version to a node and loses its sender before the version arrives. Its
/// coordinator does not wait for it any more: another attempt begins at the checkpoint, and compares
/// the key again. By then the sender has a tombstone of one copy. The version comes behind that
/// comparison, with the token of the attempt before.
#[test]
fn a_repair_write_of_the_attempt_before_is_refused() {
    let (gone_on, risen) = (Cell::new(0), Cell::new(0));
    let scenario = Scenario {
        keys: KEYS,
        range_keys: 16,
        ..three()
    };
    for requests in 5..45 {
        run(scenario.clone(), async |world| {
            let preference_list = world.preference_list(&key_bytes(LAST), 3);
            let [own, coordinator, lacking] = [0, 1, 2].map(|place| preference_list[place].index());
            let timestamp = Timestamp::from_unix_ms(BEGIN_UNIX_MS - 5_000);
            let tombstone = Entry::tombstone(&key_bytes(LAST), timestamp, 1);
            world.hosts[own].store(tombstone).unwrap();
            for host in &world.hosts {
                for key in (0..KEYS).filter(|key| *key != LAST) {
                    host.store(old_value(key)).unwrap();
                }
            }
            sleep(GC_GRACE).await;
            let is_value = |number: HostNumber| {
                let held = world.hosts[number].held(LAST).unwrap();
                held.is_some_and(|held| held.kind() == Kind::Value)
            };
            let leading = &world.hosts[coordinator];
            // The session takes longer than the restart of a node.
            world.network.set_delay(coordinator, lacking, &(50..=50));
            let before = world.hosts[lacking].repair_requests().unwrap_or(0);
            leading.order_repair(RepairKind::Full);
            let began = Instant::now();
            let requests_of = |number: HostNumber| world.hosts[number].repair_requests();
            // Behind the first checkpoint.
            while requests_of(lacking) < Some(before + 16) && began.elapsed() < LONG {
                sleep(Duration::from_millis(1)).await;
            }
            let running = leading.running_session(RepairKind::Full).unwrap();
            let session = running.answer.await.unwrap().expect("the repair goes on");
            world.hosts[own].crash(Crash::Kill);
            world.start(own);
            while requests_of(own) < Some(requests) && began.elapsed() < LONG {
                sleep(Duration::from_millis(1)).await;
            }
            let running = world.hosts[lacking].running_session(RepairKind::Full);
            let running = running.unwrap().answer.await.unwrap();
            let goes_on = running.is_some_and(|running| match (running, session) {
                (SessionId::Full(running), SessionId::Full(before)) => {
                    running.session == before.session && running > before
                }
                _ => false,
            });
            let late = world.hosts[own].send_repair_write(session, lacking, old_value(LAST));
            late.unwrap().answer.await.unwrap();
            assert!(
                !goes_on || !is_value(lacking),
                "it came with the token before"
            );
            gone_on.set(gone_on.get() + u32::from(goes_on));
            sleep(LONG / 2).await;
            risen.set(risen.get() + u32::from(goes_on && gc_threshold(leading) > timestamp));
            raise_gc_threshold_above(&world, timestamp).await;
            for _ in 0..4 {
                world.hosts.iter().for_each(|host| host.compact());
                leading.order_repair(RepairKind::Full);
                sleep(GC_GRACE).await;
            }
            let held: Vec<HostNumber> = (0..3).filter(|number| is_value(*number)).collect();
            assert!(
                held.is_empty(),
                "it is on {held:?}, after {requests} requests"
            );
        });
    }
    assert!(
        gone_on.get() > 3 && risen.get() > 0,
        "{gone_on:?} {risen:?}"
    );
}
