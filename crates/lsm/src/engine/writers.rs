//! Blocking writers: one leads, the others follow.

use super::outbox::{Applied, Outbox, Outcome};
use crate::error::Error;
use crate::sync::lock;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The writers that block for their writes.
#[derive(Default)]
pub(super) struct Writers {
    is_led: bool,
    /// Those that have not led yet, in the order of their writes. Some may have
    /// ended meanwhile.
    followers: VecDeque<Arc<OutcomeCell>>,
}

impl Writers {
    /// A writer whose write is in the queue: it leads if nobody does.
    pub(super) fn join(&mut self, cell: &Arc<OutcomeCell>) {
        if std::mem::replace(&mut self.is_led, true) {
            self.followers.push_back(Arc::clone(cell));
        } else {
            lock(&cell.state).leads = true;
        }
    }

    /// The leader has ended: the first whose write waits is to lead.
    pub(super) fn pass_lead(&mut self) {
        while let Some(next) = self.followers.pop_front() {
            if next.offer_lead() {
                return;
            }
        }
        self.is_led = false;
    }
}

/// What a writer is told.
pub(super) enum Turn {
    /// Its write has ended.
    Ended(Result<Applied, Error>),
    /// It is to commit groups, its own write among them.
    Leads,
}

/// The outbox of one blocking write.
///
/// A writer that leads its own group finds the outcome when it looks, and never
/// waits: such a delivery must not cost the system call of a wake.
#[derive(Default)]
pub(super) struct OutcomeCell {
    state: Mutex<CellState>,
    changed: Condvar,
}

#[derive(Default)]
struct CellState {
    /// Whether the writer is to lead, and does not know yet. That its write has
    /// ended meanwhile takes nothing from it: somebody has to lead the others.
    leads: bool,
    /// The outcome, once it has come and until it is taken.
    outcome: Option<Result<Applied, Error>>,
    /// Whether the write has ended.
    has_ended: bool,
    /// Whether the writer waits.
    is_awaited: bool,
}

impl OutcomeCell {
    /// The outcome, if it has come.
    pub(super) fn take(&self) -> Option<Result<Applied, Error>> {
        lock(&self.state).outcome.take()
    }

    /// Waits for the outcome, or to lead, which comes first.
    pub(super) fn wait(&self) -> Turn {
        let mut state = lock(&self.state);
        loop {
            if std::mem::take(&mut state.leads) {
                return Turn::Leads;
            }
            if let Some(result) = state.outcome.take() {
                return Turn::Ended(result);
            }
            state.is_awaited = true;
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.is_awaited = false;
        }
    }

    /// Waits for the outcome of a write that somebody else has taken. Not for
    /// who may be told to lead.
    pub(super) fn wait_for_end(&self) -> Result<Applied, Error> {
        loop {
            if let Turn::Ended(result) = self.wait() {
                return result;
            }
        }
    }

    /// Has the writer lead, unless its write has ended; returns whether it will.
    fn offer_lead(&self) -> bool {
        let mut state = lock(&self.state);
        if state.has_ended {
            return false;
        }
        state.leads = true;
        self.wake(state);
        true
    }

    fn wake(&self, state: MutexGuard<'_, CellState>) {
        let is_awaited = state.is_awaited;
        drop(state);
        if is_awaited {
            self.changed.notify_one();
        }
    }
}

impl Outbox for OutcomeCell {
    fn deliver(&self, outcomes: Vec<Outcome>) {
        if let Some(outcome) = outcomes.into_iter().next() {
            let mut state = lock(&self.state);
            state.outcome = Some(outcome.result);
            state.has_ended = true;
            self.wake(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deliver(cell: &OutcomeCell) {
        let result = Ok(Applied::Known(base::Verdict::Clean));
        cell.deliver(vec![Outcome { ticket: 0, result }]);
    }

    #[test]
    fn an_outcome_that_has_come_is_taken_once_and_without_waiting() {
        let cell = OutcomeCell::default();
        assert!(cell.take().is_none());
        deliver(&cell);
        assert!(cell.take().is_some());
        assert!(cell.take().is_none());
        deliver(&cell);
        assert!(cell.wait_for_end().is_ok());
    }

    #[test]
    fn a_writer_that_waits_is_woken() {
        let cell = OutcomeCell::default();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| cell.wait_for_end());
            while !lock(&cell.state).is_awaited {
                std::thread::yield_now();
            }
            deliver(&cell);
            assert!(waiter.join().unwrap().is_ok());
        });
    }

    #[test]
    fn the_lead_goes_to_the_first_whose_write_waits() {
        let mut writers = Writers::default();
        let cells: Vec<_> = (0..4).map(|_| Arc::new(OutcomeCell::default())).collect();
        let leads = |cell: &OutcomeCell| lock(&cell.state).leads;
        for cell in &cells {
            writers.join(cell);
        }
        let leaders = || cells.iter().map(|cell| leads(cell)).collect::<Vec<_>>();
        assert_eq!(leaders(), [true, false, false, false]);
        assert!(matches!(cells[0].wait(), Turn::Leads));
        // The first leader's group held the second write as well, whose writer
        // is gone by the time that the lead is passed on.
        deliver(&cells[0]);
        deliver(&cells[1]);
        assert!(matches!(cells[1].wait(), Turn::Ended(Ok(_))));
        writers.pass_lead();
        assert_eq!(leaders(), [false, false, true, false]);
        // The commit job is faster than the new leader, who leads all the same.
        deliver(&cells[2]);
        deliver(&cells[3]);
        assert!(matches!(cells[2].wait(), Turn::Leads));
        assert!(cells[2].take().is_some());
        writers.pass_lead();
        assert_eq!(leaders(), [false; 4]);
        let late = Arc::new(OutcomeCell::default());
        writers.join(&late);
        assert!(leads(&late), "nobody has led since");
    }
}
