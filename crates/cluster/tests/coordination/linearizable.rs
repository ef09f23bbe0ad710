//! While all replicas of a key answer, the operations of one pair take effect
//! one at a time, each between its invocation and its completion.
//!
//! The tests run random schedules of requests of one pair: messages arrive in
//! any order, hints are not delivered, and clocks are minutes apart. The checker
//! searches for an order of the operations. Planted bugs show that it finds
//! histories that have none.

use crate::node::Bug;
use crate::world::{Answer, ClientRequest, Operation, World};
use checker::Promise;
use cluster::{ReplicaIndex, Replicas};
use fastrand::Rng;

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
    let mut asked: Vec<ClientRequest> = ('a'..)
        .take(OPERATIONS)
        .enumerate()
        .map(|(number, letter)| match number {
            _ if number < reads => ClientRequest::Get,
            _ if rng.u8(0..6) == 0 => ClientRequest::Delete,
            _ => ClientRequest::Put(letter),
        })
        .collect();
    rng.shuffle(&mut asked);
    loop {
        let unanswered = |world: &World| {
            let is_open = |operation: &&Operation| operation.answer.is_none();
            world.operations.iter().filter(is_open).count()
        };
        let is_due = rng.u8(0..due) == 0 || world.messages.is_empty();
        if is_due && unanswered(&world) < RUNNING_MAX && !asked.is_empty() {
            let mut preference: Vec<ReplicaIndex> = (0..nodes).map(ReplicaIndex::new).collect();
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

/// What shows that the history of a world breaks a promise about linearizability.
fn violations(world: &World) -> Vec<checker::Violation> {
    let Replicas { ack, from } = world.operations[0].replicas;
    let checked = checker::check_linearizability(&world.history, ack, from);
    assert_eq!((checked.keys, checked.undecided), (1, Vec::new()));
    checked.violations
}

#[test]
fn operations_of_one_pair_have_an_order_while_all_replicas_answer() {
    for seed in 0..20_000 {
        let world = run(seed, None, false);
        let is_answered = |operation: &Operation| {
            matches!(
                operation.answer,
                Some(Answer::Written { .. } | Answer::Read { .. })
            )
        };
        assert!(
            world.operations.iter().all(is_answered),
            "seed {seed}: an operation failed\n{}",
            world.describe()
        );
        let violations = violations(&world);
        assert!(
            violations.is_empty(),
            "seed {seed}: {violations:?}\n{}",
            world.describe()
        );
    }
}

/// Whether a bug leads to a history without an order.
fn catches(bug: Bug, seed: u64) -> bool {
    let violations = violations(&run(seed, Some(bug), false));
    violations
        .iter()
        .any(|violation| violation.promise == Promise::Linearizable)
}

#[test]
fn the_former_rule_is_caught() {
    let bug = Bug::FirstAnswersDecide;
    let caught = (0..10_000).filter(|seed| catches(bug, *seed)).count();
    assert!(caught > 20, "{caught} of 10,000");
}

#[test]
fn bugs_of_the_rule_are_caught() {
    for bug in [Bug::Impatience, Bug::RepairsCount, Bug::LastArrival] {
        assert!((0..40_000).any(|seed| catches(bug, seed)), "{bug:?}");
    }
}

/// How many second timestamps the same requests of a hot key take, where the nodes
/// see each other's timestamps: fewer than by the former rule.
#[test]
fn second_timestamps_are_fewer_than_by_the_former_rule() {
    let second_timestamps = |bug| -> usize {
        let of = |seed| {
            let world = run_with(seed, |world, _| world.bug = bug);
            let timestamps = |operation: &Operation| operation.written.len().saturating_sub(1);
            world.operations.iter().map(timestamps).sum::<usize>()
        };
        (0..2_000).map(of).sum()
    };
    let (before, after) = (
        second_timestamps(Some(Bug::FirstAnswersDecide)),
        second_timestamps(None),
    );
    assert!(after * 10 < before * 9, "{before} before, {after} now");
}

/// Replicas that do not know what they held count like silent ones: concurrent
/// operations may have no order, but acknowledged writes stand. If such replicas
/// ack, acknowledged writes are lost.
#[test]
fn a_replica_that_does_not_know_what_it_held_does_not_ack() {
    let broken_later = |seed: u64, bug| {
        let world = run(seed, bug, true);
        checker::check(&world.history)
            .iter()
            .any(|violation| violation.promise == Promise::LaterWriteWins)
    };
    assert!(!(0..10_000).any(|seed| broken_later(seed, None)));
    let bug = Some(Bug::UnknownIsNone);
    assert!((0..10_000).any(|seed| broken_later(seed, bug)));
}
