//! A write: goes to all replicas at once, and is acknowledged by the `ack`-th ack.
//!
//! ```text
//!              ack-th ack             hints for replicas
//!                                     that are down are kept
//!   Gathering ---------------> Keeping ----------------> Replied ---> Done
//!    |   ^  |                                               ^
//!    |   |  +--- too few left, or the deadline: NotEnough --+
//!    |   |
//!    |   +--- second timestamp, to all replicas
//!    v   |
//!   TimestampPush    `ack` replicas have stored it, but too few of them held nothing
//!                 newer, no other can make up for that, or half of the time is over
//! ```
//!
//! **What is an ack.** In the first round a replica acks if it has stored the write and held
//! nothing newer when the write first arrived there. When the acks overlap, at least one of any
//! `ack` replicas has every write that was acknowledged before this one began. If that was newer
//! than this write, the replica does not ack. So `ack` acks prove that the timestamp is above all
//! acknowledged ones.
//!
//! **The second timestamp.** If too few replicas can ack, the write gets a second timestamp: above
//! every version that at least `ack` replicas named, and so above all acknowledged ones. A version
//! above the second timestamp arrived while the write ran and is concurrent with it, so in the
//! second round every replica that has stored the write acks. Acks and hints of the first timestamp
//! no longer count. The exception is a conditional version above it for which the replica had
//! promised to keep the place free ([`NewerVersion::Overtaken`]): there the write cannot count as
//! written just before. If too few replicas ack because of that, the write takes another
//! timestamp, at most [`ROUNDS_MAX`](super::ROUNDS_MAX) in all.
//!
//! **Why no read returns both timestamps.** A replica that held something newer never acks the
//! first timestamp. The second one is issued when fewer than `ack` replicas ack the first. A read
//! of this pair returns the first timestamp only if `ack` replicas acked it: see
//! [`Read`](super::Read). So no read does, provided that every replica has answered. Therefore,
//! when a replica held something newer, the write first waits for the others, until half of its
//! time is over. If a replica stays silent, a running write may change
//! its position among concurrent writes; once the write is acknowledged, its version stands.
//!
//! **Hints** are kept for the replicas that missed the write. The write is not sent to a replica
//! that is known to be down, whose hint is kept before the reply, because nothing else will bring
//! it the write. The others get their hints after the reply, once any replica has the write. A hint
//! is never an ack. A store that is no voter ([`Miss::Learner`]) keeps the write, but does not ack
//! it, and needs no hint.
//!
//! **Below its closed timestamp** a replica refuses the write for good ([`Miss::Obsolete`]), so it
//! is owed no hint, which it would refuse as well. The coordinator's clock was slow, or the
//! request was under way for longer than the GC grace. If all replicas have refused the
//! first timestamp, the write is given a timestamp once more, above their closed timestamps. If
//! a replica may have stored it, or is down and may get it as a hint before its closed timestamp
//! rises, the write fails: a repair session or a read repair may bring the first timestamp to the
//! other replicas, and with a second one the write might be read twice, with another write between.
//!
//! **While the list of members changes** a key may have two groups of replicas ([`Quorum`]). The
//! write goes to the union of both, and needs `ack` replicas of each. Only one group judges the
//! first timestamp: of its replicas `ack` must have held nothing newer, and the second timestamp
//! lies above what they named. Of the other group it is enough that `ack` replicas have stored the
//! write. A replica that refuses the write because its list is a later one
//! ([`Miss::OtherEpoch`]) might have acked it, and requests of the later list may return the first
//! timestamp. So such a write gets no second one.

use super::Decision;
use super::write_steps::{Round, WriteAction, WriteActions, WriteEvent};
use crate::layout::{Group, Quorum};
use crate::placement::REPLICAS_INLINE;
use crate::replicas::{Fate, Miss, ReplicaIndex};
use base::{NewerVersion, Timestamp};
use smallvec::SmallVec;

/// The coordination of one write.
#[derive(Clone, Debug)]
pub struct Write {
    quorum: Quorum,
    round: Round,
    timestamp: Timestamp,
    stage: Stage,
    /// Whether others may still make up for a replica that held something newer.
    is_patient: bool,
    /// What is known of this round at each replica.
    progress: SmallVec<[WriteProgress; REPLICAS_INLINE]>,
}

/// How far the write is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Fewer than `ack` replicas have stored it.
    Gathering,
    /// It waits for its second timestamp.
    TimestampPush,
    /// Enough have stored it; the reply waits for hints.
    Keeping,
    /// The client has its answer.
    Replied,
    /// Nothing is left to do.
    Done,
}

/// What is known of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteProgress {
    /// It was sent the write and has not answered.
    Awaited,
    /// It has stored the write, with this newer-version check.
    Stored(NewerVersion),
    /// It may not have the write.
    Missed { why: Miss, hint: Hint },
}

/// How far the hint for a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hint {
    /// It is to be kept.
    Owed,
    /// It is being kept.
    Underway,
    /// It is kept or could not be kept, or none is owed.
    Kept,
}

impl Write {
    /// Begins a write with this timestamp. `down_reason` says which replicas are
    /// known not to answer, and why.
    #[must_use]
    pub fn start(
        quorum: impl Into<Quorum>,
        timestamp: Timestamp,
        down_reason: impl Fn(ReplicaIndex) -> Option<Miss>,
        actions: &mut WriteActions,
    ) -> Self {
        let mut write = Self {
            quorum: quorum.into(),
            round: Round::FIRST,
            timestamp,
            stage: Stage::Gathering,
            is_patient: true,
            progress: SmallVec::new(),
        };
        write.send(down_reason, actions);
        write
    }

    /// Goes on with the second timestamp, which [`WriteAction::Push`] asked for.
    pub fn pushed(
        &mut self,
        timestamp: Timestamp,
        down_reason: impl Fn(ReplicaIndex) -> Option<Miss>,
        actions: &mut WriteActions,
    ) {
        if self.stage != Stage::TimestampPush {
            // The deadline came before the timestamp.
            return;
        }
        self.round = self.round.next().unwrap_or(self.round);
        self.timestamp = timestamp;
        self.stage = Stage::Gathering;
        self.send(down_reason, actions);
    }

    /// Takes an event, and adds what follows from it to `actions`.
    pub fn step(&mut self, event: WriteEvent, actions: &mut WriteActions) {
        match event {
            WriteEvent::Stored {
                round,
                replica,
                newer_version,
            } => {
                self.settle(round, replica, WriteProgress::Stored(newer_version));
            }
            WriteEvent::Missed {
                round,
                replica,
                why,
            } => {
                let hint = match why {
                    Miss::Learner | Miss::Obsolete { .. } => Hint::Kept,
                    _ => Hint::Owed,
                };
                self.settle(round, replica, WriteProgress::Missed { why, hint });
            }
            WriteEvent::HintKept { round, replica } => self.hint_kept(round, replica),
            WriteEvent::NoTimestamp => {
                if self.stage == Stage::TimestampPush {
                    self.reply(Decision::NotEnough { acks: 0 }, actions);
                }
            }
            WriteEvent::HalfTime => self.is_patient = false,
            WriteEvent::Deadline => self.end(actions),
        }
        self.advance(actions);
    }

    /// Whether [`WriteEvent::HalfTime`] would change what the write waits for:
    /// it waits only because a replica that has stored it held something newer.
    #[must_use]
    pub fn awaits_half_time(&self) -> bool {
        self.is_patient
            && self.stage == Stage::Gathering
            && self.stored_in(self.quorum.judge()) > self.acks_in(self.quorum.judge())
    }

    /// The timestamp of the round that the write is in.
    #[must_use]
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// What became of it at each replica, in the order of the preference list.
    pub fn fates(&self) -> impl Iterator<Item = Fate> {
        self.progress.iter().map(|progress| match progress {
            WriteProgress::Awaited => Fate::Unanswered,
            WriteProgress::Stored(_) => Fate::Stored,
            WriteProgress::Missed { why, .. } => Fate::Missed(*why),
        })
    }

    /// Begins a round.
    fn send(
        &mut self,
        down_reason: impl Fn(ReplicaIndex) -> Option<Miss>,
        actions: &mut WriteActions,
    ) {
        let round = self.round;
        self.progress.clear();
        for replica in self.quorum.indexes() {
            let (progress, action) = match down_reason(replica) {
                Some(why) => {
                    let hint = Hint::Underway;
                    let progress = WriteProgress::Missed { why, hint };
                    (progress, WriteAction::Hint { round, replica })
                }
                None => (WriteProgress::Awaited, WriteAction::Send { round, replica }),
            };
            self.progress.push(progress);
            actions.push(action);
        }
        self.advance(actions);
    }

    /// Notes the answer of a replica, if one is awaited from it.
    fn settle(&mut self, round: Round, replica: ReplicaIndex, answer: WriteProgress) {
        if let Some(progress @ WriteProgress::Awaited) = self.progress.get_mut(replica.as_usize())
            && round == self.round
        {
            *progress = answer;
        }
    }

    fn hint_kept(&mut self, round: Round, replica: ReplicaIndex) {
        if let Some(WriteProgress::Missed { hint, .. }) = self.progress.get_mut(replica.as_usize())
            && round == self.round
            && *hint == Hint::Underway
        {
            *hint = Hint::Kept;
        }
    }

    /// Ends the wait for answers, and for hints before the reply.
    fn end(&mut self, actions: &mut WriteActions) {
        for progress in &mut self.progress {
            if *progress == WriteProgress::Awaited {
                let why = Miss::Timeout;
                let hint = Hint::Owed;
                *progress = WriteProgress::Missed { why, hint };
            }
        }
        match self.stage {
            Stage::Keeping => self.reply(Decision::Enough { acks: self.acks() }, actions),
            Stage::Gathering => self.reply(Decision::NotEnough { acks: self.acks() }, actions),
            Stage::TimestampPush => self.reply(Decision::NotEnough { acks: 0 }, actions),
            Stage::Replied | Stage::Done => {}
        }
    }

    /// Goes on as far as what is known allows.
    fn advance(&mut self, actions: &mut WriteActions) {
        let acks = self.acks();
        if self.stage == Stage::Gathering {
            self.gather(acks, actions);
        }
        if self.stage == Stage::Keeping && !self.keeps_hints() {
            self.reply(Decision::Enough { acks }, actions);
        }
        if self.stage == Stage::Replied {
            if self.progress.iter().any(WriteProgress::is_stored) {
                self.keep_hints(actions);
            }
            if !self.awaits() && !self.keeps_hints() {
                self.stage = Stage::Done;
                actions.push(WriteAction::Done);
            }
        }
    }

    /// Decides whether the acks are enough, may still become enough, or need a second
    /// timestamp.
    fn gather(&mut self, acks: u8, actions: &mut WriteActions) {
        let ack = self.quorum.replicas().ack;
        let may_store = |progress: &WriteProgress| progress.is_stored() || progress.is_awaited();
        if acks >= ack {
            self.stage = Stage::Keeping;
        } else if let Some(closed) = self.closed_to_pass() {
            // The replicas that have not answered may still store the first timestamp.
            if !self.awaits() {
                self.stage = Stage::TimestampPush;
                actions.push(WriteAction::Push { above: closed });
            }
        } else if self.quorum.least(&self.progress, may_store) < ack {
            self.reply(Decision::NotEnough { acks }, actions);
        } else if self.quorum.least(&self.progress, WriteProgress::is_stored) >= ack
            && (self.may_ack_in(self.quorum.judge()) < ack || !self.is_patient)
        {
            if self.is_of_other_epoch() {
                self.reply(Decision::NotEnough { acks }, actions);
                return;
            }
            if self.round.next().is_none() {
                self.reply(Decision::NotEnough { acks }, actions);
                return;
            }
            let above = self.newest_named().unwrap_or(self.timestamp);
            self.stage = Stage::TimestampPush;
            actions.push(WriteAction::Push { above });
        }
    }

    /// Whether a replica has refused the write because of the list of members it was sent by.
    fn is_of_other_epoch(&self) -> bool {
        self.progress.iter().any(|progress| {
            matches!(
                progress,
                WriteProgress::Missed {
                    why: Miss::OtherEpoch,
                    ..
                }
            )
        })
    }

    /// The greatest closed timestamp that the first timestamp was below, if a second one may be
    /// stored by enough replicas: no replica has the first, nor may any get it.
    fn closed_to_pass(&self) -> Option<Timestamp> {
        let may_pass = self.round == Round::FIRST
            && self
                .progress
                .iter()
                .all(|progress| progress.closed().is_some() || progress.is_awaited());
        let closed = self.progress.iter().filter_map(WriteProgress::closed);
        closed.max().filter(|_| may_pass)
    }

    fn reply(&mut self, decision: Decision, actions: &mut WriteActions) {
        self.stage = Stage::Replied;
        actions.push(WriteAction::Reply(decision));
    }

    fn keep_hints(&mut self, actions: &mut WriteActions) {
        let round = self.round;
        for (replica, progress) in self.quorum.indexes().zip(&mut self.progress) {
            if let WriteProgress::Missed { hint, .. } = progress
                && *hint == Hint::Owed
            {
                *hint = Hint::Underway;
                actions.push(WriteAction::Hint { round, replica });
            }
        }
    }

    /// How many replicas of each list have acknowledged the write.
    fn acks(&self) -> u8 {
        let acks = self.quorum.groups().map(|group| self.acks_in(group));
        acks.min().unwrap_or(0)
    }

    /// How many replicas of a list have acknowledged the write. Where it does not judge, it is
    /// enough to have stored it.
    fn acks_in(&self, group: Group<'_>) -> u8 {
        if group == self.quorum.judge() {
            group.count(&self.progress, |progress| progress.acks(self.round))
        } else {
            self.stored_in(group)
        }
    }

    /// How many replicas of the list that judges have acknowledged the write or may yet.
    fn may_ack_in(&self, judge: Group<'_>) -> u8 {
        judge.count(&self.progress, |progress| {
            progress.acks(self.round) || progress.is_awaited()
        })
    }

    fn stored_in(&self, group: Group<'_>) -> u8 {
        group.count(&self.progress, WriteProgress::is_stored)
    }

    /// What the second timestamp must be above: the newest version that a replica held,
    /// among the replicas of the list that judges that have stored the write.
    ///
    /// One of any `ack` replicas has what was acknowledged before. So if `ack` replicas
    /// know what they held, the bounds of the others are left out, because they may be
    /// so high that peers would refuse a timestamp above them.
    fn newest_named(&self) -> Option<Timestamp> {
        let judge = self.quorum.judge();
        let is_certain = |progress: &WriteProgress| {
            matches!(
                progress,
                WriteProgress::Stored(
                    NewerVersion::None | NewerVersion::At(_) | NewerVersion::Overtaken(_)
                )
            )
        };
        let suffices = judge.count(&self.progress, is_certain) >= self.quorum.replicas().ack;
        let named = judge
            .of(&self.progress)
            .filter_map(|(_, progress)| match progress {
                WriteProgress::Stored(
                    NewerVersion::At(newest) | NewerVersion::Overtaken(newest),
                ) => Some(*newest),
                WriteProgress::Stored(NewerVersion::Unknown(bound)) if !suffices => Some(*bound),
                _ => None,
            });
        named.max()
    }

    fn awaits(&self) -> bool {
        self.progress.iter().any(WriteProgress::is_awaited)
    }

    fn keeps_hints(&self) -> bool {
        self.progress.iter().any(|progress| {
            matches!(
                progress,
                WriteProgress::Missed {
                    hint: Hint::Underway,
                    ..
                }
            )
        })
    }
}

impl WriteProgress {
    fn is_awaited(&self) -> bool {
        *self == Self::Awaited
    }

    fn is_stored(&self) -> bool {
        matches!(self, Self::Stored(_))
    }

    /// Whether it has stored the write, and by what it held its answer counts in this round.
    fn acks(&self, round: Round) -> bool {
        match self {
            Self::Stored(NewerVersion::None) => true,
            Self::Stored(NewerVersion::Overtaken(_)) => false,
            Self::Stored(_) => round != Round::FIRST,
            Self::Awaited | Self::Missed { .. } => false,
        }
    }

    /// The closed timestamp that the write was below.
    fn closed(&self) -> Option<Timestamp> {
        match self {
            Self::Missed {
                why: Miss::Obsolete { below },
                ..
            } => Some(*below),
            _ => None,
        }
    }
}
