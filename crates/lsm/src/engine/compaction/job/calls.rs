//! What callers have compaction do: to make way for writers, to compact everything, to stop.

use super::{CompactionStep, Compactor, CompactorState, Slot};
use crate::engine::compaction::pick::Reason;
use crate::engine::compaction::reclaim::Reclaim;
use crate::engine::compaction::whole::WholeCompaction;
use crate::engine::core::Core;
use crate::error::Error;
use crate::locks::lock;
use std::sync::MutexGuard;
use std::time::Duration;

impl Compactor {
    /// Compacts on this thread until a compaction is complete, tables have moved down, or
    /// compaction is stuck. Those of level 0, for which writers wait, come first.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub(crate) fn compact_once(&self, core: &Core) -> Result<(), Error> {
        let mut result = Ok(());
        // Another thread may find it stuck.
        while !self.is_stuck() {
            match self.advance(core) {
                Some(Ok(CompactionStep::Begun | CompactionStep::Merged(_))) => {}
                None
                | Some(Ok(
                    CompactionStep::Idle
                    | CompactionStep::Busy
                    | CompactionStep::Moved
                    | CompactionStep::Finished,
                )) => break,
                Some(Err(error @ Error::Poisoned { .. })) => {
                    result = Err(error);
                    break;
                }
                // It is stuck now, and a job tries again.
                Some(Err(_)) => {}
            }
        }
        // There may be more to do, which jobs do.
        self.schedule(Duration::ZERO, core);
        core.end_stall();
        result
    }

    /// Takes a step of the compaction of level 0; if there is none, begins one, or takes a step of
    /// another.
    fn advance(&self, core: &Core) -> Option<Result<CompactionStep, Error>> {
        let of_level_zero = |reason: &Option<Reason>| *reason == Some(Reason::LevelZero);
        let position = lock(&self.state).running.iter().position(of_level_zero);
        if let Some(number) = position
            && let Some(step) = self.step_in(number, core)
        {
            return Some(step);
        }
        let step = self.begin(core)?;
        self.note_step(&step, self.retry.attempt(), core);
        if !matches!(step, Ok(CompactionStep::Busy)) {
            return Some(step);
        }
        let position = lock(&self.state).running.iter().position(Option::is_some);
        match position {
            // `None` if another thread has just ended it.
            Some(number) => {
                let step = self.step_in(number, core);
                Some(step.unwrap_or(Ok(CompactionStep::Merged(0))))
            }
            None => Some(step),
        }
    }

    /// Takes a step of the compaction in a slot, and notes how it has ended; `None` if there is
    /// none.
    fn step_in(&self, number: usize, core: &Core) -> Option<Result<CompactionStep, Error>> {
        let mut slot = lock(&self.slots[number]);
        let step = self.step(number, &mut slot, core)?;
        self.note_step(&step, slot.attempt, core);
        Some(step)
    }

    /// Orders a whole compaction, or joins the one under way. Returns its number.
    pub(crate) fn order_whole(&self, core: &Core) -> u64 {
        let number = self.orders.order();
        self.schedule(Duration::ZERO, core);
        number
    }

    /// Notes that a flush has failed. A whole compaction that waits for it ends: on a full disk
    /// an operator would wait for ever.
    pub(crate) fn note_flush_failure(&self, error: &Error) {
        let state = lock(&self.state);
        if state.running() == 0 && state.whole.awaits_flush() {
            self.orders.end(Some(error.clone()));
        }
    }

    /// Where whole compactions stand.
    pub(crate) fn whole(&self, core: &Core) -> WholeCompaction {
        if let Err(poisoned) = core.health.check_poison() {
            self.orders.end(Some(poisoned));
        }
        self.orders.get()
    }

    /// Does the work of a whole compaction on this thread, and that of others under way, because
    /// its pieces run alone. Returns whether it is over; otherwise it waits for a flush.
    ///
    /// # Errors
    /// Those of merging, and [`Error::Closed`].
    pub(crate) fn drive_whole(&self, number: u64, core: &Core) -> Result<bool, Error> {
        loop {
            if core.health.is_closing() {
                return Err(Error::Closed);
            }
            if let Some(outcome) = self.orders.outcome(number) {
                self.schedule(Duration::ZERO, core);
                core.end_stall();
                return outcome.map(|()| true);
            }
            let position = lock(&self.state).running.iter().position(Option::is_some);
            let step = match position {
                Some(number) => self.step(number, &mut lock(&self.slots[number]), core),
                None => self.begin(core),
            };
            match step {
                Some(Ok(CompactionStep::Idle)) if self.orders.is_under_way() => return Ok(false),
                Some(Err(error)) => {
                    self.orders.end(Some(error.clone()));
                    return Err(error);
                }
                Some(Ok(CompactionStep::Finished)) => core.end_stall(),
                _ => {}
            }
        }
    }

    /// Gives up the compactions that are under way, and lets none begin before `change` is made.
    pub(crate) fn pause<T>(&self, core: &Core, change: impl FnOnce() -> T) -> T {
        let (mut slots, mut state) = self.lock_all();
        abandon_all(&mut slots, &mut state, core);
        change()
    }

    /// Abandons the compactions that are under way, and removes their files.
    pub(crate) fn abandon(&self, core: &Core) {
        let (mut slots, mut state) = self.lock_all();
        self.orders.end(Some(Error::Closed));
        state.reclaim = Reclaim::default();
        abandon_all(&mut slots, &mut state, core);
    }

    fn lock_all(&self) -> (Vec<MutexGuard<'_, Slot>>, MutexGuard<'_, CompactorState>) {
        let slots = self.slots.iter().map(lock).collect();
        (slots, lock(&self.state))
    }
}

fn abandon_all(slots: &mut [MutexGuard<'_, Slot>], state: &mut CompactorState, core: &Core) {
    for (slot, running) in slots.iter_mut().zip(&mut state.running) {
        *running = None;
        if let Some(compaction) = std::mem::take(&mut **slot).current {
            compaction.abandon(core);
        }
    }
}
