//! A cluster in memory: replicas of one key, the messages between them, and the machines
//! under test. The driver of the world decides what comes next.
//!
//! Node `n` is the replica with index `n`. Nothing happens by itself: every message waits
//! until the driver delivers or loses it, and a deadline comes when the driver says so.

use crate::message::{Event, Message, Request, missed, missed_instead};
use crate::node::{Bug, Node};
use base::{Entry, Expiry, Kind, NewerVersion, Timestamp};
use checker::{Action, Content, History, OperationId, Outcome};
use cluster::{Decision, Miss, ReplicaIndex, Replicas};
use cluster::{Read, ReadAction, ReadActions, ReadEvent};
use cluster::{Write, WriteAction, WriteActions, WriteEvent};

pub(crate) const KEY: &[u8] = b"key";

/// The wall clock of a node without skew at the first moment.
const BEGIN_UNIX_MS: u64 = Timestamp::EPOCH_UNIX_MS + 1_000_000_000;

pub(crate) struct World {
    pub(crate) nodes: Vec<Node>,
    /// Whether nodes merge the timestamps that they are sent into their clocks.
    pub(crate) merges_clocks: bool,
    /// Whether coordinators know which nodes are down.
    pub(crate) knows_who_is_down: bool,
    /// What the replicas or coordinators do wrong.
    pub(crate) bug: Option<Bug>,
    pub(crate) messages: Vec<Message>,
    pub(crate) operations: Vec<Operation>,
    /// What clients see of the operations, for the checker. An operation has the
    /// same number here and in `operations`.
    pub(crate) history: History,
    machines: Vec<Machine>,
    moment: u64,
}

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientRequest {
    /// To store this letter.
    Put(char),
    Delete,
    Get,
}

/// A request and what the coordinator made of it.
pub(crate) struct Operation {
    pub(crate) asked: ClientRequest,
    pub(crate) replicas: Replicas,
    coordinator: u8,
    /// The answer, once there is one.
    pub(crate) answer: Option<Answer>,
    /// The versions that the coordinator has sent out, one for each timestamp.
    pub(crate) written: Vec<Entry>,
}

/// What a coordinator answers to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// This number of replicas has stored this version.
    Written { entry: Entry, acks: u8 },
    /// This version is the freshest that this number of replicas holds.
    Read { entry: Option<Entry>, acks: u8 },
    /// No more replicas than this have answered.
    NotEnough { acks: u8 },
}

enum Machine {
    Write { write: Write, entry: Entry },
    Read(Read),
    Done,
}

impl World {
    /// The history, a line for each operation, to show with a failure.
    pub(crate) fn describe(&self) -> String {
        let operations = self.history.operations().iter().enumerate();
        let lines = operations.map(|(number, operation)| format!("#{number} {operation}\n"));
        lines.collect()
    }

    /// What shows that the history breaks promises; empty if it keeps all.
    pub(crate) fn violations(&self) -> String {
        let violations = checker::check(&self.history);
        let described = violations.iter().map(|each| each.describe(&self.history));
        described.collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn new(nodes: u8) -> Self {
        Self {
            nodes: (0..nodes).map(Node::new).collect(),
            merges_clocks: true,
            knows_who_is_down: true,
            bug: None,
            messages: Vec::new(),
            operations: Vec::new(),
            history: History::default(),
            machines: Vec::new(),
            moment: 0,
        }
    }

    /// A client's request comes to a node. `preference` is for reads.
    pub(crate) fn invoke(
        &mut self,
        coordinator: u8,
        asked: ClientRequest,
        replicas: Replicas,
        preference: &[ReplicaIndex],
    ) -> usize {
        let operation = self.operations.len();
        self.moment += 1;
        self.operations.push(Operation {
            asked,
            replicas,
            coordinator,
            answer: None,
            written: Vec::new(),
        });
        let request = checker::Request {
            client: operation,
            node: coordinator.into(),
            key: 0,
            action: asked.action(),
            ack: replicas.ack,
            from: replicas.from,
        };
        let unix_ms = self.unix_ms(coordinator);
        self.history.invoke(request, unix_ms);
        if asked == ClientRequest::Get {
            let mut actions = ReadActions::new();
            let read = Read::start(replicas, preference.iter().copied(), &mut actions);
            self.machines.push(Machine::Read(read));
            self.carry_out_read(operation, &actions);
        } else {
            let mut actions = WriteActions::new();
            let entry = self.new_entry(operation);
            let down = self.known_down();
            let down_reason =
                |replica: ReplicaIndex| down[replica.as_usize()].then_some(Miss::Refused);
            let write = Write::start(replicas, entry.timestamp(), down_reason, &mut actions);
            self.machines.push(Machine::Write { write, entry });
            self.carry_out_write(operation, &actions);
        }
        operation
    }

    /// A message arrives.
    pub(crate) fn deliver(&mut self, message: usize) {
        self.moment += 1;
        match self.messages.swap_remove(message) {
            Message::Request {
                operation,
                replica,
                request,
            } => self.serve(operation, replica, request),
            Message::Answer { operation, event } => self.step(operation, event),
            Message::Hint { replica, entry } => {
                self.node(replica).store(&entry, None);
            }
        }
    }

    /// A message is lost; its coordinator may notice, as when a connection
    /// breaks. What does not go from node to node, or waits as a hint, is late instead.
    pub(crate) fn lose(&mut self, message: usize, is_noticed: bool) {
        let lost = match &self.messages[message] {
            Message::Request {
                operation,
                replica,
                request,
            } => missed(*replica, request, Miss::Refused).map(|event| (*operation, event)),
            Message::Answer { operation, event } => {
                missed_instead(event).map(|event| (*operation, event))
            }
            Message::Hint { .. } => None,
        };
        if let Some((operation, event)) = lost {
            self.messages.swap_remove(message);
            if is_noticed {
                self.messages.push(Message::Answer { operation, event });
            }
        }
    }

    /// Half of a request's time passes, if it waits for that, or all of it.
    pub(crate) fn deadline(&mut self, operation: usize) {
        self.moment += 1;
        let event = match &self.machines[operation] {
            Machine::Write { write, .. } if write.awaits_half_time() => {
                Event::Write(WriteEvent::HalfTime)
            }
            Machine::Write { .. } => Event::Write(WriteEvent::Deadline),
            Machine::Read(_) => Event::Read(ReadEvent::Deadline),
            Machine::Done => return,
        };
        self.step(operation, event);
        // Its client waits for nothing longer than that.
        let is_read = matches!(self.machines[operation], Machine::Read(_));
        assert!(!is_read, "a read goes on after its deadline");
    }

    /// The requests whose machines have something left to do.
    pub(crate) fn running(&self) -> Vec<usize> {
        let is_running = |operation: &usize| !matches!(self.machines[*operation], Machine::Done);
        (0..self.machines.len()).filter(is_running).collect()
    }

    /// A replica takes long to answer a read.
    pub(crate) fn slow(&mut self, operation: usize, replica: ReplicaIndex) {
        if matches!(self.machines[operation], Machine::Read(_)) {
            self.step(operation, Event::Read(ReadEvent::Slow { replica }));
        }
    }

    /// The version that a node would answer with.
    pub(crate) fn held(&self, replica: ReplicaIndex) -> Option<&Entry> {
        let versions = &self.nodes[replica.as_usize()].versions;
        let entries = versions.iter().map(|(entry, _)| entry);
        entries.max_by_key(|entry| entry.rank())
    }

    /// Whether a node has this version.
    pub(crate) fn has(&self, replica: ReplicaIndex, entry: &Entry) -> bool {
        let mut versions = self.nodes[replica.as_usize()].versions.iter();
        versions.any(|(held, _)| held == entry)
    }

    fn node(&mut self, replica: ReplicaIndex) -> &mut Node {
        &mut self.nodes[replica.as_usize()]
    }

    fn known_down(&self) -> Vec<bool> {
        let is_down = |node: &Node| node.is_down && self.knows_who_is_down;
        self.nodes.iter().map(is_down).collect()
    }

    /// The entry of a write with its coordinator's next timestamp.
    fn new_entry(&mut self, operation: usize) -> Entry {
        let Operation {
            coordinator,
            asked,
            replicas: Replicas { from, .. },
            ..
        } = self.operations[operation];
        let now_unix_ms = self.unix_ms(coordinator);
        let timestamp = self
            .node(ReplicaIndex::new(coordinator))
            .clock
            .issue(now_unix_ms)
            .unwrap();
        let entry = match asked {
            ClientRequest::Put(letter) => Entry::value(
                KEY,
                timestamp,
                letter.to_string().as_bytes(),
                Expiry::NEVER,
                from,
            ),
            ClientRequest::Delete | ClientRequest::Get => Entry::tombstone(KEY, timestamp, from),
        };
        self.operations[operation].written.push(entry.clone());
        entry
    }

    /// A replica does what it is asked.
    fn serve(&mut self, operation: usize, replica: ReplicaIndex, request: Request) {
        let (merges_clocks, bug) = (self.merges_clocks, self.bug);
        let coordinator = self.operations[operation].coordinator;
        let is_local_work = matches!(request, Request::KeepHint { .. });
        let node = self.node(replica);
        if node.is_down && replica.as_u8() != coordinator && !is_local_work {
            let event = missed(replica, &request, Miss::Refused).unwrap();
            self.messages.push(Message::Answer { operation, event });
            return;
        }
        let event = match request {
            Request::Write { round, entry } => {
                if merges_clocks {
                    node.clock.observe(entry.timestamp());
                }
                let newer_version = node.store(&entry, bug);
                Event::Write(WriteEvent::Stored {
                    round,
                    replica,
                    newer_version,
                })
            }
            Request::Repair { entry } => {
                let newer_version = match node.store(&entry, bug) {
                    _ if matches!(bug, Some(Bug::RepairsCount | Bug::FirstAnswersDecide)) => {
                        NewerVersion::None
                    }
                    newer_version => newer_version,
                };
                Event::Read(ReadEvent::Repaired {
                    replica,
                    newer_version,
                })
            }
            Request::Read => {
                let entry = self.held(replica).cloned();
                let is_dead = entry
                    .as_ref()
                    .is_none_or(|entry| entry.kind() == Kind::Tombstone);
                Event::Read(ReadEvent::Answered {
                    replica,
                    entry,
                    is_dead,
                    gc_threshold: Timestamp::ZERO,
                })
            }
            Request::KeepHint { round, entry } => {
                self.messages.push(Message::Hint { replica, entry });
                Event::Write(WriteEvent::HintKept { round, replica })
            }
        };
        self.messages.push(Message::Answer { operation, event });
    }

    fn step(&mut self, operation: usize, event: Event) {
        match (&mut self.machines[operation], event) {
            (Machine::Write { write, .. }, Event::Write(event)) => {
                let mut actions = WriteActions::new();
                if matches!(self.bug, Some(Bug::Impatience | Bug::FirstAnswersDecide)) {
                    write.step(WriteEvent::HalfTime, &mut actions);
                }
                write.step(event, &mut actions);
                self.carry_out_write(operation, &actions);
            }
            (Machine::Read(read), Event::Read(event)) => {
                let mut actions = ReadActions::new();
                read.step(event, &mut actions);
                self.carry_out_read(operation, &actions);
            }
            _ => {}
        }
    }

    fn carry_out_write(&mut self, operation: usize, actions: &WriteActions) {
        for action in actions {
            let Machine::Write { entry, .. } = &self.machines[operation] else {
                return;
            };
            let entry = entry.clone();
            match *action {
                WriteAction::Send { round, replica } => {
                    self.send(operation, replica, Request::Write { round, entry });
                }
                WriteAction::Hint { round, replica } => {
                    self.send(operation, replica, Request::KeepHint { round, entry });
                }
                WriteAction::Push { above } => self.push(operation, above),
                WriteAction::Reply(Decision::Enough { acks }) => {
                    self.reply(operation, Answer::Written { entry, acks });
                }
                WriteAction::Reply(Decision::NotEnough { acks }) => {
                    self.reply(operation, Answer::NotEnough { acks });
                }
                WriteAction::Done => self.machines[operation] = Machine::Done,
            }
        }
    }

    fn push(&mut self, operation: usize, above: Timestamp) {
        let coordinator = self.operations[operation].coordinator;
        self.node(ReplicaIndex::new(coordinator))
            .clock
            .observe(above);
        let newer = self.new_entry(operation);
        let down = self.known_down();
        let mut actions = WriteActions::new();
        if let Machine::Write { write, entry } = &mut self.machines[operation] {
            let down_reason =
                |replica: ReplicaIndex| down[replica.as_usize()].then_some(Miss::Refused);
            write.pushed(newer.timestamp(), down_reason, &mut actions);
            *entry = newer;
        }
        self.carry_out_write(operation, &actions);
    }

    fn carry_out_read(&mut self, operation: usize, actions: &ReadActions) {
        for action in actions {
            let Machine::Read(read) = &self.machines[operation] else {
                return;
            };
            let freshest = read.freshest().cloned();
            match *action {
                ReadAction::Ask { replica } => self.send(operation, replica, Request::Read),
                ReadAction::Repair { replica } => {
                    let entry = freshest.unwrap();
                    self.send(operation, replica, Request::Repair { entry });
                }
                ReadAction::Reply(Decision::Enough { acks }) => {
                    self.reply(
                        operation,
                        Answer::Read {
                            entry: freshest,
                            acks,
                        },
                    );
                }
                ReadAction::Reply(Decision::NotEnough { acks }) => {
                    self.reply(operation, Answer::NotEnough { acks });
                }
                // No store of this world forgets.
                ReadAction::Pause => {}
                ReadAction::Done => self.machines[operation] = Machine::Done,
            }
        }
    }

    fn send(&mut self, operation: usize, replica: ReplicaIndex, request: Request) {
        self.messages.push(Message::Request {
            operation,
            replica,
            request,
        });
    }

    fn reply(&mut self, operation: usize, answer: Answer) {
        let replicas = self.operations[operation].replicas;
        if let Answer::Written { entry, .. } = &answer {
            let copies = replicas
                .indexes()
                .filter(|replica| self.has(*replica, entry))
                .count();
            assert!(
                copies >= usize::from(replicas.ack),
                "{copies} copies at the acknowledgement of operation {operation}"
            );
        }
        let outcome = self.outcome(operation, &answer);
        let unix_ms = self.unix_ms(self.operations[operation].coordinator);
        let replied = &mut self.operations[operation].answer;
        assert!(replied.is_none(), "operation {operation} replies twice");
        *replied = Some(answer);
        self.history
            .complete(OperationId(operation), outcome, unix_ms);
    }

    /// What the client of an operation sees of its answer.
    fn outcome(&self, operation: usize, answer: &Answer) -> Outcome {
        match answer {
            Answer::Written { entry, acks } => Outcome::Written {
                version: entry.timestamp(),
                acks: *acks,
            },
            Answer::Read { entry, acks } => Outcome::Found {
                version: entry.as_ref().map(Entry::timestamp),
                content: self.content(entry.as_ref()),
                acks: *acks,
            },
            Answer::NotEnough { .. } => Outcome::NotEnough {
                timestamp: self.operations[operation]
                    .written
                    .last()
                    .map(Entry::timestamp),
            },
        }
    }

    /// What a read returned. An entry counts only if an operation has sent out
    /// this very entry.
    fn content(&self, entry: Option<&Entry>) -> Content {
        let Some(entry) = entry else {
            return Content::Absent;
        };
        let mut operations = self.operations.iter();
        match operations.position(|operation| operation.written.contains(entry)) {
            None => Content::Garbage,
            Some(_) if entry.kind() == Kind::Tombstone => Content::Absent,
            Some(put) => Content::Value(OperationId(put)),
        }
    }

    /// The wall clock of a node, in milliseconds since the Unix epoch.
    fn unix_ms(&self, node: u8) -> u64 {
        let skew_ms = self.nodes[usize::from(node)].skew_ms;
        (BEGIN_UNIX_MS + self.moment).saturating_add_signed(skew_ms)
    }
}

impl ClientRequest {
    fn action(self) -> Action {
        match self {
            Self::Put(_) => Action::Put { ttl_seconds: None },
            Self::Delete => Action::Delete,
            Self::Get => Action::Get,
        }
    }
}
