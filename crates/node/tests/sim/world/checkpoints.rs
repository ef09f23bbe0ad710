//! Full sweeps that go on from a checkpoint.

use super::fences::{GRACE, LONG, forgotten, three};
use super::races::run;
use crate::clock::BEGIN_UNIX_MS;
use crate::host::{Crash, key_bytes};
use crate::network::HostNumber;
use crate::scenario::Scenario;
use crate::value;
use base::{Entry, Expiry, Timestamp};
use checker::OperationId;
use cluster::sweep::PassKind;
use std::cell::Cell;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The host that drives the sweep, which the first of all goes on with, and the one that lacks
/// everything.
const DRIVER: HostNumber = 0;
const LACKING: HostNumber = 1;

const KEYS: u64 = 200;

fn old_value(key: u64) -> Entry {
    let stamp = Timestamp::from_unix_ms(BEGIN_UNIX_MS - 10_000 + key);
    let value = value::of(OperationId(0), 30);
    Entry::value(&key_bytes(key), stamp, &value, Expiry::NEVER, 3)
}

/// What a node gets in bulk is in no table before the next checkpoint. So the checkpoint must
/// not be ahead of that: a node that is restarted goes on there, and what it has lost counts as
/// compared.
#[test]
fn what_a_checkpoint_passes_over_outlives_a_restart() {
    let gone_on = Cell::new(0);
    // Several ranges, each with enough keys to be sent in bulk.
    let scenario = Scenario {
        keys: KEYS,
        range_keys: 64,
        ..three()
    };
    for requests in 4..24 {
        run(scenario.clone(), async |world| {
            for host in [DRIVER, 2].map(|number| &world.hosts[number]) {
                for key in 0..KEYS {
                    host.store(old_value(key)).unwrap();
                }
            }
            sleep(GRACE).await;
            let (lacking, driver) = (&world.hosts[LACKING], &world.hosts[DRIVER]);
            let before = lacking.sweep_requests().unwrap_or(0);
            let sweeps = driver.full_sweeps();
            driver.order_sweep(PassKind::Full);
            let began = Instant::now();
            let is_running = || driver.full_sweeps() == sweeps && began.elapsed() < LONG;
            let is_early = || lacking.sweep_requests() < Some(before + requests);
            while is_running() && is_early() {
                sleep(Duration::from_millis(1)).await;
            }
            let is_interrupted = is_running();
            lacking.crash(Crash::Kill);
            world.start(LACKING);
            // One that cannot go on leaves the bound where it is.
            let has_risen = || forgotten(driver) > old_value(KEYS).timestamp();
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
