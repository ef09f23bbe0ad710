//! What becomes of a folder: it is lost, replaced by a copy, or damaged.
//!
//! One folder in the life of a world at most. Its node must not count until an
//! operator, who has seen to it that the others hold all, says so: that is the
//! end of the world, see [`crate::world`].

use crate::dice::Dice;
use crate::host::{Copy, Crash};
use crate::weather::Loss;
use crate::world::World;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long at most a process is away whose folder is lost, in milliseconds.
const AWAY_MS_MAX: u64 = 1_500;

/// Lets a folder be lost, before `end`.
pub(super) async fn lose(world: &World, loss: Loss, dice: &Dice, end: Instant) {
    let number = dice.place(world.hosts.len());
    let host = &world.hosts[number];
    let left_ms = |parts: u64| {
        let left = end.saturating_duration_since(Instant::now());
        Duration::from_millis(dice.below(1 + left.as_millis() as u64 / parts))
    };
    sleep(left_ms(2)).await;
    let note = |what: &str| {
        world
            .trace
            .note(format_args!("{what} {loss:?} of {number}"));
    };
    note("loss");
    if loss == Loss::Rot {
        while Instant::now() < end {
            if host.rot() {
                world.lost.set(Some(number));
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
        return;
    }
    let copy = match loss {
        Loss::Folder | Loss::Rot => Copy::empty(),
        Loss::RunningCopy => host.copy_disk(),
        Loss::OldCopy => {
            if dice.percent(50) {
                host.stop().await;
            }
            host.crash(Crash::PowerCut);
            let copy = host.copy_disk();
            world.start(number);
            copy
        }
    };
    sleep(left_ms(2)).await;
    host.crash(Crash::PowerCut);
    world.lost.set(Some(number));
    host.replace_disk(copy);
    note("lost");
    sleep(Duration::from_millis(dice.below(AWAY_MS_MAX))).await;
    world.start(number);
}
