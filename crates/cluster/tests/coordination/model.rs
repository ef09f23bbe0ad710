//! Seeded random histories: messages in any order, lost messages, nodes down,
//! clocks minutes apart.

use crate::message::{Message, Request};
use crate::world::{Answer, ClientRequest, World};
use checker::Promise;
use cluster::{ReplicaIndex, Replicas};
use fastrand::Rng;

const OPERATIONS: usize = 12;
const RUNNING_MAX: usize = 3;

/// What can go wrong in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Faults {
    /// Messages are only late.
    None,
    /// Messages are lost, and nodes are down for a while.
    Many,
    /// One node never answers, and every request is a quorum of all.
    OneFrozen,
}

/// What clients ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Requests {
    Any,
    /// Writes only: without reads nothing makes up for a missing hint.
    Writes,
    /// Writes that reach few replicas, and reads that must not go back.
    QuorumReads,
    /// Reads of at most half, which leave copies where they belong.
    HalfReads,
}

/// Runs a history from its seed until no message and no request is left.
fn run(seed: u64, faults: Faults) -> World {
    let mut rng = Rng::with_seed(seed);
    let nodes = rng.u8(if faults == Faults::OneFrozen {
        3..=5
    } else {
        1..=5
    });
    let mut world = World::new(nodes);
    world.merges_clocks = rng.bool();
    for node in &mut world.nodes {
        node.skew_ms = [0, 0, 3, -3, 300_000, -300_000][rng.usize(0..6)];
    }
    let frozen = rng.u8(0..nodes);
    let requests = [
        Requests::Any,
        Requests::Writes,
        Requests::QuorumReads,
        Requests::HalfReads,
    ][rng.usize(0..4)];
    while world.operations.len() < OPERATIONS || world.running().len() > RUNNING_MAX {
        let can_begin = world.operations.len() < OPERATIONS && world.running().len() < RUNNING_MAX;
        if can_begin && (world.messages.is_empty() || rng.u8(0..8) == 0) {
            begin(&mut world, &mut rng, faults, frozen, requests);
        } else if world.messages.is_empty() {
            let running = world.running();
            world.deadline(running[rng.usize(0..running.len())]);
        } else {
            go_on(&mut world, &mut rng, faults, frozen);
        }
    }
    // The faults end: the messages on their way arrive, then the deadlines come.
    for node in &mut world.nodes {
        node.is_down = false;
    }
    loop {
        if !world.messages.is_empty() {
            let message = rng.usize(0..world.messages.len());
            if faults == Faults::OneFrozen && is_for(&world.messages[message], frozen) {
                stall(&mut world, message);
            } else {
                world.deliver(message);
            }
        } else if let Some(running) = world.running().first() {
            world.deadline(*running);
        } else {
            return world;
        }
    }
}

fn begin(world: &mut World, rng: &mut Rng, faults: Faults, frozen: u8, requests: Requests) {
    let nodes = world.nodes.len() as u8;
    let from = rng.u8(1..=nodes);
    let mut replicas = Replicas::new(rng.u8(1..=from), from).unwrap();
    let mut coordinator = rng.u8(0..nodes);
    let letter = char::from(b'a' + world.operations.len() as u8);
    let asked = match rng.u8(0..8) {
        0 => ClientRequest::Delete,
        1..=3 => ClientRequest::Put(letter),
        _ if requests == Requests::Writes => ClientRequest::Put(letter),
        _ => ClientRequest::Get,
    };
    if requests == Requests::QuorumReads {
        replicas = match asked {
            ClientRequest::Get => Replicas::quorum(nodes),
            ClientRequest::Put(_) | ClientRequest::Delete => Replicas::new(1, from).unwrap(),
        };
    }
    if requests == Requests::HalfReads && asked == ClientRequest::Get && nodes > 1 {
        replicas = Replicas::new(nodes / 2, nodes).unwrap();
    }
    if faults == Faults::OneFrozen {
        replicas = Replicas::quorum(nodes);
        coordinator = (frozen + rng.u8(1..nodes)) % nodes;
    }
    let mut preference: Vec<ReplicaIndex> = replicas.indexes().collect();
    rng.shuffle(&mut preference);
    world.invoke(coordinator, asked, replicas, &preference);
}

/// Something happens.
fn go_on(world: &mut World, rng: &mut Rng, faults: Faults, frozen: u8) {
    let message = rng.usize(0..world.messages.len());
    match faults {
        Faults::None => world.deliver(message),
        Faults::OneFrozen if is_for(&world.messages[message], frozen) => stall(world, message),
        Faults::OneFrozen => world.deliver(message),
        Faults::Many => match rng.u8(0..40) {
            0..=2 => world.lose(message, rng.bool()),
            3 => {
                let node = rng.usize(0..world.nodes.len());
                world.nodes[node].is_down = !world.nodes[node].is_down;
                world.knows_who_is_down = rng.bool();
            }
            4 => {
                let running = world.running();
                if !running.is_empty() {
                    world.deadline(running[rng.usize(0..running.len())]);
                }
            }
            5 => {
                if let Message::Request {
                    operation,
                    replica,
                    request: Request::Read | Request::Repair { .. },
                } = world.messages[message]
                {
                    world.slow(operation, replica);
                }
            }
            _ => world.deliver(message),
        },
    }
}

fn is_for(message: &Message, node: u8) -> bool {
    match message {
        Message::Request {
            replica, request, ..
        } => replica.as_u8() == node && !matches!(request, Request::KeepHint { .. }),
        Message::Hint { replica, .. } => replica.as_u8() == node,
        Message::Answer { .. } => false,
    }
}

/// A frozen node takes a message and does nothing; a read of it is hedged.
fn stall(world: &mut World, message: usize) {
    let stalled = world.messages[message].clone();
    world.messages.swap_remove(message);
    if let Message::Request {
        operation, replica, ..
    } = stalled
    {
        world.slow(operation, replica);
    }
}

#[test]
fn clients_can_rely_on_what_is_promised() {
    for faults in [Faults::None, Faults::Many] {
        for seed in 0..4_000 {
            let world = run(seed, faults);
            let violations = world.violations();
            assert!(
                violations.is_empty(),
                "seed {seed}, {faults:?}: {violations}\n{}",
                world.describe()
            );
        }
    }
}

/// The promises need overlapping acks: where the checker treats acks as overlapping that
/// are one replica short of it, it finds histories that break the promises.
#[test]
fn promises_without_overlapping_acks_would_be_broken() {
    let mut seen = Vec::new();
    for seed in 0..500 {
        let world = run(seed, Faults::Many);
        let violations = checker::check_as_if_acks_overlapped(&world.history);
        seen.extend(violations.iter().map(|violation| violation.promise));
    }
    for promise in [
        Promise::AcknowledgedIsVisible,
        Promise::LaterWriteWins,
        Promise::ReadsNeverGoBack,
    ] {
        assert!(
            seen.contains(&promise),
            "{promise:?} does not need overlapping acks"
        );
    }
}

#[test]
fn nothing_fails_while_enough_replicas_answer() {
    for faults in [Faults::None, Faults::OneFrozen] {
        for seed in 0..2_000 {
            let world = run(seed, faults);
            for (number, operation) in world.operations.iter().enumerate() {
                assert!(
                    !matches!(operation.answer, None | Some(Answer::NotEnough { .. })),
                    "seed {seed}, {faults:?}, operation {number}:\n{}",
                    world.describe()
                );
            }
        }
    }
}

#[test]
fn hints_bring_acknowledged_writes_to_all_their_replicas() {
    for seed in 0..2_000 {
        let world = run(seed, Faults::Many);
        for (number, operation) in world.operations.iter().enumerate() {
            let Some(Answer::Written { entry, .. }) = &operation.answer else {
                continue;
            };
            for replica in operation.replicas.indexes() {
                assert!(
                    world.has(replica, entry),
                    "seed {seed}: {replica:?} lacks operation {number}\n{}",
                    world.describe()
                );
            }
        }
    }
}

#[test]
fn copies_stay_on_the_replicas_that_they_were_written_for() {
    for seed in 0..2_000 {
        let world = run(seed, Faults::Many);
        let may_copy =
            |asked, replicas: Replicas| asked == ClientRequest::Get && replicas.overlap();
        let mut operations = world.operations.iter();
        if operations.any(|operation| may_copy(operation.asked, operation.replicas)) {
            continue;
        }
        for entry in world
            .operations
            .iter()
            .flat_map(|operation| &operation.written)
        {
            for replica in (entry.copies()..world.nodes.len() as u8).map(ReplicaIndex::new) {
                assert!(
                    !world.has(replica, entry),
                    "seed {seed}:\n{}",
                    world.describe()
                );
            }
        }
    }
}
