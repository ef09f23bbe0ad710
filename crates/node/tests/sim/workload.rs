//! The workload: each client sends one request after another, to any node.

use crate::dice::Dice;
use crate::scenario::{Pairs, Scenario};
use checker::{Action, Request};

/// The next request of a client.
pub(crate) fn request(client: usize, scenario: &Scenario, dice: &Dice) -> Request {
    let (ack, from) = pair(scenario, dice);
    Request {
        client,
        node: dice.place(scenario.nodes),
        key: dice.below(scenario.keys),
        action: action(scenario, dice),
        ack,
        from,
    }
}

/// The length of a value to put, in bytes: most are short, some longer than a block, a
/// few longer than one frame.
pub(crate) fn value_bytes(dice: &Dice) -> usize {
    let bytes = match dice.below(200) {
        0 => 66_000..=140_000,
        1..=20 => 1_000..=9_000,
        _ => 8..=200,
    };
    dice.within(&bytes) as usize
}

/// A pair of `ack` and `from`. If a folder or a member may be lost, `ack` is at least 2, so that
/// another replica has every acknowledged write.
fn pair(scenario: &Scenario, dice: &Dice) -> (u8, u8) {
    let (ack, from) = any_pair(scenario, dice);
    if scenario.loses_a_replica() {
        (ack.max(2), from.max(2))
    } else {
        (ack, from)
    }
}

fn action(scenario: &Scenario, dice: &Dice) -> Action {
    match dice.below(100) {
        0..=44 => Action::Put {
            ttl_seconds: dice
                .percent(scenario.ttl_percent)
                .then(|| dice.within(&(1..=3))),
        },
        45..=54 => Action::Delete,
        _ => Action::Get,
    }
}

fn any_pair(scenario: &Scenario, dice: &Dice) -> (u8, u8) {
    let nodes = u64::from(scenario.greatest_from());
    let (ack, from) = match scenario.pairs {
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
