//! A full repair that a restart interrupts goes on near where it was: it does little more work than one
//! that nothing interrupts.

use super::{World, calm, run, until};
use crate::clock::BEGIN_UNIX_MS;
use crate::host::{CHECKPOINT_RANGES, Copy, Crash, Host, key_bytes};
use crate::network::HostNumber;
use crate::scenario::Scenario;
use crate::value;
use base::{Entry, Expiry, Timestamp};
use checker::OperationId;
use cluster::comparison::RepairKind;
use node::RepairCounts;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::sleep;

/// The host that coordinates the repair, the one whose folder is lost, and another one.
const COORDINATOR: HostNumber = 0;
const LOST: HostNumber = 1;
const OTHER: HostNumber = 2;

/// A scan ahead ends after half of the keys of a range.
const RANGES: u64 = 20;
const KEYS: u64 = RANGES * RANGE_KEYS as u64 / 2;
const RANGE_KEYS: usize = 64;

/// What a restart may cost: the ranges since the last checkpoint, and the one that was compared.
const AGAIN_MAX: u64 = CHECKPOINT_RANGES as u64 + 1;

/// After how many ranges the restart comes.
const INTERRUPTED_AFTER: std::ops::Range<u64> = 1..RANGES;

fn three() -> Scenario {
    Scenario {
        nodes: 3,
        keys: KEYS,
        range_keys: RANGE_KEYS,
        timeout: Duration::from_millis(300),
        ..calm()
    }
}

fn old_value(key: u64) -> Entry {
    let timestamp = Timestamp::from_unix_ms(BEGIN_UNIX_MS - 10_000 + key);
    let value = value::of(OperationId(0), 30);
    Entry::value(&key_bytes(key), timestamp, &value, Expiry::NEVER, 3)
}

fn counts(host: &Host) -> RepairCounts {
    host.repair_counts().unwrap_or_default()
}

/// Gives all hosts all keys, and has a full repair compare them; then restarts a host once it has
/// compared so many ranges. Gives the world, and what the host had done by then.
async fn interrupted(
    world: &Rc<World>,
    lost: Option<HostNumber>,
    restarted: HostNumber,
    ranges: u64,
) -> RepairCounts {
    for host in &world.hosts {
        for key in 0..KEYS {
            host.store(old_value(key)).unwrap();
        }
    }
    sleep(Duration::from_millis(500)).await;
    if let Some(lost) = lost {
        world.hosts[lost].crash(Crash::PowerCut);
        world.hosts[lost].replace_disk(Copy::empty());
        world.start(lost);
    }
    world.hosts[COORDINATOR].order_repair(RepairKind::Full);
    let host = &world.hosts[restarted];
    let is_there = || counts(host).ranges_compared >= ranges;
    for _ in 0..60_000 {
        if is_there() {
            break;
        }
        sleep(Duration::from_millis(1)).await;
    }
    assert!(is_there(), "the repair has not begun");
    let done = counts(host);
    host.crash(Crash::PowerCut);
    world.start(restarted);
    done
}

#[test]
fn a_full_repair_goes_on_near_where_a_restart_of_its_coordinator_interrupts_it() {
    for ranges in INTERRUPTED_AFTER {
        run(three(), async |world| {
            let before = interrupted(&world, None, COORDINATOR, ranges).await;
            let coordinator = &world.hosts[COORDINATOR];
            until("the repair has ended", || coordinator.full_repairs() > 0).await;
            // Another host has compared what both attempts have compared.
            let compared = counts(&world.hosts[OTHER]).ranges_compared;
            let after = counts(coordinator).ranges_compared;
            let expected = RANGES..=RANGES + AGAIN_MAX;
            assert!(
                expected.contains(&compared)
                    && expected.contains(&(before.ranges_compared + after)),
                "{compared} ranges, {after} after a restart that came after {ranges}"
            );
        });
    }
}

#[test]
fn a_rebuild_goes_on_near_where_a_restart_of_the_store_interrupts_it() {
    for ranges in INTERRUPTED_AFTER {
        run(three(), async |world| {
            let before = interrupted(&world, Some(LOST), LOST, ranges).await;
            let lost = &world.hosts[LOST];
            until("the store counts", || lost.is_voter() == Some(true)).await;
            let after = counts(lost);
            let compared = before.ranges_compared + after.ranges_compared;
            assert!(
                compared <= RANGES + AGAIN_MAX,
                "{compared} ranges with a restart after {ranges}"
            );
            let keys = before.streamed_keys_received + after.streamed_keys_received;
            let again_max = AGAIN_MAX * RANGE_KEYS as u64 / 2;
            assert!(
                keys <= KEYS + again_max,
                "{keys} keys with a restart after {ranges} ranges"
            );
            for key in 0..KEYS {
                assert_eq!(lost.held(key).unwrap(), Some(old_value(key)));
            }
        });
    }
}
