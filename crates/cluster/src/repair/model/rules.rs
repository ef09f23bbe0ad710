//! The machines as the model runs them: as they are, or with one rule broken.

use super::state::{AGAIN, CLOSED, State, at, is_dead, timestamp};
use crate::layout::Epoch;
use crate::repair::is_absent;
use crate::repair::{
    Admission, Arriving, SESSION_IDLE_MAX, SessionRequest, StoreAction, StoreEvent, Token, Way,
};
use base::Timestamp;
use std::time::Duration;

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    // What the cluster did wrong before it had sessions of this kind.
    TombstonesDroppedByAge,
    HintsPass,
    WritesPass,
    RaisedWithoutAStore,
    RaisedWithoutAPair,
    ClosedWhileScanning,
    FinishedBeforeSync,
    SessionsMixed,
    ClocksTrusted,
    LearnerCounts,
    RaisedThresholdIgnoredByReadRepairs,
    ReadRepairNamesAnyThreshold,
    NoReadRepairBelowClosed,
    DeadNotIgnored,
    ThresholdBelievedByAStoreThatIsBehind,
    LostStoreGoesOn,
    AcksOutliveTheirStore,
    MovedIsNotComparedAgain,
    NonOwnedDroppedAboveThreshold,
    NonOwnedBoundOfAnotherListBelieved,
    NonOwnedShownBySessionOfAnotherList,
    // What it may do wrong now.
    TicketOfEarlierAttemptTaken,
    TicketOfEarlierSessionTaken,
    SessionNotForgottenDurably,
    ResumedAfterAnotherSession,
    DeadReadRepairVoidsNothing,
    ReadRepairBehindScanVoidsNothing,
    VoidNotDurable,
    ReadRepairTakenWhileUndecided,
    AnswerNotDurable,
    UndecidedForgottenBySomeMembers,
    OutcomeOfEarlierSessionTaken,
    SetAsideIsKept,
    SetAsideReturns,
    DamageNotSetAside,
    DamageSetAsideBelowThresholdOnly,
    CheckpointBeforeSync,
    ResumedAfterVoid,
    VoidedStoreAnswers,
    QuestionOfEarlierAttemptForgotten,
}

/// The rules of the cluster, but for one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) bug: Option<Bug>,
}

impl Rules {
    pub(super) fn has(self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Something happens to a store. Gives what it answers, if it was asked.
    pub(super) fn happens(
        self,
        state: &mut State,
        number: usize,
        event: StoreEvent,
    ) -> Option<crate::repair::SessionAnswer> {
        let store = &mut state.stores[number];
        let (event, now) = self.altered(store.machine.record().token, event);
        if let StoreEvent::Asked {
            token,
            request: SessionRequest::Begin { epoch },
            ..
        } = event
            && token.is_resumed()
        {
            let record = &mut store.machine.record;
            let is_same = token.session == record.token.session;
            if !is_same && self.has(Bug::ResumedAfterAnotherSession) {
                let token = Token {
                    attempt: 0,
                    ..token
                };
                (record.token, record.epoch, record.may_raise) = (token, epoch, true);
            }
            record.may_raise |= is_same && self.has(Bug::ResumedAfterVoid);
        }
        if matches!(event, StoreEvent::Asked { request: SessionRequest::Outcome { .. }, token, .. }
            if token == store.machine.record().token)
            && self.has(Bug::QuestionOfEarlierAttemptForgotten)
        {
            store.machine.record.answered_to = store.machine.record.token;
        }
        if let StoreEvent::Asked {
            request: SessionRequest::Finish { .. },
            ..
        } = event
        {
            store.machine.record.may_raise |= self.has(Bug::VoidedStoreAnswers);
        }
        let (machine, actions) = store.machine.step(event, now);
        store.machine = machine;
        // Any session may be preempted at any time.
        store.machine.asked = None;
        let mut answer = None;
        for action in actions {
            match action {
                StoreAction::SetAside {
                    below,
                    is_of_damage,
                } => self.set_aside(state, number, below, is_of_damage),
                StoreAction::Sync => {
                    let is_early = match event {
                        StoreEvent::Asked { request, .. } => match request {
                            SessionRequest::Sync => self.has(Bug::CheckpointBeforeSync),
                            _ => self.has(Bug::FinishedBeforeSync),
                        },
                        _ => false,
                    };
                    if !is_early {
                        let store = &mut state.stores[number];
                        store.durable = store.held;
                    }
                }
                StoreAction::Persist(record) => {
                    let is_forgotten = match event {
                        StoreEvent::Voided => self.has(Bug::VoidNotDurable),
                        StoreEvent::Asked {
                            request: SessionRequest::Finish { .. },
                            ..
                        } => self.has(Bug::AnswerNotDurable),
                        _ => false,
                    };
                    let disk = &mut state.stores[number].disk;
                    let is_second = disk.token.session == 1 && record.token.session == 2;
                    if is_second && self.has(Bug::SessionNotForgottenDurably) {
                        let before = *disk;
                        *disk = record;
                        (disk.token, disk.epoch) = (before.token, before.epoch);
                        disk.may_raise = before.may_raise;
                    } else if !is_forgotten {
                        *disk = record;
                    }
                }
                StoreAction::Answer(given) => answer = Some(given),
            }
        }
        answer
    }

    /// The event as a broken store takes it.
    fn altered(self, own: Token, event: StoreEvent) -> (StoreEvent, Duration) {
        let StoreEvent::Asked {
            token,
            mut request,
            latest,
        } = event
        else {
            return (event, Duration::ZERO);
        };
        let mut token = token;
        match &mut request {
            SessionRequest::Begin { epoch }
                if self.has(Bug::NonOwnedShownBySessionOfAnotherList) =>
            {
                *epoch = Epoch::default();
            }
            SessionRequest::Close { are_all, .. } => {
                *are_all |= self.has(Bug::UndecidedForgottenBySomeMembers);
            }
            SessionRequest::Outcome { .. } if self.has(Bug::OutcomeOfEarlierSessionTaken) => {
                token = own;
            }
            _ => {}
        }
        let event = StoreEvent::Asked {
            token,
            request,
            latest,
        };
        (event, SESSION_IDLE_MAX)
    }

    fn set_aside(self, state: &mut State, number: usize, below: Timestamp, is_of_damage: bool) {
        let store = &mut state.stores[number];
        store.is_learner = true;
        let below = if self.has(Bug::DamageSetAsideBelowThresholdOnly) && is_of_damage {
            store.gc_threshold()
        } else {
            below
        };
        let is_kept = if is_of_damage {
            self.has(Bug::DamageNotSetAside)
        } else {
            self.has(Bug::SetAsideIsKept)
        };
        if self.has(Bug::ThresholdBelievedByAStoreThatIsBehind) && !is_of_damage {
            store.is_learner = false;
            return;
        }
        if timestamp(store.held) < below && !is_kept {
            store.aside = if self.has(Bug::SetAsideReturns) {
                store.held
            } else {
                0
            };
            (store.held, store.durable) = (0, 0);
            store.has_value_below = false;
        }
        if !is_of_damage {
            // What it has acknowledged may be gone.
            store.acked = 0;
        }
    }

    /// Whether a store takes a version.
    pub(super) fn admits(self, state: &State, to: usize, version: u8, way: Way) -> Admission {
        let store = &state.stores[to];
        let way = match way {
            Way::Repair(token) => {
                let own = store.machine.record().token;
                let is_same = token.session == own.session;
                let passes = is_same && self.has(Bug::TicketOfEarlierAttemptTaken)
                    || !is_same && self.has(Bug::TicketOfEarlierSessionTaken);
                Way::Repair(if passes { own } else { token })
            }
            Way::ReadRepair {
                gc_threshold,
                is_scanned,
            } => {
                let is_closed = timestamp(version) < store.closed();
                if is_closed && self.has(Bug::NoReadRepairBelowClosed) {
                    return Admission::Obsolete {
                        below: store.closed(),
                    };
                }
                if timestamp(version) < store.gc_threshold()
                    && self.has(Bug::RaisedThresholdIgnoredByReadRepairs)
                {
                    return Admission::Taken;
                }
                let gc_threshold = if self.has(Bug::ReadRepairNamesAnyThreshold) {
                    at(AGAIN)
                } else {
                    gc_threshold
                };
                Way::ReadRepair {
                    gc_threshold,
                    is_scanned,
                }
            }
            Way::Ordinary => Way::Ordinary,
        };
        let version = Arriving {
            timestamp: timestamp(version),
            is_dead: is_dead(version),
            is_lacking: store.is_learner,
        };
        match (store.machine.admits(version, way), way) {
            (Admission::NotNow, Way::ReadRepair { .. })
                if self.has(Bug::ReadRepairTakenWhileUndecided) =>
            {
                Admission::Taken
            }
            (Admission::NotNow | Admission::OnceVoided, Way::ReadRepair { .. })
                if version.is_dead && self.has(Bug::DeadReadRepairVoidsNothing) =>
            {
                Admission::Taken
            }
            (Admission::OnceVoided, _) if self.has(Bug::ReadRepairBehindScanVoidsNothing) => {
                Admission::Taken
            }
            (admission, _) => admission,
        }
    }

    /// Whether the reads and acks of a store count.
    pub(super) fn counts(self, state: &State, store: usize) -> bool {
        !state.stores[store].is_learner || self.has(Bug::LearnerCounts)
    }

    /// A version as those see it who compare, where `greatest` is named.
    pub(super) fn visible(self, version: u8, greatest: Timestamp) -> u8 {
        let is_absent = is_absent(timestamp(version), is_dead(version), greatest);
        if is_absent && !self.has(Bug::DeadNotIgnored) {
            0
        } else {
            version
        }
    }

    pub(super) fn may_drop(self, state: &State, store: usize) -> bool {
        let held = state.stores[store].held;
        is_dead(held)
            && (timestamp(held) < state.stores[store].gc_threshold()
                || self.has(Bug::TombstonesDroppedByAge) && timestamp(held) < at(CLOSED))
    }

    /// Whether a store drops a value of which it is no replica.
    pub(super) fn may_drop_non_owned(self, state: &State, number: usize) -> bool {
        let store = &state.stores[number];
        let shown = store.machine.record().non_owned;
        let is_of_list = shown.epoch == Epoch::new(state.list.into())
            || self.has(Bug::NonOwnedBoundOfAnotherListBelieved)
            || self.has(Bug::NonOwnedShownBySessionOfAnotherList);
        let below = if self.has(Bug::NonOwnedDroppedAboveThreshold) {
            at(CLOSED)
        } else if is_of_list {
            shown.below
        } else {
            Timestamp::ZERO
        };
        !is_dead(store.held) && store.is_beyond(store.held) && timestamp(store.held) < below
    }
}
