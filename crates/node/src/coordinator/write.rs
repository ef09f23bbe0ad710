//! Writes.

use super::{Change, Coordinator, Failure, Written};
use crate::completion_queue::Completion;
use crate::replica::LocalReplica;
use crate::stamping::{NoStamp, Stamp};
use crate::waiters::{Follower, Follows, Tag, Wait};
use base::{Entry, Expiry, Timestamp};
use base::{LONG_VALUE_BYTES, Share};
use cluster::{
    Decision, Miss, Ranking, Replicas, Round, Write, WriteAction, WriteActions, WriteEvent,
};
use peer::{PeerAnswer, PeerRequest};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What the entries of a write are made from: a second stamp makes another.
enum Source {
    Change(Change),
    /// A long value is kept once: in the first entry, not also as it came.
    First(Entry),
}

impl Source {
    /// The write with this stamp.
    fn entry(&mut self, key: &[u8], timestamp: Timestamp, expiry: Expiry, copies: u8) -> Entry {
        let value: &[u8] = match self {
            Self::Change(Change::Delete) => return Entry::tombstone(key, timestamp, copies),
            Self::Change(Change::Put { value, .. }) => value,
            Self::First(entry) => entry.value_bytes(),
        };
        let entry = Entry::value(key, timestamp, value, expiry, copies);
        if value.len() > LONG_VALUE_BYTES {
            *self = Self::First(entry.clone());
        }
        entry
    }
}

/// Which answer a tag stands for.
///
/// ```text
/// tag = is a hint's: 1 bit | is of the second round: 1 bit | place: 8 bits
/// ```
const HINT: Tag = 1 << 9;
const SECOND_ROUND: Tag = 1 << 8;

fn tag_of(round: Round, place: u8) -> Tag {
    match round {
        Round::First => Tag::from(place),
        Round::Second => SECOND_ROUND | Tag::from(place),
    }
}

/// A write on its way. It outlives its answer to the client until every
/// replica has answered or has a hint.
struct Writing {
    coordinator: Rc<Coordinator>,
    machine: Write,
    ranking: Ranking,
    source: Source,
    expiry: Expiry,
    copies: u8,
    /// The write with the stamp of its present round.
    entry: Entry,
    /// The local replica takes the stamp along: see `stamping`.
    stamp: Option<Stamp>,
    /// What the second stamp is to be above, while it waits for the ceiling.
    restamps_above: Option<Timestamp>,
    wait: Wait,
    deadline: Duration,
    /// When others are no longer waited for because of one that is not clean.
    half_time: Option<Instant>,
    /// Whether the machine has nothing left to do.
    is_done: bool,
    /// What a long value counts for.
    _share: Option<Share>,
}

impl Coordinator {
    /// Writes a key. The deadline is on the monotonic clock; `share` is what
    /// a long value counts for, which is held as long as the value is.
    ///
    /// # Errors
    /// See [`Failure`]; the write may still appear later.
    pub async fn write(
        self: &Rc<Self>,
        key: &[u8],
        change: Change,
        share: Option<Share>,
        replicas: Replicas,
        deadline: Duration,
    ) -> Result<Written, Failure> {
        self.settled(key, replicas.from, deadline).await;
        let stamp = self.stamping.stamp_by(deadline).await;
        let stamp = stamp.map_err(Failure::NoStamp)?;
        let timestamp = stamp.timestamp();
        let expiry = self.expiry_of(&change);
        let ranking = self.peers.ranking(key, replicas.from);
        let mut source = Source::Change(change);
        let entry = source.entry(key, timestamp, expiry, replicas.from);
        let mut actions = WriteActions::new();
        let why_down = |place: u8| self.why_down(&ranking, place);
        let machine = Write::start(replicas, timestamp, why_down, &mut actions);
        let mut writing = Writing {
            coordinator: Rc::clone(self),
            machine,
            ranking,
            source,
            expiry,
            copies: replicas.from,
            entry,
            stamp: Some(stamp),
            restamps_above: None,
            wait: self.waiters.register(deadline),
            deadline,
            half_time: None,
            is_done: false,
            _share: share,
        };
        let mut decision = writing.act(&mut actions);
        let decision = loop {
            match decision {
                Some(decision) => break decision,
                None => decision = writing.next().await,
            }
        };
        let timestamp = writing.machine.stamp();
        let result = match decision {
            Decision::Enough { acks } => Ok(Written { timestamp, acks }),
            Decision::NotEnough { acks } => {
                let fates = writing.machine.fates();
                Err(self.failure(&writing.ranking, fates, acks, Some(timestamp)))
            }
        };
        if !writing.is_done {
            writing.finish();
        }
        result
    }

    /// One expiry for all stamps of a write.
    fn expiry_of(&self, change: &Change) -> Expiry {
        match change {
            Change::Put {
                ttl_seconds: Some(seconds),
                ..
            } => seconds
                .checked_mul(1000)
                .and_then(|ttl_ms| ttl_ms.checked_add(self.clock.unix_ms()))
                .map_or(Expiry::NEVER, Expiry::at_unix_ms),
            _ => Expiry::NEVER,
        }
    }

    /// Why the replica at a place is known not to answer, if it is.
    fn why_down(&self, ranking: &Ranking, place: u8) -> Option<Miss> {
        match ranking.get(usize::from(place)) {
            Some(node) => self.peers.why_down(*node),
            None => Some(Miss::Failed),
        }
    }
}

impl Writing {
    /// Waits for what comes next, and does what follows from it. Once the
    /// deadline has passed that comes again and again, without a wait.
    async fn next(&mut self) -> Option<Decision> {
        if let Some(above) = self.restamps_above.take() {
            return self.restamp_in_time(above).await;
        }
        let answer = if self.machine.awaits_half_time() {
            let half_time = self.half_time();
            tokio::select! {
                biased;
                answer = self.wait.next() => answer,
                () = tokio::time::sleep_until(half_time) => {
                    return self.step(WriteEvent::HalfTime);
                }
            }
        } else {
            self.wait.next().await
        };
        self.take(answer)
    }

    /// Gives the second stamp, or waits for a change that may let it be given.
    async fn restamp_in_time(&mut self, above: Timestamp) -> Option<Decision> {
        let coordinator = Rc::clone(&self.coordinator);
        // Before the attempt, so that no change between the two is missed.
        let changed = coordinator.stamping.changed();
        let mut actions = WriteActions::new();
        self.restamp(above, &mut actions);
        if self.restamps_above.is_none() {
            return self.act(&mut actions);
        }
        tokio::select! {
            biased;
            answer = self.wait.next() => self.take(answer),
            () = changed => None,
        }
    }

    /// When half of the time is over that is left when this is first asked.
    fn half_time(&mut self) -> Instant {
        let (clock, deadline) = (&self.coordinator.clock, self.deadline);
        *self.half_time.get_or_insert_with(|| {
            let left = deadline.saturating_sub(clock.monotonic());
            Instant::now() + left / 2
        })
    }

    fn take(&mut self, answer: Option<(Tag, Completion)>) -> Option<Decision> {
        let event = event_of(&self.coordinator.replica, answer);
        self.step(event)
    }

    fn step(&mut self, event: WriteEvent) -> Option<Decision> {
        let mut actions = WriteActions::new();
        self.machine.step(event, &mut actions);
        self.act(&mut actions)
    }

    /// Does what the machine says.
    fn act(&mut self, actions: &mut WriteActions) -> Option<Decision> {
        let mut decision = None;
        let mut next = 0;
        while let Some(action) = actions.get(next).copied() {
            next += 1;
            match action {
                WriteAction::Send { round, place } => {
                    if let Err(why) = self.send(round, place) {
                        let event = WriteEvent::Missed { round, place, why };
                        self.machine.step(event, actions);
                    }
                }
                WriteAction::Hint { round, place } => self.keep_hint(round, place),
                WriteAction::Restamp { above } => self.restamp(above, actions),
                WriteAction::Reply(reply) => decision = Some(reply),
                WriteAction::Done => self.is_done = true,
            }
        }
        decision
    }

    fn send(&mut self, round: Round, place: u8) -> Result<(), Miss> {
        let coordinator = &self.coordinator;
        let node = *self.ranking.get(usize::from(place)).ok_or(Miss::Failed)?;
        let ticket = self.wait.ticket_for(tag_of(round, place));
        if coordinator.peers.is_own(node) {
            let stamp = self.stamp.take();
            return coordinator.replica.write(self.entry.clone(), stamp, ticket);
        }
        let request = PeerRequest::Write(self.entry.clone());
        coordinator.peers.call(node, request, self.deadline, ticket)
    }

    fn keep_hint(&self, round: Round, place: u8) {
        let Some(node) = self.ranking.get(usize::from(place)) else {
            return;
        };
        let ticket = self.wait.ticket_for(HINT | tag_of(round, place));
        let completions = Arc::clone(self.coordinator.waiters.completions());
        let done = Box::new(move |_kept| completions.complete(ticket, Completion::HintKept));
        let coordinator = &self.coordinator;
        // On a full disk the hint would take the room that the store needs; and
        // where a sync has failed, nothing is to be kept.
        if coordinator.peers.is_own(*node) && !coordinator.replica.engine.takes_puts() {
            return coordinator.hints.refuse(done);
        }
        coordinator.hints.keep(*node, self.entry.clone(), done);
    }

    /// Stamps the write once more, above what the replicas held: what was
    /// acknowledged before it began lies below the second stamp, and what lies
    /// above is concurrent with it. Where the stamp has to wait, `next` does.
    fn restamp(&mut self, above: Timestamp, actions: &mut WriteActions) {
        let coordinator = &self.coordinator;
        let stamp = match coordinator.stamping.observe(above) {
            true => coordinator.stamping.stamp(),
            false => Err(NoStamp::Far),
        };
        let stamp = match stamp {
            Ok(stamp) => stamp,
            Err(NoStamp::Ceiling) => {
                self.restamps_above = Some(above);
                return;
            }
            Err(_) => {
                // The first stamp may be stored here and there, so this is no
                // refusal: it may still appear.
                self.machine.step(WriteEvent::NoStamp, actions);
                return;
            }
        };
        let timestamp = stamp.timestamp();
        let key = self.entry.key().to_vec();
        self.entry = self.source.entry(&key, timestamp, self.expiry, self.copies);
        self.stamp = Some(stamp);
        coordinator.metrics.coordination.restamps.add(1);
        let ranking = &self.ranking;
        let why_down = |place: u8| coordinator.why_down(ranking, place);
        self.machine.restamped(timestamp, why_down, actions);
    }

    /// Sees to the replicas that have not answered yet, after the client was
    /// answered. When too many writes are at that, it ends at once, as if its
    /// time was over: the others get hints.
    fn finish(mut self) {
        let coordinator = Rc::clone(&self.coordinator);
        if coordinator.stragglers.get() >= coordinator.stragglers_max {
            self.step(WriteEvent::Deadline);
        }
        if !self.is_done {
            let ticket = self.wait.ticket();
            let straggler = Straggler::new(self);
            coordinator.waiters.follow(ticket, Box::new(straggler));
        }
    }
}

/// A write that was answered; it counts as a straggler until it is dropped.
struct Straggler(Writing);

impl Straggler {
    fn new(writing: Writing) -> Self {
        let stragglers = &writing.coordinator.stragglers;
        stragglers.set(stragglers.get() + 1);
        Self(writing)
    }
}

impl Drop for Straggler {
    fn drop(&mut self) {
        let stragglers = &self.0.coordinator.stragglers;
        stragglers.set(stragglers.get() - 1);
    }
}

impl Follower for Straggler {
    fn follow(&mut self, answer: Option<(Tag, Completion)>) -> Follows {
        // After the deadline nothing is waited for any more but the hints that
        // it asks for, and nobody has to hear that they are kept.
        let is_over = answer.is_none();
        self.0.take(answer);
        match is_over || self.0.is_done {
            true => Follows::Ended,
            false => Follows::On,
        }
    }
}

/// What an answer says; the lack of one that the deadline has passed.
fn event_of(replica: &LocalReplica, answer: Option<(Tag, Completion)>) -> WriteEvent {
    let Some((tag, completion)) = answer else {
        return WriteEvent::Deadline;
    };
    let round = if tag & SECOND_ROUND == 0 {
        Round::First
    } else {
        Round::Second
    };
    let place = (tag & Tag::from(u8::MAX)) as u8;
    if tag & HINT != 0 {
        return WriteEvent::HintKept { round, place };
    }
    match replica.answer_of(Some(completion)) {
        PeerAnswer::Stored { verdict } => WriteEvent::Stored {
            round,
            place,
            verdict,
        },
        PeerAnswer::Found(_) => WriteEvent::Missed {
            round,
            place,
            why: Miss::Failed,
        },
        PeerAnswer::Missed(why) => WriteEvent::Missed { round, place, why },
    }
}
