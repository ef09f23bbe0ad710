//! The nemesis: it injects faults while clients run, and heals them.
//!
//! This module decides when and where a fault strikes; `strike` does what each kind of
//! fault does, `loss` loses, replaces or damages a folder, and `members` changes the list of members.

mod loss;
mod members;
mod strike;

use crate::dice::Dice;
use crate::network::HostNumber;
use crate::scenario::{FaultKind, Scenario, ScenarioKind};
use crate::world::World;
use cluster::comparison::RepairKind;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// How long a store may take until it counts, and how often to look.
const REBUILT: Duration = Duration::from_secs(60);
const LOOK_PERIOD: Duration = Duration::from_millis(50);

/// The pause between two orders of an operator, in milliseconds.
const ORDER_GAP_MS: RangeInclusive<u64> = 50..=400;

/// A fault: its kind and the hosts that it strikes.
#[derive(Clone, Copy, Debug)]
struct Fault {
    kind: FaultKind,
    host: HostNumber,
    /// Another host, for faults of the path between two hosts.
    other: HostNumber,
}

/// Injects faults until `end`. Each fault has a task that heals it after a while.
/// Returns the tasks that have not ended by then.
pub(crate) async fn break_things(
    world: Rc<World>,
    dice: Dice,
    end: Instant,
) -> Vec<JoinHandle<()>> {
    let mut breaking = Vec::new();
    let scenario = &world.scenario;
    if let Some(loss) = scenario.loss {
        let (world, dice) = (Rc::clone(&world), dice.fork());
        breaking.push(tokio::task::spawn_local(async move {
            loss::lose(&world, loss, &dice, end).await;
        }));
    }
    if let Some(changing) = scenario.changing {
        let world = Rc::clone(&world);
        breaking.push(tokio::task::spawn_local(async move {
            members::change_members(&world, changing, end).await;
        }));
    }
    if scenario.tombstone_gc.is_some() {
        let (world, dice) = (Rc::clone(&world), dice.fork());
        breaking.push(tokio::task::spawn_local(async move {
            collect_now_and_then(&world, &dice, end).await;
        }));
    }
    if scenario.faults.is_empty() {
        return breaking;
    }
    loop {
        let gap = Duration::from_millis(dice.within(&scenario.fault_gap_ms));
        if Instant::now() + gap >= end {
            return breaking;
        }
        sleep(gap).await;
        let fault = choose(scenario, &dice);
        let lasting = Duration::from_millis(dice.within(&scenario.fault_ms));
        let (world, dice) = (Rc::clone(&world), dice.fork());
        breaking.retain(|fault: &JoinHandle<()>| !fault.is_finished());
        let striking = Rc::clone(&world);
        let striking = tokio::task::spawn_local(async move {
            strike::strike(&striking, fault, lasting, &dice).await;
        });
        if allows_many(&world.scenario) {
            breaking.push(striking);
        } else if striking.await.is_err() {
            return breaking;
        }
    }
}

/// Whether a fault may begin before the last one is healed.
fn allows_many(scenario: &Scenario) -> bool {
    scenario.kind != ScenarioKind::OneUnavailable
}

fn choose(scenario: &Scenario, dice: &Dice) -> Fault {
    let kind = *dice.pick(&scenario.faults);
    let host = match kind {
        // Only one clock may be wrong, because clocks that are wrong together confirm
        // each other.
        FaultKind::FarSkew | FaultKind::FarSkewAtStart => scenario.far_host,
        _ => dice.place(scenario.nodes),
    };
    let apart = 1 + dice.place(scenario.nodes - 1);
    Fault {
        kind,
        host,
        other: (host + apart) % scenario.nodes,
    }
}

/// Orders full repairs, which raise the GC threshold, and has stores compacted, which then
/// drop what is dead below it.
async fn collect_now_and_then(world: &World, dice: &Dice, end: Instant) {
    while Instant::now() < end {
        sleep(Duration::from_millis(dice.within(&ORDER_GAP_MS))).await;
        let host = dice.pick(&world.hosts);
        if dice.percent(60) {
            host.compact();
        } else {
            host.order_repair(RepairKind::Full);
        }
    }
}

/// Waits until the store of a host counts, and returns whether it does in time.
async fn counts(world: &World, host: HostNumber) -> bool {
    let began = Instant::now();
    while world.hosts[host].is_voter() != Some(true) {
        if began.elapsed() > REBUILT {
            return false;
        }
        sleep(LOOK_PERIOD).await;
    }
    true
}
