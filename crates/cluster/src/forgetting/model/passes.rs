//! What can happen next in a pass: fences, comparisons, and what the stores hear of its end.

use super::rules::{Bug, pairs};
use super::state::{NONE, State, Step, Store, Violation, others, timestamp};
use super::steps::{Steps, later};

impl Steps<'_> {
    /// What can happen next in a pass.
    pub(super) fn pass(&mut self, state: &State, pass: usize) {
        let bit = 1 << pass;
        let fence = self.scenario.fences[pass];
        // A pass without a fence fills stores, and only that.
        let is_raised = state.stores.iter().any(|store| store.forgotten > 0);
        let is_one_learner = state.stores.iter().any(|store| store.is_learner);
        if fence == 0 && !(is_raised && is_one_learner) {
            return;
        }
        let has_begun = state.begun & bit != 0;
        for store in 0..3 {
            let may_fence = fence > 0 && !has_begun || self.rules.has(Bug::FencedWhileComparing);
            if may_fence
                && state.stores[store].fenced[pass] == 0
                && self.rules.may_fence(state, store, fence)
            {
                let mut next = *state;
                next.stores[store].fence = next.stores[store].fence.max(fence as u8);
                next.stores[store].fenced[pass] = 1 + state.stores[store].incarnation;
                next.stores[store].takes_part |= bit;
                self.push(Step::Fence { pass, store }, next);
            }
            let has_left = has_begun && state.stores[store].takes_part & bit == 0;
            if has_left
                && self
                    .rules
                    .may_rejoin(state, self.scenario.fences, pass, store)
            {
                let mut next = *state;
                next.stores[store].takes_part |= bit;
                next.stores[store].fence = next.stores[store].fence.max(fence as u8);
                self.push(Step::Rejoin { pass, store }, next);
            }
            self.raise(state, pass, store);
            self.fill(state, pass, store);
        }
        if !has_begun {
            let mut next = *state;
            next.begun |= bit;
            let is_lost = state.stores.iter().any(|store| store.incarnation > 0);
            for store in &mut next.stores {
                // A store takes part from its fence on, until its process ends.
                if store.fenced[pass] == 0 {
                    store.takes_part |= bit;
                }
                store.knows_of_loss |= is_lost;
                store.since_begin |= store.takes_part & bit;
            }
            self.push(Step::Begin { pass }, next);
        }
        let takes_part = |store: &usize| state.stores[*store].takes_part & bit != 0;
        for pair in pairs() {
            if has_begun && pair.iter().all(takes_part) {
                self.compare(state, pass, pair);
            }
        }
    }

    /// Makes two stores equal, then durable.
    fn compare(&mut self, state: &State, pass: usize, pair: [usize; 2]) {
        let bit = 1 << pass;
        let third = 3 - pair[0] - pair[1];
        if state.stores[third].others_clean & bit != 0 {
            return;
        }
        if state.stores[third].others_equal & bit != 0 {
            let mut next = *state;
            self.make_durable(&mut next, pass, pair);
            return self.push(Step::Sync { pass, pair }, next);
        }
        let step = Step::Compare { pass, pair };
        let mut next = *state;
        let greatest = pair.map(|store| state.stores[store].heard);
        let greatest = greatest[0].max(greatest[1]);
        for store in pair {
            self.rules.hear(&mut next, store, greatest);
        }
        let sent = pair.map(|store| self.rules.sends(&next, store, greatest));
        let newest = later(sent[0], sent[1]);
        let (mut is_equal, mut is_moved) = (true, false);
        for (by, to) in [(pair[0], pair[1]), (pair[1], pair[0])] {
            let held = self.rules.visible(next.stores[to].held, greatest);
            // A replica is sent what it lacks, and a store that holds something older is told by
            // the replicas of that.
            let is_told = held != NONE && !next.stores[by].is_beyond(held);
            let is_meant = !next.stores[to].is_beyond(newest) || is_told;
            if timestamp(held) < timestamp(newest) && is_meant {
                is_moved = true;
                match self.rules.admits_mend(&next, pass, to, newest) {
                    true if !self.store(&mut next, to, newest, false) => {
                        return self.fail(step, Violation::ForgottenTombstoneBack);
                    }
                    is_admitted => is_equal &= is_admitted,
                }
            }
        }
        // What is moved below the fence was not compared with those that were found equal.
        is_moved &= timestamp(newest) < self.scenario.fences[pass];
        is_moved &= !self.rules.has(Bug::MovedIsNotComparedAgain);
        if is_moved && self.scenario.has_few_copies() {
            for store in &mut next.stores {
                store.others_equal &= !bit;
                store.others_clean &= !bit;
            }
        } else if is_equal {
            next.stores[third].others_equal |= bit;
            // Without power cuts it does not matter when what came is made durable.
            if self.scenario.crashes == 0 {
                self.make_durable(&mut next, pass, pair);
            } else if self.rules.has(Bug::CleanBeforeSync) {
                next.stores[third].others_clean |= bit;
            }
        }
        if next != *state {
            self.push(step, next);
        }
    }

    fn make_durable(&self, state: &mut State, pass: usize, pair: [usize; 2]) {
        for store in pair {
            state.stores[store].durable = state.stores[store].held;
        }
        if self.rules.voids(state, self.scenario.fences, pass, pair) {
            state.void |= 1 << pass;
        }
        state.stores[3 - pair[0] - pair[1]].others_clean |= 1 << pass;
    }

    /// A member that took part in a pass hears that it has ended well.
    fn raise(&mut self, state: &State, pass: usize, store: usize) {
        // Asking the rules costs more than all the rest.
        let clean = state.stores.iter().filter(|store| store.others_clean != 0);
        if state.stores[store].heard >= self.scenario.fences[pass] as u8 || clean.count() < 2 {
            return;
        }
        let Some(forgotten) = self.rules.forgets(state, self.scenario.fences, pass) else {
            return;
        };
        let has_answered = |store: &Store| store.answered & (1 << pass) != 0;
        if self.scenario.mends > 0 && !state.stores.iter().all(has_answered) {
            return;
        }
        if state.begun & (1 << pass) != 0 && state.stores[store].heard < forgotten {
            let mut next = *state;
            self.rules.hear(&mut next, store, forgotten);
            self.rules.shown(&mut next, store, pass);
            self.push(Step::Raise { pass, store }, next);
        }
    }

    /// A receiver that was compared with both others in a pass that began after it
    /// came back deletes its leftovers and counts again.
    fn fill(&mut self, state: &State, pass: usize, store: usize) {
        let bit = 1 << pass;
        let is_clean = |other: &usize| state.stores[*other].others_clean & bit != 0;
        let is_receiver = state.stores[store].is_learner || self.rules.is_receiver(state, store);
        if !is_receiver
            || state.stores[store].takes_part & bit == 0
            || !others(store).iter().all(is_clean)
        {
            return;
        }
        let mut next = *state;
        if self.rules.deletes(state, store) {
            (next.stores[store].held, next.stores[store].durable) = (NONE, NONE);
        }
        next.stores[store].is_learner = false;
        self.rules.filled(&mut next, store);
        self.push(Step::Fill { pass, store }, next);
    }
}
