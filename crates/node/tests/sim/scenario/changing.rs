//! Worlds in which operators change the list of members.

use super::{Loss, Pairs, Scenario, ScenarioKind};
use crate::dice::Dice;
use cluster::Replicas;
use lsm::Durability;
use std::time::Duration;

/// In how many percent of the worlds in which it can the list changes: more than a third of all worlds.
const PERCENT: u64 = 54;

/// How many replicas a request has at most: no list can shrink below the `from` of the default pair.
const FROM_MAX: u8 = 3;

/// How operators change the list of members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Changing {
    /// Whether one member may be declared dead.
    pub(crate) kills: bool,
    /// Whether members may move to other addresses.
    pub(crate) moves: bool,
    /// How long operators wait between two orders at most, in milliseconds.
    pub(crate) gap_ms_max: u64,
    /// Determines what they order.
    pub(crate) seed: u64,
}

impl Scenario {
    /// The list of members changes in some worlds. Where a folder is lost nobody is declared dead as
    /// well: an acknowledged write might be nowhere. Nor does the list change where all folders go
    /// back to copies, which may not know of it.
    pub(super) fn changing(self, dice: &Dice) -> Self {
        let (changes, seed, kills) = (
            dice.percent(PERCENT),
            dice.below(u64::MAX),
            dice.percent(50),
        );
        let joiners = *dice.pick(&[0, 1, 1, 2]);
        let span = Duration::from_millis(dice.within(&(7_000..=12_000)));
        let moves = dice.percent(50);
        let can_lose = match self.loss {
            None => true,
            Some(Loss::EachFolder | Loss::AllCopies) => false,
            Some(_) => self.rebuilds(),
        };
        let can_change = can_lose && self.kind != ScenarioKind::OneUnavailable;
        if !changes || !can_change {
            return self;
        }
        let changing = Changing {
            kills: kills
                && self.loss.is_none()
                && self.kind == ScenarioKind::AnyFault
                && self.durability == Durability::Sync,
            moves: moves && self.kind == ScenarioKind::AnyFault,
            gap_ms_max: *dice.pick(&[300, 2_000]),
            seed,
        };
        let pairs = match self.pairs {
            Pairs::One { ack, from } => Pairs::One {
                ack: ack.min(FROM_MAX),
                from: from.min(FROM_MAX),
            },
            pairs => pairs,
        };
        let pause_ms = match self.kind {
            ScenarioKind::AllAnswer => 10..=100,
            _ => self.pause_ms,
        };
        Self {
            nodes: self.nodes + joiners,
            joiners,
            pairs,
            pause_ms,
            timeout: self.timeout.min(Duration::from_millis(500)),
            span: self.span.max(span),
            counting: self.counting.map(|counting| super::Counting {
                pair: Replicas::quorum(FROM_MAX),
                ..counting
            }),
            changing: Some(changing),
            ..self
        }
    }

    /// The greatest `from` of a request.
    pub(crate) fn greatest_from(&self) -> u8 {
        match self.changing {
            Some(_) => FROM_MAX,
            None => self.nodes as u8,
        }
    }

    /// How many nodes form the cluster.
    pub(crate) fn founders(&self) -> usize {
        self.nodes - self.joiners
    }

    /// The zone of a node. In a half of the worlds, all that join are in one.
    pub(crate) fn zone_of(&self, number: usize) -> Option<&'static str> {
        let changing = self.changing.filter(|_| number >= self.founders());
        changing
            .is_some_and(|it| it.seed & 1 == 1)
            .then_some("zone")
    }

    /// Whether what only one replica has may be lost.
    pub(crate) fn loses_a_replica(&self) -> bool {
        self.loss.is_some() || self.changing.is_some_and(|changing| changing.kills)
    }
}
