//! The clients: each asks one thing after another, of any node.

use crate::dice::Dice;
use crate::weather::{Pairs, Weather};
use checker::{Action, Request};

/// What a client asks next.
pub(crate) fn request(client: usize, weather: &Weather, dice: &Dice) -> Request {
    let (ack, from) = pair(weather, dice);
    Request {
        client,
        node: dice.place(weather.nodes),
        key: dice.below(weather.keys),
        action: action(weather, dice),
        ack,
        from,
    }
}

/// How long a value to put, in bytes: mostly short, some longer than a block,
/// a few longer than what travels in one piece.
pub(crate) fn value_bytes(dice: &Dice) -> usize {
    let bytes = match dice.below(200) {
        0 => 66_000..=140_000,
        1..=20 => 1_000..=9_000,
        _ => 8..=200,
    };
    dice.within(&bytes) as usize
}

/// A pair; where a folder may be lost, of two replicas at least, so that another
/// has what was acknowledged.
fn pair(weather: &Weather, dice: &Dice) -> (u8, u8) {
    let (ack, from) = any_pair(weather, dice);
    match weather.loss {
        Some(_) => (ack.max(2), from.max(2)),
        None => (ack, from),
    }
}

fn action(weather: &Weather, dice: &Dice) -> Action {
    match dice.below(100) {
        0..=44 => Action::Put {
            ttl_seconds: dice
                .percent(weather.ttl_percent)
                .then(|| dice.within(&(1..=3))),
        },
        45..=54 => Action::Delete,
        _ => Action::Get,
    }
}

fn any_pair(weather: &Weather, dice: &Dice) -> (u8, u8) {
    let nodes = weather.nodes as u64;
    let (ack, from) = match weather.pairs {
        Pairs::Quorum => (nodes / 2 + 1, nodes),
        Pairs::One { ack, from } => return (ack, from),
        Pairs::Majorities => {
            let from = dice.within(&(1..=nodes));
            (dice.within(&(from / 2 + 1..=from)), from)
        }
        Pairs::Any => {
            let from = dice.within(&(1..=nodes));
            (dice.within(&(1..=from)), from)
        }
    };
    (ack as u8, from as u8)
}
