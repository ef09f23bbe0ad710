//! A write: sent to all replicas at once, acknowledged with the `ack`-th.
//!
//! ```text
//!              ack-th Stored,         hints for those
//!              nothing newer named    that are down kept
//!   Gathering ---------------> Keeping ----------------> Replied ---> Done
//!    |   ^  |                                               ^
//!    |   |  +--- too few left, or the deadline: NotEnough --+
//!    |   |
//!    |   +--- second stamp: all replicas anew
//!    v   |
//!   Restamping    ack-th Stored of the first round, and one of them
//!                 named a version at or above the stamp
//! ```
//!
//! **Why a later write wins.** What was acknowledged before this write began
//! lies on at least one of the first `ack` replicas that answer it, when the
//! acks overlap, and that one names it. So a stamp above all that they name is
//! above all that was acknowledged. What lies above the second stamp came
//! while the write ran and is concurrent with it, so the second round asks no
//! more. The first round's acks are void: its stamp may lose to what is older.
//!
//! **Hints** are owed to the replicas that missed the write. Those that are
//! known to be down are not sent it; their hints are kept before the reply, as
//! nothing else will bring them the write. Others get theirs after the reply,
//! once any replica has the write. A hint is never an ack.

use super::Verdict;
use crate::placement::REPLICAS_INLINE;
use crate::replicas::{Fate, Miss, Replicas};
use lsm::Timestamp;
use smallvec::SmallVec;

/// Which stamp of a write is meant: there are at most two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// The stamp that the write began with.
    First,
    /// The stamp above what the replicas held.
    Second,
}

/// What has happened to a write. `place` is a replica's place in the key's ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteEvent {
    /// A replica has stored it.
    Stored {
        /// Of which stamp.
        round: Round,
        /// Which replica.
        place: u8,
        /// The greatest timestamp among the replica's other versions of the
        /// key, as far as it reports them; certainly when not below the stamp.
        newest_held: Option<Timestamp>,
    },
    /// A replica has not stored it, or its answer was lost.
    Missed {
        /// Of which stamp.
        round: Round,
        /// Which replica.
        place: u8,
        /// Why.
        why: Miss,
    },
    /// A hint is kept, or could not be: hints are best effort.
    HintKept {
        /// Of which stamp.
        round: Round,
        /// For which replica.
        place: u8,
    },
    /// The clock gives no stamp above what the replicas hold.
    NoStamp,
    /// The request's time is over.
    Deadline,
}

/// What to do for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteAction {
    /// Send it to a replica; `Stored` or `Missed` is to follow.
    Send {
        /// Of which stamp.
        round: Round,
        /// Which replica.
        place: u8,
    },
    /// Keep a hint for a replica; `HintKept` is to follow.
    Hint {
        /// Of which stamp.
        round: Round,
        /// For which replica.
        place: u8,
    },
    /// Stamp it once more, and call [`Write::restamped`].
    Restamp {
        /// What the new stamp must be above.
        above: Timestamp,
    },
    /// Answer the client.
    Reply(Verdict),
    /// Nothing is left to do.
    Done,
}

/// What a step gives to do, in this order.
pub type WriteActions = SmallVec<[WriteAction; REPLICAS_INLINE + 2]>;

/// The coordination of one write.
#[derive(Clone, Debug)]
pub struct Write {
    replicas: Replicas,
    round: Round,
    stamp: Timestamp,
    stage: Stage,
    /// The greatest timestamp that the first `ack` replicas to store it have named.
    newest_held: Option<Timestamp>,
    /// What is known of this round at each replica, by place.
    places: SmallVec<[Replica; REPLICAS_INLINE]>,
}

/// How far the write is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Fewer than `ack` replicas have stored it.
    Gathering,
    /// It waits for its second stamp.
    Restamping,
    /// Enough have stored it; the reply waits for hints.
    Keeping,
    /// The client has its answer.
    Replied,
    /// Nothing is left to do.
    Done,
}

/// What is known of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replica {
    /// It was sent the write and has not answered.
    Awaited,
    /// It has the write.
    Stored,
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
    /// It is kept, as well as could be.
    Kept,
}

impl Write {
    /// Begins a write with this stamp. `is_down` says which places are known
    /// to be down.
    #[must_use]
    pub fn start(
        replicas: Replicas,
        stamp: Timestamp,
        is_down: impl Fn(u8) -> bool,
        actions: &mut WriteActions,
    ) -> Self {
        let mut write = Self {
            replicas,
            round: Round::First,
            stamp,
            stage: Stage::Gathering,
            newest_held: None,
            places: SmallVec::new(),
        };
        write.send(is_down, actions);
        write
    }

    /// Goes on with the second stamp, which [`WriteAction::Restamp`] asked for.
    pub fn restamped(
        &mut self,
        stamp: Timestamp,
        is_down: impl Fn(u8) -> bool,
        actions: &mut WriteActions,
    ) {
        if self.stage != Stage::Restamping {
            // The deadline was first.
            return;
        }
        self.round = Round::Second;
        self.stamp = stamp;
        self.stage = Stage::Gathering;
        self.send(is_down, actions);
    }

    /// Takes note of an event, and says what to do.
    pub fn step(&mut self, event: WriteEvent, actions: &mut WriteActions) {
        match event {
            WriteEvent::Stored {
                round,
                place,
                newest_held,
            } => {
                if self.settle(round, place, Replica::Stored) && self.stage == Stage::Gathering {
                    self.newest_held = self.newest_held.max(newest_held);
                }
            }
            WriteEvent::Missed { round, place, why } => {
                let hint = Hint::Owed;
                self.settle(round, place, Replica::Missed { why, hint });
            }
            WriteEvent::HintKept { round, place } => self.hint_kept(round, place),
            WriteEvent::NoStamp => {
                if self.stage == Stage::Restamping {
                    self.reply(Verdict::NotEnough { acks: 0 }, actions);
                }
            }
            WriteEvent::Deadline => self.end(actions),
        }
        self.advance(actions);
    }

    /// The stamp of the round that the write is in.
    #[must_use]
    pub fn stamp(&self) -> Timestamp {
        self.stamp
    }

    /// What became of it at each replica, in the order of the ranking.
    pub fn fates(&self) -> impl Iterator<Item = Fate> {
        self.places.iter().map(|replica| match replica {
            Replica::Awaited => Fate::Missed(Miss::Timeout),
            Replica::Stored => Fate::Stored,
            Replica::Missed { why, .. } => Fate::Missed(*why),
        })
    }

    /// Begins a round.
    fn send(&mut self, is_down: impl Fn(u8) -> bool, actions: &mut WriteActions) {
        let round = self.round;
        self.places.clear();
        for place in 0..self.replicas.from {
            let (replica, action) = if is_down(place) {
                let why = Miss::Refused;
                let hint = Hint::Underway;
                let replica = Replica::Missed { why, hint };
                (replica, WriteAction::Hint { round, place })
            } else {
                (Replica::Awaited, WriteAction::Send { round, place })
            };
            self.places.push(replica);
            actions.push(action);
        }
        self.advance(actions);
    }

    /// Notes the answer of a replica, if one is awaited from it.
    fn settle(&mut self, round: Round, place: u8, answer: Replica) -> bool {
        match self.places.get_mut(usize::from(place)) {
            Some(replica @ Replica::Awaited) if round == self.round => {
                *replica = answer;
                true
            }
            _ => false,
        }
    }

    fn hint_kept(&mut self, round: Round, place: u8) {
        if let Some(Replica::Missed { hint, .. }) = self.places.get_mut(usize::from(place))
            && round == self.round
            && *hint == Hint::Underway
        {
            *hint = Hint::Kept;
        }
    }

    /// Ends the wait for answers, and for hints before the reply.
    fn end(&mut self, actions: &mut WriteActions) {
        for replica in &mut self.places {
            if *replica == Replica::Awaited {
                let why = Miss::Timeout;
                let hint = Hint::Owed;
                *replica = Replica::Missed { why, hint };
            }
        }
        match self.stage {
            Stage::Keeping => self.reply(Verdict::Enough { acks: self.acks() }, actions),
            Stage::Restamping => self.reply(Verdict::NotEnough { acks: 0 }, actions),
            // Too few are left: `advance` sees to it.
            Stage::Gathering | Stage::Replied | Stage::Done => {}
        }
    }

    /// Goes on as far as what is known allows.
    fn advance(&mut self, actions: &mut WriteActions) {
        let acks = self.acks();
        if self.stage == Stage::Gathering && acks >= self.replicas.ack {
            self.stage = match self.newest_held {
                Some(above) if self.round == Round::First && above >= self.stamp => {
                    actions.push(WriteAction::Restamp { above });
                    Stage::Restamping
                }
                _ => Stage::Keeping,
            };
        }
        if self.stage == Stage::Gathering && acks + self.awaited() < self.replicas.ack {
            self.reply(Verdict::NotEnough { acks }, actions);
        }
        if self.stage == Stage::Keeping && !self.keeps_hints() {
            self.reply(Verdict::Enough { acks }, actions);
        }
        if self.stage == Stage::Replied {
            if acks > 0 {
                self.keep_hints(actions);
            }
            if self.awaited() == 0 && !self.keeps_hints() {
                self.stage = Stage::Done;
                actions.push(WriteAction::Done);
            }
        }
    }

    fn reply(&mut self, verdict: Verdict, actions: &mut WriteActions) {
        self.stage = Stage::Replied;
        actions.push(WriteAction::Reply(verdict));
    }

    fn keep_hints(&mut self, actions: &mut WriteActions) {
        let round = self.round;
        for (place, replica) in (0..=u8::MAX).zip(&mut self.places) {
            if let Replica::Missed { hint, .. } = replica
                && *hint == Hint::Owed
            {
                *hint = Hint::Underway;
                actions.push(WriteAction::Hint { round, place });
            }
        }
    }

    fn acks(&self) -> u8 {
        self.count(|replica| *replica == Replica::Stored)
    }

    fn awaited(&self) -> u8 {
        self.count(|replica| *replica == Replica::Awaited)
    }

    fn keeps_hints(&self) -> bool {
        self.places.iter().any(|replica| {
            matches!(
                replica,
                Replica::Missed {
                    hint: Hint::Underway,
                    ..
                }
            )
        })
    }

    fn count(&self, is: impl Fn(&Replica) -> bool) -> u8 {
        // There are at most as many places as `from`, a u8, says.
        self.places.iter().filter(|replica| is(replica)).count() as u8
    }
}
