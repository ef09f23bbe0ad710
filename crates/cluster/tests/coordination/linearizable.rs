//! While all replicas of a key answer, the operations of one pair take effect
//! one at a time, each between its start and its answer.
//!
//! Random schedules of requests of one pair, with messages in any order, hints
//! aside, and clocks minutes apart. Whether there is an order is searched for
//! as by Wing and Gong ("Testing and Verifying Concurrent Objects", 1993), with
//! what was found hopeless remembered, as by Lowe. It goes by contents alone,
//! as a client does.

use crate::checker::{Asked, Operation, Outcome, Promise, broken};
use crate::world::{Bug, World};
use base::{Entry, Kind};
use cluster::Replicas;
use fastrand::Rng;
use std::collections::BTreeSet;

/// What a key holds: a letter, or nothing.
type Letter = Option<char>;

/// What an operation did, as its client sees it.
#[derive(Clone, Copy, Debug)]
struct Step {
    does: Does,
    began: u64,
    /// When it was answered; one that was not may take effect any time, or never.
    ended: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Write(Letter),
    Read(Letter),
}

fn letter_of(entry: Option<&Entry>) -> Letter {
    let entry = entry.filter(|entry| entry.kind() == Kind::Value)?;
    std::str::from_utf8(entry.value_bytes())
        .unwrap()
        .chars()
        .next()
}

/// The steps of a history; reads that failed say nothing.
fn steps(history: &[Operation]) -> Vec<Step> {
    let step = |operation: &Operation| {
        let answered = operation.replied.as_ref();
        let ended = answered.and_then(|(at, outcome)| match outcome {
            Outcome::NotEnough(_) => None,
            Outcome::Written(_) | Outcome::Read(_) => Some(*at),
        });
        let does = match (operation.asked, operation.outcome()) {
            (Asked::Put(letter), _) => Does::Write(Some(letter)),
            (Asked::Delete, _) => Does::Write(None),
            (Asked::Get, Some(Outcome::Read(entry))) => Does::Read(letter_of(entry.as_ref())),
            (Asked::Get, _) => return None,
        };
        let began = operation.invoked;
        Some(Step { does, began, ended })
    };
    history.iter().filter_map(step).collect()
}

/// Whether the steps can have taken effect one at a time.
fn is_linearizable(steps: &[Step]) -> bool {
    assert!(steps.len() <= 64, "a set of steps is a number");
    can_go_on(steps, 0, None, &mut BTreeSet::new())
}

/// Whether the steps that are not in `done` can follow where the key holds `letter`.
fn can_go_on(
    steps: &[Step],
    done: u64,
    letter: Letter,
    hopeless: &mut BTreeSet<(u64, Letter)>,
) -> bool {
    let is_left = |number: &usize| done & (1 << number) == 0;
    let left = || (0..steps.len()).filter(is_left);
    let Some(first_end) = left().filter_map(|number| steps[number].ended).min() else {
        return true;
    };
    if hopeless.contains(&(done, letter)) {
        return false;
    }
    // One comes next that began before any of the others had ended.
    let can = left().any(|number| {
        let step = steps[number];
        let then = match step.does {
            Does::Write(written) => Some(written),
            Does::Read(read) if read == letter => Some(letter),
            Does::Read(_) => None,
        };
        step.began <= first_end
            && then.is_some_and(|then| can_go_on(steps, done | 1 << number, then, hopeless))
    });
    if !can {
        hopeless.insert((done, letter));
    }
    can
}

const OPERATIONS: usize = 9;
const RUNNING_MAX: usize = 5;

/// Runs a history of one pair in which all replicas answer, with clocks minutes apart.
fn run(seed: u64, bug: Option<Bug>, forgets: bool) -> World {
    run_with(seed, |world, rng| {
        world.merges_clocks = false;
        world.bug = bug;
        for node in &mut world.nodes {
            node.skew_ms = rng.i64(-300_000..300_000);
            node.forgets = forgets && rng.bool();
        }
    })
}

fn run_with(seed: u64, change: impl FnOnce(&mut World, &mut Rng)) -> World {
    let mut rng = Rng::with_seed(seed);
    let nodes = [2, 3, 3, 3, 4, 5][rng.usize(0..6)];
    let ack = rng.u8(nodes / 2 + 1..=nodes);
    let replicas = Replicas::new(ack, nodes).unwrap();
    let mut world = World::new(nodes);
    change(&mut world, &mut rng);
    let reads = rng.usize(4..7);
    let due = rng.u8(1..6);
    let mut asked: Vec<Asked> = ('a'..)
        .take(OPERATIONS)
        .enumerate()
        .map(|(number, letter)| match number {
            _ if number < reads => Asked::Get,
            _ if rng.u8(0..6) == 0 => Asked::Delete,
            _ => Asked::Put(letter),
        })
        .collect();
    rng.shuffle(&mut asked);
    loop {
        let unanswered = |world: &World| {
            let is_open = |operation: &&Operation| operation.replied.is_none();
            world.history.iter().filter(is_open).count()
        };
        let is_due = rng.u8(0..due) == 0 || world.messages.is_empty();
        if is_due && unanswered(&world) < RUNNING_MAX && !asked.is_empty() {
            let mut preference: Vec<u8> = (0..nodes).collect();
            rng.shuffle(&mut preference);
            if let Some(asked) = asked.pop() {
                world.invoke(rng.u8(0..nodes), asked, replicas, &preference);
            }
        } else if world.messages.is_empty() {
            return world;
        } else {
            world.deliver(rng.usize(0..world.messages.len()));
        }
    }
}

fn told(world: &World) -> String {
    let lines = world.history.iter().map(|operation| {
        let Operation {
            asked,
            invoked,
            replied,
            ..
        } = operation;
        format!("{asked:?} from {invoked} to {replied:?}\n")
    });
    lines.collect()
}

#[test]
fn operations_of_one_pair_have_an_order_while_all_replicas_answer() {
    for seed in 0..20_000 {
        let world = run(seed, None, false);
        let steps = steps(&world.history);
        assert!(
            steps.iter().all(|step| step.ended.is_some()),
            "seed {seed}: one failed\n{}",
            told(&world)
        );
        assert!(
            is_linearizable(&steps),
            "seed {seed}: no order\n{}",
            told(&world)
        );
    }
}

/// Whether a history with a bug has no order.
fn catches(bug: Bug, seed: u64) -> bool {
    let world = run(seed, Some(bug), false);
    !is_linearizable(&steps(&world.history))
}

#[test]
fn the_rule_that_was_is_caught() {
    let bug = Bug::FirstAnswersDecide;
    let caught = (0..10_000).filter(|seed| catches(bug, *seed)).count();
    assert!(caught > 20, "{caught} of 10,000");
}

#[test]
fn bugs_of_the_rule_are_caught() {
    for bug in [Bug::Impatience, Bug::MendsCount, Bug::LastArrival] {
        assert!((0..40_000).any(|seed| catches(bug, seed)), "{bug:?}");
    }
}

/// How many second stamps the same requests of a hot key take, where the nodes
/// hear of each other's stamps: fewer than by the rule that was.
#[test]
fn second_stamps_are_fewer() {
    let second_stamps = |bug| -> usize {
        let of = |seed| {
            let world = run_with(seed, |world, _| world.bug = bug);
            let stamps = |operation: &Operation| operation.written.len().saturating_sub(1);
            world.history.iter().map(stamps).sum::<usize>()
        };
        (0..2_000).map(of).sum()
    };
    let (before, after) = (
        second_stamps(Some(Bug::FirstAnswersDecide)),
        second_stamps(None),
    );
    assert!(after * 10 < before * 9, "{before} before, {after} now");
}

/// Replicas that cannot tell what they held are as good as silent: there may be
/// no order of what runs at once, but what was acknowledged stands. Unless what
/// they cannot tell is taken for clean.
#[test]
fn what_cannot_be_told_is_not_clean() {
    let broken_later = |seed: u64, bug| {
        let world = run(seed, bug, true);
        let broken = broken(&world.history, 0);
        broken
            .iter()
            .any(|(promise, ..)| *promise == Promise::LaterWins)
    };
    assert!(!(0..10_000).any(|seed| broken_later(seed, None)));
    let bug = Some(Bug::UnknownIsClean);
    assert!((0..10_000).any(|seed| broken_later(seed, bug)));
}

#[test]
fn the_search_finds_what_has_no_order() {
    let step = |does, began, ended| Step { does, began, ended };
    let (write, read) = (
        |letter, began, ended| step(Does::Write(Some(letter)), began, Some(ended)),
        |letter, began, ended| step(Does::Read(Some(letter)), began, Some(ended)),
    );
    let never = |letter, began| step(Does::Write(Some(letter)), began, None);
    for (is_right, steps) in [
        (true, vec![write('a', 1, 2), read('a', 3, 4)]),
        (false, vec![read('a', 1, 2), write('a', 3, 4)]),
        (
            false,
            vec![write('a', 1, 2), step(Does::Read(None), 3, Some(4))],
        ),
        // One that was never answered takes effect when it is seen, or never,
        (true, vec![never('a', 1), read('a', 3, 4)]),
        (true, vec![write('b', 1, 2), never('a', 1), read('b', 3, 4)]),
        // but once.
        (
            false,
            vec![
                never('a', 1),
                read('a', 2, 3),
                write('b', 4, 5),
                read('b', 6, 7),
                read('a', 8, 9),
            ],
        ),
        // Writes that run at once come in either order, the same for all.
        (
            false,
            vec![
                write('a', 1, 9),
                write('b', 1, 9),
                read('a', 2, 3),
                read('b', 4, 5),
                read('a', 6, 7),
            ],
        ),
    ] {
        assert_eq!(is_linearizable(&steps), is_right, "{steps:?}");
    }
}
