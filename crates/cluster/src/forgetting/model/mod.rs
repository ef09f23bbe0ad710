//! A model of fence, sweep and drop for three stores and one key, explored
//! exhaustively.
//!
//! Two stores have a value; its write to the third is on its way. A client deletes
//! it, another may write a later value. Passes fence, compare and make durable;
//! stores drop what they may. In between writes arrive late, reads repair, power
//! fails, folders are lost or restored. The search takes every possible step in
//! every state that it reaches, breadth first, so a violation comes with a shortest
//! way to it. The steps ask the rules of [`super`] themselves. Each [`Bug`] breaks
//! one of them, and the search must find what that leads to.
//!
//! It has taught some rules that are easily forgotten:
//! - A store that comes back and lacks something takes over the fence of the others
//!   before it takes any write: what is late would come in by it.
//! - Peers remember the fence of a store, so that a folder from before it is noticed.
//! - An acknowledgement of a store that was lost since does not count together with
//!   one that comes later: the pass that fills the store may have passed by.
//! - A repair below the fence is as good as the store that answered with the version:
//!   once that store is replaced, no pass meets the version in it.
//! - If a tombstone names fewer stores than the value, a pass that moves something below the
//!   fence compares all pairs again. The other scenarios do without, so that they show the
//!   other rules alone.
//! - And a repair that comes late may slip behind that pass, so it is compared with what all
//!   other stores hold before it is stored.
//! - That holds for one from below F as well, once F is about to rise again: what hides it may be
//!   from above F.
//! - A mend may be late, too. That a store has answered that none came is true only of what came
//!   before: from then on it compares what comes with all others, even after a restart, as nobody
//!   knows when it hears of F.
//! - Receivers do not vouch for each other while one store is no receiver.
//! - A copy that belongs to other stores only may be the last one, until a pass has shown that
//!   they have it; and what a pass has shown of one list of nodes says nothing of another, not
//!   even if the pass goes on with that.

mod late_mends;
mod passes;
mod rules;
mod scenario;
mod state;
mod steps;

use rules::{Bug, Rules};
use scenario::Scenario;
use state::{BETWEEN, FENCE, FUTURE, LATER, Step, TOMBSTONE, Violation};
use std::collections::BTreeSet;
use steps::Steps;

/// The first states of a search are those of one scenario, and it goes on until it
/// has seen all.
const SCENARIOS: [Scenario; 17] = [
    Scenario {
        name: "late writes and repairs",
        repairs: 1,
        ..PLAIN
    },
    Scenario {
        name: "a later value",
        writes: &[TOMBSTONE, LATER],
        has_late_value: false,
        ..PLAIN
    },
    Scenario {
        name: "a power cut before mends are synced",
        crashes: 1,
        ..PLAIN
    },
    Scenario {
        name: "a power cut before anything is synced",
        crashes: 1,
        has_synced_writes: false,
        has_late_value: false,
        ..PLAIN
    },
    Scenario {
        name: "power cuts after F has risen",
        has_synced_writes: false,
        fences: &[FENCE, 0],
        crashes: 2,
        has_late_value: false,
        ..PLAIN
    },
    Scenario {
        name: "a lost folder",
        losses: 1,
        repairs: 1,
        has_late_value: false,
        ..PLAIN
    },
    Scenario {
        name: "a lost folder and a slow clock",
        fences: &[],
        losses: 1,
        writes: &[TOMBSTONE, LATER],
        ..PLAIN
    },
    Scenario {
        name: "restored folders",
        fences: &[FENCE, 0],
        rollbacks: 2,
        has_late_value: false,
        ..PLAIN
    },
    Scenario {
        name: "two drivers",
        fences: &[FENCE, FENCE],
        has_late_value: false,
        ..PLAIN
    },
    Scenario {
        name: "a clock that jumps years",
        has_jumped_clock: true,
        fences: &[FUTURE],
        writes: &[TOMBSTONE, LATER],
        has_late_value: false,
        ..PLAIN
    },
    Scenario {
        name: "a tombstone of fewer copies",
        has_short_tombstone: true,
        writes: &[],
        crashes: 1,
        ..PLAIN
    },
    Scenario {
        name: "a late repair and a tombstone of fewer copies",
        has_short_tombstone: true,
        has_late_value: false,
        writes: &[],
        repairs: 1,
        ..PLAIN
    },
    Scenario {
        name: "a copy beyond the replicas of a value, and a lost folder",
        value_copies: 2,
        writes: &[],
        losses: 1,
        repairs: 1,
        ..PLAIN
    },
    Scenario {
        name: "a copy beyond the replicas of a value that is deleted",
        value_copies: 2,
        repairs: 1,
        ..PLAIN
    },
    Scenario {
        name: "another list of nodes",
        value_copies: 1,
        writes: &[],
        has_late_value: false,
        repairs: 1,
        relists: 1,
        ..PLAIN
    },
    Scenario {
        name: "a late mend and a tombstone of fewer copies",
        has_short_tombstone: true,
        has_late_value: false,
        writes: &[],
        mends: 1,
        crashes: 1,
        ..PLAIN
    },
    Scenario {
        name: "a late repair from below F while F rises once more",
        fences: &[BETWEEN, FENCE],
        has_bystander: true,
        has_late_value: false,
        repairs: 1,
        ..PLAIN
    },
];

const LATE: usize = 0;
const MENDS: usize = 2;
const LOST: usize = 5;
const SLOW: usize = 6;
const RESTORED: usize = 7;
const DRIVERS: usize = 8;
const CLOCK: usize = 9;
const FEWER: usize = 10;
const LATE_REPAIR: usize = 11;
const SURPLUS: usize = 12;
const LISTS: usize = 14;
const LATE_MEND: usize = 15;
const TWO_RISES: usize = 16;

const PLAIN: Scenario = Scenario {
    name: "",
    fences: &[FENCE],
    writes: &[TOMBSTONE],
    crashes: 0,
    losses: 0,
    rollbacks: 0,
    repairs: 0,
    mends: 0,
    has_late_value: true,
    has_synced_writes: true,
    has_short_tombstone: false,
    value_copies: 3,
    has_bystander: false,
    relists: 0,
    has_jumped_clock: false,
};

/// How many more states are reached after a read that is not answered, which leads
/// to worse most often.
const PATIENCE: usize = 3_000;

/// What a search has found.
struct Found {
    states: usize,
    /// Whether a state was reached in which all stores have forgotten.
    is_over: bool,
    violation: Option<(Violation, String)>,
}

/// Where a state was reached from: the state before, the step, and the new order of
/// its stores.
type Origin = (usize, Option<Step>, [u8; 3]);

fn search(scenario: &Scenario, rules: Rules) -> Found {
    let (start, packed, order) = scenario.start().canonical();
    let mut known = BTreeSet::from([packed]);
    let mut states = vec![start];
    let mut origins: Vec<Origin> = vec![(0, None, order)];
    let mut steps = Steps {
        rules,
        scenario,
        next: Vec::new(),
    };
    let mut is_over = false;
    let mut unanswered = None;
    let mut index = 0;
    let mut states_max = usize::MAX;
    while index < states.len().min(states_max) {
        let state = states[index];
        is_over |= scenario.is_over(&state);
        steps.from(&state);
        for (step, next) in steps.next.drain(..) {
            match next {
                Ok(next) => {
                    let (next, packed, order) = next.canonical();
                    if known.insert(packed) {
                        states.push(next);
                        origins.push((index, Some(step), order));
                    }
                }
                Err(Violation::ReadNotAnswered) => {
                    unanswered.get_or_insert((index, step));
                    states_max = states_max.min(states.len() + PATIENCE);
                }
                Err(violation) => {
                    let way = way_to(&origins, index, step);
                    return Found {
                        states: states.len(),
                        is_over,
                        violation: Some((violation, way)),
                    };
                }
            }
        }
        index += 1;
    }
    let way = |(index, step)| (Violation::ReadNotAnswered, way_to(&origins, index, step));
    Found {
        states: states.len(),
        is_over,
        violation: unanswered.map(way),
    }
}

/// The steps to a state and the one that follows it, with the stores by the names
/// that they had at first.
fn way_to(origins: &[Origin], index: usize, last: Step) -> String {
    let mut way = Vec::new();
    let mut at = index;
    while let (before, Some(step), order) = origins[at] {
        way.push((step, order));
        at = before;
    }
    let mut names = origins[at].2.map(usize::from);
    let mut text = String::new();
    for (step, order) in way.into_iter().rev() {
        text += &format!("  {}\n", named(step, names));
        names = order.map(|old| names[usize::from(old)]);
    }
    text + &format!("  {}\n", named(last, names))
}

/// A step in words.
fn named(step: Step, names: [usize; 3]) -> String {
    let name = |store: usize| char::from(b'A' + names[store] as u8);
    let version = |version: u8| {
        ["nothing", "the value", "the tombstone", "the later value"][usize::from(version)]
    };
    match step {
        Step::Write { version: it } => format!("a client writes {}", version(it)),
        Step::Deliver { version: it, to } => format!("{} arrives at {}", version(it), name(to)),
        Step::DeliverAsHint { version: it, to } => {
            format!("a hint of {} arrives at {}", version(it), name(to))
        }
        Step::Read { of: [one, other] } => {
            format!("a client reads {} and {}", name(one), name(other))
        }
        Step::ReadAll => "a client reads all stores".to_owned(),
        Step::SendRepair { by, to } => {
            format!("a read of {} sends a repair to {}", name(by), name(to))
        }
        Step::DeliverRepair => "the repair arrives".to_owned(),
        Step::SendMend { by, to } => {
            format!(
                "another pass reads {} to send a mend to {}",
                name(by),
                name(to)
            )
        }
        Step::DeliverMend => "the mend arrives".to_owned(),
        Step::Answer { pass, store } => {
            format!(
                "{} says that nothing came in behind pass {pass}",
                name(store)
            )
        }
        Step::Fence { pass, store } => format!("pass {pass} fences {}", name(store)),
        Step::Begin { pass } => format!("pass {pass} begins"),
        Step::Rejoin { pass, store } => format!("{} goes on in pass {pass}", name(store)),
        Step::Compare {
            pass,
            pair: [one, other],
        } => format!("pass {pass} makes {} and {} equal", name(one), name(other)),
        Step::Sync {
            pass,
            pair: [one, other],
        } => format!("pass {pass} finds {} and {} clean", name(one), name(other)),
        Step::Raise { pass, store } => format!("{} hears that pass {pass} raises F", name(store)),
        Step::Tell { by, to } => format!("{} tells {} of F", name(by), name(to)),
        Step::Fill { pass, store } => format!("{} is filled by pass {pass}", name(store)),
        Step::Drop { store } => format!("{} drops what is dead", name(store)),
        Step::DropSurplus { store } => format!("{} drops what others keep", name(store)),
        Step::Relist => "all nodes start with another list of nodes".to_owned(),
        Step::PowerCut { store } => format!("the power of {} fails", name(store)),
        Step::LoseFolder { store } => format!("{} loses its folder", name(store)),
        Step::RollBack { store } => {
            format!("the folder of {} is restored from a copy", name(store))
        }
    }
}

#[test]
fn no_way_leads_to_a_violation_and_one_leads_to_forgetting() {
    for scenario in &SCENARIOS {
        let found = search(scenario, Rules { bug: None });
        println!("{}: {} states", scenario.name, found.states);
        if let Some((violation, way)) = found.violation {
            panic!("{}: {violation}\n{way}", scenario.name);
        }
        let is_sound = scenario.fences.contains(&FENCE);
        assert_eq!(found.is_over, is_sound, "{}", scenario.name);
    }
}

#[test]
fn every_broken_rule_is_found() {
    let bugs = [
        (Bug::TombstonesDroppedByAge, LATE),
        (Bug::HintsPassTheFence, LATE),
        (Bug::WritesPassTheFence, LATE),
        (Bug::RaisedWithoutAFence, LATE),
        (Bug::RaisedWithoutAPair, LATE),
        (Bug::FencedWhileComparing, LATE),
        (Bug::CleanBeforeSync, MENDS),
        (Bug::PassesMixed, DRIVERS),
        (Bug::ClocksTrusted, CLOCK),
        (Bug::LowerBoundBelieved, RESTORED),
        (Bug::LearnerCounts, SLOW),
        (Bug::RepairsPassTheFence, LOST),
        (Bug::RepairsOfReplacedStorePass, LOST),
        (Bug::RepairsPassTheForgetBound, LATE),
        (Bug::LateRepairsPassTheForgetBound, LATE),
        (Bug::NoRepairPassesTheFence, LATE),
        (Bug::DeadNotIgnored, LATE),
        (Bug::LeftoversKept, RESTORED),
        (Bug::ReplacedStoreRejoins, LOST),
        (Bug::ReceiversVouch, RESTORED),
        (Bug::ReturnsUnfenced, RESTORED),
        (Bug::AcksOutliveTheirStore, LOST),
        (Bug::MovedIsNotComparedAgain, FEWER),
        (Bug::LateRepairsNotCompared, LATE_REPAIR),
        (Bug::LateRepairsFromBelowBoundNotCompared, TWO_RISES),
        (Bug::DisturbedStoreAnswers, LATE_MEND),
        (Bug::LateMendsNotCompared, LATE_MEND),
        (Bug::SealForgottenByRestart, LATE_MEND),
        (Bug::SurplusDroppedAboveBound, SURPLUS),
        (Bug::SurplusBoundOfAnotherListBelieved, LISTS),
        (Bug::SurplusShownByPassOfAnotherList, LISTS),
    ];
    let mut missed = Vec::new();
    for (bug, scenario) in bugs {
        let rules = Rules { bug: Some(bug) };
        let scenario = &SCENARIOS[scenario];
        let found = search(scenario, rules);
        match found.violation {
            Some((violation, way)) => println!(
                "{bug:?}, {}, after {} states: {violation}\n{way}",
                scenario.name, found.states
            ),
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
