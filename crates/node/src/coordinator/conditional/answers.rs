//! What replicas answer to the ballots of one operation.
//!
//! An operation may try several ballots, and an answer to an earlier one still matters: a promise
//! that comes late is to be released. So each ballot has a slot among the pending requests, and all
//! of them deliver to the same queue. The queue has at most one answer for each that was asked for.

use base::Timestamp;
use cluster::{ConditionalEvent, Miss, ReplicaIndex};
use peer::{PeerAnswer, PromiseAnswer};
use replica::Completion;
use replica::pending::{
    AnswerKind, AnswerReceiver, AnswerTag, Awaits, PendingRequests, Registration,
};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;

/// An answer, and the ballot that it is for.
pub(super) struct Answer {
    pub(super) ballot: Timestamp,
    pub(super) tag: AnswerTag,
    pub(super) completion: Completion,
}

/// The answers of one operation.
#[derive(Default)]
struct Queue {
    answers: RefCell<VecDeque<Answer>>,
    arrived: Notify,
}

/// The slot of one ballot.
struct BallotAnswers {
    ballot: Timestamp,
    queue: Rc<Queue>,
}

impl AnswerReceiver for BallotAnswers {
    fn receive(&self, answer: Option<(AnswerTag, Completion)>) -> Awaits {
        // The operation itself watches its deadline.
        let Some((tag, completion)) = answer else {
            return Awaits::Nothing;
        };
        self.queue.answers.borrow_mut().push_back(Answer {
            ballot: self.ballot,
            tag,
            completion,
        });
        self.queue.arrived.notify_one();
        Awaits::More
    }

    fn release(self: Rc<Self>) {}
}

/// Asks in the name of an operation, and receives what is answered until this is dropped.
pub(super) struct BallotBox {
    pending: Rc<PendingRequests>,
    deadline: Duration,
    queue: Rc<Queue>,
    slots: Vec<(Timestamp, Registration)>,
    /// How many answers are awaited.
    awaited: Cell<usize>,
}

impl BallotBox {
    /// No ballots yet; answers are received until `deadline` on the monotonic clock.
    pub(super) fn new(pending: &Rc<PendingRequests>, deadline: Duration) -> Self {
        Self {
            pending: Rc::clone(pending),
            deadline,
            queue: Rc::default(),
            slots: Vec::new(),
            awaited: Cell::new(0),
        }
    }

    /// Receives the answers to this ballot as well.
    pub(super) fn add(&mut self, ballot: Timestamp) {
        let registration = self.pending.reserve(self.deadline);
        registration.listen(Rc::new(BallotAnswers {
            ballot,
            queue: Rc::clone(&self.queue),
        }));
        self.slots.push((ballot, registration));
    }

    /// Where the answer to what is asked for a ballot is to be sent.
    pub(super) fn address(&self, ballot: Timestamp, tag: AnswerTag) -> Option<u64> {
        let mut slots = self.slots.iter().rev();
        let (_, registration) = slots.find(|(other, _)| *other == ballot)?;
        Some(registration.ticket().with(tag))
    }

    /// An answer is to come later.
    pub(super) fn awaits(&self) {
        self.awaited.set(self.awaited.get() + 1);
    }

    /// Whether an answer is to come.
    pub(super) fn is_awaiting(&self) -> bool {
        self.awaited.get() > 0
    }

    /// The next answer.
    pub(super) async fn next(&self) -> Answer {
        loop {
            if let Some(answer) = self.queue.answers.borrow_mut().pop_front() {
                self.awaited.set(self.awaited.get().saturating_sub(1));
                return answer;
            }
            self.queue.arrived.notified().await;
        }
    }
}

/// The kinds of answers of conditional writes.
pub(super) const PREPARED: AnswerKind = AnswerKind::Promise;
/// That to a version that is to be accepted.
pub(super) const ACCEPTED: AnswerKind = AnswerKind::Write(cluster::Round::FIRST);
/// That a hint is kept.
pub(super) const HINTED: AnswerKind = AnswerKind::Hint(cluster::Round::FIRST);

/// What the answer to a prepare says to a conditional write.
pub(super) fn prepared(
    ballot: Timestamp,
    replica: ReplicaIndex,
    answer: &PeerAnswer,
) -> ConditionalEvent {
    let why = match *answer {
        PeerAnswer::Promise(PromiseAnswer::Promised {
            newest,
            gc_threshold,
            ..
        }) => {
            return ConditionalEvent::Promised {
                ballot,
                replica,
                newest,
                gc_threshold,
            };
        }
        PeerAnswer::Promise(PromiseAnswer::Differs(newest)) => {
            return ConditionalEvent::Differs {
                ballot,
                replica,
                newest,
            };
        }
        PeerAnswer::Promise(PromiseAnswer::Busy { with, is_stale }) => {
            return ConditionalEvent::Busy {
                ballot,
                replica,
                with,
                is_stale,
            };
        }
        PeerAnswer::Missed(why) => why,
        _ => Miss::Failed,
    };
    ConditionalEvent::PrepareMissed {
        ballot,
        replica,
        why,
    }
}

/// What the answer to a version says to a conditional write.
pub(super) fn accepted(
    ballot: Timestamp,
    replica: ReplicaIndex,
    answer: &PeerAnswer,
) -> ConditionalEvent {
    let why = match *answer {
        PeerAnswer::Stored { .. } => return ConditionalEvent::Accepted { ballot, replica },
        PeerAnswer::Promise(PromiseAnswer::NotKept) => {
            return ConditionalEvent::Refused { ballot, replica };
        }
        PeerAnswer::Missed(why) => why,
        _ => Miss::Failed,
    };
    ConditionalEvent::AcceptMissed {
        ballot,
        replica,
        why,
    }
}
