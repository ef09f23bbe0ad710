//! Random schedules of one key while the list of members changes.
//!
//! The machines of writes and reads, the placements, the plans and the progress of changes are the
//! real ones. The model is what lies between them: nodes that adopt lists at different moments,
//! messages in any order, repair sessions of two nodes, crashes, lost messages, lost stores.
//!
//! - **Strict** runs lose nothing, and their histories must be linearizable.
//! - Runs with **faults** lose messages, coordinators, nodes and stores, and abort changes. Then a
//!   read returns at least what was acknowledged or read before it began, and the timestamp of an
//!   acknowledged write is above both.
//!
//! Each [`Bug`] breaks one rule, and the model finds a violation of what clients may rely on.

mod conditional;
mod history;
mod node;
mod operations;
mod serving;
mod steps;
mod world;

use world::World;

/// A rule to break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A change goes on before all members have reported.
    NoBarrier,
    /// `Settling` does not wait for sessions with the old members that do not keep the key any more.
    NoSync,
    /// Nodes serve requests of lists from before the session that they took part in.
    NoFloor,
    /// A member reports a list while requests of the one before are under way.
    NoDrain,
    /// A read asks a quorum of the list that judges only.
    ReadOneSide,
    /// The old list judges in `Settling`, too.
    JudgeOld,
    /// The new list judges in `Copying`, too.
    JudgeNew,
    /// A write counts acks over both lists together.
    UnionAcks,
    /// The acks and reads of a learner count.
    LostCounts,
    /// A change is aborted from `Settling` at once.
    AbortAtOnce,
    /// Back in the old list before everybody has left `Settling`.
    AbortTooEarly,
    /// Nodes serve those who are no members any more.
    NoRefusal,
    /// From `Copying` to the new list at once.
    NoSettling,
    /// A write that was refused because of its list gets a second timestamp.
    RestampRefused,
    /// A member that was declared dead is one again after an abort.
    DeadReturns,
    /// A promise to a request of an earlier list counts as one of both lists.
    PromisesAnyList,
    /// Who settles a promise of an earlier list trusts the replicas of its own list.
    SettlesEarlierAsItIs,
}

impl Bug {
    const ALL: [Self; 17] = [
        Self::NoBarrier,
        Self::NoSync,
        Self::NoFloor,
        Self::NoDrain,
        Self::ReadOneSide,
        Self::JudgeOld,
        Self::JudgeNew,
        Self::UnionAcks,
        Self::LostCounts,
        Self::AbortAtOnce,
        Self::AbortTooEarly,
        Self::NoRefusal,
        Self::NoSettling,
        Self::RestampRefused,
        Self::DeadReturns,
        Self::PromisesAnyList,
        Self::SettlesEarlierAsItIs,
    ];
}

/// What may happen in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    /// Whether messages, nodes and stores are lost, and changes aborted.
    has_faults: bool,
    /// How many copies keys have, each as likely.
    copies: &'static [u8],
    /// Whether one node hears late of lists, and gets every second request.
    has_slow_node: bool,
    /// How many of 100 requests are conditional writes.
    conditional: u8,
    /// Weights of what happens next.
    pace: Pace,
    bug: Option<Bug>,
}

/// How often the parts of a run go on, of 100 steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    requests: u8,
    sessions: u8,
    lists: u8,
    adoption: u8,
}

const EVEN: Pace = Pace {
    requests: 45,
    sessions: 15,
    lists: 12,
    adoption: 12,
};

fn run(seed: u64, scenario: Scenario) -> World {
    let mut world = World::new(seed, scenario);
    world.run();
    world
}

fn violation(seed: u64, scenario: Scenario) -> Option<String> {
    let world = run(seed, scenario);
    let violation = world.history.violation();
    if violation.is_none() && !scenario.has_faults {
        return world.history.linearizability();
    }
    violation
}

const STRICT: Scenario = Scenario {
    has_faults: false,
    copies: &[3, 3, 3, 2, 1],
    has_slow_node: false,
    conditional: 0,
    pace: EVEN,
    bug: None,
};
const FAULTY: Scenario = Scenario {
    has_faults: true,
    ..STRICT
};
const SLOW: Scenario = Scenario {
    copies: &[1, 3],
    has_slow_node: true,
    ..STRICT
};
const FAULTY_WITH_ONE_COPY: Scenario = Scenario {
    copies: &[1],
    ..FAULTY
};

const CONDITIONAL: Scenario = Scenario {
    conditional: 45,
    ..STRICT
};
const SLOW_CONDITIONAL: Scenario = Scenario {
    conditional: 45,
    ..SLOW
};
const FAULTY_CONDITIONAL: Scenario = Scenario {
    conditional: 60,
    has_slow_node: true,
    copies: &[2, 3],
    ..FAULTY
};

/// How many runs of each scenario the conditional writes have here; `many_runs` has more.
const CONDITIONAL_RUNS: u64 = 60;

#[test]
fn conditional_writes_go_on_while_members_change() {
    let (mut lists, mut swaps) = (0, 0);
    for scenario in [CONDITIONAL, SLOW_CONDITIONAL, FAULTY_CONDITIONAL] {
        for seed in 0..CONDITIONAL_RUNS {
            let world = run(seed, scenario);
            lists += world.lists.len() - 1;
            swaps += world.history.swaps();
            let violation = violation(seed, scenario);
            assert_eq!(violation, None, "seed {seed}, {scenario:?}");
        }
    }
    println!("{lists} lists, {swaps} conditional writes");
    assert!(lists as u64 > 2 * CONDITIONAL_RUNS && swaps as u64 > 2 * CONDITIONAL_RUNS);
}

#[test]
fn nothing_is_lost_while_members_change() {
    let (mut lists, mut writes, mut reads) = (0, 0, 0);
    for scenario in [STRICT, FAULTY, SLOW, FAULTY_WITH_ONE_COPY] {
        for seed in 0..RUNS {
            let world = run(seed, scenario);
            lists += world.lists.len() - 1;
            writes += world.history.writes();
            reads += world.history.reads();
            let violation = violation(seed, scenario);
            assert_eq!(violation, None, "seed {seed}, {scenario:?}");
        }
    }
    println!("{lists} lists, {writes} acknowledged writes, {reads} reads");
    assert!(lists as u64 > 2 * RUNS && writes as u64 > 5 * RUNS && reads as u64 > 5 * RUNS);
}

const RUNS: u64 = 500;

/// `MEMBER_CHANGES=RUNS`: as many runs of each scenario, with a rule broken if `BUG` names one.
#[test]
#[ignore = "takes as long as it is told to"]
fn many_runs() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let runs: u64 = number("MEMBER_CHANGES").unwrap_or(10_000);
    let first: u64 = number("FIRST_SEED").unwrap_or(0);
    let bug = std::env::var("BUG").ok().map(|name| {
        let mut all = Bug::ALL.into_iter();
        all.find(|bug| format!("{bug:?}") == name).unwrap()
    });
    for scenario in [
        STRICT,
        FAULTY,
        SLOW,
        FAULTY_WITH_ONE_COPY,
        CONDITIONAL,
        SLOW_CONDITIONAL,
        FAULTY_CONDITIONAL,
    ] {
        let scenario = Scenario { bug, ..scenario };
        let mut found = Vec::new();
        for seed in first..first + runs {
            if let Some(violation) = violation(seed, scenario) {
                found.push((seed, violation));
            }
        }
        println!("{scenario:?}: {} of {runs}", found.len());
        for (seed, violation) in found.iter().take(3) {
            println!("    {seed}: {violation}");
        }
        assert!(bug.is_some() || found.is_empty());
    }
}

/// Each bug with the scenario in which it is caught, and within how many runs.
///
/// Seven are not caught here. Reports while older requests are under way (`NoDrain`), and nodes that
/// serve former members (`NoRefusal`): in this model the floor alone suffices against both, because
/// each old replica of a key that moves takes part in a session with those that gain it. They are
/// further defences. `AbortTooEarly`, `DeadReturns` and `RestampRefused` are too rare; the golden cases
/// of members and of writes have their rules. `PromisesAnyList` and `SettlesEarlierAsItIs` were not
/// found in the runs so far, so these two rules are kept as further defences of conditional writes.
const CAUGHT: &[(Bug, Scenario, u64)] = &[
    (Bug::NoBarrier, SLOW, 100),
    (Bug::NoSync, FAULTY_WITH_ONE_COPY, 1_000),
    (Bug::NoFloor, SLOW, 1_000),
    (Bug::ReadOneSide, FAULTY_WITH_ONE_COPY, 500),
    (Bug::JudgeOld, STRICT, 500),
    (Bug::JudgeNew, STRICT, 500),
    (Bug::UnionAcks, STRICT, 500),
    (Bug::LostCounts, FAULTY, 1_000),
    (Bug::AbortAtOnce, FAULTY_WITH_ONE_COPY, 1_000),
    (Bug::NoSettling, SLOW, 100),
];

#[test]
fn each_broken_rule_is_caught() {
    for (bug, scenario, runs) in CAUGHT {
        let scenario = Scenario {
            bug: Some(*bug),
            ..*scenario
        };
        let is_caught = (0..*runs).any(|seed| violation(seed, scenario).is_some());
        assert!(is_caught, "{bug:?}");
    }
}
