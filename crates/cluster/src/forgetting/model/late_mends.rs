//! Mends of other passes that are long on their way, and what a pass asks at its end because of
//! them.

use super::rules::Bug;
use super::state::{LateMend, State, Step, is_dead, others, timestamp};
use super::steps::{Steps, later};

impl Steps<'_> {
    /// A mend is sent, or arrives; or a store answers the last question of a pass.
    pub(super) fn late_mends(&mut self, state: &State) {
        if self.scenario.mends == 0 {
            return;
        }
        for by in 0..3 {
            for to in others(by) {
                self.send_mend(state, by, to);
            }
        }
        if let Some(mend) = state.mend {
            let mut next = *state;
            next.mend = None;
            self.deliver_mend(&mut next, mend);
            self.push(Step::DeliverMend, next);
        }
        for pass in 0..self.scenario.fences.len() {
            for store in 0..3 {
                self.answer(state, pass, store);
            }
        }
    }

    /// Another pass reads a live version that a store holds, to send it to a store that lacks it.
    fn send_mend(&mut self, state: &State, by: usize, to: usize) {
        let version = state.stores[by].held;
        let is_stale = timestamp(state.stores[to].held) < timestamp(version);
        if state.mends > 0 && state.mend.is_none() && is_stale && !is_dead(version) {
            let mut next = *state;
            next.mends -= 1;
            next.mend = Some(LateMend {
                version,
                to: to as u8,
            });
            self.push(Step::SendMend { by, to }, next);
        }
    }

    /// Stores a mend that is admitted. One from between F and the fence is noted if the passes that
    /// have fenced the store are still to ask about that, and compared with all if not.
    fn deliver_mend(&self, next: &mut State, mend: LateMend) {
        let (to, before) = (usize::from(mend.to), *next);
        if !self.rules.admits_late_mend(&before, to, mend.version) {
            return;
        }
        if self.rules.is_old(&before, to, mend.version) {
            let fences = self.scenario.fences;
            if self
                .rules
                .is_compared_as_sealed(&before, fences, to, mend.version)
            {
                if !self.compare_with_all(next, to, mend.version) {
                    return;
                }
            } else {
                let fenced = (0..fences.len()).filter(|pass| before.stores[to].fenced[*pass] != 0);
                next.stores[to].disturbed |= fenced.fold(0, |bits, pass| bits | 1 << pass);
            }
        }
        self.store(next, to, mend.version, true);
    }

    /// Compares a version that may be late with what the other stores hold, and stores what is
    /// newer. Returns whether it may still be stored itself.
    pub(super) fn compare_with_all(&self, next: &mut State, to: usize, version: u8) -> bool {
        let before = *next;
        let greatest = before.stores[to].heard;
        for other in others(to).map(|other| before.stores[other]) {
            if timestamp(version) < other.forgotten.into() && other.forgotten > greatest {
                return false;
            }
            self.store(next, to, later(next.stores[to].held, other.held), true);
        }
        true
    }

    /// All pairs are clean, and a store says for the last time that it is as it was when it was
    /// fenced, and that nothing old has come in behind the scan.
    fn answer(&mut self, state: &State, pass: usize, number: usize) {
        let bit = 1 << pass;
        let store = &state.stores[number];
        let is_as_fenced = store.fenced[pass] == 1 + store.incarnation;
        let is_undisturbed =
            store.disturbed & bit == 0 || self.rules.has(Bug::DisturbedStoreAnswers);
        let is_asked = state.begun & bit != 0
            && store.takes_part & bit != 0
            && store.answered & bit == 0
            && self
                .rules
                .forgets(state, self.scenario.fences, pass)
                .is_some();
        if is_asked && is_as_fenced && is_undisturbed {
            let mut next = *state;
            next.stores[number].answered |= bit;
            next.stores[number].sealed |= bit;
            let store = number;
            self.push(Step::Answer { pass, store }, next);
        }
    }
}
