//! What can happen next to clients, to requests under way, and to a store alone.

use super::rules::{Bug, Rules};
use super::scenario::Scenario;
use super::state::{
    LATER, NONE, ReadRepair, State, TOMBSTONE, VALUE, VERSIONS, Violation, at, is_dead, later,
    others, pairs, timestamp,
};
use crate::repair::{Admission, StoreEvent, StoreRecord, StoreState, Way};
use base::Timestamp;

/// A step in words, with the stores, the version or the session that it names. Stores are numbered
/// within the state that it leads from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// `A` and `B` stand for the stores, `V` for the version, `N` for the session.
    pub(super) words: &'static str,
    pub(super) stores: [usize; 2],
    pub(super) version: u8,
    pub(super) session: usize,
}

impl Step {
    pub(super) const fn new(words: &'static str) -> Self {
        Self {
            words,
            stores: [0, 0],
            version: 0,
            session: 0,
        }
    }

    pub(super) fn of(self, store: usize) -> Self {
        self.and([store, store])
    }

    pub(super) fn and(self, stores: [usize; 2]) -> Self {
        Self { stores, ..self }
    }

    pub(super) fn version(self, version: u8) -> Self {
        Self { version, ..self }
    }

    pub(super) fn session(self, session: usize) -> Self {
        Self { session, ..self }
    }

    /// The step with the stores by these names.
    pub(super) fn told(self, names: [usize; 3]) -> String {
        let name = |store: usize| char::from(b'A' + names[store] as u8);
        let version = ["nothing", "the value", "the tombstone", "the later value"];
        let word = |word: &str| match word {
            "A" => name(self.stores[0]).to_string(),
            "B" => name(self.stores[1]).to_string(),
            "V" => version[usize::from(self.version)].to_owned(),
            "N" => self.session.to_string(),
            word => word.to_owned(),
        };
        let words: Vec<String> = self.words.split(' ').map(word).collect();
        words.join(" ")
    }
}

/// A state that follows, or what went wrong on the way to it.
pub(super) type NextState = (Step, Result<State, Violation>);

/// The steps of one state.
pub(super) struct Steps<'a> {
    pub(super) rules: Rules,
    pub(super) scenario: &'a Scenario,
    pub(super) next: Vec<NextState>,
}

impl Steps<'_> {
    /// All steps from `state`.
    pub(super) fn from(&mut self, state: &State) {
        self.next.clear();
        self.clients(state);
        let is_read_by_two = !self.scenario.has_few_copies();
        for pair in pairs() {
            let [one, other] = pair;
            if is_read_by_two {
                self.read(state, pair);
            } else {
                self.send_read_repair(state, one, other);
                self.send_read_repair(state, other, one);
            }
            self.tell(state, one, other);
            self.tell(state, other, one);
        }
        if !is_read_by_two {
            self.read_all(state);
        }
        for session in 0..self.scenario.sessions.len() {
            self.session(state, session);
        }
        self.under_way(state);
        for store in 0..3 {
            self.alone(state, store);
        }
        if state.left.relists > 0 {
            let mut next = state.clone();
            next.left.relists -= 1;
            next.list += 1;
            for store in 0..3 {
                let it = &mut next.stores[store];
                std::mem::swap(&mut it.beyond, &mut it.beyond_by_next_list);
                self.restart(&mut next, store);
            }
            self.push(
                Step::new("all nodes start with another list of nodes"),
                next,
            );
        }
    }

    /// The state once the first session has compared the key.
    pub(super) fn compared(&mut self, mut state: State) -> State {
        let is_saved = |state: &State| {
            let led = state.led[0].as_ref();
            let saved = led.and_then(|led| led.saved.as_ref());
            saved.is_some_and(|(_, is_behind)| *is_behind)
        };
        let has_compared = |state: &State| {
            let led = state.led[0].as_ref();
            led.is_some_and(|led| led.is_compared) && (state.left.resumes == 0 || is_saved(state))
        };
        while !has_compared(&state) {
            self.next.clear();
            self.session(&state, 0);
            let rank = |(step, _): &&NextState| match step.words {
                "session N takes a checkpoint" => 0,
                words if words.contains("misses") => 2,
                _ => 1,
            };
            let next = self.next.iter().min_by_key(rank);
            match next {
                Some((_, Ok(next))) => state = next.clone(),
                _ => break,
            }
        }
        state
    }

    pub(super) fn push(&mut self, step: Step, state: State) {
        self.next.push((step, Ok(state)));
    }

    pub(super) fn fail(&mut self, step: Step, violation: Violation) {
        self.next.push((step, Err(violation)));
    }

    fn clients(&mut self, state: &State) {
        for version in self.scenario.writes {
            if !state.writes[usize::from(*version)].has_begun {
                let mut next = state.clone();
                let write = &mut next.writes[usize::from(*version)];
                write.has_begun = true;
                write.after = state.acknowledged;
                for store in &mut next.stores {
                    store.incoming |= u8::from(!store.is_beyond(*version)) << version;
                }
                self.push(Step::new("a client writes V").version(*version), next);
            }
        }
        for version in [VALUE, TOMBSTONE, LATER] {
            for to in 0..3 {
                if state.stores[to].incoming & (1 << version) != 0 {
                    self.deliver(state, version, to);
                }
            }
        }
    }

    fn deliver(&mut self, state: &State, version: u8, to: usize) {
        let mut next = state.clone();
        next.stores[to].incoming &= !(1 << version);
        let step = Step::new("V arrives at A").of(to).version(version);
        let admission = self.rules.admits(state, to, version, Way::Ordinary);
        if admission == Admission::Taken || self.rules.has(Bug::WritesPass) {
            let has_nothing_newer = timestamp(state.stores[to].held) <= timestamp(version);
            self.store(&mut next, to, version, true);
            if has_nothing_newer && self.rules.counts(state, to) {
                next.stores[to].acked |= 1 << version;
                let has_acked = |store: &&super::state::Store| store.acked & (1 << version) != 0;
                let is_enough = next.stores.iter().filter(has_acked).count() == 2;
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
        } else if version == LATER && !state.stores[to].is_learner {
            return self.fail(step, Violation::RecentWriteRefused);
        }
        self.push(step, next);
        if self.rules.has(Bug::HintsPass) {
            let mut next = state.clone();
            next.stores[to].incoming &= !(1 << version);
            self.store(&mut next, to, version, true);
            let step = Step::new("a hint of V arrives at A");
            self.push(step.of(to).version(version), next);
        }
    }

    /// A read of two stores, which brings up the one that is behind, and answers.
    fn read(&mut self, state: &State, of: [usize; 2]) {
        let step = Step::new("a client reads A and B").and(of);
        let mut next = state.clone();
        let greatest = self.hear_each_other(&mut next, of);
        if !of.iter().all(|store| self.rules.counts(&next, *store)) {
            return;
        }
        let answers = of.map(|store| self.rules.visible(next.stores[store].held, greatest));
        let newest = later(answers[0], answers[1]);
        for (answer, (to, by)) in answers.into_iter().zip([(of[0], of[1]), (of[1], of[0])]) {
            if answer == newest {
                continue;
            }
            let sent = sent(state, newest, by, to);
            if state.read_repair.is_none() && state.left.read_repairs > 0 {
                let mut slow = state.clone();
                slow.left.read_repairs -= 1;
                slow.read_repair = Some(sent);
                let step = Step::new("a read of A sends a repair to B");
                self.push(step.and([by, to]), slow);
            }
            let is_undecided = {
                let record = next.stores[to].machine.record();
                record.answered.below > record.gc_threshold
            };
            match self.read_repair(&mut next, sent) {
                Some(true) => {}
                Some(false) => return self.fail(step, Violation::CollectedTombstoneBack),
                // Another replica is asked, or the client is told to come again.
                None if is_undecided => return,
                None => return self.fail(step, Violation::ReadNotAnswered),
            }
        }
        if self.scenario.has_synced_writes {
            // No reader sees what is less durable than an acknowledgement.
            for store in of {
                next.stores[store].durable = next.stores[store].held;
            }
        }
        match judge(state, newest) {
            Err(violation) => self.fail(step, violation),
            Ok(seen) => {
                next.seen = seen;
                if next != *state {
                    self.push(step, next);
                }
            }
        }
    }

    /// Stores a read repair. `None` if it is refused; otherwise whether it brings back no tombstone
    /// that the store has collected.
    pub(super) fn read_repair(&self, next: &mut State, repair: ReadRepair) -> Option<bool> {
        let to = usize::from(repair.to);
        let way = Way::ReadRepair {
            gc_threshold: repair.gc_threshold,
            is_scanned: next.stores[to].is_scanned,
        };
        match self.rules.admits(next, to, repair.version, way) {
            Admission::Taken => {}
            Admission::OnceVoided => {
                self.rules.happens(next, to, StoreEvent::Voided);
            }
            Admission::NotNow | Admission::Obsolete { .. } => return None,
        }
        Some(self.store(next, to, repair.version, true))
    }

    /// A read of two stores sends one of them a live version, which the other has.
    fn send_read_repair(&mut self, state: &State, by: usize, to: usize) {
        let version = state.stores[by].held;
        let is_behind = timestamp(state.stores[to].held) < timestamp(version);
        let counts = self.rules.counts(state, by) && self.rules.counts(state, to);
        let may_be_sent = state.left.read_repairs > 0 && state.read_repair.is_none();
        if may_be_sent && is_behind && !is_dead(version) && counts {
            let mut next = state.clone();
            next.left.read_repairs -= 1;
            next.read_repair = Some(sent(state, version, by, to));
            let step = Step::new("a read of A sends a repair to B");
            self.push(step.and([by, to]), next);
        }
    }

    /// A read of all stores, which repairs none.
    fn read_all(&mut self, state: &State) {
        let named = state.stores.iter().map(|store| store.gc_threshold());
        let greatest = named.fold(Timestamp::ZERO, Timestamp::max);
        let held = state.stores.map(|store| store.held);
        let visible = held.map(|held| self.rules.visible(held, greatest));
        let newest = visible.into_iter().fold(NONE, later);
        let step = Step::new("a client reads all stores");
        if let Err(violation) = judge(state, newest) {
            self.fail(step, violation);
        } else if state.is_rebuilt_behind {
            // One that asks two of them, and an earlier one, may find the older version in both.
            self.fail(step, Violation::ReadWentBack);
        }
    }

    fn tell(&mut self, state: &State, by: usize, to: usize) {
        if state.stores[by].gc_threshold() > state.stores[to].gc_threshold() {
            let mut next = state.clone();
            self.hear_each_other(&mut next, [by, to]);
            let step = Step::new("A tells B of the GC threshold");
            self.push(step.and([by, to]), next);
        }
    }

    /// Two stores hear of the greater one of their GC thresholds.
    pub(super) fn hear_each_other(&self, next: &mut State, of: [usize; 2]) -> Timestamp {
        let named = of.map(|store| next.stores[store].gc_threshold());
        let greatest = named[0].max(named[1]);
        for store in of {
            if next.stores[store].gc_threshold() < greatest {
                let gc_threshold = greatest;
                self.rules
                    .happens(next, store, StoreEvent::Heard { gc_threshold });
            }
        }
        greatest
    }

    fn alone(&mut self, state: &State, number: usize) {
        let store = state.stores[number];
        for (may_drop, words) in [
            (self.rules.may_drop(state, number), "A drops the tombstone"),
            (
                self.rules.may_drop_non_owned(state, number),
                "A drops the copy that others keep",
            ),
        ] {
            if may_drop {
                let mut next = state.clone();
                let dropping = &mut next.stores[number];
                (dropping.held, dropping.durable) = (NONE, NONE);
                dropping.has_value_below = false;
                self.push(Step::new(words).of(number), next);
            }
        }
        if self.rules.has(Bug::SetAsideReturns) && store.aside != NONE {
            let mut next = state.clone();
            next.stores[number].aside = NONE;
            self.store(&mut next, number, store.aside, true);
            self.push(Step::new("what A has set aside returns").of(number), next);
        }
        // A loss that nobody notices, or that is too great, must not take what an acknowledged
        // write needs: the others have, or have collected, all that clients know of.
        let has_all = |other: &usize| {
            let other = &state.stores[*other];
            timestamp(other.held) >= timestamp(state.seen)
                || is_dead(state.seen) && other.gc_threshold() > timestamp(state.seen)
        };
        let have_all = others(number).iter().all(has_all);
        // A delete that was acknowledged by one store is lost with it.
        let has_another_all = others(number).iter().any(has_all);
        let has_one_all = others(number).iter().any(|other| {
            let it = &state.stores[*other];
            !it.is_learner && has_all(other) && it.gc_threshold() > Timestamp::ZERO
        });
        let has_risen = |store: &super::state::Store| store.gc_threshold() > Timestamp::ZERO;
        let is_raised = state.stores.iter().any(has_risen);
        let left = state.left;
        if left.crashes > 0 && have_all && (is_raised || self.scenario.left.crashes == 1) {
            let mut next = state.clone();
            next.left.crashes -= 1;
            self.restart(&mut next, number);
            next.stores[number].held = store.durable;
            // Another boot of the machine, after which a store that does not sync its writes may
            // lack some.
            if !self.scenario.has_synced_writes {
                self.lose(&mut next, number);
            }
            self.push(Step::new("the power of A fails").of(number), next);
        }
        let may_be_lost = !self.scenario.has_short_tombstone || has_another_all;
        if left.losses > 0 && may_be_lost {
            let mut next = state.clone();
            next.left.losses -= 1;
            self.replace(&mut next, number, Default::default(), NONE);
            self.lose(&mut next, number);
            self.push(Step::new("A loses its folder").of(number), next);
        }
        let was_closed = store.closed() > Timestamp::ZERO;
        let copy = match (state.copy, self.scenario.left.copies) {
            (Some((of, record, held)), _) => (usize::from(of) == number).then_some((record, held)),
            (None, 0) => Some((StoreRecord::default(), VALUE)),
            (None, _) => None,
        };
        if left.copies > 0 && was_closed && store.held == VALUE {
            let mut next = state.clone();
            next.left.copies -= 1;
            next.copy = Some((number as u8, store.disk, store.durable));
            let step = Step::new("a copy of the folder of A is taken");
            self.push(step.of(number), next);
        }
        if let Some((record, held)) = copy
            && left.rollbacks > 0
            && (have_all || has_one_all && was_closed)
        {
            let mut next = state.clone();
            next.left.rollbacks -= 1;
            self.replace(&mut next, number, record, held);
            // Its peers remember its last start, and so they notice. Before it has ever closed
            // anything there is nothing that the copy has missed.
            if was_closed && !self.rules.has(Bug::ThresholdBelievedByAStoreThatIsBehind) {
                self.lose(&mut next, number);
            }
            let step = Step::new("the folder of A is restored from a copy");
            self.push(step.of(number), next);
        }
        let hides = store.held != VALUE && store.has_value_below;
        if left.damages > 0 && have_all && hides {
            let mut next = state.clone();
            next.left.damages -= 1;
            let damaged = &mut next.stores[number];
            (damaged.held, damaged.durable) = (VALUE, VALUE);
            damaged.is_learner = true;
            self.rules.happens(&mut next, number, StoreEvent::Damaged);
            let step = Step::new("a block of A is damaged that has hidden the value");
            self.push(step.of(number), next);
        }
    }

    /// A process ends and starts again.
    pub(super) fn restart(&self, next: &mut State, number: usize) {
        let store = &mut next.stores[number];
        store.machine = StoreState::opened(store.disk);
        store.is_scanned = false;
        // What it has acknowledged to a write that still needs acks does not count any more.
        if !self.rules.has(Bug::AcksOutliveTheirStore) {
            store.acked = 0;
        }
    }

    /// A store comes back with another folder.
    fn replace(&self, next: &mut State, number: usize, record: StoreRecord, held: u8) {
        next.stores[number].disk = record;
        self.restart(next, number);
        let store = &mut next.stores[number];
        (store.held, store.durable, store.has_value_below) = (held, held, held == VALUE);
        store.aside = NONE;
    }

    /// A store is found to lack something.
    fn lose(&self, next: &mut State, number: usize) {
        next.stores[number].is_learner = true;
        if !self.rules.has(Bug::LostStoreGoesOn) {
            self.rules.happens(next, number, StoreEvent::Lost);
        }
    }

    /// Stores a version, if it is newer. Returns whether that is no tombstone that the store has
    /// collected.
    pub(super) fn store(
        &self,
        state: &mut State,
        to: usize,
        version: u8,
        is_durable: bool,
    ) -> bool {
        let store = &mut state.stores[to];
        let is_uncollected = timestamp(version) >= store.gc_threshold() || store.held == version;
        if timestamp(version) > timestamp(store.held) {
            store.held = version;
        }
        store.has_value_below |= version == VALUE;
        if is_durable && self.scenario.has_synced_writes {
            store.durable = store.held;
        }
        store.held != version || !is_dead(version) || is_uncollected
    }
}

fn sent(state: &State, version: u8, by: usize, to: usize) -> ReadRepair {
    ReadRepair {
        version,
        gc_threshold: state.stores[by].gc_threshold(),
        to: to as u8,
    }
}

/// Whether clients may be shown a version, or that there is none. Gives the greatest version that
/// clients know of then.
fn judge(state: &State, shown: u8) -> Result<u8, Violation> {
    let seen = state.seen;
    if shown == NONE {
        // A delete that nobody has acknowledged may have been collected.
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

const _: () = assert!(super::state::FUTURE > 5 && VERSIONS.len() == 4);

/// What a store with a clock of years ahead would close.
pub(super) fn far_ahead() -> Timestamp {
    at(super::state::FUTURE)
}
