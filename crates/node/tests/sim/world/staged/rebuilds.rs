//! Lost and damaged stores, step by step: what interrupts a rebuild at every point of it, and
//! when a store must not count.

use super::{World, calm, run, until};
use crate::clock::BEGIN_UNIX_MS;
use crate::host::{Copy, Crash, Host, key_bytes};
use crate::network::HostNumber;
use crate::scenario::Scenario;
use crate::value;
use base::{Entry, Expiry, Timestamp};
use checker::{Action, OperationId, Outcome, Request};
use cluster::comparison::RepairKind;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The host whose folder is lost or damaged, the one that coordinates full repairs, and another.
const LOST: HostNumber = 0;
const COORDINATOR: HostNumber = 1;
const OTHER: HostNumber = 2;

/// The keys of a range, and after how many requests of a repair a rebuild is interrupted: from
/// its first range to its end, while it has no checkpoint, one, or many.
const INTERRUPTIONS: [(usize, std::ops::Range<u64>, usize); 2] = [(64, 8..64, 4), (8, 8..200, 12)];

/// How long the stores have to store what they are given.
const LOOK_PERIOD: Duration = Duration::from_millis(500);

/// Long enough for many full repairs.
const LONG: Duration = Duration::from_secs(40);

/// Three nodes, and several ranges, each with enough keys to be streamed: a session stores
/// checkpoints.
fn three() -> Scenario {
    Scenario {
        nodes: 3,
        keys: 200,
        range_keys: 64,
        timeout: Duration::from_millis(300),
        ..calm()
    }
}

fn put(node: HostNumber, key: u64) -> Request {
    Request {
        client: 0,
        node,
        key,
        action: Action::Put { ttl_seconds: None },
        ack: 2,
        from: 3,
    }
}

/// A value that all three keep, of the time when the world began.
fn old_value(key: u64) -> Entry {
    let timestamp = Timestamp::from_unix_ms(BEGIN_UNIX_MS - 1_000 + key);
    let value = value::of(OperationId(0), 30);
    Entry::value(&key_bytes(key), timestamp, &value, Expiry::NEVER, 3)
}

/// Puts a key, and gives its version.
async fn acknowledged(world: &World, node: HostNumber, key: u64) -> Timestamp {
    let outcome = world.ask(put(node, key), Duration::from_secs(10)).await;
    match outcome {
        Some(Outcome::Written { version, .. }) => version,
        outcome => panic!("a write was not acknowledged: {outcome:?}"),
    }
}

fn version_on(host: &Host, key: u64) -> Option<Timestamp> {
    host.held(key).unwrap().as_ref().map(Entry::timestamp)
}

fn lose(world: &World, host: HostNumber) {
    world.hosts[host].crash(Crash::PowerCut);
    world.hosts[host].replace_disk(Copy::empty());
    world.start(host);
}

/// Waits until a store counts, while full repairs are ordered.
async fn rebuilt(world: &World, number: HostNumber) {
    let began = Instant::now();
    while world.hosts[number].is_voter() != Some(true) {
        assert!(began.elapsed() < 5 * LONG, "the store is not rebuilt");
        world.hosts[COORDINATOR].order_repair(RepairKind::Full);
        sleep(Duration::from_millis(500)).await;
    }
}

/// Loses a folder, interrupts the rebuild after some requests of it, and expects everything
/// in the store once it counts.
fn rebuild_interrupted_by(interrupt: fn(&World)) {
    let interruptions = INTERRUPTIONS
        .into_iter()
        .flat_map(|(range_keys, requests, step)| {
            let requests = requests.step_by(step);
            requests.map(move |requests| (range_keys, requests))
        });
    for (range_keys, requests) in interruptions {
        let scenario = Scenario {
            range_keys,
            ..three()
        };
        run(scenario, async |world| {
            let keys = 0..world.scenario.keys;
            let entries: Vec<Entry> = keys.map(old_value).collect();
            for host in &world.hosts {
                for entry in &entries {
                    host.store(entry.clone()).unwrap();
                }
            }
            sleep(LOOK_PERIOD).await;
            lose(&world, LOST);
            let host = &world.hosts[LOST];
            world.hosts[COORDINATOR].order_repair(RepairKind::Full);
            let is_reached = || host.repair_requests().is_some_and(|now| now >= requests);
            let began = Instant::now();
            while !is_reached() && began.elapsed() < LONG {
                sleep(Duration::from_millis(1)).await;
            }
            interrupt(&world);
            rebuilt(&world, LOST).await;
            for (key, entry) in (0..).zip(entries) {
                let held = host.held(key).unwrap();
                assert_eq!(
                    held,
                    Some(entry),
                    "the store counts without key {key}, interrupted after {requests} requests"
                );
            }
        });
    }
}

#[test]
fn a_rebuild_that_a_restart_interrupts_anywhere_brings_everything() {
    rebuild_interrupted_by(|world| {
        world.hosts[LOST].crash(Crash::PowerCut);
        world.start(LOST);
    });
}

#[test]
fn a_rebuild_begins_anew_if_the_folder_is_lost_once_more_anywhere_in_it() {
    rebuild_interrupted_by(|world| lose(world, LOST));
}

#[test]
fn a_store_does_not_count_before_it_was_compared_with_every_other() {
    run(three(), async |world| {
        const KEY: u64 = 7;
        // One node never hears of the write.
        world.network.cut(OTHER, COORDINATOR);
        world.network.cut(COORDINATOR, OTHER);
        let version = acknowledged(&world, OTHER, KEY).await;
        until("the lost store has the write", || {
            version_on(&world.hosts[LOST], KEY) == Some(version)
        })
        .await;
        world.hosts[OTHER].freeze();
        lose(&world, LOST);
        let began = Instant::now();
        while began.elapsed() < LONG {
            world.hosts[COORDINATOR].order_repair(RepairKind::Full);
            sleep(Duration::from_millis(500)).await;
            assert_ne!(world.hosts[LOST].is_voter(), Some(true));
        }
        world.network.heal(OTHER, COORDINATOR);
        world.network.heal(COORDINATOR, OTHER);
        world.hosts[OTHER].thaw();
        rebuilt(&world, LOST).await;
        assert_eq!(version_on(&world.hosts[LOST], KEY), Some(version));
    });
}

#[test]
fn a_store_does_not_answer_for_what_a_damaged_block_may_have_held() {
    run(three(), async |world| {
        const KEY: u64 = 7;
        world.network.cut(OTHER, COORDINATOR);
        world.network.cut(COORDINATOR, OTHER);
        let version = acknowledged(&world, OTHER, KEY).await;
        let host = &world.hosts[LOST];
        until("the store has the write", || {
            version_on(host, KEY) == Some(version)
        })
        .await;
        host.compact();
        assert!(host.rot_at(0), "there is a table");
        // Nobody but the one that is away has the write whole.
        world.hosts[OTHER].freeze();
        // A start meets the damage without a cached block.
        host.crash(Crash::Kill);
        world.start(LOST);
        let began = Instant::now();
        while began.elapsed() < LONG {
            host.order_repair(RepairKind::Full);
            host.compact();
            let get = Request {
                action: Action::Get,
                ..put(COORDINATOR, KEY)
            };
            let outcome = world.ask(get, Duration::from_secs(10)).await;
            assert!(
                !matches!(outcome, Some(Outcome::Found { version: None, .. })),
                "a read missed an acknowledged write"
            );
            sleep(Duration::from_millis(500)).await;
        }
        world.network.heal(OTHER, COORDINATOR);
        world.network.heal(COORDINATOR, OTHER);
        world.hosts[OTHER].thaw();
        until("the damage is repaired", || {
            host.order_repair(RepairKind::Full);
            host.has_damage() == Some(false) && is_held(host, KEY, version)
        })
        .await;
    });
}

fn is_held(host: &Rc<Host>, key: u64, version: Timestamp) -> bool {
    matches!(host.held(key), Ok(Some(entry)) if entry.timestamp() == version)
}
