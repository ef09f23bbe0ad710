//! Settling a key: ends what conditional writes have left behind whose coordinators have crashed,
//! or whose accepts were lost.
//!
//! ```text
//!   Balloting ---> Preparing, forced ----> all have promised: accept the current version as it is
//!      ^               |      |            where it is missing, then release
//!      |               |      |
//!      |  a greater    |      +----------> a majority has, the others are silent: accept the
//!      +---------------+                   current version anew, with the ballot as its timestamp
//!        ballot or version
//! ```
//!
//! **As it is or anew.** The version of a promise that was met may lie on a replica that is silent.
//! It stays hidden only below something newer. But a version that is written anew has two
//! timestamps. A plain write that is still under way would be seen twice then, so this happens only
//! where a replica is silent, for which the contract makes that exception; where the promise that
//! was met is of an earlier list of members, whose other replicas are as good as silent; and where
//! the version is below the closed timestamp of a replica, which no write is that is still under way.
//!
//! **Nothing is released without the current version**, neither here nor after a failure: a promise
//! that was met stays until a later attempt.

use crate::layout::Quorum;
use crate::placement::REPLICAS_INLINE;
use crate::replicas::{Miss, ReplicaIndex};
use base::Timestamp;
use smallvec::SmallVec;

/// How many ballots an attempt takes at most. Others try as well.
const BALLOTS_MAX: u8 = 4;

/// What has happened while a key is settled. `replica` says which replica of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleEvent {
    /// A replica has promised the ballot.
    Promised {
        /// Which ballot.
        ballot: Timestamp,
        /// Which replica.
        replica: ReplicaIndex,
        /// The timestamp of its newest version, which the shell keeps.
        newest: Option<Timestamp>,
        /// Which promise of a lower ballot it has given up for it.
        met: Met,
    },
    /// A replica keeps or has kept the promise of a greater ballot, or holds a newer version.
    Busy {
        /// Of which ballot.
        ballot: Timestamp,
        /// Which replica.
        replica: ReplicaIndex,
        /// The other ballot or version.
        with: Timestamp,
    },
    /// A replica has accepted the version.
    Accepted {
        /// Of which ballot.
        ballot: Timestamp,
        /// Which replica.
        replica: ReplicaIndex,
    },
    /// A replica has not done as asked, or its answer was lost.
    Missed {
        /// Of which ballot.
        ballot: Timestamp,
        /// Which replica.
        replica: ReplicaIndex,
        /// Why.
        why: Miss,
    },
    /// The clock allocates no ballot.
    NoBallot,
    /// The replicas that have not answered count as silent.
    Deadline,
}

/// Which promise of a lower ballot a replica has given up for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// It has kept none.
    Nothing,
    /// One of a request with the same list of members.
    SameList,
    /// One of a request with an earlier list, or of an unknown one. Replicas that this list does not
    /// have may have accepted its version.
    EarlierList,
}

/// What to do to settle a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleAction {
    /// Ask a replica to promise, forced; `Promised`, `Busy` or `Missed` is to follow.
    Prepare {
        /// Which ballot.
        ballot: Timestamp,
        /// Which replica.
        replica: ReplicaIndex,
    },
    /// Send the current version to a replica; `Accepted` or `Missed` is to follow.
    Accept {
        /// Of which ballot.
        ballot: Timestamp,
        /// Which replica.
        replica: ReplicaIndex,
        /// Which replica has named the current version.
        current: ReplicaIndex,
        /// With which timestamp.
        rewrite: Rewrite,
    },
    /// Tell a replica that its promise is needed no more. Nothing follows.
    Release {
        /// Which ballot.
        ballot: Timestamp,
        /// Which replica.
        replica: ReplicaIndex,
    },
    /// Allocate a ballot, and call [`Settle::prepare`].
    Ballot {
        /// What it must be above.
        above: Timestamp,
    },
    /// Nothing is left to do.
    Done {
        /// Whether the key is settled. If not, another attempt may be.
        is_settled: bool,
    },
}

/// How a version is written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewrite {
    /// With its timestamp.
    AsItIs,
    /// With the ballot as its timestamp. Of nothing this is a tombstone.
    Anew,
}

/// The actions of a step, in the order in which to do them.
pub type SettleActions = SmallVec<[SettleAction; REPLICAS_INLINE + 2]>;

/// The settling of one key.
#[derive(Clone, Debug)]
pub struct Settle {
    quorum: Quorum,
    ballot: Timestamp,
    ballots: u8,
    /// Whether a replica takes the current version with its timestamp no more.
    is_obsolete: bool,
    /// What the next ballot must be above.
    above: Timestamp,
    stage: Stage,
    /// What is known of this ballot at each replica.
    progress: SmallVec<[SettleProgress; REPLICAS_INLINE]>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Balloting,
    Preparing,
    Accepting(Rewrite),
    Done,
}

/// What is known of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SettleProgress {
    /// It was asked to promise.
    Asked,
    /// It has promised.
    Promised { newest: Option<Timestamp>, met: Met },
    /// It names something greater.
    Busy,
    /// It is silent.
    Missed,
    /// It was sent the current version.
    Sent,
    /// It holds the current version.
    Holds,
}

impl Settle {
    /// Begins. The pair must [overlap](crate::Replicas::overlap).
    #[must_use]
    pub fn start(quorum: impl Into<Quorum>, actions: &mut SettleActions) -> Self {
        let above = Timestamp::ZERO;
        actions.push(SettleAction::Ballot { above });
        Self {
            quorum: quorum.into(),
            ballot: above,
            ballots: 0,
            is_obsolete: false,
            above,
            stage: Stage::Balloting,
            progress: SmallVec::new(),
        }
    }

    /// Goes on with the ballot that [`SettleAction::Ballot`] asked for. `is_down` says which
    /// replicas are known not to answer.
    pub fn prepare(
        &mut self,
        ballot: Timestamp,
        is_down: impl Fn(ReplicaIndex) -> bool,
        actions: &mut SettleActions,
    ) {
        if self.stage != Stage::Balloting {
            return;
        }
        self.ballot = ballot;
        self.ballots += 1;
        self.stage = Stage::Preparing;
        self.progress.clear();
        for replica in self.quorum.indexes() {
            self.progress.push(if is_down(replica) {
                SettleProgress::Missed
            } else {
                actions.push(SettleAction::Prepare { ballot, replica });
                SettleProgress::Asked
            });
        }
        self.advance(actions);
    }

    /// Takes an event, and adds what follows from it to `actions`.
    pub fn step(&mut self, event: SettleEvent, actions: &mut SettleActions) {
        match event {
            SettleEvent::Promised {
                ballot,
                replica,
                newest,
                met,
            } => {
                let promised = SettleProgress::Promised { newest, met };
                let is_awaited = self.stage == Stage::Preparing
                    && self.note(ballot, replica, SettleProgress::Asked, promised);
                if !is_awaited && met == Met::Nothing {
                    actions.push(SettleAction::Release { ballot, replica });
                }
            }
            SettleEvent::Busy {
                ballot,
                replica,
                with,
            } => {
                if self.note(ballot, replica, SettleProgress::Asked, SettleProgress::Busy) {
                    self.above = self.above.max(with);
                }
            }
            SettleEvent::Accepted { ballot, replica } => {
                self.note(ballot, replica, SettleProgress::Sent, SettleProgress::Holds);
            }
            SettleEvent::Missed {
                ballot,
                replica,
                why,
            } => {
                // One that has another list of members has the same one soon, and is not silent.
                let asked = match why {
                    Miss::OtherEpoch => SettleProgress::Busy,
                    _ => SettleProgress::Missed,
                };
                self.note(ballot, replica, SettleProgress::Asked, asked);
                let was_sent = self.note(
                    ballot,
                    replica,
                    SettleProgress::Sent,
                    SettleProgress::Missed,
                );
                self.is_obsolete |= was_sent && matches!(why, Miss::Obsolete { .. });
            }
            SettleEvent::NoBallot => {
                if self.stage == Stage::Balloting {
                    self.end(false, actions);
                }
            }
            SettleEvent::Deadline => {
                if self.stage == Stage::Balloting {
                    self.end(false, actions);
                }
                for progress in &mut self.progress {
                    if matches!(progress, SettleProgress::Asked | SettleProgress::Sent) {
                        *progress = SettleProgress::Missed;
                    }
                }
            }
        }
        self.advance(actions);
    }

    /// The ballot under way.
    #[must_use]
    pub fn ballot(&self) -> Timestamp {
        self.ballot
    }

    /// Notes the answer of a replica, if one of the kind is awaited from it. Returns whether it is.
    fn note(
        &mut self,
        ballot: Timestamp,
        replica: ReplicaIndex,
        awaited: SettleProgress,
        answer: SettleProgress,
    ) -> bool {
        if let Some(progress) = self.progress.get_mut(replica.as_usize())
            && *progress == awaited
            && ballot == self.ballot
        {
            *progress = answer;
            return true;
        }
        false
    }

    /// Goes on once nothing is awaited, or no more is needed.
    fn advance(&mut self, actions: &mut SettleActions) {
        match self.stage {
            Stage::Preparing => self.gather_promises(actions),
            Stage::Accepting(rewrite) => {
                let holds = |progress| progress == SettleProgress::Holds;
                let is_written = self.is_quorum(holds);
                if self.progress.contains(&SettleProgress::Sent)
                    && !(is_written && rewrite == Rewrite::Anew)
                {
                    return;
                }
                if rewrite == Rewrite::AsItIs {
                    self.release(|progress| progress == SettleProgress::Holds, actions);
                }
                if is_written {
                    self.end(true, actions);
                } else {
                    self.begin_again(actions);
                }
            }
            Stage::Balloting | Stage::Done => {}
        }
    }

    fn is_quorum(&self, is_in: impl Fn(SettleProgress) -> bool) -> bool {
        let count = self
            .quorum
            .least(&self.progress, |progress| is_in(*progress));
        count >= self.quorum.replicas().ack
    }

    fn gather_promises(&mut self, actions: &mut SettleActions) {
        let has_promised = |progress| matches!(progress, SettleProgress::Promised { .. });
        let has_met = |is_such: fn(Met) -> bool| {
            let mut all = self.progress.iter();
            all.any(|progress| matches!(progress, SettleProgress::Promised { met, .. } if is_such(*met)))
        };
        let is_met = has_met(|met| met != Met::Nothing);
        let is_of_earlier_list = has_met(|met| met == Met::EarlierList);
        let are_enough = self.is_quorum(has_promised);
        if self.progress.contains(&SettleProgress::Asked) {
            if are_enough && !is_met {
                // There is nothing to settle.
                self.release(has_promised, actions);
                self.end(true, actions);
            }
            return;
        }
        let are_all = self.progress.iter().copied().all(has_promised);
        if !are_enough || is_met && self.progress.contains(&SettleProgress::Busy) {
            // Promises that were met are kept: what they hide is not known.
            let is_unmet = |progress| {
                matches!(
                    progress,
                    SettleProgress::Promised {
                        met: Met::Nothing,
                        ..
                    }
                )
            };
            self.release(is_unmet, actions);
            self.begin_again(actions);
        } else if !is_met {
            self.release(has_promised, actions);
            self.end(true, actions);
        } else {
            let rewrite = if are_all && !is_of_earlier_list && !self.is_obsolete {
                Rewrite::AsItIs
            } else {
                Rewrite::Anew
            };
            self.write(rewrite, actions);
        }
    }

    /// Has the current version accepted by all that have promised.
    fn write(&mut self, rewrite: Rewrite, actions: &mut SettleActions) {
        let ballot = self.ballot;
        let newest = |progress: SettleProgress| match progress {
            SettleProgress::Promised { newest, .. } => newest,
            _ => None,
        };
        let greatest = self.progress.iter().copied().filter_map(newest).max();
        let holder = self
            .quorum
            .indexes()
            .zip(&self.progress)
            .find(|(_, progress)| {
                matches!(progress, SettleProgress::Promised { newest, .. } if *newest == greatest)
            });
        let Some((current, _)) = holder else {
            return;
        };
        for (replica, progress) in self.quorum.indexes().zip(&mut self.progress) {
            let SettleProgress::Promised { newest, .. } = *progress else {
                continue;
            };
            if rewrite == Rewrite::AsItIs && newest == greatest {
                *progress = SettleProgress::Holds;
            } else {
                *progress = SettleProgress::Sent;
                actions.push(SettleAction::Accept {
                    ballot,
                    replica,
                    current,
                    rewrite,
                });
            }
        }
        self.stage = Stage::Accepting(rewrite);
        self.advance(actions);
    }

    fn release(&self, is_released: impl Fn(SettleProgress) -> bool, actions: &mut SettleActions) {
        let ballot = self.ballot;
        for (replica, progress) in self.quorum.indexes().zip(&self.progress) {
            if is_released(*progress) {
                actions.push(SettleAction::Release { ballot, replica });
            }
        }
    }

    fn begin_again(&mut self, actions: &mut SettleActions) {
        if self.ballots == BALLOTS_MAX {
            return self.end(false, actions);
        }
        self.stage = Stage::Balloting;
        let above = self.above.max(self.ballot);
        actions.push(SettleAction::Ballot { above });
    }

    fn end(&mut self, is_settled: bool, actions: &mut SettleActions) {
        self.stage = Stage::Done;
        actions.push(SettleAction::Done { is_settled });
    }
}
