//! Operators who change the list of members while clients run: nodes join, leave and are replaced,
//! one is declared dead, some move to other addresses, changes are aborted, and orders that are refused
//! are among them.

use crate::dice::Dice;
use crate::host::{Crash, url};
use crate::network::HostNumber;
use crate::scenario::Changing;
use crate::world::World;
use cluster::Replicas;
use cluster::layout::Phase;
use node::ChangeOrder;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long operators wait for the end of a change that they do not disturb.
const PATIENCE: Duration = Duration::from_secs(8);
const LOOK_PERIOD: Duration = Duration::from_millis(50);

/// How long a member is silent before it is declared dead.
const SILENT: Duration = Duration::from_millis(1_500);

/// How long a dead member that runs on is cut off.
const CUT_OFF_MS: std::ops::RangeInclusive<u64> = 500..=5_000;

/// How long a folder is on its way to another address.
const MOVING_MS: std::ops::RangeInclusive<u64> = 0..=1_000;

/// How often operators try to tell the list of a move, and how long they wait in between.
const TOLD_MAX: u32 = 8;
const TOLD_AGAIN: Duration = Duration::from_millis(500);

/// Orders changes until `end`.
pub(super) async fn change_members(world: &World, changing: Changing, end: Instant) {
    let dice = Dice::new(changing.seed);
    let mut may_kill = changing.kills;
    while Instant::now() < end {
        sleep(Duration::from_millis(
            dice.within(&(20..=changing.gap_ms_max)),
        ))
        .await;
        let at = dice.place(world.hosts.len());
        if changing.moves && dice.percent(10) {
            move_member(world, &dice).await;
        } else if may_kill && dice.percent(15) {
            may_kill = !declare_dead(world, at, &dice).await;
        } else if let Some(order) = order(world, &dice)
            && world.order_change(at, order).await == Some(Ok(()))
            && dice.percent(70)
        {
            let patient_until = Instant::now() + PATIENCE;
            let is_over = || {
                let list = world.latest_list();
                list.is_some_and(|list| list.phase() == Phase::Stable)
            };
            while !is_over() && Instant::now() < patient_until.min(end) {
                sleep(LOOK_PERIOD).await;
            }
        }
    }
}

/// What an operator orders next.
fn order(world: &World, dice: &Dice) -> Option<ChangeOrder> {
    let waiting = joiners(world);
    let some_waiting = || match dice.below(2) {
        0 => waiting.clone(),
        _ => waiting.first().cloned().into_iter().collect(),
    };
    let (join, leave) = match dice.below(100) {
        0..45 => (some_waiting(), Vec::new()),
        45..65 => (Vec::new(), vec![member(world, dice)?]),
        65..75 => (some_waiting(), vec![member(world, dice)?]),
        75..92 => return Some(ChangeOrder::Abort),
        _ => {
            let from = 3;
            let ack = dice.within(&(1..=3)) as u8;
            return Some(ChangeOrder::Pair(Replicas { ack, from }));
        }
    };
    let is_none = join.is_empty() && leave.is_empty();
    (!is_none).then_some(ChangeOrder::Members {
        join,
        leave,
        are_dead: false,
    })
}

/// The names of the nodes that wait to join.
fn joiners(world: &World) -> Vec<String> {
    let names = crate::host::names(world.hosts.len());
    let named = world.hosts.iter().zip(names);
    let waiting = named.filter(|(host, _)| host.waits() == Some(true));
    waiting.map(|(_, name)| name).collect()
}

/// The name of any member.
fn member(world: &World, dice: &Dice) -> Option<String> {
    let list = world.latest_list()?;
    let member = dice.pick(list.members());
    Some(member.member.name().to_owned())
}

/// The host of any member.
fn host_of_member(world: &World, dice: &Dice) -> Option<HostNumber> {
    let name = member(world, dice)?;
    let names = crate::host::names(world.hosts.len());
    names.iter().position(|it| *it == name)
}

/// Moves a member with its folder to another address, and tells the list. While a change is under way,
/// that refuses it: where it goes on for too long, the member moves back.
async fn move_member(world: &World, dice: &Dice) {
    let Some(number) = host_of_member(world, dice) else {
        return;
    };
    let before = world.network.moves(number);
    world.hosts[number].stop().await;
    sleep(Duration::from_millis(dice.within(&MOVING_MS))).await;
    world.move_host(number, before + 1);
    let order = ChangeOrder::Move {
        name: crate::host::names(world.hosts.len()).swap_remove(number),
        url: url(number, before + 1),
    };
    for _ in 0..TOLD_MAX {
        let at = dice.place(world.hosts.len());
        if world.order_change(at, order.clone()).await == Some(Ok(())) {
            return;
        }
        sleep(TOLD_AGAIN).await;
    }
    // Should it have been decided all the same, or be decided yet, that is found at the end.
    world.move_host(number, before);
}

/// Declares a member dead: it has ended, or it runs on and is cut off from all others for a while.
/// Returns whether it may have been.
async fn declare_dead(world: &World, at: HostNumber, dice: &Dice) -> bool {
    let Some(dead) = host_of_member(world, dice).filter(|it| *it != at) else {
        return false;
    };
    let name = crate::host::names(world.hosts.len()).swap_remove(dead);
    let others = || (0..world.hosts.len()).filter(move |other| *other != dead);
    let runs_on = dice.percent(50);
    if runs_on {
        for other in others() {
            world.network.cut(dead, other);
            world.network.cut(other, dead);
        }
    } else {
        world.hosts[dead].crash(Crash::Kill);
    }
    sleep(SILENT).await;
    let replaced_by = joiners(world).into_iter().take(dice.place(2)).collect();
    let order = ChangeOrder::Members {
        join: replaced_by,
        leave: vec![name],
        are_dead: true,
    };
    // Without a majority it may be decided later.
    let told = world.order_change(at, order).await;
    if runs_on {
        sleep(Duration::from_millis(dice.within(&CUT_OFF_MS))).await;
        for other in others() {
            world.network.heal(dead, other);
            world.network.heal(other, dead);
        }
    } else if told != Some(Ok(())) {
        world.start(dead);
    }
    !matches!(told, Some(Err(node::ChangeRefusal::Refused(_))))
}
