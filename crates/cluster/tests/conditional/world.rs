//! The replicas, the messages between them and the coordinators, and the operations under way.

use crate::history::{Effect, History};
use crate::replica::{Bug, Prepared, Replica};
use base::{Entry, Expiry, Kind, NewerVersion, Timestamp};
use cluster::{
    Base, Condition, ConditionalEvent, ConditionalWrite, Matches, Met, Miss, Newest, Read,
    ReadActions, ReadEvent, ReplicaIndex, Replicas, Round, Settle, SettleEvent, Write, WriteEvent,
};
use fastrand::Rng;

pub(crate) const CLIENTS: usize = 4;
const KEY: &[u8] = b"key";

/// A message on its way.
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
    Hint {
        replica: ReplicaIndex,
        entry: Entry,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum Request {
    Write {
        round: Round,
        entry: Entry,
    },
    Repair {
        entry: Entry,
    },
    Read,
    /// Forced where there is no base.
    Prepare {
        ballot: Timestamp,
        base: Option<Base>,
    },
    Accept {
        ballot: Timestamp,
        entry: Entry,
    },
    Release {
        ballot: Timestamp,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    Write(WriteEvent),
    Read(ReadEvent),
    Conditional(ConditionalEvent),
    Settle(SettleEvent, Option<Entry>),
}

pub(crate) enum Machine {
    Write {
        write: Write,
        entry: Entry,
    },
    Read(Read),
    Conditional {
        write: ConditionalWrite,
        /// The greatest version that a promise of this ballot named.
        base: Timestamp,
    },
    Settle {
        settle: Settle,
        /// What each replica has named as its newest version.
        newest: Vec<Option<Entry>>,
    },
    Done,
}

pub(crate) struct Operation {
    pub(crate) machine: Machine,
    pub(crate) client: usize,
    pub(crate) begun: u64,
    /// The operation that waits for this one.
    pub(crate) parent: Option<usize>,
    /// For a conditional write: the content that it replaces.
    pub(crate) replaces: usize,
    /// For a plain write: whether it deletes.
    pub(crate) is_delete: bool,
    /// Whether its client has an answer.
    pub(crate) is_answered: bool,
}

pub(crate) struct World {
    pub(crate) rng: Rng,
    pub(crate) bug: Option<Bug>,
    /// All messages in the order of their arrival, where a test wants to show them.
    pub(crate) trace: Option<String>,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) messages: Vec<Message>,
    /// What waits at replicas until a promise is gone.
    pub(crate) waiting: Vec<Message>,
    pub(crate) history: History,
    /// The newest version that each client knows of.
    pub(crate) known: [Option<Entry>; CLIENTS],
    /// How often a condition did not hold.
    pub(crate) refused: usize,
    /// How many versions were written anew.
    pub(crate) settled: usize,
    moment: u64,
    timestamps: u64,
}

impl World {
    pub(crate) fn new(mut rng: Rng, bug: Option<Bug>) -> Self {
        let nodes = [3, 3, 3, 5][rng.usize(0..4)];
        Self {
            rng,
            bug,
            trace: None,
            replicas: vec![Replica::new(bug); nodes],
            operations: Vec::new(),
            messages: Vec::new(),
            waiting: Vec::new(),
            history: History::default(),
            known: [const { None }; CLIENTS],
            refused: 0,
            settled: 0,
            moment: 1,
            timestamps: 0,
        }
    }

    pub(crate) fn pair(&self) -> Replicas {
        Replicas::quorum(self.replicas.len() as u8)
    }

    pub(crate) fn replica(&mut self, replica: ReplicaIndex) -> &mut Replica {
        &mut self.replicas[replica.as_usize()]
    }

    /// The next moment of the history.
    pub(crate) fn next_moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// A timestamp of a clock that is wrong by any amount, above this one.
    pub(crate) fn timestamp(&mut self, above: Timestamp) -> Timestamp {
        self.timestamps += 1;
        let time = self.rng.u64(2..40).max((above.as_u64() >> 16) + 1);
        Timestamp::from_u64(time << 16 | self.timestamps)
    }

    /// The content of a version: the number of the operation that wrote it, from 1.
    pub(crate) fn content(entry: Option<&Entry>) -> usize {
        let value = entry.filter(|entry| entry.kind() == Kind::Value);
        let text = value.map(|entry| String::from_utf8(entry.value_bytes().to_vec()).unwrap());
        text.map_or(0, |text| text.parse().unwrap())
    }

    pub(crate) fn value(content: usize, timestamp: Timestamp, copies: u8) -> Entry {
        let content = content.to_string();
        Entry::value(KEY, timestamp, content.as_bytes(), Expiry::NEVER, copies)
    }

    /// This content with a timestamp; 0 is a tombstone.
    pub(crate) fn version(content: usize, timestamp: Timestamp, copies: u8) -> Entry {
        if content == 0 {
            Entry::tombstone(KEY, timestamp, copies)
        } else {
            Self::value(content, timestamp, copies)
        }
    }

    fn add(&mut self, client: usize, parent: Option<usize>) -> usize {
        let begun = self.next_moment();
        self.operations.push(Operation {
            machine: Machine::Done,
            client,
            begun,
            parent,
            replaces: 0,
            is_delete: false,
            is_answered: false,
        });
        self.operations.len() - 1
    }

    pub(crate) fn begin_write(&mut self, client: usize) {
        let operation = self.add(client, None);
        let is_delete = self.rng.u8(0..4) == 0;
        self.operations[operation].is_delete = is_delete;
        let entry = self.plain_version(operation, Timestamp::ZERO);
        let mut actions = cluster::WriteActions::new();
        let write = Write::start(self.pair(), entry.timestamp(), |_| None, &mut actions);
        self.operations[operation].machine = Machine::Write { write, entry };
        self.carry_out_write(operation, &actions);
    }

    pub(crate) fn plain_version(&mut self, operation: usize, above: Timestamp) -> Entry {
        let timestamp = self.timestamp(above);
        Self::version(self.written(operation), timestamp, self.pair().from)
    }

    /// The content that a write of this operation has.
    pub(crate) fn written(&self, operation: usize) -> usize {
        if self.operations[operation].is_delete {
            0
        } else {
            operation + 1
        }
    }

    pub(crate) fn begin_read(&mut self, client: usize, parent: Option<usize>) {
        let operation = self.add(client, parent);
        let mut preference: Vec<ReplicaIndex> = self.pair().indexes().collect();
        self.rng.shuffle(&mut preference);
        let mut actions = ReadActions::new();
        let start = match parent {
            Some(_) => Read::start_for_condition,
            None => Read::start,
        };
        let read = start(self.pair(), preference, &mut actions);
        self.operations[operation].machine = Machine::Read(read);
        self.carry_out_read(operation, &actions);
    }

    pub(crate) fn begin_conditional(&mut self, client: usize) {
        let operation = self.add(client, None);
        let known = self.known[client].clone();
        let replaces = Self::content(known.as_ref());
        let condition = match known {
            Some(known) if replaces != 0 && self.rng.u8(0..5) > 0 => match self.rng.u8(0..3) {
                // Without a base of its own, so that it begins with a read.
                0 => Condition {
                    matches: Some(Matches::Versions([known.timestamp(); 2].into())),
                    matches_none: None,
                },
                _ => Condition::version(known.timestamp()),
            },
            _ => Condition::absent(),
        };
        let is_create = condition == Condition::absent();
        self.operations[operation].replaces = if is_create { 0 } else { replaces };
        let mut actions = cluster::ConditionalActions::new();
        let mut pair = self.pair();
        pair.ack -= u8::from(self.bug == Some(Bug::MinorityIsEnough));
        let write = ConditionalWrite::start(pair, condition, &mut actions);
        let base = Timestamp::ZERO;
        self.operations[operation].machine = Machine::Conditional { write, base };
        self.carry_out_conditional(operation, &actions);
    }

    pub(crate) fn begin_settle(&mut self, parent: Option<usize>) {
        let operation = self.add(0, parent);
        let newest = vec![None; self.replicas.len()];
        let mut actions = cluster::SettleActions::new();
        let settle = Settle::start(self.pair(), &mut actions);
        self.operations[operation].machine = Machine::Settle { settle, newest };
        self.carry_out_settle(operation, &actions);
    }

    /// A message arrives.
    pub(crate) fn deliver(&mut self, message: Message) {
        if let Some(trace) = &mut self.trace {
            trace.push_str(&format!("{message:?}\n"));
        }
        match message {
            Message::Request {
                operation,
                replica,
                request,
            } => self.serve(operation, replica, request),
            Message::Answer { operation, event } => self.step(operation, event),
            Message::Hint { replica, ref entry } => {
                if self.replica(replica).put(entry).is_none() {
                    self.waiting.push(message);
                }
                self.wake(replica);
            }
        }
    }

    fn is_for_replica(message: &Message, of: ReplicaIndex) -> bool {
        match message {
            Message::Request { replica, .. } | Message::Hint { replica, .. } => *replica == of,
            Message::Answer { .. } => false,
        }
    }

    /// What has waited at a replica for its promise is tried again.
    pub(crate) fn wake(&mut self, replica: ReplicaIndex) {
        if self.replica(replica).promise.is_none() {
            let is_here = |message: &mut Message| Self::is_for_replica(message, replica);
            let woken: Vec<Message> = self.waiting.extract_if(.., is_here).collect();
            self.messages.extend(woken);
        }
    }

    /// A replica does what it is asked.
    fn serve(&mut self, operation: usize, replica: ReplicaIndex, request: Request) {
        let counts = self.replica(replica).is_voter || self.bug == Some(Bug::LearnersCount);
        let why = Miss::Learner;
        let event = match request.clone() {
            Request::Write { round, entry } => {
                let Some(newer_version) = self.put_or_wait(operation, replica, &entry, request)
                else {
                    return;
                };
                Event::Write(if counts {
                    WriteEvent::Stored {
                        round,
                        replica,
                        newer_version,
                    }
                } else {
                    WriteEvent::Missed {
                        round,
                        replica,
                        why,
                    }
                })
            }
            Request::Repair { entry } => {
                let Some(newer_version) = self.put_or_wait(operation, replica, &entry, request)
                else {
                    return;
                };
                Event::Read(if counts {
                    ReadEvent::Repaired {
                        replica,
                        newer_version,
                    }
                } else {
                    ReadEvent::RepairMissed { replica, why }
                })
            }
            Request::Read if !counts => Event::Read(ReadEvent::Missed { replica, why }),
            Request::Read => {
                let entry = self.replica(replica).newest().cloned();
                let is_dead = Self::content(entry.as_ref()) == 0;
                Event::Read(ReadEvent::Answered {
                    replica,
                    entry,
                    is_dead,
                    gc_threshold: Timestamp::ZERO,
                })
            }
            Request::Prepare { ballot, base } => {
                if !counts {
                    let missed = match base {
                        None => Event::Settle(
                            SettleEvent::Missed {
                                ballot,
                                replica,
                                why,
                            },
                            None,
                        ),
                        Some(_) => Event::Conditional(ConditionalEvent::PrepareMissed {
                            ballot,
                            replica,
                            why,
                        }),
                    };
                    return self.answer(operation, missed);
                }
                let prepared = self.replica(replica).prepare(ballot, base);
                self.prepared(prepared, ballot, replica, base.is_none())
            }
            Request::Accept { ballot, entry } => {
                let is_settling =
                    matches!(self.operations[operation].machine, Machine::Settle { .. });
                let has_accepted = counts && self.replica(replica).accept(ballot, &entry);
                match (is_settling, has_accepted) {
                    (true, true) => Event::Settle(SettleEvent::Accepted { ballot, replica }, None),
                    (true, false) => Event::Settle(
                        SettleEvent::Missed {
                            ballot,
                            replica,
                            why: Miss::Refused,
                        },
                        None,
                    ),
                    (false, true) => {
                        Event::Conditional(ConditionalEvent::Accepted { ballot, replica })
                    }
                    (false, false) => {
                        Event::Conditional(ConditionalEvent::Refused { ballot, replica })
                    }
                }
            }
            Request::Release { ballot } => {
                self.replica(replica).release(ballot);
                return self.wake(replica);
            }
        };
        self.wake(replica);
        self.answer(operation, event);
    }

    fn prepared(
        &mut self,
        prepared: Prepared,
        ballot: Timestamp,
        replica: ReplicaIndex,
        is_forced: bool,
    ) -> Event {
        let is_stale = self.rng.u8(0..3) == 0;
        match prepared {
            Prepared::Promised { newest, has_met } => {
                let named = newest.as_ref().filter(|newest| {
                    is_forced
                        || newest.kind() == Kind::Value
                        || self.bug != Some(Bug::DeletesAreEqual)
                });
                let timestamp = named.map(Entry::timestamp);
                if is_forced {
                    let promised = SettleEvent::Promised {
                        ballot,
                        replica,
                        newest: timestamp,
                        met: if has_met { Met::SameList } else { Met::Nothing },
                    };
                    Event::Settle(promised, newest)
                } else {
                    Event::Conditional(ConditionalEvent::Promised {
                        ballot,
                        replica,
                        newest: timestamp,
                        gc_threshold: Timestamp::ZERO,
                    })
                }
            }
            Prepared::Differs {
                newest: Newest { timestamp, .. },
            } if is_forced => {
                let with = timestamp.unwrap_or(ballot);
                let busy = SettleEvent::Busy {
                    ballot,
                    replica,
                    with,
                };
                Event::Settle(busy, None)
            }
            Prepared::Differs { newest } => Event::Conditional(ConditionalEvent::Differs {
                ballot,
                replica,
                newest,
            }),
            Prepared::Busy { with } if is_forced => {
                let busy = SettleEvent::Busy {
                    ballot,
                    replica,
                    with,
                };
                Event::Settle(busy, None)
            }
            Prepared::Busy { with } => Event::Conditional(ConditionalEvent::Busy {
                ballot,
                replica,
                with,
                is_stale,
            }),
        }
    }

    fn put_or_wait(
        &mut self,
        operation: usize,
        replica: ReplicaIndex,
        entry: &Entry,
        request: Request,
    ) -> Option<NewerVersion> {
        let newer_version = self.replica(replica).put(entry);
        if newer_version.is_none() {
            self.waiting.push(Message::Request {
                operation,
                replica,
                request,
            });
        }
        newer_version
    }

    fn answer(&mut self, operation: usize, event: Event) {
        self.messages.push(Message::Answer { operation, event });
    }

    pub(crate) fn send(&mut self, operation: usize, replica: ReplicaIndex, request: Request) {
        self.messages.push(Message::Request {
            operation,
            replica,
            request,
        });
    }

    /// Ends an operation as its client sees it.
    pub(crate) fn close(&mut self, operation: usize, effect: Effect, entry: Option<&Entry>) {
        let ended = self.next_moment();
        let version = entry.map_or(Timestamp::ZERO, Entry::timestamp);
        let Operation { begun, client, .. } = self.operations[operation];
        self.history.close(effect, version, begun, ended);
        self.operations[operation].is_answered = true;
        self.known[client] = entry.cloned();
    }
}
