//! A conditional write: promises of a majority, then accepts of a majority.
//!
//! ```text
//!                   majority has promised            majority has accepted
//!   Preparing ------------------------> Accepting ------------------------> Replied ---> Done
//!    ^     |                              |    |                               ^
//!    |     | too few can promise          |    +--- too few can: Unknown ------+
//!    |     v                              |                                    |
//!    |   release --- replicas agree on another version --- it does not hold ---+
//!    |     |                              |
//!    |     +--> Reading    they differ    | all have refused
//!    |     +--> Settling   a promise is stale
//!    |     +--> Pausing    a promise is young
//!    |               |                    |
//!    +-- Balloting --+--------------------+
//! ```
//!
//! **Whether it has happened.** Until the first accept is sent nothing has:
//! [`NotApplied`](ConditionalOutcome::NotApplied). From then on a replica may have accepted it
//! without having said so. A later read or conditional write may find that version and build on
//! it, so it is never tried with another ballot: [`Unknown`](ConditionalOutcome::Unknown). The
//! exception is a ballot that every replica has refused to which an accept was sent.

use super::condition::{Base, Condition, Newest};
use super::conditional_steps::{
    ConditionalAction, ConditionalActions, ConditionalEvent, ConditionalOutcome,
};
use super::progress::ConditionalProgress;
use crate::layout::Quorum;
use crate::placement::REPLICAS_INLINE;
use crate::repair::is_absent;
use crate::replicas::{Fate, Miss, ReplicaIndex};
use base::Timestamp;
use smallvec::SmallVec;

/// The coordination of one conditional write.
#[derive(Clone, Debug)]
pub struct ConditionalWrite {
    quorum: Quorum,
    condition: Condition,
    /// What the replicas must hold.
    base: Base,
    ballot: Timestamp,
    /// The greatest GC threshold that a promise of this ballot has named.
    gc_threshold: Timestamp,
    stage: Stage,
    /// Whether the version is written.
    is_applied: bool,
    /// What is known of this ballot at each replica.
    progress: SmallVec<[ConditionalProgress; REPLICAS_INLINE]>,
}

/// How far the write is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It waits for a ballot.
    Balloting,
    /// Fewer than a majority have promised.
    Preparing,
    /// Fewer than a majority have accepted.
    Accepting,
    /// It waits for a read of the key.
    Reading,
    /// It waits until stale promises are settled.
    Settling,
    /// It waits for other writes.
    Pausing,
    /// The client has its answer.
    Replied,
    /// Nothing is left to do.
    Done,
}

impl ConditionalWrite {
    /// Begins a conditional write. The pair must [overlap](crate::Replicas::overlap).
    #[must_use]
    pub fn start(
        quorum: impl Into<Quorum>,
        condition: Condition,
        actions: &mut ConditionalActions,
    ) -> Self {
        let base = condition.base();
        let (stage, first) = match base {
            Some(_) => {
                let above = Timestamp::ZERO;
                (Stage::Balloting, ConditionalAction::Ballot { above })
            }
            None => (Stage::Reading, ConditionalAction::Read),
        };
        actions.push(first);
        Self {
            quorum: quorum.into(),
            condition,
            base: base.unwrap_or(Base::NoValue),
            ballot: Timestamp::ZERO,
            gc_threshold: Timestamp::ZERO,
            stage,
            is_applied: false,
            progress: SmallVec::new(),
        }
    }

    /// Goes on with the ballot that [`ConditionalAction::Ballot`] asked for. `down_reason` says
    /// which replicas are known not to answer, and why.
    pub fn prepare(
        &mut self,
        ballot: Timestamp,
        down_reason: impl Fn(ReplicaIndex) -> Option<Miss>,
        actions: &mut ConditionalActions,
    ) {
        if self.stage != Stage::Balloting {
            // The deadline came before the ballot.
            return;
        }
        self.ballot = ballot;
        self.gc_threshold = Timestamp::ZERO;
        self.stage = Stage::Preparing;
        self.progress.clear();
        let base = self.base;
        for replica in self.quorum.indexes() {
            self.progress.push(match down_reason(replica) {
                Some(why) => ConditionalProgress::Unprepared(why),
                None => {
                    actions.push(ConditionalAction::Prepare {
                        ballot,
                        replica,
                        base,
                    });
                    ConditionalProgress::Asked
                }
            });
        }
        self.advance(actions);
    }

    /// Takes an event, and adds what follows from it to `actions`.
    pub fn step(&mut self, event: ConditionalEvent, actions: &mut ConditionalActions) {
        use ConditionalEvent as Event;
        match event {
            Event::Promised {
                ballot,
                replica,
                newest,
                gc_threshold,
            } => {
                if ballot == self.ballot {
                    self.gc_threshold = self.gc_threshold.max(gc_threshold);
                }
                self.promised(ballot, replica, newest, actions);
            }
            Event::Differs {
                ballot,
                replica,
                newest,
            } => self.note(
                ballot,
                replica,
                ConditionalProgress::Asked,
                ConditionalProgress::Differs(newest),
            ),
            Event::Busy {
                ballot,
                replica,
                with,
                is_stale,
            } => {
                let busy = ConditionalProgress::Busy { with, is_stale };
                self.note(ballot, replica, ConditionalProgress::Asked, busy);
            }
            Event::PrepareMissed {
                ballot,
                replica,
                why,
            } => {
                let missed = ConditionalProgress::Unprepared(why);
                self.note(ballot, replica, ConditionalProgress::Asked, missed);
            }
            Event::Accepted { ballot, replica } => {
                self.note(
                    ballot,
                    replica,
                    ConditionalProgress::Sent,
                    ConditionalProgress::Accepted,
                );
            }
            Event::Refused { ballot, replica } => {
                self.note(
                    ballot,
                    replica,
                    ConditionalProgress::Sent,
                    ConditionalProgress::Refused,
                );
            }
            Event::AcceptMissed {
                ballot,
                replica,
                why,
            } => {
                let missed = ConditionalProgress::Unaccepted(why);
                self.note(ballot, replica, ConditionalProgress::Sent, missed);
            }
            Event::Read(newest) => {
                if self.stage == Stage::Reading {
                    match newest {
                        Some(newest) => self.judge(newest, actions),
                        None => self.reply(ConditionalOutcome::NotApplied, actions),
                    }
                }
            }
            Event::Settled => self.resume(Stage::Settling, actions),
            Event::Resumed => self.resume(Stage::Pausing, actions),
            Event::NoBallot => {
                if self.stage == Stage::Balloting {
                    self.reply(ConditionalOutcome::NotApplied, actions);
                }
            }
            Event::HintKept { replica } => {
                let ballot = self.ballot;
                self.note(
                    ballot,
                    replica,
                    ConditionalProgress::Hinting,
                    ConditionalProgress::Hinted,
                );
            }
            Event::Deadline => self.end(actions),
        }
        self.advance(actions);
    }

    /// The ballot under way.
    #[must_use]
    pub fn ballot(&self) -> Timestamp {
        self.ballot
    }

    /// What became of the ballot at each replica, in the order of the preference list.
    pub fn fates(&self) -> impl Iterator<Item = Fate> {
        self.progress.iter().map(|progress| progress.fate())
    }

    fn progress_of(&self, replica: ReplicaIndex) -> Option<ConditionalProgress> {
        self.progress.get(replica.as_usize()).copied()
    }

    /// Notes the answer of a replica, if one of the kind is awaited from it.
    fn note(
        &mut self,
        ballot: Timestamp,
        replica: ReplicaIndex,
        awaited: ConditionalProgress,
        answer: ConditionalProgress,
    ) {
        if let Some(progress) = self.progress.get_mut(replica.as_usize())
            && *progress == awaited
            && ballot == self.ballot
        {
            *progress = answer;
        }
    }

    /// Notes a promise. One that comes too late for its ballot is released, one that comes while
    /// the version is being accepted is used.
    fn promised(
        &mut self,
        ballot: Timestamp,
        replica: ReplicaIndex,
        newest: Option<Timestamp>,
        actions: &mut ConditionalActions,
    ) {
        let progress = self.progress_of(replica).filter(|_| ballot == self.ballot);
        match (self.stage, progress) {
            (Stage::Preparing, Some(ConditionalProgress::Asked)) => {
                self.note(
                    ballot,
                    replica,
                    ConditionalProgress::Asked,
                    ConditionalProgress::Promised(newest),
                );
            }
            (Stage::Accepting, Some(ConditionalProgress::Asked)) => {
                self.note(
                    ballot,
                    replica,
                    ConditionalProgress::Asked,
                    ConditionalProgress::Sent,
                );
                actions.push(ConditionalAction::Accept { ballot, replica });
            }
            // It came twice. A replica that was sent the version is never released.
            (
                _,
                Some(
                    ConditionalProgress::Promised(_)
                    | ConditionalProgress::Sent
                    | ConditionalProgress::Accepted
                    | ConditionalProgress::Refused
                    | ConditionalProgress::Unaccepted(_),
                ),
            ) => {}
            _ => actions.push(ConditionalAction::Release { ballot, replica }),
        }
    }

    /// Goes on as far as what is known allows.
    fn advance(&mut self, actions: &mut ConditionalActions) {
        match self.stage {
            Stage::Preparing => self.gather_promises(actions),
            Stage::Accepting => self.gather_accepts(actions),
            _ => {}
        }
        if self.is_applied {
            self.hint(actions);
        }
        if self.stage == Stage::Replied && !self.is_any(ConditionalProgress::Sent) {
            let is_hinting = self.is_any(ConditionalProgress::Hinting);
            if !is_hinting {
                self.stage = Stage::Done;
                actions.push(ConditionalAction::Done);
            }
        }
    }

    fn is_any(&self, progress: ConditionalProgress) -> bool {
        self.progress.contains(&progress)
    }

    /// Whether the replicas of which this holds are a majority of each list of members.
    fn is_quorum(&self, is_in: impl Fn(ConditionalProgress) -> bool) -> bool {
        let count = self
            .quorum
            .least(&self.progress, |progress| is_in(*progress));
        count >= self.quorum.replicas().ack
    }

    /// A majority must have promised and hold the same version: where two replicas lack a value in
    /// different ways, the newer of two deletes may still take another timestamp. Not so below the
    /// GC threshold, which some have passed earlier than others.
    fn gather_promises(&mut self, actions: &mut ConditionalActions) {
        let is_value = matches!(self.base, Base::Version(_));
        let gc_threshold = self.gc_threshold;
        let newest = |progress: ConditionalProgress| match progress {
            ConditionalProgress::Promised(newest) => {
                Some(newest.filter(|newest| !is_absent(*newest, !is_value, gc_threshold)))
            }
            _ => None,
        };
        let greatest = self.progress.iter().copied().filter_map(newest).max();
        let may_promise = |progress| {
            matches!(
                progress,
                ConditionalProgress::Promised(_) | ConditionalProgress::Asked
            )
        };
        if greatest.is_some_and(|base| self.is_quorum(|each| newest(each) == Some(base))) {
            self.stage = Stage::Accepting;
            let ballot = self.ballot;
            for (replica, progress) in self.quorum.indexes().zip(&mut self.progress) {
                if matches!(progress, ConditionalProgress::Promised(_)) {
                    *progress = ConditionalProgress::Sent;
                    actions.push(ConditionalAction::Accept { ballot, replica });
                }
            }
        } else if !self.is_any(ConditionalProgress::Asked) || !self.is_quorum(may_promise) {
            self.give_up_ballot(actions);
        }
    }

    /// Releases what was promised, and finds out why too few replicas have promised.
    fn give_up_ballot(&mut self, actions: &mut ConditionalActions) {
        self.release(actions);
        let differs = |progress: &ConditionalProgress| match progress {
            ConditionalProgress::Differs(newest) => Some(*newest),
            _ => None,
        };
        let others: SmallVec<[Newest; REPLICAS_INLINE]> =
            self.progress.iter().filter_map(differs).collect();
        let agreed = others.iter().copied().find(|newest| {
            self.is_quorum(|progress| progress == ConditionalProgress::Differs(*newest))
        });
        let stale = |progress: &ConditionalProgress| {
            matches!(progress, ConditionalProgress::Busy { is_stale: true, .. })
        };
        // A replica that has another list of members has the same one soon.
        let busy = |progress: &ConditionalProgress| {
            matches!(
                progress,
                ConditionalProgress::Busy { .. }
                    | ConditionalProgress::Unprepared(Miss::OtherEpoch)
            )
        };
        let promised = |progress| matches!(progress, ConditionalProgress::Promised(_));
        if let Some(newest) = agreed {
            self.judge(newest, actions);
        } else if self.progress.iter().any(stale) {
            self.stage = Stage::Settling;
            actions.push(ConditionalAction::Settle);
        } else if !others.is_empty() || self.is_quorum(promised) {
            self.stage = Stage::Reading;
            actions.push(ConditionalAction::Read);
        } else if self.progress.iter().any(busy) {
            self.stage = Stage::Pausing;
            actions.push(ConditionalAction::Pause);
        } else {
            self.reply(ConditionalOutcome::NotApplied, actions);
        }
    }

    fn release(&mut self, actions: &mut ConditionalActions) {
        let ballot = self.ballot;
        for (replica, progress) in self.quorum.indexes().zip(&self.progress) {
            if matches!(progress, ConditionalProgress::Promised(_)) {
                actions.push(ConditionalAction::Release { ballot, replica });
            }
        }
    }

    /// Decides by what a majority holds whether the condition holds.
    fn judge(&mut self, newest: Newest, actions: &mut ConditionalActions) {
        if !self.condition.holds(newest.value()) {
            let current = newest;
            return self.reply(ConditionalOutcome::NotMatched { current }, actions);
        }
        self.base = Base::of(newest);
        let named = newest.timestamp.unwrap_or(Timestamp::ZERO);
        self.ask_for_ballot(named, actions);
    }

    /// Asks for a ballot above this timestamp and all that the replicas named.
    fn ask_for_ballot(&mut self, named: Timestamp, actions: &mut ConditionalActions) {
        let named_by = |progress: &ConditionalProgress| progress.named();
        let greatest = self.progress.iter().filter_map(named_by).max();
        let above = greatest.map_or(named, |greatest| greatest.max(named));
        self.stage = Stage::Balloting;
        actions.push(ConditionalAction::Ballot { above });
    }

    /// Tries another ballot after a wait.
    fn resume(&mut self, waited: Stage, actions: &mut ConditionalActions) {
        if self.stage == waited {
            self.ask_for_ballot(Timestamp::ZERO, actions);
        }
    }

    fn gather_accepts(&mut self, actions: &mut ConditionalActions) {
        let version = self.ballot;
        let may_accept = |progress| {
            matches!(
                progress,
                ConditionalProgress::Accepted
                    | ConditionalProgress::Sent
                    | ConditionalProgress::Asked
            )
        };
        if self.is_quorum(|progress| progress == ConditionalProgress::Accepted) {
            let acks = self.acks();
            self.reply(ConditionalOutcome::Applied { version, acks }, actions);
            self.is_applied = true;
        } else if !self.is_quorum(may_accept) {
            if self
                .progress
                .iter()
                .any(|progress| progress.may_be_stored())
            {
                let acks = self.acks();
                self.reply(ConditionalOutcome::Unknown { version, acks }, actions);
            } else if !self.is_any(ConditionalProgress::Sent) {
                self.ask_for_ballot(version, actions);
            }
        }
    }

    fn acks(&self) -> u8 {
        let accepted = |progress: &ConditionalProgress| *progress == ConditionalProgress::Accepted;
        self.quorum.least(&self.progress, accepted)
    }

    /// Has hints kept for the replicas that lack the version, which is written.
    fn hint(&mut self, actions: &mut ConditionalActions) {
        let ballot = self.ballot;
        for (replica, progress) in self.quorum.indexes().zip(&mut self.progress) {
            if progress.needs_hint() {
                *progress = ConditionalProgress::Hinting;
                actions.push(ConditionalAction::Hint { ballot, replica });
            }
        }
    }

    fn reply(&mut self, outcome: ConditionalOutcome, actions: &mut ConditionalActions) {
        self.stage = Stage::Replied;
        actions.push(ConditionalAction::Reply(outcome));
    }

    /// Ends the wait for answers.
    fn end(&mut self, actions: &mut ConditionalActions) {
        match self.stage {
            Stage::Preparing => {
                self.release(actions);
                self.reply(ConditionalOutcome::NotApplied, actions);
            }
            Stage::Balloting | Stage::Reading | Stage::Settling | Stage::Pausing => {
                self.reply(ConditionalOutcome::NotApplied, actions);
            }
            Stage::Accepting => {
                let (version, acks) = (self.ballot, self.acks());
                self.reply(ConditionalOutcome::Unknown { version, acks }, actions);
            }
            Stage::Replied | Stage::Done => {}
        }
        for progress in &mut self.progress {
            if *progress == ConditionalProgress::Sent {
                *progress = ConditionalProgress::Unaccepted(Miss::Timeout);
            } else if *progress == ConditionalProgress::Asked {
                *progress = ConditionalProgress::Unprepared(Miss::Timeout);
            }
        }
    }
}
