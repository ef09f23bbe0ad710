//! What each kind of fault does.

use super::{Fault, counts};
use crate::dice::Dice;
use crate::host::Crash;
use crate::scenario::{FaultKind, ScenarioKind};
use crate::world::World;
use cluster::comparison::RepairKind;
use std::ops::RangeInclusive;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// After how many calls of the disk the power fails.
const DISK_CALLS: RangeInclusive<u64> = 0..=200;

/// The delays on a slow path, in milliseconds.
const SLOW_PATH_MS: RangeInclusive<u64> = 100..=600;

/// How many bytes are free on a full disk.
const DISK_ROOM_BYTES: RangeInclusive<u64> = 0..=200_000;

/// How long jobs may take on a slow disk, in milliseconds.
const SLOW_WORK_MS: RangeInclusive<u64> = 50..=1_500;

/// After how many requests of a repair a process ends.
const REPAIR_REQUESTS: RangeInclusive<u64> = 0..=80;

const YEAR_MS: u64 = 365 * 24 * 3600 * 1000;

/// How far a clock is set back by a small step, in milliseconds.
const SMALL_STEP_MS: RangeInclusive<u64> = 0..=2_000;

/// Injects a fault, and heals it after `lasting`.
pub(super) async fn strike(world: &World, fault: Fault, lasting: Duration, dice: &Dice) {
    let Fault { kind, host, other } = fault;
    let note = |what: &str| {
        world
            .trace
            .note(format_args!("{what} {kind:?} of {host} ({other})"));
    };
    note("fault");
    world.timeline.borrow_mut().goes_down(host);
    let struck = &world.hosts[host];
    let network = &world.network;
    let others = (0..world.hosts.len()).filter(|&other| other != host);
    match kind {
        FaultKind::Kill | FaultKind::PowerCut => {
            struck.crash(match kind {
                FaultKind::Kill => Crash::Kill,
                _ => Crash::PowerCut,
            });
            sleep(lasting).await;
            world.start(host);
        }
        FaultKind::Stop => {
            struck.stop().await;
            sleep(lasting).await;
            world.start(host);
        }
        FaultKind::PowerCutInCall => {
            struck.cut_power_in_call(dice.within(&DISK_CALLS));
            sleep(lasting).await;
            struck.keep_power();
            world.start(host);
        }
        FaultKind::Blackout => {
            for host in &world.hosts {
                host.crash(Crash::PowerCut);
            }
            sleep(lasting / 4).await;
            for number in 0..world.hosts.len() {
                world.start(number);
            }
        }
        FaultKind::Freeze => {
            struck.freeze();
            sleep(lasting).await;
            struck.thaw();
        }
        FaultKind::CutOneWay => {
            network.cut(host, other);
            sleep(lasting).await;
            network.heal(host, other);
        }
        FaultKind::CutBothWays => {
            network.cut(host, other);
            network.cut(other, host);
            sleep(lasting).await;
            network.heal(host, other);
            network.heal(other, host);
        }
        FaultKind::Isolate => {
            for other in others.clone() {
                network.cut(host, other);
                network.cut(other, host);
            }
            sleep(lasting).await;
            for other in others {
                network.heal(host, other);
                network.heal(other, host);
            }
        }
        FaultKind::LoseConnections => network.lose(host, other),
        FaultKind::SlowPath => {
            network.set_delay(host, other, &SLOW_PATH_MS);
            sleep(lasting).await;
            network.set_delay(host, other, &world.scenario.delay_ms);
        }
        FaultKind::Skew => {
            let bound_ms = bound_ms(world) / 2;
            world.set_clock(host, either_way(dice, 0..=bound_ms));
        }
        FaultKind::FarSkew => {
            world.set_clock(host, far(world, dice));
            sleep(lasting).await;
            world.set_clock(host, world.skews_ms[host]);
        }
        FaultKind::FarSkewAtStart => {
            struck.crash(Crash::Kill);
            world.set_clock(host, far(world, dice));
            world.start(host);
            sleep(lasting).await;
            world.set_clock(host, world.skews_ms[host]);
        }
        FaultKind::SkewBackAtStart => {
            struck.crash(Crash::Kill);
            let bound_ms = bound_ms(world) / 2;
            // The step is often so small that times come again at which the node has
            // issued timestamps.
            let skew_ms = if dice.percent(50) {
                struck.clock.skew_ms() - dice.within(&SMALL_STEP_MS) as i64
            } else {
                -(dice.within(&(0..=bound_ms)) as i64)
            };
            world.set_clock(host, skew_ms);
            world.start(host);
        }
        FaultKind::FullDisk => {
            struck.limit_disk(dice.within(&DISK_ROOM_BYTES));
            sleep(lasting).await;
            struck.unlimit_disk();
        }
        FaultKind::SlowDisk => {
            struck.set_work_ms_max(dice.within(&SLOW_WORK_MS));
            sleep(lasting).await;
            struck.set_work_ms_max(world.scenario.work_ms_max);
        }
        FaultKind::KillInRepair => {
            world.hosts[*dice.pick(&[host, other])].order_repair(RepairKind::Full);
            let requests = dice.within(&REPAIR_REQUESTS);
            let before = struck.repair_requests().unwrap_or(0);
            let is_over = Instant::now() + lasting;
            let is_reached = || {
                let now = struck.repair_requests();
                now.is_none_or(|now| now >= before + requests)
            };
            while !is_reached() && Instant::now() < is_over {
                sleep(Duration::from_millis(1)).await;
            }
            struck.crash(Crash::Kill);
            sleep(lasting / 4).await;
            world.start(host);
        }
        FaultKind::LateReadRepair => {
            let key = dice.below(world.scenario.keys);
            let answered = struck.answers_with(key);
            sleep(lasting).await;
            // Elsewhere it would leave a copy that no request has asked for.
            if let Some((gc_threshold, entry)) = answered
                && world.is_replica(other, &entry)
                && let Some(late) = struck.send_read_repair(gc_threshold, other, entry)
            {
                // Whatever comes of it.
                let _outcome = late.answer.await;
            }
        }
        FaultKind::SecondCoordinator => {
            struck.order_repair(*dice.pick(&RepairKind::ALL));
        }
        FaultKind::FailingSyncs => {
            struck.fail_syncs(true);
            sleep(lasting).await;
            struck.fail_syncs(false);
            struck.crash(Crash::PowerCut);
            world.start(host);
        }
    }
    world.timeline.borrow_mut().comes_back(host);
    note("repairs");
    // A store that lost something in a power cut does not count until all the others have
    // rebuilt it. So until then it is the one that is unavailable.
    if world.scenario.kind == ScenarioKind::OneUnavailable && !counts(world, host).await {
        world.fail(format!("the store of node {host} does not count again"));
    }
}

/// How far clocks may be apart, in milliseconds.
fn bound_ms(world: &World) -> u64 {
    world.scenario.clock_drift_max.as_millis() as u64
}

/// A skew beyond the bound, sometimes of years.
fn far(world: &World, dice: &Dice) -> i64 {
    let bound_ms = bound_ms(world);
    if dice.percent(30) {
        either_way(dice, YEAR_MS..=5 * YEAR_MS)
    } else {
        either_way(dice, bound_ms * 5 / 4..=bound_ms * 10)
    }
}

fn either_way(dice: &Dice, range: RangeInclusive<u64>) -> i64 {
    let by = dice.within(&range) as i64;
    if dice.percent(50) { by } else { -by }
}
