//! Scenarios that random worlds meet too rarely, or never, step by step.

mod backups;
mod conditional;
mod expiry;
mod interrupted_repairs;
mod key_turns;
mod member_changes;
mod moved_data;
mod races;
mod rebuilds;
mod refused_repair_writes;
mod settling;
mod tombstone_gc;

use super::{World, simulate};
use crate::dice::Dice;
use crate::host::{CLOCK_DRIFT_MAX, Host};
use crate::scenario::Scenario;
use lsm::Durability;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::spawn_local;
use tokio::time::sleep;

const SEED: u64 = 1;

/// How often to look whether something has happened, and how many times at most.
const LOOK_PERIOD: Duration = Duration::from_millis(10);
const LOOKS_MAX: u32 = 6_000;

/// A calm world of four nodes, with fast disks and a fast network, without repairs.
fn calm() -> Scenario {
    Scenario {
        nodes: 4,
        joiners: 0,
        runtimes: 1,
        keys: 20,
        timeout: Duration::from_secs(3),
        delay_ms: 0..=1,
        losses_per_million: 0,
        work_ms_max: 1,
        skew_ms_max: 0,
        durability: Durability::Sync,
        repair_interval: None,
        range_keys: 16 << 10,
        tombstone_gc: None,
        clock_drift_max: CLOCK_DRIFT_MAX,
        faults: Vec::new(),
        loss: None,
        counting: None,
        changing: None,
        ..Scenario::new(&Dice::new(SEED))
    }
}

/// Runs a world in which all stores count.
fn run<Story: Future<Output = ()>>(scenario: Scenario, story: impl FnOnce(Rc<World>) -> Story) {
    simulate(async move {
        let world = World::of(scenario, &Dice::new(SEED));
        begin(&world).await;
        story(world).await;
    });
}

/// Starts a world, and waits until all stores count.
async fn begin(world: &Rc<World>) {
    spawn_local(world.network.clone().run());
    for (number, host) in world.hosts.iter().enumerate() {
        spawn_local(Rc::clone(host).drive());
        world.start(number);
    }
    let is_voter = |host: &Rc<Host>| host.is_voter() == Some(true);
    until("all stores count", || world.hosts.iter().all(is_voter)).await;
}

async fn until(what: &str, has_happened: impl Fn() -> bool) {
    for _ in 0..LOOKS_MAX {
        if has_happened() {
            return;
        }
        sleep(LOOK_PERIOD).await;
    }
    panic!("it never happened that {what}");
}
