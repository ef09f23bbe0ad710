//! Tombstone GC, step by step: each scenario is what one of its rules prevents.

mod checkpoints;
mod future;
mod future_thresholds;
mod late_repair_writes;
mod learners;
mod non_owned;
mod orphaned_repair_writes;
mod rules;
mod steady_writes;
mod two_coordinators;
mod waiting_repair_writes;

use super::{World, calm, run, until};
use crate::clock::BEGIN_UNIX_MS;
use crate::host::{Host, key_bytes};
use crate::network::HostNumber;
use crate::scenario::{Scenario, TombstoneGc};
use crate::value;
use base::{Entry, Expiry, Kind, Timestamp};
use checker::{Action, OperationId, Request};
use cluster::comparison::RepairKind;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const GC_GRACE: Duration = Duration::from_secs(1);

/// Long enough for many full repairs.
const LONG: Duration = Duration::from_secs(20);

const YEAR_MS: i64 = 365 * 24 * 3600 * 1000;

const KEY: u64 = 5;

/// Three nodes that drop tombstones. Only ordered repairs run.
fn three() -> Scenario {
    Scenario {
        nodes: 3,
        timeout: Duration::from_millis(300),
        tombstone_gc: Some(TombstoneGc {
            gc_grace: GC_GRACE,
            full_repair_interval: Duration::from_secs(3600),
        }),
        clock_drift_max: Duration::from_secs(1),
        ..calm()
    }
}

/// The nodes in the order of the key's preference list.
fn places(world: &World) -> Vec<HostNumber> {
    let preference_list = world.preference_list(&key_bytes(KEY), 3);
    preference_list.iter().map(|node| node.index()).collect()
}

/// A value from before the world began.
fn old_value(copies: u8) -> Entry {
    let timestamp = Timestamp::from_unix_ms(BEGIN_UNIX_MS - 10_000);
    let value = value::of(OperationId(0), 30);
    Entry::value(&key_bytes(KEY), timestamp, &value, Expiry::NEVER, copies)
}

/// A tombstone that hides it.
fn its_tombstone(copies: u8) -> Entry {
    let timestamp = Timestamp::from_unix_ms(BEGIN_UNIX_MS - 5_000);
    Entry::tombstone(&key_bytes(KEY), timestamp, copies)
}

fn delete(node: HostNumber, ack: u8, from: u8) -> Request {
    Request {
        client: 0,
        node,
        key: KEY,
        action: Action::Delete,
        ack,
        from,
    }
}

fn gc_threshold(host: &Host) -> Timestamp {
    let known = host.gc_status();
    known.map_or(Timestamp::ZERO, |known| known.gc_threshold)
}

fn held(host: &Host) -> Option<Entry> {
    host.held(KEY).unwrap()
}

fn is_value(host: &Host) -> bool {
    held(host).is_some_and(|entry| entry.kind() == Kind::Value)
}

async fn store(host: &Host, entry: &Entry) {
    host.store(entry.clone()).unwrap();
    sleep(Duration::from_millis(50)).await;
}

/// Orders full repairs until the GC threshold of all nodes is above `timestamp`.
async fn raise_gc_threshold_above(world: &World, timestamp: Timestamp) {
    until("the GC threshold rises", || {
        world.hosts[0].order_repair(RepairKind::Full);
        world
            .hosts
            .iter()
            .all(|host| gc_threshold(host) > timestamp)
    })
    .await;
}

/// Orders full repairs at all nodes for a long time, and calls `check` in between.
async fn repair_for_long(world: &World, check: impl Fn()) {
    let began = Instant::now();
    while began.elapsed() < LONG {
        for host in &world.hosts {
            host.order_repair(RepairKind::Full);
            sleep(Duration::from_millis(250)).await;
            check();
        }
    }
}

/// A tombstone that was dropped everywhere does not hide its value any more.
async fn dropped_everywhere(world: &World) {
    for host in &world.hosts {
        store(host, &its_tombstone(3)).await;
    }
    raise_gc_threshold_above(world, its_tombstone(3).timestamp()).await;
    for host in &world.hosts {
        host.compact();
        assert_eq!(held(host), None, "the tombstone is dropped");
    }
}
