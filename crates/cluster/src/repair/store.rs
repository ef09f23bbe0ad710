//! What a store does in repair sessions, and which versions it takes below its closed timestamp.

use super::{SessionAnswer, SessionRequest, Token};
use crate::layout::Epoch;
use base::Timestamp;
use std::time::Duration;

/// A session whose coordinator has asked for nothing for this long ends if another one begins.
pub const SESSION_IDLE_MAX: Duration = Duration::from_secs(120);

/// What a store remembers of repair and tombstone GC. It is durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreRecord {
    /// Below it the store takes no ordinary writes.
    pub closed: Timestamp,
    /// What is dead below it may be dropped.
    pub gc_threshold: Timestamp,
    /// The last session that the store has begun.
    pub token: Token,
    /// The epoch of that session.
    pub epoch: Epoch,
    /// Whether that session may still raise the GC threshold, as far as this store knows.
    pub may_raise: bool,
    /// The last question that it has answered, until the outcome is known.
    pub answered: ShownBelow,
    /// The attempt that has asked it.
    pub answered_to: Token,
    /// Below it non-owned copies may be dropped.
    pub non_owned: ShownBelow,
}

/// What a session has shown of all versions below a timestamp, for the members of an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShownBelow {
    /// The timestamp; [`Timestamp::ZERO`] if nothing was shown.
    pub below: Timestamp,
    /// The epoch. In a change the session places keys by the old and by the new list, so what it
    /// shows holds for all lists of the change, and for the one that the change ends with.
    pub epoch: Epoch,
}

/// How far a store has come in a session, since its process started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Part {
    Begun,
    Scans,
    Finished,
}

/// A store's side of repair sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreState {
    pub(super) record: StoreRecord,
    part: Option<Part>,
    /// When the coordinator last asked for something, on the monotonic clock; [`None`] if it is
    /// known not to go on.
    pub(super) asked: Option<Duration>,
}

/// What happens to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreEvent {
    /// A coordinator asks for something.
    Asked {
        /// The token of its session.
        token: Token,
        /// What it asks for.
        request: SessionRequest,
        /// How far this node's own clock allows the closed timestamp to rise:
        /// [`latest_closed`](crate::repair::latest_closed).
        latest: Timestamp,
    },
    /// A member names its GC threshold, with a handshake or a heartbeat.
    Heard {
        /// The GC threshold.
        gc_threshold: Timestamp,
    },
    /// The store lacks something that it once had, as its start or its membership has found out: it
    /// is a learner.
    Lost,
    /// A damaged block was found: it may have held tombstones of what the store still has.
    Damaged,
    /// The session may raise no threshold any more: a read repair is about to come in behind the
    /// scan: see [`Admission::OnceVoided`].
    Voided,
    /// The coordinator of the session with this token was restarted, and does not go on with it:
    /// another session may begin.
    Abandoned {
        /// The token.
        token: Token,
    },
}

/// What to do about it, in this order. Then the new state is put in force, and then an answer is
/// sent. If something cannot be done, the state stays what it was, and nothing is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreAction {
    /// Make the store a learner, durably; then take what it holds below the timestamp out of it,
    /// and keep that for the operator.
    SetAside {
        /// The timestamp.
        below: Timestamp,
        /// Whether only what damaged blocks may have hidden is meant.
        is_of_damage: bool,
    },
    /// Make durable what the store has committed.
    Sync,
    /// Make the record durable.
    Persist(StoreRecord),
    /// Answer the coordinator.
    Answer(SessionAnswer),
}

/// A version, as far as its admission depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arriving {
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// Whether it is a tombstone.
    pub is_dead: bool,
    /// Whether the store may lack the version: it is a learner, a damaged block may have held the
    /// key, or a change of the members gives it the key.
    pub is_lacking: bool,
}

/// How it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As a write, as a hint, or in an incremental repair.
    Ordinary,
    /// As a repair write of the session with this token.
    Repair(Token),
    /// As a read repair.
    ReadRepair {
        /// The GC threshold that the store had that has answered with the version.
        gc_threshold: Timestamp,
        /// Whether the scan of the session has come past the key in this store.
        is_scanned: bool,
    },
}

/// Whether a store takes a version. This is checked under the commit lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is taken.
    Taken,
    /// It is taken once the store has noted that it comes in behind the scan:
    /// [`StoreEvent::Voided`].
    OnceVoided,
    /// It is refused now, and may come again in another session, or once the outcome of this one
    /// is known.
    NotNow,
    /// It is too old, and must not come again.
    Obsolete {
        /// What it is below.
        below: Timestamp,
    },
}

impl StoreState {
    /// The state of a store that is being opened.
    #[must_use]
    pub fn opened(record: StoreRecord) -> Self {
        Self {
            record,
            ..Self::default()
        }
    }

    /// What is durable.
    #[must_use]
    pub fn record(&self) -> &StoreRecord {
        &self.record
    }

    /// Below it the store takes no ordinary writes.
    #[must_use]
    pub fn refuses_below(&self) -> Timestamp {
        self.record.closed.max(self.record.gc_threshold)
    }

    /// Whether the store has begun, closed, finished or forgotten a session since this state: what
    /// was admitted then does not hold any more.
    #[must_use]
    pub fn has_other_part_than(&self, before: &Self) -> bool {
        self.part != before.part || self.record.token != before.record.token
    }

    /// Whether the store scans for a session, so that it knows what that has scanned.
    #[must_use]
    pub fn scans(&self) -> bool {
        self.part == Some(Part::Scans)
    }

    /// Whether the store scans for the session with this token, and takes its repair writes.
    #[must_use]
    pub fn scans_for(&self, token: Token) -> bool {
        token == self.record.token && self.scans()
    }

    /// Whether a version is taken.
    #[must_use]
    pub fn admits(&self, version: Arriving, way: Way) -> Admission {
        let Arriving {
            timestamp,
            is_dead,
            is_lacking,
        } = version;
        let StoreRecord {
            gc_threshold,
            may_raise,
            ..
        } = self.record;
        if timestamp >= self.refuses_below() {
            return Admission::Taken;
        }
        let is_collected = timestamp < gc_threshold;
        let obsolete = Admission::Obsolete {
            below: gc_threshold,
        };
        match way {
            Way::Ordinary => Admission::Obsolete {
                below: self.refuses_below(),
            },
            Way::Repair(token) if !self.scans_for(token) => Admission::NotNow,
            Way::Repair(_) if is_collected && (is_dead || !is_lacking) => obsolete,
            // Below the GC threshold only the word of a store that knew it counts.
            Way::ReadRepair {
                gc_threshold: named,
                ..
            } if is_collected && (is_dead || named < gc_threshold) => obsolete,
            _ if timestamp < self.undecided_below() => Admission::NotNow,
            // Unless the store scans, it does not know from where on the session does.
            Way::ReadRepair { is_scanned, .. } if may_raise && (is_scanned || !self.scans()) => {
                Admission::OnceVoided
            }
            Way::Repair(_) | Way::ReadRepair { .. } => Admission::Taken,
        }
    }

    /// What happens, and what to do about it.
    #[must_use]
    pub fn step(mut self, event: StoreEvent, now: Duration) -> (Self, Vec<StoreAction>) {
        let before = self.record;
        let mut actions = Vec::new();
        let answer = match event {
            StoreEvent::Asked {
                token,
                request,
                latest,
            } => Some(self.asked(token, request, latest, now, &mut actions)),
            StoreEvent::Heard { gc_threshold } => {
                if self.hear(gc_threshold, &mut actions) == Heard::Behind {
                    self.forget_session();
                }
                None
            }
            StoreEvent::Lost => {
                self.forget_session();
                None
            }
            StoreEvent::Voided => {
                self.record.may_raise = false;
                None
            }
            StoreEvent::Abandoned { token } => {
                if token == self.record.token {
                    self.asked = None;
                }
                None
            }
            StoreEvent::Damaged => {
                self.record.may_raise = false;
                // Others may drop the tombstones below the last question any moment.
                let below = self.record.gc_threshold.max(self.record.answered.below);
                let is_of_damage = true;
                actions.push(StoreAction::SetAside {
                    below,
                    is_of_damage,
                });
                None
            }
        };
        if self.record != before {
            actions.push(StoreAction::Persist(self.record));
        }
        actions.extend(answer.map(StoreAction::Answer));
        (self, actions)
    }

    /// Below which timestamp the store takes nothing that is alive, because it does not know
    /// whether the GC threshold has risen to it.
    fn undecided_below(&self) -> Timestamp {
        let answered = self.record.answered.below;
        if answered > self.record.gc_threshold {
            answered
        } else {
            Timestamp::ZERO
        }
    }

    fn asked(
        &mut self,
        token: Token,
        request: SessionRequest,
        latest: Timestamp,
        now: Duration,
        actions: &mut Vec<StoreAction>,
    ) -> SessionAnswer {
        let refused = SessionAnswer::Refused {
            greatest: self.record.token,
        };
        let is_own = token == self.record.token;
        match (request, self.part) {
            (SessionRequest::Begin { epoch }, _) => {
                if !self.may_begin(token, epoch, now) {
                    return refused;
                }
                self.asked = Some(now);
                return self.begin(token, epoch, latest);
            }
            // A store that was restarted meanwhile has answered the last question before.
            (SessionRequest::Outcome { gc_threshold }, _) if is_own => {
                self.end(gc_threshold, actions);
                return SessionAnswer::Done;
            }
            (_, Some(_)) if is_own => self.asked = Some(now),
            _ => return refused,
        }
        match (request, self.part) {
            (
                SessionRequest::Close {
                    gc_threshold,
                    below,
                    are_all,
                },
                Some(Part::Begun),
            ) => {
                if self.hear(gc_threshold, actions) == Heard::Behind && token.is_resumed() {
                    self.forget_session();
                    return refused;
                }
                if are_all && self.undecided_below() > Timestamp::ZERO {
                    // None of them knows it, and they have all forgotten the session that could
                    // have told them.
                    self.record.answered = ShownBelow::default();
                }
                self.record.closed = self.record.closed.max(below.min(latest));
                self.record.may_raise = if token.is_resumed() {
                    self.record.may_raise && self.record.closed >= below
                } else {
                    true
                };
                self.record.may_raise &= below > Timestamp::ZERO;
                self.part = Some(Part::Scans);
                SessionAnswer::Closed(self.record.closed)
            }
            (SessionRequest::Open { .. }, Some(Part::Scans)) => SessionAnswer::Done,
            (SessionRequest::Sync, Some(Part::Scans)) => {
                actions.push(StoreAction::Sync);
                let may_raise = self.record.may_raise;
                SessionAnswer::Synced { may_raise }
            }
            (SessionRequest::Finish { below }, Some(Part::Scans)) => {
                actions.push(StoreAction::Sync);
                self.part = Some(Part::Finished);
                self.finish(below)
            }
            _ => refused,
        }
    }

    /// Whether the store takes part in an attempt of a session: with a greater token than all
    /// that it has seen, and not while another session is running. A session goes on only where it
    /// was the last one, and in the same epoch.
    fn may_begin(&self, token: Token, epoch: Epoch, now: Duration) -> bool {
        let last = self.record.token;
        let is_same = token.session == last.session;
        let is_running = |asked| now.saturating_sub(asked) < SESSION_IDLE_MAX;
        token > last
            && if token.is_resumed() {
                is_same && epoch == self.record.epoch
            } else {
                self.part.is_none() || !self.asked.is_some_and(is_running)
            }
    }

    fn begin(&mut self, token: Token, epoch: Epoch, latest: Timestamp) -> SessionAnswer {
        self.part = Some(Part::Begun);
        let record = &mut self.record;
        (record.token, record.epoch) = (token, epoch);
        record.may_raise &= token.is_resumed();
        SessionAnswer::Begun {
            gc_threshold: record.gc_threshold,
            closed: record.closed,
            latest,
            may_raise: record.may_raise,
        }
    }

    /// What the session has shown of this store does not hold any more: it takes no attempt of it.
    fn forget_session(&mut self) {
        self.part = None;
        self.record.token.attempt = u32::MAX;
        self.record.may_raise = false;
    }

    fn finish(&mut self, below: Timestamp) -> SessionAnswer {
        let record = &mut self.record;
        let may_raise = below > Timestamp::ZERO && record.may_raise && record.closed >= below;
        if may_raise {
            let epoch = record.epoch;
            record.answered = ShownBelow { below, epoch };
            record.answered_to = record.token;
        }
        SessionAnswer::Synced { may_raise }
    }

    fn end(&mut self, gc_threshold: Timestamp, actions: &mut Vec<StoreAction>) {
        (self.part, self.record.may_raise) = (None, false);
        if gc_threshold > Timestamp::ZERO {
            self.hear(gc_threshold, actions);
        } else if self.record.answered_to == self.record.token {
            // An earlier attempt may have raised the threshold, whatever this one has come to.
            self.record.answered = ShownBelow::default();
        }
    }

    /// Takes note of a GC threshold. A store that has answered for it holds below it what all
    /// hold. Any other one may hold what was deleted, with tombstones that are gone.
    fn hear(&mut self, gc_threshold: Timestamp, actions: &mut Vec<StoreAction>) -> Heard {
        let record = &mut self.record;
        if gc_threshold <= record.gc_threshold {
            return Heard::Known;
        }
        record.gc_threshold = gc_threshold;
        if record.answered.below >= gc_threshold {
            let epoch = record.answered.epoch;
            record.non_owned = ShownBelow {
                below: gc_threshold,
                epoch,
            };
            return Heard::Known;
        }
        record.closed = record.closed.max(gc_threshold);
        record.may_raise = false;
        actions.push(StoreAction::SetAside {
            below: gc_threshold,
            is_of_damage: false,
        });
        Heard::Behind
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    Known,
    Behind,
}
