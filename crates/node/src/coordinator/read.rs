//! Reads.

use super::{Coordinator, Failure, Found};
use crate::completion_queue::Completion;
use crate::waiters::{Tag, Wait};
use base::Entry;
use base::{Refused, Share};
use bytes::Bytes;
use cluster::{Decision, Miss, Ranking, Read, ReadAction, ReadActions, ReadEvent, Replicas};
use peer::{PeerAnswer, PeerRequest};
use smallvec::SmallVec;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// The tag of a repair's answer, beside the place.
const REPAIR: Tag = 1 << 8;

/// Every so many reads pay for one that asks a further replica.
const READS_A_HEDGE: u32 = 20;
/// As many hedges may have been saved up.
const HEDGES_SAVED_MAX: u32 = 64;

/// How many reads may ask one replica more than they need: a few in a
/// hundred, so that hedges cannot feed on overload (Dean and Barroso, "The Tail
/// at Scale", 2013).
#[derive(Default)]
pub(crate) struct HedgeBudget {
    /// In parts of a hedge.
    saved: Cell<u32>,
}

impl HedgeBudget {
    fn earn(&self) {
        let saved = self.saved.get() + 1;
        self.saved.set(saved.min(HEDGES_SAVED_MAX * READS_A_HEDGE));
    }

    fn spend(&self) -> bool {
        match self.saved.get().checked_sub(READS_A_HEDGE) {
            Some(rest) => {
                self.saved.set(rest);
                true
            }
            None => false,
        }
    }
}

/// A read on its way. It outlives its answer to the client until the stale
/// replicas are repaired.
struct Reading {
    coordinator: Rc<Coordinator>,
    machine: Read,
    ranking: Ranking,
    key: Bytes,
    wait: Wait,
    deadline: Duration,
    /// When to ask one more, of each replica that is waited for.
    hedges: SmallVec<[Hedge; 2]>,
    /// What the freshest version counts for, if its value is long.
    share: Option<Share>,
    /// Whether the machine has nothing left to do.
    is_done: bool,
}

/// When to ask one replica more, and instead of which.
#[derive(Clone, Copy)]
struct Hedge {
    at: tokio::time::Instant,
    place: u8,
    reason: HedgeReason,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HedgeReason {
    /// The replica is slower than it uses to be: the budget decides.
    Slow,
    /// Half of the time is over. Without another replica the request fails,
    /// so that is asked in any case.
    HalfTime,
}

impl Coordinator {
    /// Reads a key; answers at once when only this node need be asked, and its
    /// disk need not.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn read(
        self: &Rc<Self>,
        key: &[u8],
        replicas: Replicas,
        deadline: Duration,
    ) -> Result<Found, Failure> {
        self.settled(key, replicas.from, deadline).await;
        let ranking = self.peers.ranking(key, replicas.from);
        if replicas.from > replicas.ack {
            self.hedging.earn();
        }
        let mut actions = ReadActions::new();
        let machine = Read::start(replicas, self.preference(&ranking), &mut actions);
        let mut reading = Reading {
            coordinator: Rc::clone(self),
            machine,
            ranking,
            key: Bytes::copy_from_slice(key),
            wait: self.waiters.register(deadline),
            deadline,
            hedges: SmallVec::new(),
            share: None,
            is_done: false,
        };
        let mut decision = reading.act(&mut actions);
        let decision = loop {
            match decision {
                Some(decision) => break decision,
                None => decision = reading.next().await,
            }
        };
        match decision {
            Decision::Enough { acks } => {
                let entry = reading.machine.freshest().cloned();
                let share = reading.share.take();
                if !reading.is_done {
                    reading.finish();
                }
                Ok(Found { entry, acks, share })
            }
            Decision::NotEnough { acks } => {
                Err(self.failure(&reading.ranking, reading.machine.fates(), acks, None))
            }
        }
    }

    /// The places of a key's replicas in the order in which to ask them: this
    /// node first, then those that are up, in the order of the ranking.
    fn preference(&self, ranking: &Ranking) -> SmallVec<[u8; 8]> {
        let mut places: SmallVec<[u8; 8]> = (0..ranking.len()).map(|place| place as u8).collect();
        places.sort_by_key(|place| {
            let node = ranking[usize::from(*place)];
            (self.peers.is_down(node), !self.peers.is_own(node))
        });
        places
    }
}

impl Reading {
    /// Waits for what comes next, and does what follows from it.
    async fn next(&mut self) -> Option<Decision> {
        let event = match self.hedges.iter().min_by_key(|hedge| hedge.at).copied() {
            Some(hedge) => {
                let place = hedge.place;
                tokio::select! {
                    biased;
                    answer = self.wait.next() => self.event_of(answer),
                    () = tokio::time::sleep_until(hedge.at) => {
                        self.hedges.retain(|hedge| hedge.place != place);
                        if hedge.reason == HedgeReason::Slow && !self.coordinator.hedging.spend() {
                            self.hedge_at_half_time(place);
                            return None;
                        }
                        ReadEvent::Slow { place }
                    }
                }
            }
            None => {
                let answer = self.wait.next().await;
                self.event_of(answer)
            }
        };
        let is_slow = matches!(event, ReadEvent::Slow { .. });
        let mut actions = ReadActions::new();
        self.machine.step(event, &mut actions);
        let asks = |action: &ReadAction| matches!(action, ReadAction::Ask { .. });
        if is_slow && actions.iter().any(asks) {
            // There may be none left to ask.
            self.coordinator.metrics.coordination.hedges.add(1);
        }
        self.act(&mut actions)
    }

    /// Does what the machine says.
    fn act(&mut self, actions: &mut ReadActions) -> Option<Decision> {
        let mut decision = None;
        let mut next = 0;
        while let Some(action) = actions.get(next).copied() {
            next += 1;
            match action {
                ReadAction::Ask { place } => {
                    if let Some(event) = self.ask(place) {
                        self.machine.step(event, actions);
                    }
                }
                ReadAction::Repair { place } => {
                    if let Err(why) = self.repair(place) {
                        let event = ReadEvent::RepairMissed { place, why };
                        self.machine.step(event, actions);
                    }
                }
                ReadAction::Reply(reply) => decision = Some(reply),
                ReadAction::Done => self.is_done = true,
            }
        }
        decision
    }

    /// Asks a replica; gives the answer if it is there at once.
    fn ask(&mut self, place: u8) -> Option<ReadEvent> {
        let missed = |why| Some(ReadEvent::Missed { place, why });
        let Some(node) = self.ranking.get(usize::from(place)).copied() else {
            return missed(Miss::Failed);
        };
        let coordinator = Rc::clone(&self.coordinator);
        let ticket = self.wait.ticket_for(Tag::from(place));
        if coordinator.peers.is_own(node) {
            return match coordinator.replica.read_cached(&self.key) {
                Some(Ok(entry)) => Some(self.answered(place, entry, None)),
                Some(Err(why)) => missed(why),
                None => match coordinator.replica.read(&self.key, ticket) {
                    Ok(()) => {
                        self.hedge_at_half_time(place);
                        None
                    }
                    Err(why) => missed(why),
                },
            };
        }
        let request = PeerRequest::Read(self.key.clone());
        if let Err(why) = coordinator.peers.call(node, request, self.deadline, ticket) {
            return missed(why);
        }
        if let Some(delay) = coordinator.peers.hedge_delay(node) {
            self.hedges.push(Hedge {
                at: tokio::time::Instant::now() + delay,
                place,
                reason: HedgeReason::Slow,
            });
        }
        None
    }

    fn hedge_at_half_time(&mut self, place: u8) {
        let now = self.coordinator.clock.monotonic();
        let left = self.deadline.saturating_sub(now);
        self.hedges.push(Hedge {
            at: tokio::time::Instant::now() + left / 2,
            place,
            reason: HedgeReason::HalfTime,
        });
    }

    /// A replica's answer. A long value counts from here on, wherever it comes
    /// from: so those that wait for the answers of further replicas are bounded.
    fn answered(&mut self, place: u8, entry: Option<Entry>, share: Option<Share>) -> ReadEvent {
        let rank = entry.as_ref().map(Entry::rank);
        if rank > self.machine.freshest().map(Entry::rank) {
            let value_bytes = entry.as_ref().map_or(0, |entry| entry.value_bytes().len());
            let answers = &self.coordinator.replica.answers;
            let counted = match share {
                Some(share) => Ok(Some(share)),
                None => answers.take_for_value(value_bytes),
            };
            match counted {
                Ok(share) => self.share = share,
                Err(Refused) => {
                    let why = Miss::Overloaded;
                    return ReadEvent::Missed { place, why };
                }
            }
        }
        ReadEvent::Answered { place, entry }
    }

    /// Writes the freshest version to a replica that has an older one or none.
    fn repair(&mut self, place: u8) -> Result<(), Miss> {
        self.hedge_at_half_time(place);
        let node = *self.ranking.get(usize::from(place)).ok_or(Miss::Failed)?;
        let entry = self.machine.freshest().cloned().ok_or(Miss::Failed)?;
        let coordinator = &self.coordinator;
        coordinator.metrics.coordination.repairs.add(1);
        let ticket = self.wait.ticket_for(REPAIR | Tag::from(place));
        if coordinator.peers.is_own(node) {
            return coordinator.replica.write(entry, None, ticket);
        }
        let request = PeerRequest::Write(entry);
        coordinator.peers.call(node, request, self.deadline, ticket)
    }

    fn event_of(&mut self, answer: Option<(Tag, Completion)>) -> ReadEvent {
        let Some((tag, mut completion)) = answer else {
            return ReadEvent::Deadline;
        };
        let place = (tag & Tag::from(u8::MAX)) as u8;
        self.hedges.retain(|hedge| hedge.place != place);
        let share = match &mut completion {
            Completion::Read(Ok((_, share))) => share.take(),
            _ => None,
        };
        match (
            self.coordinator.replica.answer_of(Some(completion)),
            tag & REPAIR != 0,
        ) {
            (PeerAnswer::Found(entry), false) => self.answered(place, entry, share),
            (PeerAnswer::Missed(why), false) => ReadEvent::Missed { place, why },
            (PeerAnswer::Stored { .. }, false) => ReadEvent::Missed {
                place,
                why: Miss::Failed,
            },
            (PeerAnswer::Stored { verdict }, true) => ReadEvent::Repaired { place, verdict },
            (PeerAnswer::Missed(why), true) => ReadEvent::RepairMissed { place, why },
            (PeerAnswer::Found(_), true) => ReadEvent::RepairMissed {
                place,
                why: Miss::Failed,
            },
        }
    }

    /// Sees to the stale replicas after the client was answered; when too many
    /// requests are at that, the rest is left to a later read.
    fn finish(mut self) {
        let coordinator = Rc::clone(&self.coordinator);
        if coordinator.stragglers.get() >= coordinator.stragglers_max {
            return;
        }
        // The client's answer counts for itself; so does what is held from here on.
        let freshest = self.machine.freshest();
        let value_bytes = freshest.map_or(0, |entry| entry.value_bytes().len());
        match coordinator.replica.answers.take_for_value(value_bytes) {
            Ok(share) => self.share = share,
            Err(Refused) => return,
        }
        coordinator.stragglers.set(coordinator.stragglers.get() + 1);
        self.hedges.clear();
        tokio::task::spawn_local(async move {
            while !self.is_done {
                self.next().await;
            }
            coordinator.stragglers.set(coordinator.stragglers.get() - 1);
        });
    }
}
