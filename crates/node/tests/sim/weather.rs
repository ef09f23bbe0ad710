//! What a seed makes of its world: how large, how fast, how faulty.
//!
//! Each kind of fault is in or out with even chances (swarm testing: Groce and
//! others, "Swarm Testing", 2012): worlds with few kinds of faults and many of
//! each find bugs that worlds with a little of everything hide.

use crate::dice::Dice;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FaultKind {
    /// A process ends at once; its host goes on.
    Kill,
    /// A host loses its power, and of its disk what was not synced, or some of it.
    PowerCut,
    /// The same in the middle of a call of the disk.
    PowerCutInCall,
    /// All hosts lose their power at once.
    Blackout,
    /// A process stands still for a while.
    Freeze,
    /// Bytes from one host do not reach another, but the other way they do.
    CutOneWay,
    /// Two hosts do not reach each other.
    CutBothWays,
    /// A host is cut off from all others.
    Isolate,
    /// All connections between two hosts are lost.
    LoseConnections,
    /// Bytes between two hosts take long.
    SlowPath,
    /// A wall clock is wrong, within the cluster's bound.
    Skew,
    /// A wall clock is wrong beyond the bound.
    FarSkew,
    /// A disk has no more room.
    FullDisk,
    /// A disk, or the processor, is slow.
    SlowDisk,
    /// Syncs of a disk fail, until the process is started anew.
    FailingSyncs,
}

impl FaultKind {
    const ALL: [Self; 15] = [
        Self::Kill,
        Self::PowerCut,
        Self::PowerCutInCall,
        Self::Blackout,
        Self::Freeze,
        Self::CutOneWay,
        Self::CutBothWays,
        Self::Isolate,
        Self::LoseConnections,
        Self::SlowPath,
        Self::Skew,
        Self::FarSkew,
        Self::FullDisk,
        Self::SlowDisk,
        Self::FailingSyncs,
    ];
}

/// Which `ack` and `from` clients ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pairs {
    /// All nodes and their quorum.
    Quorum,
    /// Any `from`, with an `ack` whose reads and writes overlap.
    Majorities,
    /// Whatever is allowed.
    Any,
}

/// What is fixed for the life of a world.
#[derive(Clone, Debug)]
pub(crate) struct Weather {
    /// How many nodes there are.
    pub(crate) nodes: usize,
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
    /// How much of what is not synced survives a power cut, in percent.
    pub(crate) survival_percent: u64,
    /// The kinds of faults.
    pub(crate) faults: Vec<FaultKind>,
    /// How long nothing breaks between two faults, in milliseconds.
    pub(crate) fault_gap_ms: RangeInclusive<u64>,
    /// How long the faults and the clients go on.
    pub(crate) span: Duration,
}

impl Weather {
    /// Throws for all of it.
    pub(crate) fn new(dice: &Dice) -> Self {
        let with_faults = dice.percent(90);
        let mut faults: Vec<FaultKind> = FaultKind::ALL.into();
        faults.retain(|_| with_faults && dice.percent(50));
        Self {
            nodes: *dice.pick(&[3, 3, 3, 4, 5]),
            clients: *dice.pick(&[2, 4, 8]),
            keys: *dice.pick(&[1, 2, 5, 12]),
            pairs: *dice.pick(&[Pairs::Quorum, Pairs::Majorities, Pairs::Any]),
            pause_ms: dice.pick(&[0..=5, 0..=40, 10..=200]).clone(),
            ttl_percent: *dice.pick(&[0, 0, 20]),
            timeout: Duration::from_millis(*dice.pick(&[300, 1_000])),
            delay_ms: dice.pick(&[0..=1, 1..=10, 1..=60]).clone(),
            losses_per_million: *dice.pick(&[0, 0, 2_000]),
            work_ms_max: *dice.pick(&[1, 5, 30]),
            skew_ms_max: *dice.pick(&[0, 1_000, 300_000, 1_500_000]),
            survival_percent: *dice.pick(&[0, 0, 50, 95]),
            faults,
            fault_gap_ms: dice.pick(&[20..=300, 100..=1_000, 500..=2_000]).clone(),
            span: Duration::from_millis(dice.within(&(2_000..=5_000))),
        }
    }
}
