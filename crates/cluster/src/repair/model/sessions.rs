//! What can happen next in a session, and to what it has left under way.

use super::rules::Bug;
use super::state::{
    AGAIN, BETWEEN, LateRequest, Led, NONE, SESSIONS, State, Stray, Violation, at, is_dead, later,
    node, others, timestamp,
};
use super::steps::{Step, Steps, far_ahead};
use crate::comparison::Pair;
use crate::layout::Epoch;
use crate::repair::session::Phase;
use crate::repair::{
    Admission, Compared, Lacking, Next, Session, SessionAction, SessionAnswer, SessionEvent,
    SessionRequest, StoreEvent, Token, Way,
};
use base::Timestamp;

impl Steps<'_> {
    /// What can happen next in a session.
    pub(super) fn session(&mut self, state: &State, number: usize) {
        let Some(led) = &state.led[number] else {
            return self.begin(state, number);
        };
        if self.asks_at_once(led) {
            return self.ask_all(state, number);
        }
        for store in 0..3 {
            if let Some(request) = led.asks[store] {
                self.ask(state, number, store, request);
            }
        }
        if led.decides {
            self.decide(state, number);
        }
        for pair in &led.machine.comparing {
            let pair = [pair.lower.index(), pair.upper.index()];
            self.compare(state, number, pair);
            for [by, to] in [pair, [pair[1], pair[0]]] {
                self.give_up_repair_write(state, number, by, to);
            }
        }
        self.resume(state, number);
    }

    fn begin(&mut self, state: &State, number: usize) {
        let is_after = match number.checked_sub(1).map(|before| &state.led[before]) {
            None => true,
            Some(None) => false,
            Some(Some(led)) => !self.scenario.is_sequential || led.machine.phase == Phase::Over,
        };
        let is_one_learner = state.stores.iter().any(|store| store.is_learner);
        let is_due = self.scenario.sessions[number] > 0 || is_one_learner;
        if !is_after || !is_due {
            return;
        }
        let token = Token {
            session: 1 + number as u64,
            attempt: 0,
        };
        let epoch = Epoch::new(state.list.into());
        let up = [0, 1, 2].map(|number| (node(number), true));
        let (machine, actions) = Session::start(token, epoch, up, None);
        let mut next = state.clone();
        let shown_before = state.led.iter().flatten().any(|led| led.is_compared);
        next.led[number] = Some(Led {
            machine,
            asks: [None; 3],
            is_compared: shown_before && self.rules.has(Bug::SessionsMixed),
            decides: false,
            saved: None,
        });
        self.carry_out(&mut next, number, actions);
        self.push(Step::new("session N begins").session(number), next);
    }

    /// The session goes on from its checkpoint, with all nodes.
    fn resume(&mut self, state: &State, number: usize) {
        let mut next = state.clone();
        let Some(led) = &mut next.led[number] else {
            return;
        };
        let Some((shown, is_compared)) = led.saved.clone() else {
            return;
        };
        if next.left.resumes == 0 {
            return;
        }
        next.left.resumes -= 1;
        let token = led.machine.token().next_attempt();
        let epoch = Epoch::new(next.list.into());
        let up = [0, 1, 2].map(|number| (node(number), true));
        let (machine, actions) = Session::start(token, epoch, up, Some(shown));
        led.machine = machine;
        led.asks = [None; 3];
        (led.is_compared, led.decides) = (is_compared, false);
        self.carry_out(&mut next, number, actions);
        let step = Step::new("session N goes on from its checkpoint");
        self.push(step.session(number), next);
    }

    /// A store is asked for something, or the answer does not come.
    fn ask(&mut self, state: &State, number: usize, store: usize, request: SessionRequest) {
        let mut next = state.clone();
        let Some(led) = &mut next.led[number] else {
            return;
        };
        led.asks[store] = None;
        let token = led.machine.token();
        if state.left.misses > 0 {
            let mut missed = next.clone();
            missed.left.misses -= 1;
            let event = SessionEvent::Missed { node: node(store) };
            self.lead(&mut missed, number, event);
            let step = Step::new("session N misses A").of(store).session(number);
            if state.left.late_requests > 0 && state.late.is_none() {
                let mut late = missed.clone();
                late.left.late_requests -= 1;
                late.late = Some(LateRequest {
                    token,
                    request,
                    to: store as u8,
                });
                let words = "session N misses A , and its request comes late";
                self.push(Step { words, ..step }, late);
            }
            self.push(step, missed);
        }
        let words = match request {
            SessionRequest::Begin { .. } => "session N begins at A",
            SessionRequest::Close { .. } => "session N closes A",
            SessionRequest::Open { .. } => "session N has A scan",
            SessionRequest::Sync => "session N has A sync",
            SessionRequest::Finish { .. } => "session N asks A for the last time",
            SessionRequest::Outcome { .. } => "A hears the outcome of session N",
        };
        if let Some(answer) = self.asked(&mut next, number, store, token, request) {
            let node = node(store);
            self.lead(&mut next, number, SessionEvent::Answered { node, answer });
        }
        self.push(Step::new(words).of(store).session(number), next);
    }

    /// Whether it does not matter in which order stores answer.
    fn asks_at_once(&self, led: &Led) -> bool {
        let is_only = self.scenario.sessions.len() == 1 && self.scenario.left.misses == 0;
        match led.machine.phase {
            Phase::Begin => {
                is_only || self.scenario.is_sequential && self.scenario.is_asked_at_once
            }
            Phase::Close | Phase::Open | Phase::Finish => self.scenario.is_asked_at_once,
            _ => false,
        }
    }

    fn ask_all(&mut self, state: &State, number: usize) {
        let mut next = state.clone();
        for store in 0..3 {
            let Some(led) = &mut next.led[number] else {
                return;
            };
            let token = led.machine.token();
            if let Some(request) = led.asks[store].take() {
                let answer = self.asked(&mut next, number, store, token, request);
                if let Some(answer) = answer {
                    let node = node(store);
                    self.lead(&mut next, number, SessionEvent::Answered { node, answer });
                }
            }
        }
        let words = match state.led[number].as_ref().map(|led| led.machine.phase) {
            Some(Phase::Begin) => "session N begins at all stores",
            Some(Phase::Close) => "session N closes all stores",
            Some(Phase::Open) => "session N has all stores scan",
            _ => "session N asks all stores for the last time",
        };
        self.push(Step::new(words).session(number), next);
    }

    /// A store does as a session asks.
    fn asked(
        &self,
        next: &mut State,
        number: usize,
        store: usize,
        token: Token,
        request: SessionRequest,
    ) -> Option<SessionAnswer> {
        let latest = if self.rules.has(Bug::ClocksTrusted) {
            far_ahead()
        } else {
            self.scenario.latest(number, &next.stores[store])
        };
        let closes_late = self.rules.has(Bug::ClosedWhileScanning);
        let closed = next.stores[store].closed();
        if let SessionRequest::Finish { below } = request
            && closes_late
        {
            next.stores[store].machine.record.closed = closed.max(below);
        }
        let event = StoreEvent::Asked {
            token,
            request,
            latest,
        };
        let answer = self.rules.happens(next, store, event);
        let it = &mut next.stores[store];
        if matches!(request, SessionRequest::Close { .. }) && closes_late {
            it.machine.record.closed = closed;
        }
        let scans = it.machine.scans_for(token);
        match request {
            SessionRequest::Begin { .. } if it.machine.record().token == token => {
                it.is_scanned = false;
            }
            SessionRequest::Close { .. } if scans => {
                let led = next.led[number].as_ref();
                it.is_scanned = led.is_some_and(|led| led.is_compared);
            }
            SessionRequest::Open { .. } if scans => it.is_scanned = true,
            SessionRequest::Outcome { .. } if it.machine.record().token == token => {
                self.rebuilt(next, number, store);
            }
            _ => {}
        }
        answer
    }

    /// A learner that has all that the others have, as the session has shown, is a voter again.
    fn rebuilt(&self, next: &mut State, number: usize, store: usize) {
        let Some(led) = &next.led[number] else {
            return;
        };
        let has_all_of = led.machine.has_all_of(node(store));
        if others(store)
            .iter()
            .all(|other| has_all_of.contains(&node(*other)))
        {
            let is_new = std::mem::replace(&mut next.stores[store].is_learner, false);
            let held = next.stores.map(|store| timestamp(store.held));
            let newest = held.into_iter().fold(timestamp(NONE), Timestamp::max);
            let is_behind = held[store] > timestamp(NONE) && held[store] < newest;
            next.is_rebuilt_behind |= is_new && is_behind;
        }
    }

    fn lead(&self, next: &mut State, number: usize, event: SessionEvent) {
        let Some(led) = &mut next.led[number] else {
            return;
        };
        let is_last = led.machine.phase == Phase::Finish;
        if is_last
            && self.rules.has(Bug::RaisedWithoutAStore)
            && let SessionEvent::Missed { node } = event
        {
            // It is taken for one that has answered.
            let answer = SessionAnswer::Synced { may_raise: true };
            return self.lead(next, number, SessionEvent::Answered { node, answer });
        }
        let (machine, actions) = led.machine.clone().step(event);
        led.machine = machine;
        if led.machine.phase >= Phase::Compare && self.rules.has(Bug::RaisedWithoutAPair) {
            led.machine.lacking.clear();
        }
        self.carry_out(next, number, actions);
    }

    fn carry_out(&self, next: &mut State, number: usize, actions: Vec<SessionAction>) {
        let Some(led) = &mut next.led[number] else {
            return;
        };
        for action in actions {
            match action {
                SessionAction::Ask { node, request } => led.asks[node.index()] = Some(request),
                SessionAction::Compare(_) => {}
                SessionAction::Decide => {
                    led.decides = true;
                    led.is_compared |= led.machine.range > 0;
                    // The first checkpoint is the begin of the session.
                    if led.saved.is_none() {
                        led.saved = Some((led.machine.shown(), false));
                    }
                }
                SessionAction::Checkpoint => {
                    led.saved = Some((led.machine.shown(), true));
                    led.decides = true;
                }
                SessionAction::Preempted { .. } => led.asks = [None; 3],
                SessionAction::End { .. } => {}
            }
        }
        let decides = |led: &&Led| led.decides;
        if let Some(led) = next.led[number].as_ref().filter(decides)
            && let [choice] = Self::choices(next, led)
        {
            if let Some(led) = &mut next.led[number] {
                led.decides = false;
            }
            self.lead(next, number, SessionEvent::Next(*choice));
        }
    }

    /// What may come next once the session is to decide that.
    fn choices(state: &State, led: &Led) -> &'static [Next] {
        let is_saved = led.saved.as_ref().is_some_and(|(_, is_behind)| *is_behind);
        if !led.is_compared {
            &[Next::Range]
        } else if state.left.resumes > 0 && !is_saved {
            &[Next::Finish, Next::Checkpoint]
        } else {
            &[Next::Finish]
        }
    }

    fn decide(&mut self, state: &State, number: usize) {
        let Some(led) = &state.led[number] else {
            return;
        };
        for choice in Self::choices(state, led) {
            let mut next = state.clone();
            if let Some(led) = &mut next.led[number] {
                led.decides = false;
            }
            self.lead(&mut next, number, SessionEvent::Next(*choice));
            let words = match choice {
                Next::Range => "session N goes on to the key",
                Next::Checkpoint => "session N takes a checkpoint",
                Next::Finish => "session N comes to its end",
            };
            self.push(Step::new(words).session(number), next);
        }
    }

    /// Makes two stores equal.
    fn compare(&mut self, state: &State, number: usize, pair: [usize; 2]) {
        let Some(led) = &state.led[number] else {
            return;
        };
        let token = led.machine.token();
        let step = Step::new("session N makes A and B equal")
            .and(pair)
            .session(number);
        let mut next = state.clone();
        let scan = |store: usize| state.stores[store].machine.scans_for(token);
        let outcome = if pair.iter().all(|store| scan(*store)) {
            let greatest = self.hear_each_other(&mut next, pair);
            let held = pair.map(|store| self.rules.visible(next.stores[store].held, greatest));
            let newest = later(held[0], held[1]);
            let (mut lacks, mut has_moved) = ([false; 2], false);
            for (place, by) in [(1, pair[0]), (0, pair[1])] {
                let to = pair[place];
                let held = self.rules.visible(next.stores[to].held, greatest);
                // A replica is sent what it lacks, and a store that holds something older is told
                // by the replicas of that.
                let is_told = held != NONE && !next.stores[by].is_beyond(held);
                let is_meant = !next.stores[to].is_beyond(newest) || is_told;
                if timestamp(held) < timestamp(newest) && is_meant {
                    has_moved = true;
                    match self.rules.admits(&next, to, newest, Way::Repair(token)) {
                        Admission::Taken => {
                            if !self.store(&mut next, to, newest, false) {
                                return self.fail(step, Violation::CollectedTombstoneBack);
                            }
                        }
                        _ if self.rules.has(Bug::DeadNotIgnored) && is_dead(newest) => {
                            if !self.store(&mut next, to, newest, false) {
                                return self.fail(step, Violation::CollectedTombstoneBack);
                            }
                        }
                        _ => lacks[place] = true,
                    }
                }
            }
            // With as many copies as stores no version is hidden by one that it does not meet. The
            // later value is above the cut.
            has_moved &= timestamp(newest) < at(AGAIN) && self.scenario.has_few_copies();
            if let Some(lacking) = lacking(pair, lacks) {
                let has_moved = has_moved && !self.rules.has(Bug::MovedIsNotComparedAgain);
                Compared::Unequal { lacking, has_moved }
            } else if has_moved && !self.rules.has(Bug::MovedIsNotComparedAgain) {
                Compared::Moved
            } else {
                Compared::Equal
            }
        } else {
            Compared::UNKNOWN
        };
        let pair = Pair::of(node(pair[0]), node(pair[1]));
        self.lead(&mut next, number, SessionEvent::Compared { pair, outcome });
        self.push(step, next);
    }

    /// One of two stores has a live version sent to the other, which it gives up, so that the two
    /// may differ; but it is on its way.
    fn give_up_repair_write(&mut self, state: &State, number: usize, by: usize, to: usize) {
        let Some(led) = &state.led[number] else {
            return;
        };
        let version = state.stores[by].held;
        let is_behind = timestamp(state.stores[to].held) < timestamp(version);
        let may_be_sent = state.left.strays > 0 && state.stray.is_none();
        let token = led.machine.token();
        let scan = |store: usize| state.stores[store].machine.scans_for(token);
        if may_be_sent && is_behind && !is_dead(version) && scan(by) {
            let mut next = state.clone();
            next.left.strays -= 1;
            next.stray = Some(Stray {
                version,
                token,
                to: to as u8,
            });
            let event = SessionEvent::Compared {
                pair: Pair::of(node(by), node(to)),
                outcome: Compared::UNKNOWN,
            };
            self.lead(&mut next, number, event);
            let step = Step::new("session N gives up a repair write from A to B");
            self.push(step.and([by, to]).session(number), next);
        }
    }

    /// What is under way arrives.
    pub(super) fn under_way(&mut self, state: &State) {
        if let Some(repair) = state.read_repair {
            let mut next = state.clone();
            next.read_repair = None;
            self.read_repair(&mut next, repair);
            let to = usize::from(repair.to);
            self.push(Step::new("the read repair arrives at A").of(to), next);
        }
        if let Some(stray) = state.stray {
            let mut next = state.clone();
            next.stray = None;
            let to = usize::from(stray.to);
            let way = Way::Repair(stray.token);
            if self.rules.admits(state, to, stray.version, way) == Admission::Taken {
                self.store(&mut next, to, stray.version, false);
            }
            self.push(Step::new("the repair write arrives at A").of(to), next);
        }
        if let Some(late) = state.late {
            let mut next = state.clone();
            next.late = None;
            let to = usize::from(late.to);
            let number = (late.token.session - 1) as usize;
            self.asked(&mut next, number, to, late.token, late.request);
            self.push(Step::new("the late request arrives at A").of(to), next);
        }
    }
}

const _: () = assert!(SESSIONS == 2 && BETWEEN > 1);

/// Which of two stores lack something of the other one.
fn lacking(pair: [usize; 2], lacks: [bool; 2]) -> Option<Lacking> {
    let lower = usize::from(pair[0] > pair[1]);
    match (lacks[lower], lacks[1 - lower]) {
        (false, false) => None,
        (true, false) => Some(Lacking::Lower),
        (false, true) => Some(Lacking::Upper),
        (true, true) => Some(Lacking::Both),
    }
}
