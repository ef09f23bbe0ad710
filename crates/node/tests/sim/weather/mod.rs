//! What a seed makes of its world: how large, how fast, how faulty.
//!
//! In most worlds anything can break, and each kind of fault is in or out with
//! even chances (swarm testing: Groce and others, "Swarm Testing", 2012): worlds
//! with few kinds of faults and many of each find bugs that worlds with a little
//! of everything hide. Some promises hold only in better weather, so there are
//! worlds of it: see [`Season`].

mod kinds;

pub(crate) use kinds::{FaultKind, Loss};

use crate::dice::Dice;
use lsm::Durability;
use std::ops::RangeInclusive;
use std::time::Duration;

/// What kind of weather there is, and with it what can be demanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Season {
    /// All replicas answer, and a few keys are fought for: contents are judged.
    Calm,
    /// One host is away at a time, or none: the others must go on.
    OneAway,
    /// Anything breaks.
    Stormy,
}

/// Which `ack` and `from` clients ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pairs {
    /// All nodes and their quorum.
    Quorum,
    /// Always this one, whose reads and writes overlap.
    One {
        /// How many must answer.
        ack: u8,
        /// Of how many.
        from: u8,
    },
    /// Any `from`, with an `ack` whose reads and writes overlap.
    Majorities,
    /// Whatever is allowed.
    Any,
}

/// What is fixed for the life of a world.
#[derive(Clone, Debug)]
pub(crate) struct Weather {
    /// What kind of weather.
    pub(crate) season: Season,
    /// How many nodes there are.
    pub(crate) nodes: usize,
    /// How many runtimes each has.
    pub(crate) runtimes: usize,
    /// How many clients.
    pub(crate) clients: usize,
    /// How many keys.
    pub(crate) keys: u64,
    /// Which pairs of `ack` and `from`.
    pub(crate) pairs: Pairs,
    /// How long a client waits between operations, in milliseconds.
    pub(crate) pause_ms: RangeInclusive<u64>,
    /// In how many of a hundred cases a put has a time to live.
    pub(crate) ttl_percent: u64,
    /// In how many of a hundred cases a client goes away before it has its answer.
    pub(crate) cancel_percent: u64,
    /// The deadline of requests.
    pub(crate) timeout: Duration,
    /// How long bytes are in flight, in milliseconds.
    pub(crate) delay_ms: RangeInclusive<u64>,
    /// In how many of a million pieces that arrive the connection is lost.
    pub(crate) losses_per_million: u64,
    /// How long a job takes at most, in milliseconds.
    pub(crate) work_ms_max: u64,
    /// How far wall clocks are off from the beginning, at most, in milliseconds.
    pub(crate) skew_ms_max: u64,
    /// When a write counts as stored.
    pub(crate) durability: Durability,
    /// How much of what is not synced survives a power cut, in percent.
    pub(crate) survival_percent: u64,
    /// How much room hints have, in bytes.
    pub(crate) hint_bytes_max: u64,
    /// How long hints are kept.
    pub(crate) hint_age_max: Duration,
    /// The kinds of faults.
    pub(crate) faults: Vec<FaultKind>,
    /// The only host whose clock may be wrong beyond the bound.
    pub(crate) far_host: usize,
    /// What becomes of one folder.
    pub(crate) loss: Option<Loss>,
    /// How long nothing breaks between two faults, in milliseconds.
    pub(crate) fault_gap_ms: RangeInclusive<u64>,
    /// How long a fault lasts, in milliseconds.
    pub(crate) fault_ms: RangeInclusive<u64>,
    /// How long the faults and the clients go on.
    pub(crate) span: Duration,
}

impl Weather {
    /// Throws for all of it.
    pub(crate) fn new(dice: &Dice) -> Self {
        let stormy = Self::stormy(dice);
        let loss = *dice.pick(&Loss::ALL);
        match dice.below(100) {
            0..30 => stormy.calmed(dice),
            30..45 => stormy.with_one_away(dice),
            45..60 => stormy.with_loss(loss, dice),
            _ => stormy,
        }
    }

    fn stormy(dice: &Dice) -> Self {
        let with_faults = dice.percent(95);
        let mut faults: Vec<FaultKind> = FaultKind::ALL.into();
        faults.retain(|_| with_faults && dice.percent(50));
        let nodes = *dice.pick(&[3, 3, 3, 4, 5]);
        let durability = match dice.below(10) {
            0 => Durability::Os,
            1 => Durability::Interval(Duration::from_millis(*dice.pick(&[20, 200]))),
            _ => Durability::Sync,
        };
        Self {
            season: Season::Stormy,
            nodes,
            runtimes: *dice.pick(&[1, 1, 2]),
            clients: *dice.pick(&[2, 4, 8]),
            keys: *dice.pick(&[1, 2, 5, 12]),
            pairs: match dice.below(8) {
                0 | 1 => Pairs::Quorum,
                2 => one_pair(nodes as u64, dice),
                3 | 4 => Pairs::Majorities,
                _ => Pairs::Any,
            },
            pause_ms: dice.pick(&[0..=5, 0..=40, 10..=200]).clone(),
            ttl_percent: *dice.pick(&[0, 0, 20]),
            cancel_percent: *dice.pick(&[0, 0, 10]),
            timeout: Duration::from_millis(*dice.pick(&[300, 1_000])),
            delay_ms: dice.pick(&[0..=1, 1..=10, 1..=60]).clone(),
            losses_per_million: *dice.pick(&[0, 0, 2_000]),
            work_ms_max: *dice.pick(&[1, 5, 30]),
            skew_ms_max: *dice.pick(&[0, 1_000, 300_000, 1_500_000]),
            durability,
            survival_percent: *dice.pick(&[0, 0, 50, 95]),
            hint_bytes_max: *dice.pick(&[1 << 30, 1 << 30, 300 << 10]),
            hint_age_max: Duration::from_secs(*dice.pick(&[24 * 60 * 60, 24 * 60 * 60, 1])),
            faults,
            far_host: dice.place(nodes),
            loss: None,
            fault_gap_ms: dice.pick(&[20..=300, 100..=1_000, 500..=2_000]).clone(),
            fault_ms: 50..=2_500,
            span: Duration::from_millis(dice.within(&(2_000..=5_000))),
        }
    }

    /// Few keys, many at once, and clocks that are far apart; nothing is slow.
    fn calmed(self, dice: &Dice) -> Self {
        let skew = dice.percent(30);
        Self {
            season: Season::Calm,
            clients: *dice.pick(&[3, 5, 8]),
            keys: *dice.pick(&[1, 1, 2]),
            pairs: one_pair(self.nodes as u64, dice),
            pause_ms: dice.pick(&[0..=2, 0..=20]).clone(),
            ttl_percent: 0,
            timeout: Duration::from_secs(1),
            losses_per_million: 0,
            faults: FaultKind::SILENT.iter().copied().filter(|_| skew).collect(),
            span: Duration::from_millis(dice.within(&(500..=2_000))),
            ..self
        }
    }

    /// One folder is lost. Of no other may anything be, and what a copy lacks is
    /// noticed by those that met its host since, so nothing keeps them from it.
    fn with_loss(mut self, loss: Loss, dice: &Dice) -> Self {
        if matches!(loss, Loss::OldCopy | Loss::RunningCopy) || dice.percent(50) {
            self.faults.retain(|kind| FaultKind::SILENT.contains(kind));
        }
        let nodes = *dice.pick(&[3, 3, 4]);
        Self {
            nodes,
            far_host: dice.place(nodes),
            keys: *dice.pick(&[1, 2, 5]),
            pairs: *dice.pick(&[Pairs::Quorum, Pairs::Quorum, Pairs::Any]),
            pause_ms: dice.pick(&[0..=40, 10..=100]).clone(),
            skew_ms_max: *dice.pick(&[0, 300_000, 1_500_000]),
            durability: Durability::Sync,
            loss: Some(loss),
            span: Duration::from_millis(dice.within(&(6_000..=8_000))),
            ..self
        }
    }

    /// Quorums of all nodes, one of which is away now and then, for long enough
    /// to be given up.
    fn with_one_away(self, dice: &Dice) -> Self {
        let mut faults: Vec<FaultKind> = FaultKind::ONE_AWAY.into();
        faults.retain(|_| dice.percent(50));
        if faults.is_empty() {
            faults.push(*dice.pick(&FaultKind::ONE_AWAY));
        }
        Self {
            season: Season::OneAway,
            pairs: Pairs::Quorum,
            pause_ms: 20..=200,
            cancel_percent: 0,
            timeout: Duration::from_secs(1),
            delay_ms: dice.pick(&[0..=1, 1..=10]).clone(),
            losses_per_million: 0,
            work_ms_max: *dice.pick(&[1, 5]),
            faults,
            fault_gap_ms: 3_000..=4_000,
            fault_ms: 300..=8_000,
            span: Duration::from_millis(dice.within(&(8_000..=16_000))),
            ..self
        }
    }
}

/// One pair for all requests, of which any two overlap.
fn one_pair(nodes: u64, dice: &Dice) -> Pairs {
    let from = match dice.percent(50) {
        true => nodes,
        false => dice.within(&(1..=nodes)),
    };
    let ack = match dice.percent(70) {
        true => from / 2 + 1,
        false => dice.within(&(from / 2 + 1..=from)),
    };
    Pairs::One {
        ack: ack as u8,
        from: from as u8,
    }
}
