//! Writes and reads: the real machines, and the messages that they send.

use super::Bug;
use super::history::REQUEST_BITS;
use super::world::World;
use base::Timestamp;
use cluster::layout::Epoch;
use cluster::{
    ConditionalEvent, ConditionalWrite, Decision, Newest, NodeId, PreferenceList, Quorum, Read,
    ReadAction, ReadActions, ReadEvent, ReplicaIndex, Replicas, Round, Settle, SettleEvent,
    WhichList, Write, WriteAction, WriteActions, WriteEvent,
};

pub(crate) struct Operation {
    pub(crate) coordinator: NodeId,
    life: u32,
    /// The list by which it goes.
    pub(crate) epoch: Epoch,
    pub(crate) nodes: PreferenceList,
    pub(crate) machine: Machine,
    pub(crate) begun: u64,
    pub(crate) is_answered: bool,
    /// The operation that waits for this one.
    pub(crate) parent: Option<usize>,
    /// For a write: its number, and the versions that it has sent out.
    pub(crate) write: u64,
    versions: Vec<u64>,
}

pub(crate) enum Machine {
    Write(Write),
    Read(Read),
    Conditional {
        write: ConditionalWrite,
        /// The greatest version that a promise of this ballot named.
        base: u64,
        /// The version that it is to replace, and the write of which that has the content.
        known: u64,
        replaces: u64,
    },
    Settle {
        settle: Settle,
        /// What each replica has named as its newest version.
        newest: Vec<u64>,
    },
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
    Write {
        round: Round,
        version: u64,
    },
    Repair {
        version: u64,
    },
    Read,
    /// Forced where there is no base.
    Prepare {
        ballot: u64,
        base: Option<u64>,
    },
    Accept {
        ballot: u64,
        version: u64,
        settles: bool,
    },
    Release {
        ballot: u64,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    Write(WriteEvent),
    Read(ReadEvent),
    Conditional(ConditionalEvent),
    Settle(SettleEvent, u64),
}

impl Message {
    fn operation(&self) -> usize {
        match self {
            Self::Request { operation, .. } | Self::Answer { operation, .. } => *operation,
        }
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
    pub(crate) fn quorum_of(&self, epoch: Epoch, is_read: bool) -> (PreferenceList, Quorum) {
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
        let version = self.rng.u64(2..60) << REQUEST_BITS | write;
        let mut actions = WriteActions::new();
        let timestamp = Timestamp::from_u64(version);
        let machine = Write::start(quorum, timestamp, |_| None, &mut actions);
        let operation = self.enter(coordinator, nodes, Machine::Write(machine));
        self.operations[operation].write = write;
        self.operations[operation].versions.push(version);
        self.act_on_write(operation, &actions);
    }

    /// A version of an operation that is neither a write nor a read, above this one.
    pub(crate) fn next_version(&mut self, above: Timestamp) -> u64 {
        self.writes += 1;
        let time = self.rng.u64(2..60);
        time.max((above.as_u64() >> REQUEST_BITS) + 1) << REQUEST_BITS | self.writes
    }

    pub(crate) fn next_moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    pub(crate) fn begin_read(&mut self, coordinator: NodeId, parent: Option<usize>) {
        let epoch = self.node(coordinator).epoch;
        let (nodes, quorum) = self.quorum_of(epoch, true);
        let mut preference: Vec<ReplicaIndex> = quorum.indexes().collect();
        self.rng.shuffle(&mut preference);
        preference.sort_by_key(|replica| !quorum.counts_in_all(*replica));
        let mut actions = ReadActions::new();
        let machine = Read::start(quorum, preference, &mut actions);
        let operation = self.enter(coordinator, nodes, Machine::Read(machine));
        self.operations[operation].parent = parent;
        self.act_on_read(operation, &actions);
    }

    pub(crate) fn enter(
        &mut self,
        coordinator: NodeId,
        nodes: PreferenceList,
        machine: Machine,
    ) -> usize {
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
            parent: None,
            write: 0,
            versions: Vec::new(),
        };
        self.operations.push(operation);
        self.operations.len() - 1
    }

    pub(crate) fn send(&mut self, operation: usize, replica: ReplicaIndex, request: Request) {
        self.messages.push(Message::Request {
            operation,
            replica,
            request,
        });
    }

    pub(crate) fn step(&mut self, operation: usize, event: Event) {
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
            (Machine::Conditional { .. }, Event::Conditional(event)) => {
                self.step_conditional(operation, event);
            }
            (Machine::Settle { .. }, Event::Settle(event, named)) => {
                self.step_settle(operation, event, named);
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
            Machine::Conditional { .. } => Event::Conditional(ConditionalEvent::Deadline),
            Machine::Settle { .. } => Event::Settle(SettleEvent::Deadline, 0),
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
        let version = ((above.as_u64() >> REQUEST_BITS) + 1) << REQUEST_BITS | write;
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
                ReadAction::Reply(decision) => {
                    let is_enough = matches!(decision, Decision::Enough { .. });
                    self.has_read(operation, is_enough.then_some(freshest));
                }
                // No store of this model forgets.
                ReadAction::Pause => {}
                ReadAction::Done => self.operations[operation].machine = Machine::Done,
            }
        }
    }

    /// A read has its answer; [`None`] if too few replicas have answered.
    fn has_read(&mut self, operation: usize, found: Option<u64>) {
        self.moment += 1;
        let Operation { begun, parent, .. } = self.operations[operation];
        self.operations[operation].is_answered = true;
        if let Some(parent) = parent {
            let newest = found.map(|version| Newest {
                timestamp: (version > 0).then(|| Timestamp::from_u64(version)),
                is_value: version > 0,
            });
            self.step(parent, Event::Conditional(ConditionalEvent::Read(newest)));
        } else if let Some(version) = found {
            self.known = version;
            self.history.read(version, begun, self.moment);
        }
    }

    /// Writes that never ended may take effect as well.
    pub(crate) fn end_operations(&mut self) {
        for operation in &self.operations {
            let Operation { write, begun, .. } = *operation;
            if write == 0 || operation.is_answered {
                continue;
            }
            match operation.machine {
                Machine::Conditional { replaces, .. } => {
                    self.history.swapped(replaces, write, None, begun, u64::MAX);
                }
                _ => self.history.failed(write, begun),
            }
        }
    }

    /// Whether an operation waits for nothing but time.
    pub(crate) fn is_stuck(&self, operation: usize) -> bool {
        let mut messages = self.messages.iter();
        let mut all = 0..self.operations.len();
        self.is_running(operation)
            && !messages.any(|it| it.operation() == operation)
            && !all.any(|it| self.operations[it].parent == Some(operation) && self.is_running(it))
    }
}
