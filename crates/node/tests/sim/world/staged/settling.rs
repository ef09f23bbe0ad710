//! What happens while a recent sweep lets writes arrive, step by step.

use super::{calm, run, until};
use crate::clock::BEGIN_UNIX_MS;
use crate::host::{Crash, key_bytes};
use crate::network::HostNumber;
use crate::scenario::Scenario;
use crate::value;
use base::{Entry, Expiry, Timestamp};
use checker::OperationId;
use cluster::comparison::RepairKind;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const KEY: u64 = 5;

/// The host that drives sweeps, and one that is away for a while.
const DRIVER: HostNumber = 0;
const AWAY: HostNumber = 2;

/// For how long a recent sweep lets writes arrive.
const SETTLING: Duration = Duration::from_secs(20);

/// Three nodes with recent sweeps, which begin soon.
fn three() -> Scenario {
    Scenario {
        nodes: 3,
        timeout: SETTLING / 2,
        repair_interval: Some(Duration::from_secs(1)),
        ..calm()
    }
}

/// Long enough for a recent sweep to begin, and to let writes arrive.
const BEGUN: Duration = Duration::from_secs(5);

#[test]
fn a_full_sweep_does_not_wait_until_writes_have_arrived_for_a_recent_one() {
    run(three(), async |world| {
        sleep(BEGUN).await;
        let (driver, began) = (&world.hosts[DRIVER], Instant::now());
        let before = driver.full_repairs();
        driver.order_repair(RepairKind::Full);
        until("the full repair ends", || driver.full_repairs() > before).await;
        assert!(began.elapsed() < BEGUN, "{:?}", began.elapsed());
    });
}

#[test]
fn a_node_that_was_restarted_while_writes_arrive_takes_part_in_the_sweep() {
    run(three(), async |world| {
        let timestamp = Timestamp::from_unix_ms(BEGIN_UNIX_MS - 1_000);
        let value = value::of(OperationId(0), 30);
        let entry = Entry::value(&key_bytes(KEY), timestamp, &value, Expiry::NEVER, 3);
        world.hosts[DRIVER].store(entry).unwrap();
        sleep(BEGUN).await;
        let began = Instant::now();
        world.hosts[AWAY].crash(Crash::Kill);
        sleep(BEGUN).await;
        world.start(AWAY);
        until("it has what it lacked", || {
            world.hosts[AWAY].held(KEY).unwrap().is_some()
        })
        .await;
        // The next sweep would let writes arrive anew.
        assert!(began.elapsed() < SETTLING + BEGUN, "{:?}", began.elapsed());
    });
}
