//! Faults: what breaks, for how long, and how it is mended.
//!
//! Here is when and where; `strike` is what a fault does, `loss` what becomes
//! of a folder.

mod loss;
mod strike;

use crate::dice::Dice;
use crate::network::HostNumber;
use crate::weather::{FaultKind, Season, Weather};
use crate::world::World;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// A fault: its kind, and where it strikes.
#[derive(Clone, Copy, Debug)]
struct Fault {
    kind: FaultKind,
    host: HostNumber,
    /// Another host.
    other: HostNumber,
}

/// Breaks one thing after another until `end`; each is mended by itself. Gives
/// those that are not mended by then.
pub(crate) async fn break_things(
    world: Rc<World>,
    dice: Dice,
    end: Instant,
) -> Vec<JoinHandle<()>> {
    let mut breaking = Vec::new();
    let weather = &world.weather;
    if let Some(loss) = weather.loss {
        let (world, dice) = (Rc::clone(&world), dice.fork());
        breaking.push(tokio::task::spawn_local(async move {
            loss::lose(&world, loss, &dice, end).await;
        }));
    }
    if weather.faults.is_empty() {
        return breaking;
    }
    loop {
        let gap = Duration::from_millis(dice.within(&weather.fault_gap_ms));
        if Instant::now() + gap >= end {
            return breaking;
        }
        sleep(gap).await;
        let fault = choose(weather, &dice);
        let lasting = Duration::from_millis(dice.within(&weather.fault_ms));
        let (world, dice) = (Rc::clone(&world), dice.fork());
        breaking.retain(|fault: &JoinHandle<()>| !fault.is_finished());
        let striking = Rc::clone(&world);
        let striking = tokio::task::spawn_local(async move {
            strike::strike(&striking, fault, lasting, &dice).await;
        });
        if weather_allows_many(&world.weather) {
            breaking.push(striking);
        } else if striking.await.is_err() {
            return breaking;
        }
    }
}

/// Whether a fault may begin before the last one is mended.
fn weather_allows_many(weather: &Weather) -> bool {
    weather.season != Season::OneAway
}

fn choose(weather: &Weather, dice: &Dice) -> Fault {
    let kind = *dice.pick(&weather.faults);
    let host = match kind {
        // Clocks that are wrong together vouch for each other.
        FaultKind::FarSkew | FaultKind::FarSkewAtStart => weather.far_host,
        _ => dice.place(weather.nodes),
    };
    let apart = 1 + dice.place(weather.nodes - 1);
    Fault {
        kind,
        host,
        other: (host + apart) % weather.nodes,
    }
}
