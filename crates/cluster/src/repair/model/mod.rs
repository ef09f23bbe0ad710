//! A model of repair sessions for three stores and one key, explored exhaustively.
//!
//! Two stores have a value; its write to the third is on its way. A client deletes it, another may
//! write a later value. Sessions begin, close, compare, take checkpoints, go on from them, and end;
//! stores drop what they may. In between writes, read repairs and repair writes arrive late, power
//! fails, blocks are damaged, folders are lost or restored. The search takes every possible step in
//! every state that it reaches, breadth first, so a violation comes with a shortest way to it. The
//! steps run the machines of [`super`] themselves. Each [`Bug`] breaks one rule, and the
//! search must find what that leads to.
//!
//! Requests and answers are one step, as an answer that is late does no more than what follows it.
//!
//! It has taught some rules that are easily forgotten:
//! - A read repair of a tombstone may bring back what it hides, too: if the store that had it is
//!   lost, the session has not met it, and only some stores ever have it.
//! - An attempt that goes on from a checkpoint behind the key has scanned the key before it begins.
//! - That an attempt raises nothing does not say that an earlier one has not.
//! - If a tombstone names fewer stores than the value, a session that moves something compares all
//!   pairs again, also if it raises nothing: it may rebuild a store. The other scenarios do without,
//!   so that they show the other rules alone.
//! - An acknowledgement of a store that was lost since does not count together with one that comes
//!   later: the session that rebuilds the store may have passed by.
//! - What a session has shown of one list of nodes says nothing of another, not even if it goes on
//!   with that.

mod rules;
mod scenario;
mod scenarios;
mod sessions;
mod state;
mod steps;

use rules::{Bug, Rules};
use scenario::Scenario;
use scenarios::{BUGS, SCENARIOS, SLOW_BUGS};
use state::{CLOSED, State, Violation};
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;
use steps::{Step, Steps};

/// How many more states are reached after a read that is not answered, which leads to worse most
/// often.
const PATIENCE: usize = 3_000;

/// All states that were reached.
#[expect(clippy::disallowed_types, reason = "its hasher is fixed")]
type Known = std::collections::HashSet<Rc<State>, BuildHasherDefault<Mixer>>;

/// A hash that takes less time than all the rest of a search.
#[derive(Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }
}

/// What a search has found.
struct Found {
    states: usize,
    /// Whether a state was reached in which all stores have collected.
    is_over: bool,
    violation: Option<(Violation, String)>,
}

/// Where a state was reached from: the state before, the step, and the new order of its stores.
type Origin = (usize, Option<Step>, [u8; 3]);

fn search(scenario: &Scenario, rules: Rules) -> Found {
    let mut steps = Steps {
        rules,
        scenario,
        next: Vec::new(),
    };
    let mut start = scenario.start();
    if scenario.has_compared {
        start = steps.compared(start);
    }
    let (start, order) = start.canonical();
    let start = Rc::new(start);
    let mut known = Known::default();
    known.insert(Rc::clone(&start));
    let mut states: Vec<Rc<State>> = vec![start];
    let mut origins: Vec<Origin> = vec![(0, None, order)];
    let mut is_over = false;
    let mut unanswered = None;
    let mut index = 0;
    let mut states_max = usize::MAX;
    while index < states.len().min(states_max) {
        let state = Rc::clone(&states[index]);
        is_over |= scenario.is_over(&state);
        steps.from(&state);
        for (step, next) in steps.next.drain(..) {
            match next {
                Ok(next) => {
                    let (next, order) = next.canonical();
                    let next = Rc::new(next);
                    if known.insert(Rc::clone(&next)) {
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

/// The steps to a state and the one that follows it, with the stores by the names that they had at
/// first.
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
        text += &format!("  {}\n", step.told(names));
        names = order.map(|old| names[usize::from(old)]);
    }
    text + &format!("  {}\n", last.told(names))
}

/// Explores scenarios as the rules are.
fn explore(is_large: bool) {
    for scenario in SCENARIOS.iter().filter(|it| it.is_large == is_large) {
        let found = search(scenario, Rules { bug: None });
        println!("{}: {} states", scenario.name, found.states);
        if let Some((violation, way)) = found.violation {
            panic!("{}: {violation}\n{way}", scenario.name);
        }
        let ends = scenario.sessions.contains(&CLOSED) || scenario.has_one_behind;
        assert_eq!(found.is_over, ends, "{}", scenario.name);
    }
}

/// Breaks rules, each of which must lead to a violation, or keep the cluster from collecting.
fn break_rules(bugs: &[(Bug, usize)]) {
    let mut missed = Vec::new();
    for (bug, scenario) in bugs.iter().copied() {
        let scenario = &SCENARIOS[scenario];
        let found = search(scenario, Rules { bug: Some(bug) });
        let (name, states) = (scenario.name, found.states);
        match found.violation {
            Some((violation, way)) => {
                println!("{bug:?}, {name}, after {states} states: {violation}\n{way}");
            }
            None if !found.is_over => {
                println!("{bug:?}, {name}, in {states} states: it never ends");
            }
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn no_way_leads_to_a_violation_and_one_leads_to_collecting() {
    explore(false);
}

#[test]
fn every_broken_rule_is_found() {
    break_rules(&BUGS);
}

#[test]
#[ignore = "it takes six minutes, and 4 GiB of memory"]
fn no_way_leads_to_a_violation_in_large_scenarios() {
    explore(true);
}

#[test]
#[ignore = "it takes minutes"]
fn every_rule_is_found_whose_breach_takes_long_to_find() {
    break_rules(&SLOW_BUGS);
}
