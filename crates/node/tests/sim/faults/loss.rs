//! The loss of a folder: it is lost, replaced by a copy, or damaged.
//!
//! Most worlds lose at most one folder. The store in it must not count until the others
//! have rebuilt it, or until an operator accepts it after the other nodes hold everything.
//! That is checked at the end of the world, see [`crate::world`]. In other worlds each
//! folder is lost once the one before was rebuilt, or all folders go back to copies.
//!
//! A loss does no harm if all other nodes have all data. So the folder is lost while two
//! other hosts are cut off from each other: one of them has acknowledged writes together
//! with the lost host that the other one has never seen. When the host is back, the one
//! that has those writes is mostly cut off. Right before the loss a client writes through
//! the one, and afterwards it reads and writes the same keys through the other one and
//! through the host that is back.

use crate::dice::Dice;
use crate::host::{Copy, Crash, Host};
use crate::network::HostNumber;
use crate::scenario::Loss;
use crate::world::{PATIENCE, World};
use checker::{Action, Request};
use cluster::comparison::RepairKind;
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

/// How long a learner is with only some of its peers, in milliseconds, in most
/// worlds: long enough for a full repair of those.
const PARTED_MS: RangeInclusive<u64> = 2_000..=9_000;
const PARTED_PERCENT: u64 = 60;

/// The pause between the requests around a loss, in milliseconds.
const PROBE_MS: RangeInclusive<u64> = 5..=120;

/// How many keys are written right before a loss, at most.
const LAST_WORDS_MAX: u64 = 3;

/// After how many requests of a repair a folder is lost.
const REPAIR_REQUESTS: RangeInclusive<u64> = 12..=60;

/// Loses a folder, or damages it before `end`.
pub(super) async fn lose(world: &World, loss: Loss, dice: &Dice, end: Instant) {
    // While members change, the folder of a node that has left or waits to join may be lost as well.
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
        Loss::Rot => return rot(world, [loser, one, other], dice, end).await,
        Loss::InRepair => return lose_in_repair(world, [loser, other], dice).await,
        Loss::EachFolder => return lose_each(world, dice).await,
        Loss::AllCopies => return restore_all(world, dice).await,
        Loss::Folder | Loss::OldCopy | Loss::RunningCopy => {}
    }
    note("loss");
    let copy = copy(world, loss, loser, dice).await;
    pause(&MEETING_MS).await;
    cut(world, one, other);
    pause(&CUT_MS).await;
    let keys = last_words(world, one, dice).await;
    let lost = Instant::now();
    world.hosts[loser].crash(Crash::PowerCut);
    world.lost.set(Some(loser));
    world.hosts[loser].replace_disk(copy);
    note("lost");
    pause(&DOWN_MS).await;
    world.start(loser);
    probe(world, &[other, loser], &keys, &CUT_MS, dice).await;
    heal(world, one, other);
    let isolated = *dice.pick(&[one, one, other]);
    let others: Vec<HostNumber> = (0..nodes).filter(|host| *host != isolated).collect();
    others.iter().for_each(|host| cut(world, isolated, *host));
    let parted_ms = if dice.percent(PARTED_PERCENT) {
        PARTED_MS
    } else {
        CUT_MS
    };
    probe(world, &others, &keys, &parted_ms, dice).await;
    others.iter().for_each(|host| heal(world, isolated, *host));
    note("returned");
    await_rebuilt(world, loser, lost).await;
}

/// Writes some keys through a node, and gives their numbers.
async fn last_words(world: &World, node: HostNumber, dice: &Dice) -> Vec<u64> {
    let count = dice.within(&(1..=LAST_WORDS_MAX));
    let keys: Vec<u64> = (0..count)
        .map(|_| dice.below(world.scenario.keys))
        .collect();
    for key in &keys {
        let put = Action::Put { ttl_seconds: None };
        ask(world, node, *key, put).await;
    }
    keys
}

/// Reads and writes some keys through some nodes for a while.
async fn probe(
    world: &World,
    nodes: &[HostNumber],
    keys: &[u64],
    lasting_ms: &RangeInclusive<u64>,
    dice: &Dice,
) {
    let end = Instant::now() + Duration::from_millis(dice.within(lasting_ms));
    // Some worlds only read, lest a newer write hides what a read should find.
    let put_percent = *dice.pick(&[0, 30]);
    while Instant::now() < end {
        let action = if dice.percent(put_percent) {
            Action::Put { ttl_seconds: None }
        } else {
            Action::Get
        };
        ask(world, *dice.pick(nodes), *dice.pick(keys), action).await;
        sleep(Duration::from_millis(dice.within(&PROBE_MS))).await;
    }
}

/// Asks a quorum of as many nodes as a request may ask.
async fn ask(world: &World, node: HostNumber, key: u64, action: Action) {
    let nodes = world.scenario.greatest_from();
    let request = Request {
        client: world.scenario.clients + 1,
        node,
        key,
        action,
        ack: nodes / 2 + 1,
        from: nodes,
    };
    // The history has the answer.
    let _outcome = world.ask(request, PATIENCE).await;
}

/// Loses a folder in the middle of a full repair, which goes on when the host is back.
async fn lose_in_repair(world: &World, [loser, coordinator]: [HostNumber; 2], dice: &Dice) {
    let host = &world.hosts[loser];
    sleep(Duration::from_millis(dice.within(&MEETING_MS))).await;
    world.hosts[coordinator].order_repair(RepairKind::Full);
    let before = host.repair_requests().unwrap_or(0);
    let requests = dice.within(&REPAIR_REQUESTS);
    let is_over = Instant::now() + PATIENCE;
    let is_running = || {
        let now = host.repair_requests();
        now.is_some_and(|now| now < before + requests)
    };
    while is_running() && Instant::now() < is_over {
        sleep(Duration::from_millis(1)).await;
    }
    let lost = Instant::now();
    host.crash(Crash::PowerCut);
    world.lost.set(Some(loser));
    host.replace_disk(Copy::empty());
    world.start(loser);
    world
        .trace
        .note(format_args!("the folder of {loser} is lost in a repair"));
    await_rebuilt(world, loser, lost).await;
}

/// Waits until a store that was lost counts again, where the nodes rebuild it, and checks what
/// it has then.
async fn await_rebuilt(world: &World, loser: HostNumber, lost: Instant) {
    // Where members change, it may no more be one of them, or other keys are on it.
    let is_known = world.scenario.rebuilds() && world.scenario.changing.is_none();
    if is_known && super::counts(world, loser).await {
        world.check_rebuilt(loser, lost);
    }
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
        _ => Copy::empty(),
    }
}

/// Damages some bits of one disk, and sometimes has a full repair find them while clients
/// run. Meanwhile another host is away that has acknowledged writes together with it.
async fn rot(world: &World, [loser, one, other]: [HostNumber; 3], dice: &Dice, end: Instant) {
    let mut flips = dice.within(&FLIPS);
    let host = &world.hosts[loser];
    let others: Vec<HostNumber> = (0..world.hosts.len()).filter(|host| *host != one).collect();
    while Instant::now() < end && flips > 0 {
        cut(world, one, other);
        let keys = last_words(world, one, dice).await;
        heal(world, one, other);
        others.iter().for_each(|host| cut(world, one, *host));
        if host.rot() {
            world.lost.set(Some(loser));
            flips -= 1;
            if dice.percent(50) {
                host.order_repair(RepairKind::Full);
            }
            probe(world, &others, &keys, &CUT_MS, dice).await;
        }
        others.iter().for_each(|host| heal(world, one, *host));
        sleep(Duration::from_millis(dice.within(&ROT_AGAIN_MS))).await;
    }
}

/// Loses each folder in turn, once all stores count.
async fn lose_each(world: &World, dice: &Dice) {
    for (number, host) in world.hosts.iter().enumerate() {
        if !are_voters(world).await {
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
    if are_voters(world).await {
        world.lost.set(None);
    }
}

/// Waits until all stores count, and returns whether they do.
async fn are_voters(world: &World) -> bool {
    loop {
        for host in 0..world.hosts.len() {
            if !super::counts(world, host).await {
                return false;
            }
        }
        let is_voter = |host: &Rc<Host>| host.is_voter() == Some(true);
        if world.hosts.iter().all(is_voter) {
            return true;
        }
    }
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
