//! What can happen next: every step that is possible in a state.

use super::rules::{Bug, Rules, pairs};
use super::scenario::Scenario;
use super::state::{
    FUTURE, LATER, NONE, Repair, State, Step, TOMBSTONE, VALUE, Violation, is_dead, others,
    timestamp,
};

/// A state that follows, or what went wrong on the way to it.
pub(super) type Next = (Step, Result<State, Violation>);

/// The steps of one state.
pub(super) struct Steps<'a> {
    pub(super) rules: Rules,
    pub(super) scenario: &'a Scenario,
    pub(super) next: Vec<Next>,
}

impl Steps<'_> {
    /// All steps from `state`.
    pub(super) fn from(&mut self, state: &State) {
        self.next.clear();
        self.clients(state);
        self.late_mends(state);
        for pair in pairs() {
            let [one, other] = pair;
            if !self.scenario.has_few_copies() {
                self.read(state, pair);
            }
            self.tell(state, one, other);
            self.tell(state, other, one);
        }
        if self.scenario.has_few_copies() {
            self.read_all(state);
            for [one, other] in pairs() {
                self.send_repair(state, one, other);
                self.send_repair(state, other, one);
            }
        }
        if state.relists > 0 {
            let mut next = *state;
            next.relists -= 1;
            self.rules.relist(&mut next);
            (0..3).for_each(|store| leave_passes(&mut next, store, self.rules));
            self.push(Step::Relist, next);
        }
        for pass in 0..self.scenario.fences.len() {
            self.pass(state, pass);
        }
        for store in 0..3 {
            self.alone(state, store);
        }
    }

    pub(super) fn push(&mut self, step: Step, state: State) {
        self.next.push((step, Ok(state)));
    }

    pub(super) fn fail(&mut self, step: Step, violation: Violation) {
        self.next.push((step, Err(violation)));
    }

    fn clients(&mut self, state: &State) {
        for version in self.scenario.writes {
            let mut next = *state;
            let write = &mut next.writes[usize::from(*version)];
            if !write.has_begun {
                write.has_begun = true;
                write.after = state.acknowledged;
                for store in &mut next.stores {
                    store.incoming |= u8::from(!store.is_beyond(*version)) << version;
                }
                self.push(Step::Write { version: *version }, next);
            }
        }
        for version in [VALUE, TOMBSTONE, LATER] {
            for to in 0..3 {
                if state.stores[to].incoming & (1 << version) != 0 {
                    self.deliver(state, version, to);
                }
            }
        }
        if let Some(repair) = state.repair {
            let mut next = *state;
            next.repair = None;
            if self.rules.admits_repair(state, repair) {
                self.deliver_repair(&mut next, repair);
            }
            self.push(Step::DeliverRepair, next);
        }
    }

    /// Stores a repair that is admitted.
    fn deliver_repair(&self, next: &mut State, repair: Repair) {
        let to = usize::from(repair.to);
        let is_compared = self.rules.is_compared(next, repair);
        if !is_compared || self.compare_with_all(next, to, repair.version) {
            self.store(next, to, repair.version, true);
        }
    }

    fn deliver(&mut self, state: &State, version: u8, to: usize) {
        let mut next = *state;
        next.stores[to].incoming &= !(1 << version);
        let step = Step::Deliver { version, to };
        if self.rules.admits_write(state, to, version, false) {
            let is_clean = timestamp(state.stores[to].held) <= timestamp(version);
            self.store(&mut next, to, version, true);
            if is_clean && self.rules.counts(state, to) {
                next.stores[to].acked |= 1 << version;
                let acks = next
                    .stores
                    .iter()
                    .filter(|store| store.acked & (1 << version) != 0);
                let is_enough = acks.count() == 2;
                let write = &mut next.writes[usize::from(version)];
                if is_enough && !write.is_acknowledged {
                    if timestamp(write.after) > timestamp(version) {
                        return self.fail(step, Violation::AcknowledgedBelowEarlierWrite);
                    }
                    write.is_acknowledged = true;
                    next.acknowledged = later(next.acknowledged, version);
                    next.seen = later(next.seen, version);
                }
            }
        } else if version == LATER && !self.rules.is_receiver(state, to) {
            return self.fail(step, Violation::RecentWriteRefused);
        }
        self.push(step, next);
        if self.rules.has(Bug::HintsPassTheFence)
            && self.rules.admits_write(state, to, version, true)
        {
            let mut next = *state;
            next.stores[to].incoming &= !(1 << version);
            self.store(&mut next, to, version, true);
            self.push(Step::DeliverAsHint { version, to }, next);
        }
    }

    /// A read of two stores, which mends the one that is behind and answers.
    fn read(&mut self, state: &State, of: [usize; 2]) {
        let step = Step::Read { of };
        let mut next = *state;
        let greatest = of.map(|store| state.stores[store].heard);
        let greatest = greatest[0].max(greatest[1]);
        for store in of {
            self.rules.hear(&mut next, store, greatest);
        }
        if !of.iter().all(|store| self.rules.counts(&next, *store)) {
            return;
        }
        let answers = of.map(|store| self.rules.visible(next.stores[store].held, greatest));
        let freshest = later(answers[0], answers[1]);
        for (answer, (to, by)) in answers.into_iter().zip([(of[0], of[1]), (of[1], of[0])]) {
            if answer == freshest {
                continue;
            }
            if state.repair.is_none() && state.repairs > 0 {
                let mut slow = *state;
                slow.repairs -= 1;
                slow.repair = Some(repair(state, freshest, by, to));
                self.push(Step::SendRepair { by, to }, slow);
            }
            if !self
                .rules
                .admits_repair(&next, repair(&next, freshest, by, to))
            {
                return self.fail(step, Violation::ReadNotAnswered);
            }
            if !self.store(&mut next, to, freshest, true) {
                return self.fail(step, Violation::ForgottenTombstoneBack);
            }
        }
        if self.scenario.has_synced_writes {
            // No reader sees what is less durable than an acknowledgement.
            for store in of {
                next.stores[store].durable = next.stores[store].held;
            }
        }
        match judge(state, freshest) {
            Err(violation) => self.fail(step, violation),
            Ok(seen) => {
                next.seen = seen;
                if next != *state {
                    self.push(step, next);
                }
            }
        }
    }

    /// A read of two stores sends one of them a live version, which the other has.
    fn send_repair(&mut self, state: &State, by: usize, to: usize) {
        let version = state.stores[by].held;
        let is_stale = timestamp(state.stores[to].held) < timestamp(version);
        let counts = self.rules.counts(state, by) && self.rules.counts(state, to);
        if state.repairs > 0 && is_stale && !is_dead(version) && counts {
            let mut next = *state;
            next.repairs -= 1;
            next.repair = Some(repair(state, version, by, to));
            self.push(Step::SendRepair { by, to }, next);
        }
    }

    /// A read of all stores, which repairs none.
    fn read_all(&mut self, state: &State) {
        let greatest = state.stores.iter().map(|store| store.heard).max();
        let held = state.stores.map(|store| store.held);
        let visible = held.map(|held| self.rules.visible(held, greatest.unwrap_or(0)));
        let freshest = visible.into_iter().fold(NONE, later);
        if let Err(violation) = judge(state, freshest) {
            self.fail(Step::ReadAll, violation);
        }
    }

    fn tell(&mut self, state: &State, by: usize, to: usize) {
        let greatest = state.stores[by].forgotten;
        if greatest > state.stores[to].heard {
            let mut next = *state;
            self.rules.hear(&mut next, to, greatest);
            self.push(Step::Tell { by, to }, next);
        }
    }

    fn alone(&mut self, state: &State, number: usize) {
        let store = state.stores[number];
        if self.rules.may_drop(state, number) {
            let mut next = *state;
            (next.stores[number].held, next.stores[number].durable) = (NONE, NONE);
            self.push(Step::Drop { store: number }, next);
        }
        if self.rules.may_drop_surplus(state, number) {
            let mut next = *state;
            (next.stores[number].held, next.stores[number].durable) = (NONE, NONE);
            self.push(Step::DropSurplus { store: number }, next);
        }
        // A loss that nobody notices, or that is too great, must not take what an
        // acknowledged write needs: the others have, or have forgotten, all that
        // clients know of.
        let has_all = |other: &usize| {
            let other = &state.stores[*other];
            timestamp(other.held) >= timestamp(state.seen)
                || is_dead(state.seen) && u64::from(other.forgotten) > timestamp(state.seen)
        };
        let have_all = others(number).iter().all(has_all);
        let has_one_all = others(number).iter().any(|other| {
            let is_filled = !state.stores[*other].is_learner;
            is_filled && has_all(other) && state.stores[*other].forgotten > 0
        });
        let is_raised = state.stores.iter().any(|store| store.forgotten > 0);
        if state.crashes > 0 && have_all && (is_raised || self.scenario.crashes == 1) {
            let mut next = *state;
            next.crashes -= 1;
            let cut = &mut next.stores[number];
            cut.held = store.durable;
            // Another boot of the machine, after which a store that does not sync its
            // writes may lack some.
            if !self.scenario.has_synced_writes {
                (cut.is_learner, cut.knows_of_loss) = (true, true);
                cut.incarnation += 1;
            }
            leave_passes(&mut next, number, self.rules);
            self.push(Step::PowerCut { store: number }, next);
        }
        if state.losses > 0 {
            let mut next = *state;
            next.losses -= 1;
            let lost = &mut next.stores[number];
            (lost.held, lost.durable) = (NONE, NONE);
            (lost.fence, lost.forgotten, lost.heard) = (0, 0, 0);
            lost.surplus_below = 0;
            lost.fence = fence_of_others(state, number, self.rules);
            (lost.is_learner, lost.knows_of_loss) = (true, true);
            lost.incarnation += 1;
            leave_passes(&mut next, number, self.rules);
            self.push(Step::LoseFolder { store: number }, next);
        }
        if state.rollbacks > 0 && (have_all || has_one_all && store.fence > 0) {
            let mut next = *state;
            next.rollbacks -= 1;
            let restored = &mut next.stores[number];
            (restored.held, restored.durable) = (VALUE, VALUE);
            (restored.fence, restored.forgotten, restored.heard) = (0, 0, 0);
            restored.surplus_below = 0;
            // Its peers remember that it was fenced, and so they notice. Before it
            // has ever been fenced there is nothing that the copy has missed.
            if store.fence > 0 && !self.rules.has(Bug::LowerBoundBelieved) {
                (restored.is_learner, restored.knows_of_loss) = (true, true);
                restored.incarnation += 1;
                restored.fence = fence_of_others(state, number, self.rules);
            }
            leave_passes(&mut next, number, self.rules);
            self.push(Step::RollBack { store: number }, next);
        }
    }

    /// Stores a version, if it is newer. Returns whether that is no tombstone that
    /// the store has forgotten.
    pub(super) fn store(
        &self,
        state: &mut State,
        to: usize,
        version: u8,
        is_durable: bool,
    ) -> bool {
        let store = &mut state.stores[to];
        let is_above_forgotten =
            timestamp(version) >= u64::from(store.forgotten) || store.held == version;
        if timestamp(version) > timestamp(store.held) {
            store.held = version;
        }
        if is_durable && self.scenario.has_synced_writes {
            store.durable = store.held;
        }
        store.held != version || !is_dead(version) || is_above_forgotten
    }
}

/// A process that ends forgets the passes that it takes part in, and what was made
/// equal in them but not durable. What it has acknowledged to a write that still
/// needs acks does not count for that write any more.
fn leave_passes(state: &mut State, store: usize, rules: Rules) {
    state.stores[store].takes_part = 0;
    state.stores[store].since_begin = 0;
    if rules.has(Bug::SealForgottenByRestart) {
        state.stores[store].sealed = 0;
    }
    if !rules.has(Bug::AcksOutliveTheirStore) {
        state.stores[store].acked = 0;
    }
    for other in others(store) {
        let store = &mut state.stores[other];
        if !rules.has(Bug::ReplacedStoreRejoins) {
            store.others_equal &= store.others_clean;
        }
    }
}

/// The fence that a store takes over from the others when it comes back and lacks
/// something, before it takes any write.
fn fence_of_others(state: &State, store: usize, rules: Rules) -> u8 {
    let [one, other] = others(store).map(|other| state.stores[other].fence);
    if rules.has(Bug::ReturnsUnfenced) {
        0
    } else {
        one.max(other)
    }
}

fn repair(state: &State, version: u8, by: usize, to: usize) -> Repair {
    Repair {
        version,
        by: by as u8,
        incarnation: state.stores[by].incarnation,
        forgotten: state.stores[by].forgotten,
        to: to as u8,
    }
}

pub(super) fn later(one: u8, other: u8) -> u8 {
    if timestamp(one) >= timestamp(other) {
        one
    } else {
        other
    }
}

/// Whether clients may be shown a version, or that there is none. Gives the greatest
/// version that clients know of then.
fn judge(state: &State, shown: u8) -> Result<u8, Violation> {
    let seen = state.seen;
    if shown == NONE {
        // A delete that nobody has acknowledged may have been forgotten.
        let may_be_deleted = state.writes[usize::from(TOMBSTONE)].has_begun;
        return if is_dead(seen) {
            Ok(seen)
        } else if may_be_deleted && timestamp(seen) < timestamp(TOMBSTONE) {
            Ok(TOMBSTONE)
        } else {
            Err(Violation::AcknowledgedWriteLost)
        };
    }
    match (timestamp(shown) < timestamp(seen), is_dead(seen)) {
        (true, true) => Err(Violation::DeletedValueRead),
        (true, false) => Err(Violation::AcknowledgedWriteLost),
        (false, _) => Ok(shown),
    }
}

const _: () = assert!(FUTURE > 4, "a fence of years ahead is above all versions");
