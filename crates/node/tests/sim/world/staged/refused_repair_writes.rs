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
    let timestamp = Timestamp::from_unix_ms(unix_ms);
    let value = value::of(OperationId(0), 30);
    Entry::value(&key_bytes(key), timestamp, &value, Expiry::NEVER, 3)
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
