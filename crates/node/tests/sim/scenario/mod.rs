//! The scenario of a world, which the seed determines: its size, its speed, its faults.
//!
//! In most worlds any fault may happen, and each kind of fault is enabled with an even
//! chance (Groce and others, "Swarm Testing", 2012): worlds with few kinds of faults and
//! many of each find bugs that worlds with a little of everything hide. Some promises
//! hold only with fewer faults, so some worlds have fewer: see [`ScenarioKind`].

mod changing;
mod kinds;

pub(crate) use changing::Changing;
pub(crate) use kinds::{FaultKind, Loss};

use crate::dice::Dice;
use crate::host::CLOCK_DRIFT_MAX;
use cluster::Replicas;
use lsm::Durability;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Which faults may happen, and so which promises must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScenarioKind {
    /// All replicas answer, and clients compete for a few keys: the history must be
    /// linearizable.
    AllAnswer,
    /// At most one host at a time is unavailable: requests to the others must succeed.
    OneUnavailable,
    /// Any fault may happen.
    AnyFault,
}

/// Which pairs of `ack` and `from` clients ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pairs {
    /// All nodes as `from`, and a quorum of them as `ack`.
    Quorum,
    /// Always this pair. Its reads and writes overlap.
    One {
        /// How many replicas must answer.
        ack: u8,
        /// Of how many replicas.
        from: u8,
    },
    /// Any `from`, and an `ack` with which reads and writes overlap.
    Majorities,
    /// Any allowed pair.
    Any,
}

/// How the nodes drop tombstones. In other worlds the GC grace is far longer than the world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TombstoneGc {
    /// The GC grace.
    pub(crate) gc_grace: Duration,
    /// How often the nodes compare everything.
    pub(crate) full_repair_interval: Duration,
}

/// How clients count by conditional writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counting {
    /// How many clients count.
    pub(crate) clients: usize,
    /// How many counters there are.
    pub(crate) counters: u64,
    /// How many replicas must answer, of how many.
    pub(crate) pair: Replicas,
    /// Determines what they do.
    pub(crate) seed: u64,
}

/// The parameters of a world.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// Which faults may happen.
    pub(crate) kind: ScenarioKind,
    /// How many nodes there are.
    pub(crate) nodes: usize,
    /// How many of them, the last ones, wait to join at first.
    pub(crate) joiners: usize,
    /// How many runtimes each node has.
    pub(crate) runtimes: usize,
    /// How many clients there are.
    pub(crate) clients: usize,
    /// How many keys there are.
    pub(crate) keys: u64,
    /// Which pairs of `ack` and `from` clients ask for.
    pub(crate) pairs: Pairs,
    /// How long a client waits between operations, in milliseconds.
    pub(crate) pause_ms: RangeInclusive<u64>,
    /// How many percent of puts have a time to live.
    pub(crate) ttl_percent: u64,
    /// How many percent of requests a client abandons before the answer.
    pub(crate) cancel_percent: u64,
    /// The deadline of requests.
    pub(crate) timeout: Duration,
    /// How long bytes are in flight, in milliseconds.
    pub(crate) delay_ms: RangeInclusive<u64>,
    /// With how many of a million arriving pieces the connection is lost.
    pub(crate) losses_per_million: u64,
    /// How long a job may take, in milliseconds.
    pub(crate) work_ms_max: u64,
    /// How far wall clocks may be wrong from the beginning, in milliseconds.
    pub(crate) skew_ms_max: u64,
    /// The durability of the stores.
    pub(crate) durability: Durability,
    /// How many percent of unsynced writes survive a power cut.
    pub(crate) survival_percent: u64,
    /// How many bytes hints may take.
    pub(crate) hint_bytes_max: u64,
    /// How long hints are kept.
    pub(crate) hint_age_max: Duration,
    /// How often the nodes compare what they keep, if they do.
    pub(crate) repair_interval: Option<Duration>,
    /// The keys of a range of a repair.
    pub(crate) range_keys: usize,
    /// How the nodes drop tombstones, if they do while the world lasts.
    pub(crate) tombstone_gc: Option<TombstoneGc>,
    /// Whether the nodes share a target of backups.
    pub(crate) has_backups: bool,
    /// How far apart clocks may be.
    pub(crate) clock_drift_max: Duration,
    /// The kinds of faults.
    pub(crate) faults: Vec<FaultKind>,
    /// The only host whose clock may be wrong beyond the bound.
    pub(crate) far_host: usize,
    /// How folders are lost, if any are.
    pub(crate) loss: Option<Loss>,
    /// The pause between two faults, in milliseconds.
    pub(crate) fault_gap_ms: RangeInclusive<u64>,
    /// How long a fault lasts, in milliseconds.
    pub(crate) fault_ms: RangeInclusive<u64>,
    /// How long faults happen and clients run.
    pub(crate) span: Duration,
    /// How clients count, if any do.
    pub(crate) counting: Option<Counting>,
    /// How operators change the list of members, if they do.
    pub(crate) changing: Option<Changing>,
}

impl Scenario {
    /// The scenario that `dice` determine.
    pub(crate) fn new(dice: &Dice) -> Self {
        let any_fault = Self::any_fault(dice);
        let loss = *dice.pick(&Loss::ALL);
        let scenario = match dice.below(100) {
            0..30 => any_fault.without_faults(dice),
            30..39 => any_fault.with_one_unavailable(dice),
            39..62 => any_fault.with_loss(loss, dice),
            62..69 => any_fault.with_many_repairs(dice),
            69..76 => any_fault.with_interrupted_repairs(dice),
            76..86 => any_fault.with_tombstone_gc(dice),
            86..90 => any_fault.with_loss(loss, dice).with_tombstone_gc(dice),
            90..93 => any_fault.with_loss_of_power_and_more(dice),
            _ => any_fault,
        };
        let counting = scenario.counting(dice);
        let scenario = Self {
            counting,
            ..scenario
        };
        scenario.changing(dice)
    }

    /// Clients count in half of the worlds in which no acknowledged write may be lost.
    fn counting(&self, dice: &Dice) -> Option<Counting> {
        let is_safe = match self.loss {
            None => true,
            Some(Loss::AllCopies) => false,
            Some(_) => self.rebuilds(),
        };
        let counts = dice.percent(50) && is_safe && self.durability == Durability::Sync;
        let nodes = self.nodes as u8;
        counts.then(|| Counting {
            clients: *dice.pick(&[1, 3, 6]),
            counters: *dice.pick(&[1, 1, 3]),
            pair: Replicas::quorum(*dice.pick(&[3, nodes])),
            seed: dice.below(u64::MAX),
        })
    }

    /// How many requests of a thousand are scans. Each is compared with all writes of all keys.
    pub(crate) fn scan_permille(&self) -> u64 {
        match self.keys {
            0..=12 => 30,
            _ => 8,
        }
    }

    /// How many requests of a thousand are batches.
    pub(crate) fn batch_permille(&self) -> u64 {
        match self.clients {
            // With many clients there are enough requests at a time.
            8.. => 0,
            _ => 60,
        }
    }

    /// Whether sessions may run: those that are due, those that rebuild a store, and those of
    /// an operator.
    pub(crate) fn can_repair(&self) -> bool {
        let orders = [FaultKind::KillInRepair, FaultKind::SecondCoordinator];
        self.repair_interval.is_some()
            || self.loss.is_some()
            || self.durability != Durability::Sync
            || orders.iter().any(|kind| self.faults.contains(kind))
    }

    /// Whether a store that lost something is rebuilt by the others, and no operator accepts
    /// it as it is.
    pub(crate) fn rebuilds(&self) -> bool {
        self.repair_interval.is_some() && self.loss.is_some()
    }

    fn any_fault(dice: &Dice) -> Self {
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
            kind: ScenarioKind::AnyFault,
            nodes,
            joiners: 0,
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
            repair_interval: *dice.pick(&[
                None,
                Some(Duration::from_secs(2)),
                Some(Duration::from_secs(5)),
            ]),
            range_keys: *dice.pick(&[4, 16 << 10]),
            tombstone_gc: None,
            has_backups: false,
            clock_drift_max: CLOCK_DRIFT_MAX,
            faults,
            far_host: dice.place(nodes),
            loss: None,
            fault_gap_ms: dice.pick(&[20..=300, 100..=1_000, 500..=2_000]).clone(),
            fault_ms: 50..=2_500,
            span: Duration::from_millis(dice.within(&(2_000..=5_000))),
            counting: None,
            changing: None,
        }
    }

    /// Few keys, many concurrent requests, and clocks that are far apart; no host is slow.
    fn without_faults(self, dice: &Dice) -> Self {
        let skew = dice.percent(30);
        Self {
            kind: ScenarioKind::AllAnswer,
            clients: *dice.pick(&[3, 5, 8]),
            keys: *dice.pick(&[1, 1, 2]),
            pairs: one_pair(self.nodes as u64, dice),
            pause_ms: dice.pick(&[0..=2, 0..=20]).clone(),
            ttl_percent: 0,
            timeout: Duration::from_secs(1),
            losses_per_million: 0,
            faults: FaultKind::HARMLESS
                .iter()
                .copied()
                .filter(|_| skew)
                .collect(),
            span: Duration::from_millis(dice.within(&(500..=2_000))),
            ..self
        }
    }

    /// One folder is lost, or each in turn, or all go back to copies. Peers notice a copy only if
    /// they have met its host since it was taken, so no fault keeps them apart then.
    fn with_loss(mut self, loss: Loss, dice: &Dice) -> Self {
        let is_copy = matches!(loss, Loss::OldCopy | Loss::RunningCopy | Loss::AllCopies);
        if is_copy || dice.percent(50) {
            self.faults
                .retain(|kind| FaultKind::HARMLESS.contains(kind));
        }
        let nodes = *dice.pick(&[3, 3, 3, 4]);
        let (keys, range_keys) = match loss {
            Loss::InRepair => (40, 4),
            _ => (*dice.pick(&[1, 2, 5]), self.range_keys),
        };
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let intervals = [None, seconds(2), seconds(2), seconds(5), seconds(60)];
        Self {
            nodes,
            far_host: dice.place(nodes),
            keys,
            range_keys,
            repair_interval: *dice.pick(&intervals[usize::from(loss == Loss::InRepair)..]),
            pairs: *dice.pick(&[Pairs::Quorum, Pairs::Quorum, Pairs::Any]),
            pause_ms: match loss {
                Loss::EachFolder => 40..=400,
                _ => dice.pick(&[0..=40, 10..=100]).clone(),
            },
            skew_ms_max: *dice.pick(&[1_000, 300_000, 1_500_000]),
            durability: Durability::Sync,
            loss: Some(loss),
            span: Duration::from_millis(match loss {
                Loss::EachFolder => dice.within(&(12_000..=25_000)),
                _ => dice.within(&(6_000..=8_000)),
            }),
            ..self
        }
    }

    /// One node after the other is absent for longer than hints live, and clocks are far
    /// apart, while repairs run often: what a repair may skip matters only
    /// if an earlier one has ended before the faults.
    fn with_many_repairs(self, dice: &Dice) -> Self {
        Self {
            nodes: *dice.pick(&[3, 3, 4]),
            far_host: dice.place(3),
            runtimes: 1,
            clients: *dice.pick(&[2, 4]),
            keys: 150,
            pairs: Pairs::Quorum,
            pause_ms: 40..=300,
            timeout: Duration::from_millis(300),
            skew_ms_max: *dice.pick(&[1_000, 300_000, 1_500_000]),
            hint_age_max: Duration::from_secs(1),
            repair_interval: Some(Duration::from_secs(1)),
            // Many short ranges would take longer than a world lasts.
            range_keys: 16 << 10,
            // A restart would forget what earlier repairs have shown.
            faults: vec![FaultKind::Freeze, FaultKind::Isolate],
            fault_gap_ms: 3_000..=5_000,
            fault_ms: 2_000..=4_000,
            span: Duration::from_millis(dice.within(&(15_000..=20_000))),
            ..self
        }
    }

    /// Full repairs of many ranges, with several coordinators, that restarts cut short.
    fn with_interrupted_repairs(self, dice: &Dice) -> Self {
        let mut faults = vec![FaultKind::KillInRepair, FaultKind::SecondCoordinator];
        for kind in [FaultKind::Freeze, FaultKind::PowerCut] {
            faults.extend(dice.percent(30).then_some(kind));
        }
        Self {
            nodes: *dice.pick(&[3, 3, 4]),
            far_host: dice.place(3),
            clients: *dice.pick(&[2, 4]),
            keys: 60,
            pause_ms: 10..=100,
            timeout: Duration::from_millis(300),
            delay_ms: dice.pick(&[0..=1, 1..=10]).clone(),
            work_ms_max: *dice.pick(&[1, 5]),
            hint_age_max: Duration::from_secs(1),
            repair_interval: Some(Duration::from_secs(2)),
            range_keys: 8,
            faults,
            fault_gap_ms: 200..=1_500,
            fault_ms: 200..=2_500,
            span: Duration::from_millis(dice.within(&(6_000..=10_000))),
            ..self
        }
    }

    /// Full repairs at short intervals raise the GC threshold again and again, and the stores
    /// are compacted often. Most keys are quiet for longer than the GC grace after a delete,
    /// so a value that comes back is not overwritten at once. Between faults there is
    /// time for a repair.
    fn with_tombstone_gc(mut self, dice: &Dice) -> Self {
        let seconds = Duration::from_secs;
        if self.loss.is_none() {
            self.faults.retain(|_| dice.percent(40));
            // What is on its way longer than the GC grace is what must not bring back the dead.
            let late = [
                FaultKind::CutOneWay,
                FaultKind::CutBothWays,
                FaultKind::Freeze,
            ];
            self.faults.push(*dice.pick(&late));
            self.durability = *dice.pick(&[
                Durability::Sync,
                Durability::Sync,
                Durability::Os,
                Durability::Interval(Duration::from_millis(200)),
            ]);
        }
        // Many short ranges would take longer than the pause between two repairs.
        let (keys, range_keys) = *dice.pick(&[(3, 2), (12, 4), (12, 16 << 10), (40, 10)]);
        let gc_grace_ms = *dice.pick(&[100, 400, 1_000, 3_000]);
        Self {
            runtimes: 1,
            clients: *dice.pick(&[2, 4]),
            keys,
            range_keys,
            pairs: match dice.below(8) {
                0..4 => Pairs::Quorum,
                4 | 5 => one_pair_of(dice.within(&(1..=self.nodes as u64)), dice),
                6 => Pairs::Majorities,
                _ => Pairs::Any,
            },
            pause_ms: dice.pick(&[10..=60, 20..=150, 40..=300]).clone(),
            ttl_percent: *dice.pick(&[0, 0, 40]),
            timeout: Duration::from_millis(*dice.pick(&[300, 1_000])),
            delay_ms: dice.pick(&[0..=1, 1..=10]).clone(),
            skew_ms_max: *dice.pick(&[0, (gc_grace_ms / 4).min(400)]),
            hint_age_max: *dice.pick(&[seconds(1), seconds(24 * 3600)]),
            repair_interval: Some(seconds(2)),
            tombstone_gc: Some(TombstoneGc {
                gc_grace: Duration::from_millis(gc_grace_ms),
                full_repair_interval: seconds(*dice.pick(&[1, 2])),
            }),
            clock_drift_max: seconds(1),
            fault_gap_ms: dice.pick(&[500..=2_000, 2_000..=5_000]).clone(),
            fault_ms: 200..=6_000,
            span: self
                .span
                .max(Duration::from_millis(dice.within(&(14_000..=20_000)))),
            ..self
        }
    }

    /// Stores that do not sync their writes lose power again and again, and one of them its
    /// folder or some bits as well, while the cluster drops tombstones: several stores lack
    /// something at a time.
    fn with_loss_of_power_and_more(self, dice: &Dice) -> Self {
        let loss = *dice.pick(&[Loss::Folder, Loss::Rot]);
        let scenario = self.with_loss(loss, dice).with_tombstone_gc(dice);
        Self {
            durability: Durability::Os,
            faults: vec![FaultKind::PowerCut, FaultKind::Blackout],
            fault_gap_ms: 1_000..=4_000,
            ..scenario
        }
    }

    /// Quorums of all nodes. Now and then one node is unavailable, for long enough that the
    /// others notice.
    fn with_one_unavailable(self, dice: &Dice) -> Self {
        let mut faults: Vec<FaultKind> = FaultKind::ONE_UNAVAILABLE.into();
        faults.retain(|_| dice.percent(50));
        if faults.is_empty() {
            faults.push(*dice.pick(&FaultKind::ONE_UNAVAILABLE));
        }
        Self {
            kind: ScenarioKind::OneUnavailable,
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

/// One pair for all requests. Any two requests with it overlap.
fn one_pair(nodes: u64, dice: &Dice) -> Pairs {
    let from = if dice.percent(50) {
        nodes
    } else {
        dice.within(&(1..=nodes))
    };
    one_pair_of(from, dice)
}

/// One pair with this `from`. Any two requests with it overlap.
fn one_pair_of(from: u64, dice: &Dice) -> Pairs {
    let ack = if dice.percent(70) {
        from / 2 + 1
    } else {
        dice.within(&(from / 2 + 1..=from))
    };
    Pairs::One {
        ack: ack as u8,
        from: from as u8,
    }
}
