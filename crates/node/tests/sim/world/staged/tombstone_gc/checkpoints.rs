//! Full repairs that go on from a checkpoint.

use super::{GC_GRACE, LONG, gc_threshold, raise_gc_threshold_above, run, three};
use crate::clock::BEGIN_UNIX_MS;
use crate::host::{Crash, key_bytes};
use crate::network::HostNumber;
use crate::scenario::Scenario;
use crate::value;
use base::{Entry, Expiry, Kind, Timestamp};
use checker::OperationId;
use cluster::comparison::RepairKind;
use std::cell::Cell;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The host that coordinates the repair, which the first of all goes on with, and the one that lacks
/// everything.
const COORDINATOR: HostNumber = 0;
const LACKING: HostNumber = 1;

const KEYS: u64 = 200;

fn old_value(key: u64) -> Entry {
    let timestamp = Timestamp::from_unix_ms(BEGIN_UNIX_MS - 10_000 + key);
    let value = value::of(OperationId(0), 30);
    Entry::value(&key_bytes(key), timestamp, &value, Expiry::NEVER, 3)
}

/// What is streamed to a node is in no table before the next checkpoint. So the checkpoint must
/// not be ahead of that: a node that is restarted goes on there, and what it has lost counts as
/// compared.
#[test]
fn what_a_checkpoint_passes_over_outlives_a_restart() {
    let gone_on = Cell::new(0);
    // Several ranges, each with enough keys to be streamed.
    let scenario = Scenario {
        keys: KEYS,
        range_keys: 64,
        ..three()
    };
    for requests in 4..24 {
        run(scenario.clone(), async |world| {
            for host in [COORDINATOR, 2].map(|number| &world.hosts[number]) {
                for key in 0..KEYS {
                    host.store(old_value(key)).unwrap();
                }
            }
            sleep(GC_GRACE).await;
            let (lacking, coordinator) = (&world.hosts[LACKING], &world.hosts[COORDINATOR]);
            let before = lacking.repair_requests().unwrap_or(0);
            let repairs = coordinator.full_repairs();
            coordinator.order_repair(RepairKind::Full);
            let began = Instant::now();
            let is_running = || coordinator.full_repairs() == repairs && began.elapsed() < LONG;
            let is_early = || lacking.repair_requests() < Some(before + requests);
            while is_running() && is_early() {
                sleep(Duration::from_millis(1)).await;
            }
            let is_interrupted = is_running();
            lacking.crash(Crash::Kill);
            world.start(LACKING);
            // One that cannot go on leaves the bound where it is.
            let has_risen = || gc_threshold(coordinator) > old_value(KEYS).timestamp();
            while !has_risen() && began.elapsed() < LONG {
                sleep(Duration::from_millis(50)).await;
            }
            if has_risen() {
                let missing: Vec<u64> = (0..KEYS)
                    .filter(|key| lacking.held(*key).unwrap().is_none())
                    .collect();
                assert!(missing.is_empty(), "{missing:?} after {requests} requests");
                gone_on.set(gone_on.get() + u32::from(is_interrupted));
            }
        });
    }
    assert!(gone_on.get() > 3, "{gone_on:?}");
}

/// A read repair that was long on its way comes in behind the scan, and then the node
/// is restarted. The session goes on from a checkpoint behind that key. The tombstone that hides
/// the version is on one node alone, so it is compared with no other.
#[test]
fn what_came_in_behind_a_scan_before_a_restart_does_not_outlive_its_tombstone() {
    let (gone_on, _) = late_read_repairs(Late::BeforeRestart);
    assert!(gone_on > 3, "{gone_on}");
}

/// The same without a restart, until the session has ended: when all nodes have said that nothing
/// has come in behind the scan, and have not heard yet that the GC threshold has risen, nothing
/// may come in either.
#[test]
fn what_comes_in_while_the_threshold_rises_does_not_outlive_its_tombstone() {
    let (taken, _) = late_read_repairs(Late::AtAnyTime);
    assert!(taken > 3, "{taken}");
}

/// The same while one node takes long to answer. The others have answered, and cannot know for how
/// long the threshold may still rise.
#[test]
fn what_comes_in_while_another_node_takes_long_does_not_outlive_its_tombstone() {
    let (_, refused) = late_read_repairs(Late::WhileOneIsSlow);
    assert!(refused > 0, "no repair came behind the last question");
}

/// When a read repair comes late.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Late {
    /// The node that it comes to is restarted afterwards.
    BeforeRestart,
    AtAnyTime,
    /// Another node has been asked for longer than any store is known to wait.
    WhileOneIsSlow,
}

/// Runs full repairs in which a read repair comes late, at different times. Returns in how many of them it was
/// taken before they ended, and in how many it was not.
fn late_read_repairs(when: Late) -> (u32, u32) {
    /// How long a job of a slow node takes at most, and how long the read repair takes.
    const SLOW_MS: u64 = 9_000;
    const LATE: Duration = Duration::from_secs(11);
    // The first key of all.
    const FIRST: u64 = 0;
    let (gone_on, refused) = (Cell::new(0), Cell::new(0));
    let restarts = when == Late::BeforeRestart;
    let scenario = Scenario {
        keys: KEYS,
        range_keys: 64,
        ..three()
    };
    for requests in 4..40 {
        run(scenario.clone(), async |world| {
            let preference_list = world.preference_list(&key_bytes(FIRST), 3);
            let [own, coordinator, lacking] = [0, 1, 2].map(|place| preference_list[place].index());
            let timestamp = Timestamp::from_unix_ms(BEGIN_UNIX_MS - 5_000);
            let tombstone = Entry::tombstone(&key_bytes(FIRST), timestamp, 1);
            world.hosts[own].store(tombstone).unwrap();
            for host in &world.hosts {
                for key in 1..KEYS {
                    host.store(old_value(key)).unwrap();
                }
            }
            sleep(GC_GRACE).await;
            let is_value = |number: HostNumber| {
                let held = world.hosts[number].held(FIRST).unwrap();
                held.is_some_and(|held| held.kind() == Kind::Value)
            };
            let host = &world.hosts[coordinator];
            let repairs = host.full_repairs();
            // The store has answered a read before the session.
            let known = gc_threshold(host);
            let before = world.hosts[lacking].repair_requests().unwrap_or(0);
            // What the store has answered that the read repair comes from.
            host.order_repair(RepairKind::Full);
            let began = Instant::now();
            let is_running = || host.full_repairs() == repairs && began.elapsed() < LONG;
            let is_early = || world.hosts[lacking].repair_requests() < Some(before + requests);
            while is_running() && is_early() {
                sleep(Duration::from_millis(1)).await;
            }
            if when == Late::WhileOneIsSlow {
                world.hosts[own].set_work_ms_max(SLOW_MS);
                sleep(LATE).await;
            }
            let late = host.send_read_repair(known, lacking, old_value(FIRST));
            let late = late.unwrap();
            late.answer.await.unwrap();
            world.hosts[own].set_work_ms_max(1);
            if restarts && !is_running() {
                return;
            }
            let is_taken = is_running() && is_value(lacking);
            let is_refused = is_running() && !is_value(lacking);
            refused.set(refused.get() + u32::from(is_refused));
            if restarts {
                world.hosts[lacking].crash(Crash::Kill);
                world.start(lacking);
            }
            while is_running() {
                sleep(Duration::from_millis(10)).await;
            }
            let has_ended = began.elapsed() < LONG;
            gone_on.set(gone_on.get() + u32::from(is_taken && has_ended));
            raise_gc_threshold_above(&world, timestamp).await;
            for _ in 0..4 {
                world.hosts.iter().for_each(|host| host.compact());
                host.order_repair(RepairKind::Full);
                sleep(GC_GRACE).await;
            }
            let held: Vec<HostNumber> = (0..3).filter(|number| is_value(*number)).collect();
            assert!(
                held.is_empty(),
                "it is on {held:?}, after {requests} requests"
            );
        });
    }
    (gone_on.get(), refused.get())
}
