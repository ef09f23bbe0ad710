//! Conditional writes and the settling of keys: the real machines.

use super::Bug;
use super::node::Prepared;
use super::operations::{Event, Machine, Message, Request};
use super::world::World;
use base::Timestamp;
use cluster::{
    Base, Condition, ConditionalAction, ConditionalActions, ConditionalEvent, ConditionalOutcome,
    ConditionalWrite, Met, Miss, Newest, NodeId, ReplicaIndex, Rewrite, Settle, SettleAction,
    SettleActions, SettleEvent,
};

/// The event that a coordinator gets instead of the answer to a request.
pub(crate) fn missed(replica: ReplicaIndex, request: Request, why: Miss) -> Option<Event> {
    Some(match request {
        Request::Prepare { ballot, base: None }
        | Request::Accept {
            ballot,
            settles: true,
            ..
        } => {
            let ballot = Timestamp::from_u64(ballot);
            let missed = SettleEvent::Missed {
                ballot,
                replica,
                why,
            };
            Event::Settle(missed, 0)
        }
        Request::Prepare { ballot, .. } => {
            let ballot = Timestamp::from_u64(ballot);
            Event::Conditional(ConditionalEvent::PrepareMissed {
                ballot,
                replica,
                why,
            })
        }
        Request::Accept { ballot, .. } => {
            let ballot = Timestamp::from_u64(ballot);
            Event::Conditional(ConditionalEvent::AcceptMissed {
                ballot,
                replica,
                why,
            })
        }
        _ => return None,
    })
}

fn newest_of(version: u64) -> Newest {
    Newest {
        timestamp: (version > 0).then(|| Timestamp::from_u64(version)),
        is_value: version > 0,
    }
}

impl World {
    pub(crate) fn begin_conditional(&mut self, coordinator: NodeId) {
        self.writes += 1;
        let (write, known) = (self.writes, self.known);
        let replaces = self.history.write_of(known);
        let begun = self.next_moment();
        self.start_conditional(coordinator, write, known, replaces, begun);
    }

    fn start_conditional(
        &mut self,
        coordinator: NodeId,
        write: u64,
        known: u64,
        replaces: u64,
        begun: u64,
    ) {
        let epoch = self.node(coordinator).epoch;
        let (nodes, quorum) = self.quorum_of(epoch, false);
        let mut actions = ConditionalActions::new();
        let condition = Condition::version(Timestamp::from_u64(known));
        let machine = ConditionalWrite::start(quorum, condition, &mut actions);
        let base = 0;
        let machine = Machine::Conditional {
            write: machine,
            base,
            known,
            replaces,
        };
        let operation = self.enter(coordinator, nodes, machine);
        self.operations[operation].write = write;
        self.operations[operation].begun = begun;
        self.act_on_conditional(operation, &actions);
    }

    pub(crate) fn begin_settle(&mut self, coordinator: NodeId, parent: Option<usize>) {
        let epoch = self.node(coordinator).epoch;
        let (nodes, quorum) = self.quorum_of(epoch, false);
        let newest = vec![0; nodes.len()];
        let mut actions = SettleActions::new();
        let settle = Settle::start(quorum, &mut actions);
        let operation = self.enter(coordinator, nodes, Machine::Settle { settle, newest });
        self.operations[operation].parent = parent;
        self.act_on_settle(operation, &actions);
    }

    /// Somebody settles the key, if a promise is kept.
    pub(crate) fn settle_stale(&mut self) {
        let replicas = self.live_replicas();
        let mut others = Vec::new();
        let mut is_promised = false;
        for (id, node) in self.nodes.iter() {
            if let Some(promise) = node.store.promise {
                is_promised |= node.is_voter && replicas.contains(&id);
                if !node.is_voter || !replicas.contains(&id) {
                    others.push((id, promise.ballot));
                }
            }
        }
        for (id, ballot) in others {
            // Its own promises count for nothing.
            if self.rng.u8(0..4) == 0 {
                self.node_mut(id).store.release(ballot);
                self.wake(id);
            }
        }
        let mut settlers: Vec<NodeId> = self.believers();
        if self.rng.bool() && settlers.iter().any(|it| self.is_slow(*it)) {
            settlers.retain(|it| self.is_slow(*it));
        }
        if is_promised && let Some(coordinator) = self.choose(&settlers) {
            self.begin_settle(coordinator, None);
        }
    }

    /// What a node answers to a request of a conditional write that has reached it; [`None`] if
    /// nothing.
    pub(crate) fn serve_conditional(
        &mut self,
        operation: usize,
        target: NodeId,
        replica: ReplicaIndex,
        request: Request,
    ) -> Option<Event> {
        let epoch = self.operations[operation].epoch;
        let any_list = self.bug == Some(Bug::PromisesAnyList);
        let is_stale = self.rng.u8(0..3) == 0;
        let node = self.node_mut(target);
        let event = match request {
            Request::Prepare { ballot, base } => {
                if any_list {
                    node.store.forget_lists();
                } else if epoch != node.epoch {
                    return missed(replica, request, Miss::OtherEpoch);
                }
                let Some(prepared) = node.store.prepare(ballot, base, epoch) else {
                    return missed(replica, request, Miss::OtherEpoch);
                };
                self.prepared(prepared, ballot, replica, base.is_none(), is_stale)
            }
            Request::Accept {
                ballot,
                version,
                settles,
            } => {
                let has_accepted = node.store.accept(ballot, version);
                let ballot = Timestamp::from_u64(ballot);
                match (settles, has_accepted) {
                    (true, true) => Event::Settle(SettleEvent::Accepted { ballot, replica }, 0),
                    (true, false) => return missed(replica, request, Miss::Refused),
                    (false, true) => {
                        Event::Conditional(ConditionalEvent::Accepted { ballot, replica })
                    }
                    (false, false) => {
                        Event::Conditional(ConditionalEvent::Refused { ballot, replica })
                    }
                }
            }
            Request::Release { ballot } => {
                node.store.release(ballot);
                return None;
            }
            _ => return None,
        };
        Some(event)
    }

    fn prepared(
        &self,
        prepared: Prepared,
        ballot: u64,
        replica: ReplicaIndex,
        is_forced: bool,
        is_stale: bool,
    ) -> Event {
        let ballot = Timestamp::from_u64(ballot);
        let timestamp = |version| (version > 0).then(|| Timestamp::from_u64(version));
        match prepared {
            Prepared::Promised { newest, met } if is_forced => {
                let met = match met {
                    Met::EarlierList
                        if matches!(
                            self.bug,
                            Some(Bug::SettlesEarlierAsItIs | Bug::PromisesAnyList)
                        ) =>
                    {
                        Met::SameList
                    }
                    met => met,
                };
                let promised = SettleEvent::Promised {
                    ballot,
                    replica,
                    newest: timestamp(newest),
                    met,
                };
                Event::Settle(promised, newest)
            }
            Prepared::Promised { newest, .. } => Event::Conditional(ConditionalEvent::Promised {
                ballot,
                replica,
                newest: timestamp(newest),
                gc_threshold: Timestamp::ZERO,
            }),
            Prepared::Differs { newest: with } | Prepared::Busy { with } if is_forced => {
                let with = timestamp(with).unwrap_or(ballot);
                let busy = SettleEvent::Busy {
                    ballot,
                    replica,
                    with,
                };
                Event::Settle(busy, 0)
            }
            Prepared::Differs { newest } => Event::Conditional(ConditionalEvent::Differs {
                ballot,
                replica,
                newest: newest_of(newest),
            }),
            Prepared::Busy { with } => Event::Conditional(ConditionalEvent::Busy {
                ballot,
                replica,
                with: Timestamp::from_u64(with),
                is_stale,
            }),
        }
    }

    pub(crate) fn step_conditional(&mut self, operation: usize, event: ConditionalEvent) {
        let Machine::Conditional { write, base, .. } = &mut self.operations[operation].machine
        else {
            return;
        };
        if let ConditionalEvent::Promised { ballot, newest, .. } = event
            && ballot == write.ballot()
        {
            *base = newest.map_or(0, Timestamp::as_u64).max(*base);
        }
        let mut actions = ConditionalActions::new();
        write.step(event, &mut actions);
        self.act_on_conditional(operation, &actions);
    }

    pub(crate) fn step_settle(&mut self, operation: usize, event: SettleEvent, named: u64) {
        let Machine::Settle { settle, newest } = &mut self.operations[operation].machine else {
            return;
        };
        if let SettleEvent::Promised {
            ballot, replica, ..
        } = event
            && ballot == settle.ballot()
        {
            newest[replica.as_usize()] = named;
        }
        let mut actions = SettleActions::new();
        settle.step(event, &mut actions);
        self.act_on_settle(operation, &actions);
    }

    fn act_on_conditional(&mut self, operation: usize, actions: &ConditionalActions) {
        let coordinator = self.operations[operation].coordinator;
        for action in actions {
            let Machine::Conditional { base: built_on, .. } = self.operations[operation].machine
            else {
                return;
            };
            match *action {
                ConditionalAction::Prepare {
                    ballot,
                    replica,
                    base,
                } => {
                    let ballot = ballot.as_u64();
                    let base = Some(match base {
                        Base::Version(version) => version.as_u64(),
                        Base::NoValue => 0,
                    });
                    self.send(operation, replica, Request::Prepare { ballot, base });
                }
                ConditionalAction::Accept { ballot, replica } => {
                    let ballot = ballot.as_u64();
                    let bases = &mut self.history.bases;
                    bases.entry(ballot).or_insert(built_on);
                    self.history
                        .contents
                        .insert(ballot, self.operations[operation].write);
                    let request = Request::Accept {
                        ballot,
                        version: ballot,
                        settles: false,
                    };
                    self.send(operation, replica, request);
                }
                ConditionalAction::Release { ballot, replica } => {
                    let ballot = ballot.as_u64();
                    self.send(operation, replica, Request::Release { ballot });
                }
                ConditionalAction::Read => self.begin_read(coordinator, Some(operation)),
                ConditionalAction::Settle => self.begin_settle(coordinator, Some(operation)),
                ConditionalAction::Pause => self.pause(operation),
                ConditionalAction::Ballot { above } => {
                    let ballot = Timestamp::from_u64(self.next_version(above));
                    let mut actions = ConditionalActions::new();
                    if let Machine::Conditional { write, base, .. } =
                        &mut self.operations[operation].machine
                    {
                        *base = 0;
                        write.prepare(ballot, |_| None, &mut actions);
                    }
                    self.act_on_conditional(operation, &actions);
                }
                ConditionalAction::Hint { replica, .. } => {
                    self.step_conditional(operation, ConditionalEvent::HintKept { replica });
                }
                ConditionalAction::Reply(outcome) => self.replied(operation, outcome),
                ConditionalAction::Done => self.operations[operation].machine = Machine::Done,
            }
        }
    }

    /// After a pause a write begins again if its node has another list by then.
    fn pause(&mut self, operation: usize) {
        let (coordinator, epoch) = {
            let operation = &self.operations[operation];
            (operation.coordinator, operation.epoch)
        };
        if let Machine::Conditional {
            known, replaces, ..
        } = self.operations[operation].machine
            && self.node(coordinator).epoch != epoch
        {
            let (write, begun) = {
                let operation = &self.operations[operation];
                (operation.write, operation.begun)
            };
            self.operations[operation].machine = Machine::Done;
            self.operations[operation].is_answered = true;
            return self.start_conditional(coordinator, write, known, replaces, begun);
        }
        let event = Event::Conditional(ConditionalEvent::Resumed);
        self.messages.push(Message::Answer { operation, event });
    }

    fn replied(&mut self, operation: usize, outcome: ConditionalOutcome) {
        let ended = self.next_moment();
        let (write, begun) = {
            let operation = &mut self.operations[operation];
            operation.is_answered = true;
            (operation.write, operation.begun)
        };
        let Machine::Conditional { replaces, .. } = self.operations[operation].machine else {
            return;
        };
        match outcome {
            ConditionalOutcome::Applied { version, .. } => {
                let version = version.as_u64();
                self.known = version;
                self.history
                    .swapped(replaces, write, Some(version), begun, ended);
            }
            ConditionalOutcome::NotMatched { current } => {
                let current = current.timestamp.map_or(0, Timestamp::as_u64);
                self.known = current;
                self.history.read(current, begun, ended);
            }
            ConditionalOutcome::NotApplied => {}
            ConditionalOutcome::Unknown { .. } => {
                self.history.swapped(replaces, write, None, begun, ended);
            }
        }
    }

    fn act_on_settle(&mut self, operation: usize, actions: &SettleActions) {
        for action in actions {
            match *action {
                SettleAction::Prepare { ballot, replica } => {
                    let (ballot, base) = (ballot.as_u64(), None);
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
                    let current = newest[current.as_usize()];
                    let ballot = ballot.as_u64();
                    let version = match rewrite {
                        Rewrite::AsItIs => current,
                        Rewrite::Anew => {
                            let content = self.history.write_of(current);
                            self.history.contents.insert(ballot, content);
                            self.history.bases.entry(ballot).or_insert(current);
                            ballot
                        }
                    };
                    let request = Request::Accept {
                        ballot,
                        version,
                        settles: true,
                    };
                    self.send(operation, replica, request);
                }
                SettleAction::Release { ballot, replica } => {
                    let ballot = ballot.as_u64();
                    self.send(operation, replica, Request::Release { ballot });
                }
                SettleAction::Ballot { above } => {
                    let ballot = Timestamp::from_u64(self.next_version(above));
                    let mut actions = SettleActions::new();
                    if let Machine::Settle { settle, newest } =
                        &mut self.operations[operation].machine
                    {
                        newest.fill(0);
                        settle.prepare(ballot, |_| false, &mut actions);
                    }
                    self.act_on_settle(operation, &actions);
                }
                SettleAction::Done { .. } => {
                    let parent = self.operations[operation].parent;
                    self.operations[operation].machine = Machine::Done;
                    if let Some(parent) = parent {
                        self.step_conditional(parent, ConditionalEvent::Settled);
                    }
                }
            }
        }
    }
}
