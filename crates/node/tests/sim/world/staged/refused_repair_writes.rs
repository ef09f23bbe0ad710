//! Repair writes between stores, step by step.

use super::{calm, run, until};
use crate::clock::BEGIN_UNIX_MS;
use crate::host::key_bytes;
use crate::scenario::Scenario;
use crate::value;
use base::{Entry, Expiry, Timestamp};
use checker::OperationId;
use cluster::comparison::RepairKind;
use std::time::Duration;
use tokio::time::sleep;

/// More than are on their way at a time, and too few to be streamed.
const NEWER: u64 = 100;
const KEYS: u64 = 250;

/// The key whose newest version no other node takes.
const REFUSED: u64 = 3;

const YEAR_MS: u64 = 365 * 24 * 3600 * 1000;

/// Three nodes. Only ordered repairs run.
fn three() -> Scenario {
    Scenario {
        nodes: 3,
        keys: KEYS,
        timeout: Duration::from_millis(300),
        ..calm()
    }
}

fn entry(key: u64, unix_ms: u64) -> Entry {
    entry_of(key, unix_ms, 3)
}

fn entry_of(key: u64, unix_ms: u64, copies: u8) -> Entry {
    let timestamp = Timestamp::from_unix_ms(unix_ms);
    let value = value::of(OperationId(0), 30);
    Entry::value(&key_bytes(key), timestamp, &value, Expiry::NEVER, copies)
}

#[test]
fn one_version_that_peers_refuse_for_good_keeps_no_other_from_them() {
    run(three(), async |world| {
        for host in &world.hosts {
            for key in 0..KEYS {
                host.store(entry(key, BEGIN_UNIX_MS - 2_000)).unwrap();
            }
        }
        for key in 0..NEWER {
            let unix_ms = match key {
                REFUSED => BEGIN_UNIX_MS + YEAR_MS,
                _ => BEGIN_UNIX_MS - 1_000,
            };
            world.hosts[0].store(entry(key, unix_ms)).unwrap();
        }
        sleep(Duration::from_millis(100)).await;
        // A second session would send what the first one has left out.
        world.hosts[1].order_repair(RepairKind::Full);
        let newer = Timestamp::from_unix_ms(BEGIN_UNIX_MS - 1_000);
        until("the other versions are everywhere", || {
            let others = &world.hosts[1..];
            others.iter().all(|host| {
                let mut keys = (0..NEWER).filter(|key| *key != REFUSED);
                keys.all(|key| {
                    let held = host.held(key).unwrap();
                    held.is_some_and(|held| held.timestamp() == newer)
                })
            })
        })
        .await;
        for host in &world.hosts[1..] {
            let held = host.held(REFUSED).unwrap().unwrap();
            assert!(held.timestamp() < newer, "a version from the future came");
        }
    });
}

/// The newer version has fewer copies, so no digest of the two nodes says anything of it; and a node
/// that refuses the older one does not say that it has the newer one.
#[test]
fn a_node_whose_version_a_peer_refuses_asks_for_the_newer_one() {
    run(three(), async |world| {
        let preference_list = world.preference_list(&key_bytes(REFUSED), 3);
        let of = |place: usize| &world.hosts[preference_list[place].index()];
        let (own, ahead) = (of(0), of(1));
        let older = entry(REFUSED, BEGIN_UNIX_MS + YEAR_MS - 2_000);
        let newer = entry_of(REFUSED, BEGIN_UNIX_MS + YEAR_MS - 1_000, 1);
        for host in &world.hosts {
            for key in (0..NEWER).filter(|key| *key != REFUSED) {
                host.store(entry(key, BEGIN_UNIX_MS - 2_000)).unwrap();
            }
        }
        // The node that has less compares the two.
        for key in [KEYS - 2, KEYS - 1] {
            own.store(entry(key, BEGIN_UNIX_MS - 2_000)).unwrap();
        }
        // For its own clock neither version is from the future.
        ahead.clock.set_skew_ms(YEAR_MS as i64);
        ahead.store(older.clone()).unwrap();
        own.store(newer.clone()).unwrap();
        sleep(Duration::from_millis(100)).await;
        assert_eq!(ahead.held(REFUSED).unwrap(), Some(older));
        own.order_repair(RepairKind::Full);
        until("the newer version has come", || {
            ahead.held(REFUSED).unwrap().as_ref() == Some(&newer)
        })
        .await;
    });
}
