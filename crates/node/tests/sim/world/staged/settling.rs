//! What happens while an incremental repair lets writes arrive, step by step.

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

/// The host that coordinates repairs, and one that is away for a while.
const COORDINATOR: HostNumber = 0;
const AWAY: HostNumber = 2;

/// For how long an incremental repair lets writes arrive.
const SETTLING: Duration = Duration::from_secs(20);

/// Three nodes with incremental repairs, which begin soon.
fn three() -> Scenario {
    Scenario {
        nodes: 3,
        timeout: SETTLING / 2,
        repair_interval: Some(Duration::from_secs(1)),
        ..calm()
    }
}

/// Long enough for an incremental repair to begin, and to let writes arrive.
const BEGUN: Duration = Duration::from_secs(5);

#[test]
fn a_full_repair_does_not_wait_until_writes_have_arrived_for_an_incremental_one() {
    run(three(), async |world| {
        sleep(BEGUN).await;
        let (coordinator, began) = (&world.hosts[COORDINATOR], Instant::now());
        let before = coordinator.full_repairs();
        coordinator.order_repair(RepairKind::Full);
        until("the full repair ends", || {
            coordinator.full_repairs() > before
        })
        .await;
        assert!(began.elapsed() < BEGUN, "{:?}", began.elapsed());
    });
}

#[test]
fn a_node_that_was_restarted_while_writes_arrive_takes_part_in_the_repair() {
    run(three(), async |world| {
        let timestamp = Timestamp::from_unix_ms(BEGIN_UNIX_MS - 1_000);
        let value = value::of(OperationId(0), 30);
        let entry = Entry::value(&key_bytes(KEY), timestamp, &value, Expiry::NEVER, 3);
        world.hosts[COORDINATOR].store(entry).unwrap();
        sleep(BEGUN).await;
        let began = Instant::now();
        world.hosts[AWAY].crash(Crash::Kill);
        sleep(BEGUN).await;
        world.start(AWAY);
        until("it has what it lacked", || {
            world.hosts[AWAY].held(KEY).unwrap().is_some()
        })
        .await;
        // The next repair would let writes arrive anew.
        assert!(began.elapsed() < SETTLING + BEGUN, "{:?}", began.elapsed());
    });
}
