//! The loss of a folder: it is lost, replaced by a copy, or damaged.
//!
//! At most one folder of a world is lost. The store in it must not count until an
//! operator accepts it, after the other nodes hold everything. That happens at the end
//! of the world, see [`crate::world`].
//!
//! A loss does no harm if all other nodes have all data. So the folder is lost while two
//! other hosts are cut off from each other: one of them has acknowledged writes together
//! with the lost host that the other one has never seen. When the host is back, the one
//! that has those writes is sometimes cut off.

use crate::dice::Dice;
use crate::host::{Copy, Crash};
use crate::network::HostNumber;
use crate::scenario::Loss;
use crate::world::World;
use std::ops::RangeInclusive;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a process runs until all peers have met it, in milliseconds. Peers notice a
/// copy if they have met a later start than the copy knows.
const MEETING_MS: RangeInclusive<u64> = 1_500..=2_500;

/// How long the host is down, and how long hosts are cut off, in milliseconds.
const DOWN_MS: RangeInclusive<u64> = 0..=1_000;
const CUT_MS: RangeInclusive<u64> = 700..=2_000;

/// In how many percent of cases the folder is lost before all peers have met the host,
/// and how long the parts of that take, in milliseconds.
const EARLY_PERCENT: u64 = 40;
const EARLY_MS: RangeInclusive<u64> = 1_500..=3_000;

/// How often to try to damage bytes, in milliseconds, because there may be no table yet.
const ROT_AGAIN_MS: u64 = 100;

/// Loses a folder, or damages it before `end`.
pub(super) async fn lose(world: &World, loss: Loss, dice: &Dice, end: Instant) {
    let nodes = world.hosts.len();
    let loser = dice.place(nodes);
    let first = 1 + dice.place(nodes - 1);
    let second = (first + dice.place(nodes - 2)) % (nodes - 1) + 1;
    let (one, other) = ((loser + first) % nodes, (loser + second) % nodes);
    let pause = |ms: &RangeInclusive<u64>| sleep(Duration::from_millis(dice.within(ms)));
    let note = |what: &str| {
        world.trace.note(format_args!("{what} {loss:?} of {loser}"));
    };
    if loss == Loss::Folder && dice.percent(EARLY_PERCENT) {
        note("early loss");
        return lose_early(world, dice, [loser, one, other]).await;
    }
    pause(&CUT_MS).await;
    if loss == Loss::Rot {
        return rot(world, loser, end).await;
    }
    note("loss");
    let copy = copy(world, loss, loser, dice).await;
    pause(&MEETING_MS).await;
    cut(world, one, other);
    pause(&CUT_MS).await;
    world.hosts[loser].crash(Crash::PowerCut);
    world.lost.set(Some(loser));
    world.hosts[loser].replace_disk(copy);
    note("lost");
    pause(&DOWN_MS).await;
    world.start(loser);
    pause(&CUT_MS).await;
    heal(world, one, other);
    let isolated = *dice.pick(&[one, other]);
    let others: Vec<HostNumber> = (0..nodes).filter(|host| *host != isolated).collect();
    others.iter().for_each(|host| cut(world, isolated, *host));
    pause(&CUT_MS).await;
    others.iter().for_each(|host| heal(world, isolated, *host));
    note("returned");
}

/// Loses a folder before all peers have met its host. The host forgets the writes that
/// it acknowledged together with one peer, and then meets only the other peer.
async fn lose_early(world: &World, dice: &Dice, [loser, one, other]: [HostNumber; 3]) {
    let pause = |ms: &RangeInclusive<u64>| sleep(Duration::from_millis(dice.within(ms)));
    cut(world, loser, other);
    cut(world, one, other);
    pause(&EARLY_MS).await;
    world.hosts[loser].crash(Crash::PowerCut);
    world.lost.set(Some(loser));
    world.hosts[loser].replace_disk(Copy::empty());
    cut(world, loser, one);
    heal(world, loser, other);
    world.start(loser);
    pause(&EARLY_MS).await;
    heal(world, loser, one);
    heal(world, one, other);
}

/// The disk with which the host will come back. If it is a copy, the host starts once
/// more after the copy was taken.
async fn copy(world: &World, loss: Loss, loser: HostNumber, dice: &Dice) -> Copy {
    let host = &world.hosts[loser];
    match loss {
        Loss::Folder | Loss::Rot => Copy::empty(),
        Loss::RunningCopy => {
            let copy = host.copy_disk();
            sleep(Duration::from_millis(dice.within(&DOWN_MS))).await;
            host.crash(Crash::Kill);
            world.start(loser);
            copy
        }
        Loss::OldCopy => {
            if dice.percent(50) {
                host.stop().await;
            }
            host.crash(Crash::PowerCut);
            let copy = host.copy_disk();
            world.start(loser);
            copy
        }
    }
}

async fn rot(world: &World, loser: HostNumber, end: Instant) {
    while Instant::now() < end {
        if world.hosts[loser].rot() {
            world.lost.set(Some(loser));
            return;
        }
        sleep(Duration::from_millis(ROT_AGAIN_MS)).await;
    }
}

fn cut(world: &World, one: HostNumber, other: HostNumber) {
    world.network.cut(one, other);
    world.network.cut(other, one);
}

fn heal(world: &World, one: HostNumber, other: HostNumber) {
    world.network.heal(one, other);
    world.network.heal(other, one);
}
