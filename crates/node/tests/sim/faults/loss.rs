//! What becomes of a folder: it is lost, replaced by a copy, or damaged.
//!
//! One folder in the life of a world at most. Its node must not count until an
//! operator, who has seen to it that the others hold all, says so: that is the
//! end of the world, see [`crate::world`].
//!
//! To be lost does no harm where all others have everything. So it happens
//! while two others are cut off from each other, and what one of them
//! acknowledged with the host's help the other has never seen; and when it is
//! back, the one that knows is sometimes cut off.

use crate::dice::Dice;
use crate::host::{Copy, Crash};
use crate::network::HostNumber;
use crate::weather::Loss;
use crate::world::World;
use std::ops::RangeInclusive;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a process runs until all have met it, in milliseconds. A copy is
/// noticed by those who have met a later start than it knows.
const MEETING_MS: RangeInclusive<u64> = 1_500..=2_500;

/// How long it is away, and how long hosts are cut off, in milliseconds.
const AWAY_MS: RangeInclusive<u64> = 0..=1_000;
const CUT_MS: RangeInclusive<u64> = 700..=2_000;

/// In how many of a hundred cases it is lost before all have met, and how long
/// the parts of that take, in milliseconds.
const EARLY_PERCENT: u64 = 40;
const EARLY_MS: RangeInclusive<u64> = 1_500..=3_000;

/// How often bytes are tried to be damaged, in milliseconds: there may be no table yet.
const ROT_AGAIN_MS: u64 = 100;

/// Lets a folder be lost, or damaged before `end`.
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
    pause(&AWAY_MS).await;
    world.start(loser);
    pause(&CUT_MS).await;
    mend(world, one, other);
    let away = *dice.pick(&[one, other]);
    let others: Vec<HostNumber> = (0..nodes).filter(|host| *host != away).collect();
    others.iter().for_each(|host| cut(world, away, *host));
    pause(&CUT_MS).await;
    others.iter().for_each(|host| mend(world, away, *host));
    note("returned");
}

/// Lets a folder be lost before all have met its host: what it acknowledged with
/// the help of one, it forgets, and then meets only the other.
async fn lose_early(world: &World, dice: &Dice, [loser, one, other]: [HostNumber; 3]) {
    let pause = |ms: &RangeInclusive<u64>| sleep(Duration::from_millis(dice.within(ms)));
    cut(world, loser, other);
    cut(world, one, other);
    pause(&EARLY_MS).await;
    world.hosts[loser].crash(Crash::PowerCut);
    world.lost.set(Some(loser));
    world.hosts[loser].replace_disk(Copy::empty());
    cut(world, loser, one);
    mend(world, loser, other);
    world.start(loser);
    pause(&EARLY_MS).await;
    mend(world, loser, one);
    mend(world, one, other);
}

/// The disk that the host will come back with. Where that is a copy, the host
/// is started once more after it was taken.
async fn copy(world: &World, loss: Loss, loser: HostNumber, dice: &Dice) -> Copy {
    let host = &world.hosts[loser];
    match loss {
        Loss::Folder | Loss::Rot => Copy::empty(),
        Loss::RunningCopy => {
            let copy = host.copy_disk();
            sleep(Duration::from_millis(dice.within(&AWAY_MS))).await;
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

fn mend(world: &World, one: HostNumber, other: HostNumber) {
    world.network.mend(one, other);
    world.network.mend(other, one);
}
