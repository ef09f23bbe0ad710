//! Writes and reads: the real machines, and the messages between them and the nodes.

use super::Bug;
use super::node::entry_of;
use super::world::World;
use base::Timestamp;
use cluster::layout::Epoch;
use cluster::{
    Decision, Miss, NodeId, PreferenceList, Quorum, Read, ReadAction, ReadActions, ReadEvent,
    ReplicaIndex, Replicas, Round, WhichList, Write, WriteAction, WriteActions, WriteEvent,
};

pub(crate) struct Operation {
    coordinator: NodeId,
    life: u32,
    /// The list by which it goes.
    pub(crate) epoch: Epoch,
    nodes: PreferenceList,
    machine: Machine,
    begun: u64,
    is_answered: bool,
    /// For a write: its number, and the versions that it has sent out.
    write: u64,
    versions: Vec<u64>,
}

enum Machine {
    Write(Write),
    Read(Read),
    Done,
}

#[derive(Clone, Debug)]
pub(crate) enum Message {
    Request {
        operation: usize,
        replica: ReplicaIndex,
        request: Request,
    },
    Answer {
        operation: usize,
        event: Event,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Request {
    Write { round: Round, version: u64 },
    Repair { version: u64 },
    Read,
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    Write(WriteEvent),
    Read(ReadEvent),
}

impl Message {
    fn operation(&self) -> usize {
        match self {
            Self::Request { operation, .. } | Self::Answer { operation, .. } => *operation,
        }
    }
}

/// The event that a coordinator gets instead of the answer to a request.
fn missed(replica: ReplicaIndex, request: Request, why: Miss) -> Event {
    match request {
        Request::Write { round, .. } => Event::Write(WriteEvent::Missed {
            round,
            replica,
            why,
        }),
        Request::Repair { .. } => Event::Read(ReadEvent::RepairMissed { replica, why }),
        Request::Read => Event::Read(ReadEvent::Missed { replica, why }),
    }
}

impl World {
    /// The oldest list by which a request of a node goes that is under way.
    pub(crate) fn oldest_of(&self, node: NodeId) -> Option<Epoch> {
        if self.bug == Some(Bug::NoDrain) {
            return None;
        }
        let under_way = (0..self.operations.len()).filter(|operation| {
            self.operations[*operation].coordinator == node && self.is_under_way(*operation)
        });
        under_way
            .map(|operation| self.operations[operation].epoch)
            .min()
    }

    /// Whether an operation goes on, or has messages on their way though its coordinator crashed.
    pub(crate) fn is_under_way(&self, operation: usize) -> bool {
        self.is_running(operation)
            || self.messages.iter().any(|message| {
                message.operation() == operation && matches!(message, Message::Request { .. })
            })
    }

    pub(crate) fn is_running(&self, operation: usize) -> bool {
        let Operation {
            coordinator,
            life,
            machine,
            ..
        } = &self.operations[operation];
        !matches!(machine, Machine::Done) && self.node(*coordinator).life == *life
    }

    /// The quorum of a request that goes by a list.
    fn quorum_of(&self, epoch: Epoch, is_read: bool) -> (PreferenceList, Quorum) {
        let replicas = self.replicas;
        let (nodes, quorum) = self.placements_of(epoch).for_request(&self.key, replicas);
        if !quorum.is_of_two() {
            return (nodes, quorum);
        }
        let lists = |which| self.list_of(epoch, which);
        let judged_by = |judge| {
            Quorum::of_two(
                replicas,
                lists(WhichList::Old),
                &lists(WhichList::New),
                judge,
            )
        };
        match self.bug {
            Some(Bug::JudgeOld) => judged_by(WhichList::Old),
            Some(Bug::JudgeNew) => judged_by(WhichList::New),
            Some(Bug::UnionAcks) if !is_read => {
                let from = quorum.nodes();
                let replicas = Replicas { from, ..replicas };
                (nodes, Quorum::from(replicas))
            }
            Some(Bug::ReadOneSide) if is_read => {
                let judge = self.list(epoch).phase().judge();
                (lists(judge), Quorum::from(replicas))
            }
            _ => (nodes, quorum),
        }
    }

    pub(crate) fn begin_write(&mut self, coordinator: NodeId) {
        let epoch = self.node(coordinator).epoch;
        let (nodes, quorum) = self.quorum_of(epoch, false);
        self.writes += 1;
        let write = self.writes;
        let version = self.rng.u64(2..60) << 8 | write;
        let mut actions = WriteActions::new();
        let timestamp = Timestamp::from_u64(version);
        let machine = Write::start(quorum, timestamp, |_| None, &mut actions);
        let operation = self.enter(coordinator, nodes, Machine::Write(machine));
        self.operations[operation].write = write;
        self.operations[operation].versions.push(version);
        self.act_on_write(operation, &actions);
    }

    pub(crate) fn begin_read(&mut self, coordinator: NodeId) {
        let epoch = self.node(coordinator).epoch;
        let (nodes, quorum) = self.quorum_of(epoch, true);
        let mut preference: Vec<ReplicaIndex> = quorum.indexes().collect();
        self.rng.shuffle(&mut preference);
        preference.sort_by_key(|replica| !quorum.counts_in_all(*replica));
        let mut actions = ReadActions::new();
        let machine = Read::start(quorum, preference, &mut actions);
        let operation = self.enter(coordinator, nodes, Machine::Read(machine));
        self.act_on_read(operation, &actions);
    }

    fn enter(&mut self, coordinator: NodeId, nodes: PreferenceList, machine: Machine) -> usize {
        self.moment += 1;
        let node = self.node(coordinator);
        let operation = Operation {
            coordinator,
            life: node.life,
            epoch: node.epoch,
            nodes,
            machine,
            begun: self.moment,
            is_answered: false,
            write: 0,
            versions: Vec::new(),
        };
        self.operations.push(operation);
        self.operations.len() - 1
    }

    fn send(&mut self, operation: usize, replica: ReplicaIndex, request: Request) {
        self.messages.push(Message::Request {
            operation,
            replica,
            request,
        });
    }

    /// A message arrives, or is lost.
    pub(crate) fn deliver(&mut self, message: usize) {
        match self.messages.swap_remove(message) {
            Message::Request {
                operation,
                replica,
                request,
            } => {
                let event = self.serve(operation, replica, request);
                self.messages.push(Message::Answer { operation, event });
            }
            Message::Answer { operation, event } => self.step(operation, event),
        }
    }

    /// What the answer to a request is.
    fn serve(&mut self, operation: usize, replica: ReplicaIndex, request: Request) -> Event {
        let Operation {
            coordinator,
            epoch,
            ref nodes,
            ..
        } = self.operations[operation];
        let target = nodes[replica.as_usize()];
        if let Err(why) = self.reach(coordinator, target, epoch) {
            return missed(replica, request, why);
        }
        let counts = self.node(target).is_voter || self.bug == Some(Bug::LostCounts);
        let copies = self.replicas.from;
        let store = &mut self.node_mut(target).store;
        let event = match request {
            Request::Write { round, version } => Event::Write(WriteEvent::Stored {
                round,
                replica,
                newer_version: store.put(version),
            }),
            Request::Repair { version } => Event::Read(ReadEvent::Repaired {
                replica,
                newer_version: store.put(version),
            }),
            Request::Read => Event::Read(ReadEvent::Answered {
                replica,
                entry: entry_of(store.newest(), copies),
                is_dead: false,
                gc_threshold: Timestamp::ZERO,
            }),
        };
        if !counts {
            return missed(replica, request, Miss::Learner);
        }
        if self.loses() {
            return missed(replica, request, Miss::Timeout);
        }
        event
    }

    /// Whether a node serves a request of another one that goes by a list, and why not.
    fn reach(&mut self, from: NodeId, to: NodeId, epoch: Epoch) -> Result<(), Miss> {
        let is_dead = self.list(epoch).dead().contains(to);
        let node = self.node(to);
        if !node.is_up || is_dead || self.loses() {
            return Err(Miss::Timeout);
        }
        let node = self.node(to);
        let is_member = self.list(node.epoch).live().contains(from);
        let is_refused = !is_member && self.bug != Some(Bug::NoRefusal)
            || epoch < node.floor && self.bug != Some(Bug::NoFloor);
        if is_refused {
            return Err(match self.bug {
                Some(Bug::RestampRefused) => Miss::Refused,
                _ => Miss::OtherEpoch,
            });
        }
        Ok(())
    }

    fn step(&mut self, operation: usize, event: Event) {
        if !self.is_running(operation) {
            return;
        }
        match (&mut self.operations[operation].machine, event) {
            (Machine::Write(write), Event::Write(event)) => {
                let mut actions = WriteActions::new();
                write.step(event, &mut actions);
                self.act_on_write(operation, &actions);
            }
            (Machine::Read(read), Event::Read(event)) => {
                let mut actions = ReadActions::new();
                read.step(event, &mut actions);
                self.act_on_read(operation, &actions);
            }
            _ => {}
        }
    }

    /// Half of the time of an operation is over, if that matters, or all of it.
    pub(crate) fn time_passes(&mut self, operation: usize) {
        let event = match &self.operations[operation].machine {
            Machine::Write(write) if write.awaits_half_time() => Event::Write(WriteEvent::HalfTime),
            Machine::Write(_) => Event::Write(WriteEvent::Deadline),
            Machine::Read(_) => Event::Read(ReadEvent::Deadline),
            Machine::Done => return,
        };
        self.step(operation, event);
    }

    fn act_on_write(&mut self, operation: usize, actions: &WriteActions) {
        for action in actions {
            match *action {
                WriteAction::Send { round, replica } => {
                    let version = self.version_of(operation);
                    self.send(operation, replica, Request::Write { round, version });
                }
                // Nothing promises when a hint is delivered.
                WriteAction::Hint { round, replica } => {
                    self.step(
                        operation,
                        Event::Write(WriteEvent::HintKept { round, replica }),
                    );
                }
                WriteAction::Push { above } => self.push(operation, above),
                WriteAction::Reply(decision) => self.written(operation, decision),
                WriteAction::Done => self.operations[operation].machine = Machine::Done,
            }
        }
    }

    fn version_of(&self, operation: usize) -> u64 {
        let versions = &self.operations[operation].versions;
        versions.last().copied().unwrap_or(0)
    }

    fn push(&mut self, operation: usize, above: Timestamp) {
        let write = self.operations[operation].write;
        let version = ((above.as_u64() >> 8) + 1) << 8 | write;
        self.operations[operation].versions.push(version);
        let mut actions = WriteActions::new();
        if let Machine::Write(machine) = &mut self.operations[operation].machine {
            machine.pushed(Timestamp::from_u64(version), |_| None, &mut actions);
        }
        self.act_on_write(operation, &actions);
    }

    fn written(&mut self, operation: usize, decision: Decision) {
        self.moment += 1;
        let version = self.version_of(operation);
        let Operation {
            begun,
            ref mut is_answered,
            write,
            ..
        } = self.operations[operation];
        *is_answered = true;
        match decision {
            Decision::Enough { .. } => self.history.written(version, begun, self.moment),
            Decision::NotEnough { .. } => self.history.failed(write, begun),
        }
    }

    fn act_on_read(&mut self, operation: usize, actions: &ReadActions) {
        for action in actions {
            let Machine::Read(read) = &self.operations[operation].machine else {
                return;
            };
            let freshest = read.freshest().map_or(0, |it| it.timestamp().as_u64());
            match *action {
                ReadAction::Ask { replica } => self.send(operation, replica, Request::Read),
                ReadAction::Repair { replica } => {
                    let version = freshest;
                    self.send(operation, replica, Request::Repair { version });
                }
                ReadAction::Reply(Decision::Enough { .. }) => {
                    self.moment += 1;
                    let begun = self.operations[operation].begun;
                    self.operations[operation].is_answered = true;
                    self.history.read(freshest, begun, self.moment);
                }
                // No store of this model forgets.
                ReadAction::Reply(Decision::NotEnough { .. }) | ReadAction::Pause => {}
                ReadAction::Done => self.operations[operation].machine = Machine::Done,
            }
        }
    }

    /// Writes that never ended may take effect as well.
    pub(crate) fn end_operations(&mut self) {
        for operation in &self.operations {
            if operation.write > 0 && !operation.is_answered {
                self.history.failed(operation.write, operation.begun);
            }
        }
    }

    /// Whether an operation waits for nothing but time.
    pub(crate) fn is_stuck(&self, operation: usize) -> bool {
        let mut messages = self.messages.iter();
        self.is_running(operation) && !messages.any(|it| it.operation() == operation)
    }
}
