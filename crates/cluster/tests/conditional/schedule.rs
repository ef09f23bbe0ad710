//! Random schedules: what happens next is drawn from a seed.

use crate::replica::{Bug, Replica};
use crate::world::{CLIENTS, Event, Machine, Message, World};
use cluster::{ConditionalEvent, ReadEvent, ReplicaIndex, SettleEvent, WriteEvent};
use fastrand::Rng;

/// How many operations of clients a schedule has, settling and reads within apart.
const OPERATIONS: usize = 12;

/// How many of them run at the same time.
const RUNNING_MAX: usize = 4;

/// How many steps a schedule takes at most.
const STEPS_MAX: usize = 6_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Conditional writes and reads only, with every fault: linearizable.
    Conditional,
    /// Plain writes as well. Coordinators of conditional writes crash and replicas restart, but no
    /// message is lost: linearizable.
    Mixed,
    /// Plain writes as well, with every fault.
    Faults,
}

impl Mode {
    pub(crate) fn is_linearizable(self) -> bool {
        self != Self::Faults
    }
}

/// A store that was lost, and from when on requests know of that.
struct Lost {
    replica: ReplicaIndex,
    /// The operations before this one may know only the lost store.
    operations: usize,
}

pub(crate) fn run(seed: u64, mode: Mode, bug: Option<Bug>) -> World {
    run_with(World::new(Rng::with_seed(seed), bug), mode)
}

/// The same, and the messages in the order of their arrival.
pub(crate) fn trace(seed: u64, mode: Mode) -> String {
    let mut world = World::new(Rng::with_seed(seed), None);
    world.trace = Some(String::new());
    run_with(world, mode).trace.unwrap()
}

fn run_with(mut world: World, mode: Mode) -> World {
    let bug = world.bug;
    let mut lost: Option<Lost> = None;
    let mut left = OPERATIONS;
    let delivers_hints = world.rng.bool();
    for _ in 0..STEPS_MAX {
        let running = running(&world);
        if left == 0 && running.is_empty() {
            break;
        }
        let are_few = running.len() < RUNNING_MAX;
        match world.rng.u32(0..200) {
            0..=29 if left > 0 && are_few => {
                left -= 1;
                begin(&mut world, mode);
            }
            30 => {
                let replica = world.rng.usize(0..world.replicas.len());
                world.replicas[replica].restart();
            }
            31 => {
                if let Some(operation) = crashing(&mut world, mode, &running) {
                    crash(&mut world, operation);
                }
            }
            32 if mode != Mode::Mixed && lost.is_none() => {
                let replica = ReplicaIndex::new(world.rng.u8(0..world.pair().from));
                let mut fresh = Replica::new(bug);
                fresh.is_voter = false;
                *world.replica(replica) = fresh;
                world.wake(replica);
                let operations = world.operations.len();
                lost = Some(Lost {
                    replica,
                    operations,
                });
            }
            33..=35 => {
                if let Some(Lost {
                    replica,
                    operations,
                }) = lost
                    && rebuild(&mut world, replica, operations)
                {
                    lost = None;
                }
            }
            36..=39 => repair(&mut world),
            40 if world
                .replicas
                .iter()
                .any(|replica| replica.promise.is_some()) =>
            {
                world.begin_settle(None);
            }
            _ if world.messages.is_empty() => {
                if !running.is_empty() {
                    let operation = running[world.rng.usize(0..running.len())];
                    expire(&mut world, mode, operation);
                }
            }
            _ => {
                let index = world.rng.usize(0..world.messages.len());
                let message = world.messages.swap_remove(index);
                let is_hint = matches!(message, Message::Hint { .. });
                let is_lost = mode != Mode::Mixed && is_sent(&message) && world.rng.u8(0..20) == 0;
                if !is_lost && (!is_hint || delivers_hints) {
                    world.deliver(message);
                }
            }
        }
    }
    for operation in 0..world.operations.len() {
        if is_unanswered(&world, operation) {
            world.abandon(operation);
        }
    }
    world
}

fn begin(world: &mut World, mode: Mode) {
    let client = world.rng.usize(0..CLIENTS);
    let plain = if mode == Mode::Conditional { 0 } else { 7 };
    match world.rng.u32(0..20) {
        draw if draw < plain => world.begin_write(client),
        draw if draw < 15 => world.begin_conditional(client),
        _ => world.begin_read(client, None),
    }
}

/// The operations that have something left to do.
fn running(world: &World) -> Vec<usize> {
    let is_running =
        |operation: &usize| !matches!(world.operations[*operation].machine, Machine::Done);
    (0..world.operations.len()).filter(is_running).collect()
}

fn is_unanswered(world: &World, operation: usize) -> bool {
    !world.operations[operation].is_answered
        && !matches!(world.operations[operation].machine, Machine::Done)
}

/// An operation whose coordinator may crash.
fn crashing(world: &mut World, mode: Mode, running: &[usize]) -> Option<usize> {
    let may_crash = |operation: &usize| {
        let (Machine::Conditional { .. } | Machine::Settle { .. }) =
            world.operations[*operation].machine
        else {
            return mode == Mode::Faults && world.operations[*operation].parent.is_none();
        };
        world.operations[*operation].parent.is_none()
    };
    let candidates: Vec<usize> = running.iter().copied().filter(may_crash).collect();
    let count = candidates.len();
    (count > 0).then(|| candidates[world.rng.usize(0..count)])
}

/// A coordinator crashes, with all that it waits for. What it has sent still arrives.
fn crash(world: &mut World, operation: usize) {
    if is_unanswered(world, operation) {
        world.abandon(operation);
    }
    world.operations[operation].machine = Machine::Done;
    for child in &mut world.operations {
        if child.parent == Some(operation) {
            child.machine = Machine::Done;
        }
    }
}

/// Whether a message goes from node to node and may be lost.
fn is_sent(message: &Message) -> bool {
    match message {
        Message::Request { .. } => true,
        Message::Answer { event, .. } => !matches!(
            event,
            Event::Conditional(ConditionalEvent::Resumed | ConditionalEvent::HintKept { .. })
                | Event::Write(WriteEvent::HintKept { .. })
        ),
        Message::Hint { .. } => false,
    }
}

/// Nothing is under way: what waits for a promise has it settled, or the time of an operation is
/// over.
fn expire(world: &mut World, mode: Mode, operation: usize) {
    let are_waiting = !world.waiting.is_empty();
    if are_waiting && (mode == Mode::Mixed || world.rng.u8(0..4) > 0) {
        return world.begin_settle(None);
    }
    let event = match &world.operations[operation].machine {
        Machine::Write { write, .. } if write.awaits_half_time() => {
            Event::Write(WriteEvent::HalfTime)
        }
        Machine::Write { .. } => Event::Write(WriteEvent::Deadline),
        Machine::Read(_) => Event::Read(ReadEvent::Deadline),
        Machine::Conditional { .. } => Event::Conditional(ConditionalEvent::Deadline),
        Machine::Settle { .. } => Event::Settle(SettleEvent::Deadline, None),
        Machine::Done => return,
    };
    world.step(operation, event);
}

/// A repair session compares two replicas: the older one gets the newest version of the other.
fn repair(world: &mut World) {
    let from = world.pair().from;
    let (one, other) = (world.rng.u8(0..from), world.rng.u8(0..from));
    let newest = |replica: u8| world.replicas[usize::from(replica)].newest().cloned();
    if let Some(entry) = newest(one) {
        let other = ReplicaIndex::new(other);
        let _held = world.replica(other).put(&entry);
        world.wake(other);
    }
}

/// A lost store counts again once no request from before is left and it was compared with all
/// others. Returns whether it does.
fn rebuild(world: &mut World, replica: ReplicaIndex, operations: usize) -> bool {
    if running(world).iter().any(|running| *running < operations) {
        return false;
    }
    // What they have sent is too old for any replica to take.
    world.messages.retain(|message| match message {
        Message::Request { operation, .. } => *operation >= operations,
        Message::Answer { .. } | Message::Hint { .. } => true,
    });
    let others: Vec<ReplicaIndex> = world
        .pair()
        .indexes()
        .filter(|each| *each != replica)
        .collect();
    for other in others {
        for (from, to) in [(other, replica), (replica, other)] {
            let newest = world.replica(from).newest().cloned();
            let is_taken = newest.is_none_or(|entry| world.replica(to).put(&entry).is_some());
            world.wake(to);
            if !is_taken {
                return false;
            }
        }
    }
    world.replica(replica).is_voter = true;
    true
}
