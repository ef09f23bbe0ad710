//! How the machines are driven: events in, actions out.

use crate::history::Effect;
use crate::replica::Bug;
use crate::world::{Event, Machine, Message, Operation, Request, World};
use base::{Entry, Timestamp};
use cluster::{
    ConditionalAction, ConditionalActions, ConditionalEvent, ConditionalOutcome, Decision, Newest,
    ReadAction, ReadActions, Rewrite, SettleAction, SettleActions, SettleEvent, WriteAction,
    WriteActions, WriteEvent,
};

impl World {
    pub(crate) fn step(&mut self, operation: usize, event: Event) {
        match (&mut self.operations[operation].machine, event) {
            (Machine::Write { write, .. }, Event::Write(event)) => {
                let mut actions = WriteActions::new();
                write.step(event, &mut actions);
                self.carry_out_write(operation, &actions);
            }
            (Machine::Read(read), Event::Read(event)) => {
                let mut actions = ReadActions::new();
                read.step(event, &mut actions);
                self.carry_out_read(operation, &actions);
            }
            (Machine::Conditional { write, base }, Event::Conditional(event)) => {
                if let ConditionalEvent::Promised { ballot, newest, .. } = event
                    && ballot == write.ballot()
                {
                    *base = newest.unwrap_or(Timestamp::ZERO).max(*base);
                }
                let mut actions = ConditionalActions::new();
                write.step(event, &mut actions);
                self.carry_out_conditional(operation, &actions);
            }
            (Machine::Settle { settle, newest }, Event::Settle(event, entry)) => {
                if let SettleEvent::Promised {
                    ballot, replica, ..
                } = event
                    && ballot == settle.ballot()
                {
                    newest[replica.as_usize()] = entry;
                }
                let mut actions = SettleActions::new();
                settle.step(event, &mut actions);
                self.carry_out_settle(operation, &actions);
                self.hurry(operation, event);
            }
            _ => {}
        }
    }

    pub(crate) fn carry_out_write(&mut self, operation: usize, actions: &WriteActions) {
        for action in actions {
            let Machine::Write { entry, .. } = &self.operations[operation].machine else {
                return;
            };
            let entry = entry.clone();
            match *action {
                WriteAction::Send { round, replica } => {
                    self.send(operation, replica, Request::Write { round, entry });
                }
                WriteAction::Hint { round, replica } => {
                    self.messages.push(Message::Hint { replica, entry });
                    let kept = Event::Write(WriteEvent::HintKept { round, replica });
                    let event = kept;
                    self.messages.push(Message::Answer { operation, event });
                }
                WriteAction::Push { above } => {
                    let newer = self.plain_version(operation, above);
                    let mut actions = WriteActions::new();
                    if let Machine::Write { write, entry } = &mut self.operations[operation].machine
                    {
                        *entry = newer;
                        write.pushed(entry.timestamp(), |_| None, &mut actions);
                    }
                    self.carry_out_write(operation, &actions);
                }
                WriteAction::Reply(Decision::Enough { .. }) => {
                    let effect = Effect::Write(self.written(operation));
                    self.close(operation, effect, Some(&entry));
                }
                WriteAction::Reply(Decision::NotEnough { .. }) => self.abandon(operation),
                WriteAction::Done => self.operations[operation].machine = Machine::Done,
            }
        }
    }

    pub(crate) fn carry_out_read(&mut self, operation: usize, actions: &ReadActions) {
        for action in actions {
            let Machine::Read(read) = &self.operations[operation].machine else {
                return;
            };
            let freshest = read.freshest().cloned();
            match *action {
                ReadAction::Ask { replica } => self.send(operation, replica, Request::Read),
                ReadAction::Repair { replica } => {
                    let entry = freshest.unwrap();
                    self.send(operation, replica, Request::Repair { entry });
                }
                ReadAction::Reply(decision) => {
                    let found = matches!(decision, Decision::Enough { .. }).then_some(freshest);
                    self.has_read(operation, found);
                }
                ReadAction::Pause => {}
                ReadAction::Done => self.operations[operation].machine = Machine::Done,
            }
        }
    }

    /// A read has its answer; [`None`] if too few replicas have answered.
    fn has_read(&mut self, operation: usize, found: Option<Option<Entry>>) {
        let Operation { parent, .. } = self.operations[operation];
        match (parent, found) {
            (Some(parent), found) => {
                let newest = found.map(|entry| Newest {
                    timestamp: entry.as_ref().map(Entry::timestamp),
                    is_value: Self::content(entry.as_ref()) != 0,
                });
                self.step(parent, Event::Conditional(ConditionalEvent::Read(newest)));
            }
            (None, Some(entry)) => {
                let effect = Effect::Read(Self::content(entry.as_ref()));
                self.close(operation, effect, entry.as_ref());
            }
            (None, None) => {}
        }
    }

    pub(crate) fn carry_out_conditional(&mut self, operation: usize, actions: &ConditionalActions) {
        let from = self.pair().from;
        for action in actions {
            let entry = |ballot| Self::value(operation + 1, ballot, from);
            match *action {
                ConditionalAction::Prepare {
                    ballot,
                    replica,
                    base,
                } => {
                    let base = Some(base);
                    self.send(operation, replica, Request::Prepare { ballot, base });
                }
                ConditionalAction::Accept { ballot, replica } => {
                    if let Machine::Conditional { base, .. } = self.operations[operation].machine {
                        self.history.bases.entry(ballot).or_insert(base);
                    }
                    let entry = entry(ballot);
                    self.send(operation, replica, Request::Accept { ballot, entry });
                }
                ConditionalAction::Release { ballot, replica } => {
                    self.send(operation, replica, Request::Release { ballot });
                }
                ConditionalAction::Read => {
                    let client = self.operations[operation].client;
                    self.begin_read(client, Some(operation));
                }
                ConditionalAction::Settle => self.begin_settle(Some(operation)),
                ConditionalAction::Pause => {
                    let event = Event::Conditional(ConditionalEvent::Resumed);
                    self.messages.push(Message::Answer { operation, event });
                }
                ConditionalAction::Ballot { above } => {
                    let ballot = self.timestamp(above);
                    let mut actions = ConditionalActions::new();
                    if let Machine::Conditional { write, base } =
                        &mut self.operations[operation].machine
                    {
                        *base = Timestamp::ZERO;
                        write.prepare(ballot, |_| None, &mut actions);
                    }
                    self.carry_out_conditional(operation, &actions);
                }
                ConditionalAction::Hint { ballot, replica } => {
                    let entry = entry(ballot);
                    self.messages.push(Message::Hint { replica, entry });
                    let event = Event::Conditional(ConditionalEvent::HintKept { replica });
                    self.messages.push(Message::Answer { operation, event });
                }
                ConditionalAction::Reply(outcome) => self.has_replied(operation, outcome),
                ConditionalAction::Done => self.operations[operation].machine = Machine::Done,
            }
        }
    }

    fn has_replied(&mut self, operation: usize, outcome: ConditionalOutcome) {
        let from = self.pair().from;
        match outcome {
            ConditionalOutcome::Applied { version, .. } => {
                let effect = Effect::Swap(self.operations[operation].replaces, operation + 1);
                let entry = Self::value(operation + 1, version, from);
                self.close(operation, effect, Some(&entry));
            }
            ConditionalOutcome::NotMatched { current } => {
                self.refused += 1;
                let find = |timestamp| {
                    let mut replicas = self.replicas.iter();
                    replicas
                        .find_map(|replica| replica.version(timestamp))
                        .cloned()
                };
                let entry = current.timestamp.and_then(find);
                let effect = Effect::Read(Self::content(entry.as_ref()));
                self.close(operation, effect, entry.as_ref());
            }
            ConditionalOutcome::NotApplied => {}
            ConditionalOutcome::Unknown { .. } => self.abandon(operation),
        }
    }

    /// The bug of one who does not wait for all replicas.
    fn hurry(&mut self, operation: usize, event: SettleEvent) {
        let ack = usize::from(self.pair().ack);
        let is_hasty = self.has_bug(Bug::SettlesHastily);
        if let Machine::Settle { settle, newest } = &mut self.operations[operation].machine
            && is_hasty
            && let SettleEvent::Promised { .. } = event
            && newest.iter().flatten().count() >= ack
        {
            let mut actions = SettleActions::new();
            settle.step(SettleEvent::Deadline, &mut actions);
            self.carry_out_settle(operation, &actions);
        }
    }

    pub(crate) fn carry_out_settle(&mut self, operation: usize, actions: &SettleActions) {
        let from = self.pair().from;
        for action in actions {
            match *action {
                SettleAction::Prepare { ballot, replica } => {
                    let base = None;
                    self.send(operation, replica, Request::Prepare { ballot, base });
                }
                SettleAction::Accept {
                    ballot,
                    replica,
                    current,
                    rewrite,
                } => {
                    let Machine::Settle { newest, .. } = &self.operations[operation].machine else {
                        return;
                    };
                    let current = newest[current.as_usize()].clone();
                    let entry = match rewrite {
                        Rewrite::AsItIs => current,
                        Rewrite::Anew => {
                            self.settled += 1;
                            let base = current.as_ref().map(Entry::timestamp);
                            let bases = &mut self.history.bases;
                            bases
                                .entry(ballot)
                                .or_insert(base.unwrap_or(Timestamp::ZERO));
                            Some(Self::version(Self::content(current.as_ref()), ballot, from))
                        }
                    };
                    let is_released = match rewrite {
                        Rewrite::AsItIs => self.has_bug(Bug::ReleasesWithout),
                        Rewrite::Anew => self.has_bug(Bug::NothingAnew),
                    };
                    if is_released {
                        self.send(operation, replica, Request::Release { ballot });
                        let accepted = SettleEvent::Accepted { ballot, replica };
                        let event = Event::Settle(accepted, None);
                        self.messages.push(Message::Answer { operation, event });
                    } else if let Some(entry) = entry {
                        self.send(operation, replica, Request::Accept { ballot, entry });
                    }
                }
                SettleAction::Release { ballot, replica } => {
                    self.send(operation, replica, Request::Release { ballot });
                }
                SettleAction::Ballot { above } => {
                    let ballot = self.timestamp(above);
                    let mut actions = SettleActions::new();
                    if let Machine::Settle { settle, newest } =
                        &mut self.operations[operation].machine
                    {
                        newest.fill(None);
                        settle.prepare(ballot, |_| false, &mut actions);
                    }
                    self.carry_out_settle(operation, &actions);
                }
                SettleAction::Done { .. } => {
                    let parent = self.operations[operation].parent;
                    self.operations[operation].machine = Machine::Done;
                    if let Some(parent) = parent {
                        self.step(parent, Event::Conditional(ConditionalEvent::Settled));
                    }
                }
            }
        }
    }

    /// An operation ends, and its client does not learn whether it has taken effect.
    pub(crate) fn abandon(&mut self, operation: usize) {
        let effect = match self.operations[operation].machine {
            Machine::Write { .. } => Effect::Write(self.written(operation)),
            Machine::Conditional { .. } => {
                Effect::Swap(self.operations[operation].replaces, operation + 1)
            }
            Machine::Read(_) | Machine::Settle { .. } | Machine::Done => return,
        };
        self.operations[operation].is_answered = true;
        self.history.open(effect, self.operations[operation].begun);
    }

    pub(crate) fn has_bug(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
}
