//! Settles a key: carries out what [`cluster::Settle`] decides, as a task of its own.
//!
//! No promise comes with a value. If the current version is to be written to others, it is read from
//! the replica that has named it; while that replica keeps the promise, the version stays its newest
//! one.

use super::answers::{ACCEPTED, Answer, BallotBox, PREPARED};
use crate::coordinator::Coordinator;
use base::{Entry, Reservation, Timestamp};
use bytes::Bytes;
use cluster::{
    Epoch, Miss, PreferenceList, ReplicaIndex, Replicas, Rewrite, Settle, SettleAction,
    SettleActions, SettleEvent,
};
use peer::{PeerAnswer, Prepare, PromiseAnswer, PromiseRequest};
use replica::pending::AnswerTag;
use replica::timestamps::AllocatedTimestamp;
use replica::{AnswerTime, ReplicaRequest};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long replicas have to answer a ballot: this share of the time of a request, but not less than
/// this. Those that are slower count as silent, which changes the version; a peer that does not answer
/// at all is suspected earlier.
const ANSWER_SHARE: u32 = 8;
const ANSWER_MIN: Duration = Duration::from_millis(600);

/// The settling of one key.
pub(super) struct Settlement {
    coordinator: Rc<Coordinator>,
    key: Bytes,
    machine: Settle,
    copies: u8,
    /// The epoch of the list of members by which the replicas were chosen.
    epoch: Epoch,
    preference_list: PreferenceList,
    ballots: BallotBox,
    /// Until when, on the monotonic clock.
    deadline: Duration,
    /// The ballot under way, pending until this node's own store takes the version.
    allocated: Option<AllocatedTimestamp>,
    /// When the replicas that have not answered count as silent.
    silent_at: Duration,
    /// The current version, once it is to be written, and the memory that a long value takes.
    current: Option<(Entry, Option<Reservation>)>,
    outcome: Option<bool>,
}

impl Settlement {
    /// Settles a key in the background. The receiver gets whether it is settled.
    pub(super) fn begin(
        coordinator: &Rc<Coordinator>,
        key: Bytes,
        replicas: Replicas,
    ) -> oneshot::Receiver<bool> {
        let (done, settled) = oneshot::channel();
        let mut actions = SettleActions::new();
        let (preference_list, quorum) = coordinator.peers.for_request(&key, replicas);
        let machine = Settle::start(quorum, &mut actions);
        let now = coordinator.clock.monotonic();
        let deadline = now.saturating_add(coordinator.timeout);
        let settlement = Self {
            epoch: coordinator.peers.layout().epoch(),
            preference_list,
            ballots: BallotBox::new(&coordinator.pending, deadline),
            coordinator: Rc::clone(coordinator),
            key,
            machine,
            copies: replicas.from,
            deadline,
            allocated: None,
            silent_at: deadline,
            current: None,
            outcome: None,
        };
        tokio::task::spawn_local(settlement.run(actions, done));
        settled
    }

    /// Goes on until the key is settled or cannot be, and releases what is promised later.
    async fn run(mut self, mut actions: SettleActions, done: oneshot::Sender<bool>) {
        let mut done = Some(done);
        loop {
            self.act(&mut actions).await;
            actions.clear();
            let now = self.coordinator.clock.monotonic();
            let is_late = now >= self.deadline;
            let outcome = self.outcome.or(is_late.then_some(false));
            if let (Some(is_settled), Some(done)) = (outcome, done.take_if(|_| outcome.is_some())) {
                self.count(is_settled);
                // Nobody may wait for it any more.
                let _gone = done.send(is_settled);
            }
            if is_late || outcome.is_some() && !self.ballots.is_awaiting() {
                return;
            }
            let left = self.silent_at.min(self.deadline).saturating_sub(now);
            let event = tokio::select! {
                biased;
                answer = self.ballots.next() => self.event_of(answer),
                () = tokio::time::sleep(left) => {
                    // Once for each thing that was asked: it asks others, or ends.
                    self.silent_at = self.deadline;
                    Some(SettleEvent::Deadline)
                }
            };
            if let Some(event) = event {
                self.machine.step(event, &mut actions);
            }
        }
    }

    fn count(&self, is_settled: bool) {
        let counts = &self.coordinator.metrics.conditional;
        let count = if is_settled {
            &counts.settled
        } else {
            &counts.unsettled
        };
        count.add(1);
    }

    /// Does what the machine says.
    async fn act(&mut self, actions: &mut SettleActions) {
        let mut next = 0;
        while let Some(action) = actions.get(next).copied() {
            next += 1;
            match action {
                SettleAction::Prepare { ballot, replica } => {
                    if let Some(event) = self.send_prepare(ballot, replica) {
                        self.machine.step(event, actions);
                    }
                }
                SettleAction::Accept {
                    ballot,
                    replica,
                    current,
                    rewrite,
                } => {
                    let event = self.send_version(ballot, replica, current, rewrite).await;
                    if let Some(event) = event {
                        self.machine.step(event, actions);
                    }
                }
                SettleAction::Release { ballot, replica } => {
                    let node = self.preference_list.get(replica.as_usize());
                    if let Some(node) = node {
                        self.coordinator.release(*node, &self.key, ballot);
                    }
                }
                SettleAction::Ballot { above } => self.begin_ballot(above, actions).await,
                SettleAction::Done { is_settled } => self.outcome = Some(is_settled),
            }
        }
    }

    async fn begin_ballot(&mut self, above: Timestamp, actions: &mut SettleActions) {
        self.allocated = None;
        self.current = None;
        let timestamps = &self.coordinator.timestamps;
        let allocated = if timestamps.observe(above) {
            timestamps.allocate_by(self.deadline).await.ok()
        } else {
            None
        };
        let Some(allocated) = allocated else {
            return self.machine.step(SettleEvent::NoBallot, actions);
        };
        let ballot = allocated.timestamp();
        self.allocated = Some(allocated);
        self.ballots.add(ballot);
        self.wait_for_answers();
        let (coordinator, nodes) = (&self.coordinator, &self.preference_list);
        let is_down = |replica| coordinator.down_reason(nodes, replica).is_some();
        self.machine.prepare(ballot, is_down, actions);
    }

    fn wait_for_answers(&mut self) {
        let now = self.coordinator.clock.monotonic();
        let answer_max = ANSWER_MIN.max(self.coordinator.timeout / ANSWER_SHARE);
        self.silent_at = now.saturating_add(answer_max);
    }

    fn send_prepare(&self, ballot: Timestamp, replica: ReplicaIndex) -> Option<SettleEvent> {
        let request = PromiseRequest::Prepare(Prepare {
            key: self.key.clone(),
            ballot,
            epoch: self.epoch,
            base: None,
            copies: self.copies,
            is_value: false,
            unix_ms: self.coordinator.clock.unix_ms(),
        });
        let tag = AnswerTag {
            kind: PREPARED,
            replica,
        };
        let answer = self.ask(ballot, tag, ReplicaRequest::Promise(&request))?;
        Some(prepared(ballot, replica, &answer))
    }

    async fn send_version(
        &mut self,
        ballot: Timestamp,
        replica: ReplicaIndex,
        current: ReplicaIndex,
        rewrite: Rewrite,
    ) -> Option<SettleEvent> {
        if self.current.is_none() {
            self.current = self.read_current(ballot, current).await;
            self.wait_for_answers();
        }
        let missed = |why| SettleEvent::Missed {
            ballot,
            replica,
            why,
        };
        let Some((entry, _)) = &self.current else {
            return Some(missed(Miss::Failed));
        };
        let entry = match rewrite {
            Rewrite::AsItIs => entry.clone(),
            Rewrite::Anew => entry.pushed(ballot),
        };
        let mut allocated = self.allocated.take();
        let tag = AnswerTag {
            kind: ACCEPTED,
            replica,
        };
        let request = ReplicaRequest::Accept {
            ballot,
            entry: &entry,
            allocated: &mut allocated,
        };
        let answer = self.ask(ballot, tag, request);
        self.allocated = allocated;
        answer.map(|answer| accepted(ballot, replica, &answer))
    }

    /// Reads the current version from the replica that has named it: below the ballot nothing comes
    /// in there. A version above it has ended the promise, so others get theirs from elsewhere.
    async fn read_current(
        &self,
        ballot: Timestamp,
        current: ReplicaIndex,
    ) -> Option<(Entry, Option<Reservation>)> {
        let node = *self.preference_list.get(current.as_usize())?;
        let answer = self.coordinator.read_one(node, &self.key, self.deadline);
        let (PeerAnswer::Found(entry) | PeerAnswer::FoundBehind { entry, .. }, reservation) =
            answer.await
        else {
            return None;
        };
        let entry = entry.unwrap_or_else(|| {
            // Nothing is written as a tombstone.
            Entry::tombstone(&self.key, Timestamp::ZERO, self.copies)
        });
        (entry.timestamp() < ballot).then_some((entry, reservation))
    }

    /// Asks a replica; gives its answer if that is clear at once.
    fn ask(
        &self,
        ballot: Timestamp,
        tag: AnswerTag,
        request: ReplicaRequest<'_>,
    ) -> Option<PeerAnswer> {
        let node = self.preference_list.get(tag.replica.as_usize());
        let (Some(node), Some(address)) = (node, self.ballots.address(ballot, tag)) else {
            return Some(PeerAnswer::Missed(Miss::Failed));
        };
        let replicas = &self.coordinator.replicas;
        match replicas.ask(*node, request, self.deadline, address, None) {
            AnswerTime::Now(answer) => Some(answer),
            AnswerTime::Later => {
                self.ballots.awaits();
                None
            }
        }
    }

    /// What an answer says.
    fn event_of(&self, answer: Answer) -> Option<SettleEvent> {
        let Answer {
            ballot,
            tag,
            completion,
        } = answer;
        let replicas = &self.coordinator.replicas;
        let (answer, _reservation) = replicas.answer_of(&self.key, Some(completion));
        match tag.kind {
            PREPARED => Some(prepared(ballot, tag.replica, &answer)),
            ACCEPTED => Some(accepted(ballot, tag.replica, &answer)),
            _ => None,
        }
    }
}

/// What the answer to a prepare says.
fn prepared(ballot: Timestamp, replica: ReplicaIndex, answer: &PeerAnswer) -> SettleEvent {
    let busy = |with| SettleEvent::Busy {
        ballot,
        replica,
        with,
    };
    let why = match *answer {
        PeerAnswer::Promise(PromiseAnswer::Promised { newest, met, .. }) => {
            return SettleEvent::Promised {
                ballot,
                replica,
                newest,
                met,
            };
        }
        // By force only a version at or above the ballot differs.
        PeerAnswer::Promise(PromiseAnswer::Differs(newest)) => {
            return busy(newest.timestamp.unwrap_or(ballot));
        }
        PeerAnswer::Promise(PromiseAnswer::Busy { with, .. }) => return busy(with),
        PeerAnswer::Missed(why) => why,
        _ => Miss::Failed,
    };
    SettleEvent::Missed {
        ballot,
        replica,
        why,
    }
}

/// What the answer to a version says.
fn accepted(ballot: Timestamp, replica: ReplicaIndex, answer: &PeerAnswer) -> SettleEvent {
    let why = match *answer {
        PeerAnswer::Stored { .. } => return SettleEvent::Accepted { ballot, replica },
        PeerAnswer::Missed(why) => why,
        _ => Miss::Failed,
    };
    SettleEvent::Missed {
        ballot,
        replica,
        why,
    }
}
