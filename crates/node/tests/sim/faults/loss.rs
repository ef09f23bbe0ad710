//! The loss of a folder: it is lost, replaced by a copy, or damaged.
//!
//! Most worlds lose at most one folder. The store in it must not count until the others
//! have filled it, or until an operator accepts it after the other nodes hold everything.
//! That is checked at the end of the world, see [`crate::world`]. In other worlds each
//! folder is lost once the one before was filled, or all folders go back to copies.
//!
//! A loss does no harm if all other nodes have all data. So the folder is lost while two
//! other hosts are cut off from each other: one of them has acknowledged writes together
//! with the lost host that the other one has never seen. When the host is back, the one
//! that has those writes is sometimes cut off.

use crate::dice::Dice;
use crate::host::{Copy, Crash, Host};
use crate::network::HostNumber;
use crate::scenario::Loss;
use crate::world::World;
use cluster::sweep::PassKind;
use std::ops::RangeInclusive;
use std::rc::Rc;
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
const ROT_AGAIN_MS: RangeInclusive<u64> = 50..=1_500;

/// How many bits of a disk change.
const FLIPS: RangeInclusive<u64> = 1..=4;

/// How long to wait until all stores count, and how often to look, in milliseconds.
const FILLED: Duration = Duration::from_secs(60);
const LOOK_MS: u64 = 50;

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
    match loss {
        Loss::Rot => return rot(world, loser, dice, end).await,
        Loss::EachFolder => return lose_each(world, dice).await,
        Loss::AllCopies => return restore_all(world, dice).await,
        Loss::Folder | Loss::OldCopy | Loss::RunningCopy => {}
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
        Loss::Folder | Loss::Rot | Loss::EachFolder | Loss::AllCopies => Copy::empty(),
    }
}

/// Damages some bits of one disk, and sometimes has a full sweep find them while clients
/// run.
async fn rot(world: &World, loser: HostNumber, dice: &Dice, end: Instant) {
    let mut flips = dice.within(&FLIPS);
    let host = &world.hosts[loser];
    while Instant::now() < end && flips > 0 {
        if host.rot() {
            world.lost.set(Some(loser));
            flips -= 1;
            if dice.percent(50) {
                host.order_sweep(PassKind::Full);
            }
        }
        sleep(Duration::from_millis(dice.within(&ROT_AGAIN_MS))).await;
    }
}

/// Loses each folder in turn, once all stores count.
async fn lose_each(world: &World, dice: &Dice) {
    for (number, host) in world.hosts.iter().enumerate() {
        if !are_witnesses(world).await {
            return;
        }
        host.crash(Crash::PowerCut);
        world.lost.set(Some(number));
        host.replace_disk(Copy::empty());
        world
            .trace
            .note(format_args!("the folder of {number} is lost"));
        sleep(Duration::from_millis(dice.within(&DOWN_MS))).await;
        world.start(number);
    }
    if are_witnesses(world).await {
        world.lost.set(None);
    }
}

/// Waits until all stores count, and returns whether they do.
async fn are_witnesses(world: &World) -> bool {
    let began = Instant::now();
    let is_witness = |host: &Rc<Host>| host.is_witness() == Some(true);
    while !world.hosts.iter().all(is_witness) {
        if began.elapsed() > FILLED {
            return false;
        }
        sleep(Duration::from_millis(LOOK_MS)).await;
    }
    true
}

/// Has all hosts lose power and come back with copies of their disks, which were taken
/// one after another while they ran.
async fn restore_all(world: &World, dice: &Dice) {
    let pause = |ms: &RangeInclusive<u64>| sleep(Duration::from_millis(dice.within(ms)));
    let copied = Instant::now();
    let mut copies = Vec::new();
    for host in &world.hosts {
        copies.push(host.copy_disk());
        pause(&DOWN_MS).await;
        if dice.percent(30) {
            // Its peers remember a start that the copy does not have.
            host.crash(Crash::Kill);
            world.start(host.number());
        }
    }
    pause(&CUT_MS).await;
    for (host, copy) in world.hosts.iter().zip(copies) {
        host.crash(Crash::PowerCut);
        host.replace_disk(copy);
    }
    world.all_were_restored(copied);
    world.trace.note(format_args!("all disks are restored"));
    for number in 0..world.hosts.len() {
        world.start(number);
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
