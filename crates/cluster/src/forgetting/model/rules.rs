//! The rules as the model asks for them: those of the cluster, or with one of them
//! broken.

use super::state::{FENCE, NONE, PASSES, Repair, State, Store, is_dead, others, timestamp};
use crate::NodeId;
use crate::forgetting::{
    Arrival, Bounds, FencedPass, Receiving, StoreStart, Vouching, is_absent, is_leftover,
    latest_fence, vouchers, withholds,
};
use crate::replica_state::ReplicaState;
use crate::sweep::{Incarnation, Pair, PassId};
use base::Timestamp;
use std::time::Duration;

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    TombstonesDroppedByAge,
    HintsPassTheFence,
    WritesPassTheFence,
    RaisedWithoutAFence,
    RaisedWithoutAPair,
    FencedWhileComparing,
    CleanBeforeSync,
    PassesMixed,
    ClocksTrusted,
    LowerBoundBelieved,
    LearnerCounts,
    RepairsPassTheFence,
    RepairsOfReplacedStorePass,
    RepairsPassTheForgetBound,
    LateRepairsPassTheForgetBound,
    NoRepairPassesTheFence,
    DeadNotIgnored,
    LeftoversKept,
    ReplacedStoreRejoins,
    ReceiversVouch,
    ReturnsUnfenced,
    AcksOutliveTheirStore,
    MovedIsNotComparedAgain,
    LateRepairsNotCompared,
    LateRepairsFromBelowBoundNotCompared,
    DisturbedStoreAnswers,
    LateMendsNotCompared,
    SealForgottenByRestart,
    SurplusDroppedAboveBound,
    SurplusBoundOfAnotherListBelieved,
    SurplusShownByPassOfAnotherList,
}

/// The rules of the cluster, but for one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) bug: Option<Bug>,
}

/// A timestamp of the model.
pub(super) fn at(timestamp: u64) -> Timestamp {
    Timestamp::from_unix_ms(Timestamp::EPOCH_UNIX_MS + timestamp)
}

fn to_number(timestamp: Timestamp) -> u8 {
    (timestamp.unix_ms() - Timestamp::EPOCH_UNIX_MS) as u8
}

fn incarnation(store: u8, number: u8) -> Incarnation {
    Incarnation {
        store_id: u64::from(store) * 10 + u64::from(number),
        last_loss: u64::from(number),
    }
}

fn start(store: u8, number: u8) -> StoreStart {
    StoreStart {
        store_id: u64::from(store),
        start: u64::from(number),
    }
}

impl Rules {
    pub(super) fn has(self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn bounds(self, state: &State, store: usize) -> Bounds {
        let store = &state.stores[store];
        Bounds {
            fence: at(store.fence.into()),
            forgotten: at(store.forgotten.into()),
        }
    }

    fn replica_state(self, state: &State, store: usize) -> ReplicaState {
        if state.stores[store].is_learner && !self.has(Bug::LearnerCounts) {
            ReplicaState::Learner
        } else {
            ReplicaState::Voter
        }
    }

    pub(super) fn may_fence(self, state: &State, store: usize, fence: u64) -> bool {
        const GRACE: Duration = Duration::from_millis(5);
        let (now, may_allocate_timestamps) = if state.stores[store].has_jumped {
            (1_000, self.has(Bug::ClocksTrusted))
        } else {
            (FENCE + 5, true)
        };
        let now_unix_ms = may_allocate_timestamps.then_some(Timestamp::EPOCH_UNIX_MS + now);
        latest_fence(now_unix_ms, GRACE).is_some_and(|latest| at(fence) <= latest)
    }

    pub(super) fn is_receiver(self, state: &State, store: usize) -> bool {
        let is_receiver = self.bounds(state, store).is_receiver(
            self.replica_state(state, store),
            at(state.stores[store].heard.into()),
        );
        is_receiver && !self.has(Bug::LowerBoundBelieved)
    }

    /// Whether the reads and acks of a store count that has heard of all that its
    /// coordinator has.
    pub(super) fn counts(self, state: &State, store: usize) -> bool {
        self.replica_state(state, store) == ReplicaState::Voter && !self.is_receiver(state, store)
    }

    /// Lets a store take note of an F.
    pub(super) fn hear(self, state: &mut State, store: usize, greatest: u8) {
        let replica_state = self.replica_state(state, store);
        let heard = state.stores[store].heard.max(greatest);
        let mut bounds = self
            .bounds(state, store)
            .hear(at(heard.into()), replica_state);
        if self.has(Bug::LowerBoundBelieved) {
            bounds.forgotten = bounds.forgotten.max(at(heard.into()));
        }
        state.stores[store].heard = heard;
        state.stores[store].forgotten = to_number(bounds.forgotten);
    }

    fn admit(
        self,
        state: &State,
        to: usize,
        version: u8,
        arrival: Arrival,
        rest: Receiving,
    ) -> bool {
        let bounds = self.bounds(state, to);
        let version = (at(timestamp(version)), is_dead(version));
        bounds.admit(version.0, version.1, arrival, rest).is_ok()
    }

    fn receiving(self, state: &State, to: usize) -> Receiving {
        Receiving {
            greatest: at(state.stores[to].heard.into()),
            replica_state: if self.has(Bug::LowerBoundBelieved) {
                ReplicaState::Voter
            } else {
                self.replica_state(state, to)
            },
            takes_part: false,
            answering: None,
        }
    }

    pub(super) fn admits_write(self, state: &State, to: usize, version: u8, is_hint: bool) -> bool {
        let passes = if is_hint {
            self.has(Bug::HintsPassTheFence)
        } else {
            self.has(Bug::WritesPassTheFence)
        };
        passes
            || self.admit(
                state,
                to,
                version,
                Arrival::Ordinary,
                self.receiving(state, to),
            )
    }

    pub(super) fn admits_repair(self, state: &State, repair: Repair) -> bool {
        let to = usize::from(repair.to);
        let is_known = state.stores[to].knows_of_loss
            || state.stores.iter().all(|store| store.incarnation == 0);
        let now = if is_known {
            state.stores[usize::from(repair.by)].incarnation
        } else {
            0
        };
        let by = start(repair.by, repair.incarnation);
        let receiving = Receiving {
            answering: Some(if self.has(Bug::RepairsOfReplacedStorePass) {
                by
            } else {
                start(repair.by, now)
            }),
            ..self.receiving(state, to)
        };
        let arrival = if self.has(Bug::NoRepairPassesTheFence) {
            Arrival::Ordinary
        } else {
            Arrival::Answered {
                by,
                forgotten: at(if self.has(Bug::LateRepairsPassTheForgetBound) {
                    FENCE
                } else {
                    repair.forgotten.into()
                }),
            }
        };
        let is_above_forgotten = timestamp(repair.version) >= state.stores[to].forgotten.into();
        (self.has(Bug::RepairsPassTheFence) && is_above_forgotten)
            || self.has(Bug::RepairsPassTheForgetBound)
            || self.admit(state, to, repair.version, arrival, receiving)
    }

    /// Whether a mend brings a live version that a pass must meet: one from between F and the fence
    /// of the store that it comes to, or from below F if that lacks something.
    pub(super) fn is_old(self, state: &State, to: usize, version: u8) -> bool {
        let (store, timestamp) = (&state.stores[to], timestamp(version));
        let is_taken = timestamp >= store.heard.into() || self.is_receiver(state, to);
        is_taken && timestamp < store.fence.into() && !is_dead(version)
    }

    /// Whether a repair that is admitted is first compared with what all other stores hold.
    pub(super) fn is_compared(self, state: &State, repair: Repair) -> bool {
        let to = &state.stores[usize::from(repair.to)];
        let timestamp = timestamp(repair.version);
        let is_late = to.fence > to.heard && timestamp < to.fence.into();
        let passes_by = if timestamp < to.heard.into() {
            Bug::LateRepairsFromBelowBoundNotCompared
        } else {
            Bug::LateRepairsNotCompared
        };
        is_late && !is_dead(repair.version) && !self.has(passes_by)
    }

    /// Whether an old version is, because the store has answered the last question of a pass.
    pub(super) fn is_compared_as_sealed(
        self,
        state: &State,
        fences: &[u64],
        to: usize,
        version: u8,
    ) -> bool {
        let sealed = state.stores[to].sealed;
        let is_below =
            |(pass, fence): (usize, &u64)| sealed & (1 << pass) != 0 && timestamp(version) < *fence;
        fences.iter().enumerate().any(is_below) && !self.has(Bug::LateMendsNotCompared)
    }

    /// Whether a store takes a mend of a pass that is none of those of the scenario.
    pub(super) fn admits_late_mend(self, state: &State, to: usize, version: u8) -> bool {
        let receiving = Receiving {
            takes_part: true,
            ..self.receiving(state, to)
        };
        let arrival = Arrival::Mend(PassId(PASSES as u64));
        self.admit(state, to, version, arrival, receiving)
    }

    pub(super) fn admits_mend(self, state: &State, pass: usize, to: usize, version: u8) -> bool {
        let arrival = Arrival::Mend(PassId(pass as u64));
        let receiving = Receiving {
            takes_part: state.stores[to].takes_part & (1 << pass) != 0,
            ..self.receiving(state, to)
        };
        self.has(Bug::DeadNotIgnored) || self.admit(state, to, version, arrival, receiving)
    }

    /// A version as those see it who compare, where `greatest` is named.
    pub(super) fn visible(self, version: u8, greatest: u8) -> u8 {
        let is_absent = is_absent(
            at(timestamp(version)),
            is_dead(version),
            at(greatest.into()),
        );
        if is_absent && !self.has(Bug::DeadNotIgnored) {
            NONE
        } else {
            version
        }
    }

    /// The replicas of a version.
    fn replicas(self, state: &State, version: u8) -> Vec<NodeId> {
        let stores = state.stores.iter().zip(NODES);
        let replicas = stores.filter(|(store, _)| !store.is_beyond(version));
        replicas.map(|(_, node)| node).collect()
    }

    /// What a store can say about versions below F.
    fn says(self, state: &State, number: NodeId) -> Vouching {
        let number = number.index();
        let store = &state.stores[number];
        let heard = state.stores.iter().map(|store| store.heard).max();
        let lacks_nothing = !store.is_learner && !self.is_receiver(state, number);
        let greatest = at(heard.unwrap_or(0).into());
        Vouching::of(lacks_nothing, at(store.forgotten.into()), greatest)
    }

    /// What a store sends others in a pass: nothing below F about which they can say more.
    pub(super) fn sends(self, state: &State, store: usize, greatest: u8) -> u8 {
        let held = self.visible(state.stores[store].held, greatest);
        let is_below = timestamp(held) < u64::from(state.stores[store].heard);
        let replicas = self.replicas(state, held);
        let is_withheld = withholds(node(store), &replicas, |other| self.says(state, other));
        if is_below && is_withheld { NONE } else { held }
    }

    pub(super) fn may_drop(self, state: &State, store: usize) -> bool {
        let held = state.stores[store].held;
        is_dead(held)
            && (at(timestamp(held)) < self.bounds(state, store).forgotten
                || self.has(Bug::TombstonesDroppedByAge) && timestamp(held) < FENCE)
    }

    /// Whether a store drops a value of which it is no replica.
    pub(super) fn may_drop_surplus(self, state: &State, store: usize) -> bool {
        let store = &state.stores[store];
        let below = if self.has(Bug::SurplusDroppedAboveBound) {
            FENCE
        } else {
            store.surplus_below.into()
        };
        !is_dead(store.held) && store.is_beyond(store.held) && timestamp(store.held) < below
    }

    /// A store has heard of an F by the end of a pass. If it took part from begin to end,
    /// surplus below may go.
    pub(super) fn shown(self, state: &mut State, store: usize, pass: usize) {
        let store = &mut state.stores[store];
        let took_part = if self.has(Bug::SurplusShownByPassOfAnotherList) {
            store.takes_part
        } else {
            store.takes_part & store.since_begin
        };
        if took_part & (1 << pass) != 0 {
            store.surplus_below = store.forgotten;
        }
    }

    /// All nodes start with another list of nodes.
    pub(super) fn relist(self, state: &mut State) {
        for store in &mut state.stores {
            std::mem::swap(&mut store.beyond, &mut store.beyond_by_next_list);
            if !self.has(Bug::SurplusBoundOfAnotherListBelieved) {
                store.surplus_below = 0;
            }
        }
    }

    /// Whether a receiver deletes what it holds once it was compared with all.
    pub(super) fn deletes(self, state: &State, store: usize) -> bool {
        let held = state.stores[store].held;
        let replicas = self.replicas(state, held);
        let mut vouchers = vouchers(&replicas, |other| self.says(state, other));
        if self.has(Bug::ReceiversVouch) {
            vouchers = others(store).map(node).into();
        }
        let is_held = vouchers
            .iter()
            .any(|other| state.stores[other.index()].held == held);
        let greatest = at(state.stores[store].heard.into());
        is_leftover(at(timestamp(held)), 3, is_held, greatest) && !self.has(Bug::LeftoversKept)
    }

    /// What the driver of a pass knows.
    fn fenced_pass(self, state: &State, fences: &[u64], pass: usize) -> FencedPass {
        let id = PassId(pass as u64);
        let mut fenced_pass = FencedPass::new(id, at(fences[pass]), 3);
        for (number, store) in state.stores.iter().enumerate() {
            let was_fenced = if self.has(Bug::RaisedWithoutAFence) {
                Some(store.incarnation)
            } else {
                store.fenced[pass].checked_sub(1)
            };
            if let Some(fenced) = was_fenced {
                fenced_pass.fenced(node(number), incarnation(number as u8, fenced));
            }
        }
        fenced_pass.begin();
        fenced_pass
    }

    /// Whether a store that has left a pass goes on in it.
    pub(super) fn may_rejoin(
        self,
        state: &State,
        fences: &[u64],
        pass: usize,
        number: usize,
    ) -> bool {
        let store = &state.stores[number];
        let was_fenced = store.fenced[pass].checked_sub(1);
        let own = if self.has(Bug::ReplacedStoreRejoins) {
            was_fenced.unwrap_or(store.incarnation)
        } else {
            store.incarnation
        };
        let fence = if self.has(Bug::ReplacedStoreRejoins) {
            fences[pass]
        } else {
            store.fence.into()
        };
        self.fenced_pass(state, fences, pass).may_rejoin(
            node(number),
            incarnation(number as u8, own),
            at(fence),
        )
    }

    /// Whether a pass that finds a pair clean becomes void by it.
    pub(super) fn voids(
        self,
        state: &State,
        fences: &[u64],
        pass: usize,
        pair: [usize; 2],
    ) -> bool {
        let mut fenced_pass = self.fenced_pass(state, fences, pass);
        for other in pairs() {
            let now = other.map(|number| {
                let store = &state.stores[number];
                if other == pair && !self.has(Bug::ReplacedStoreRejoins) {
                    incarnation(number as u8, store.incarnation)
                } else {
                    incarnation(number as u8, store.fenced[pass].saturating_sub(1))
                }
            });
            fenced_pass.found_clean(
                PassId(pass as u64),
                Pair::of(node(other[0]), node(other[1])),
                now,
            );
        }
        let are_all_fenced = state.stores.iter().all(|store| store.fenced[pass] > 0);
        are_all_fenced && fenced_pass.forgets().is_none()
    }

    /// What F may rise to by a pass.
    pub(super) fn forgets(self, state: &State, fences: &[u64], pass: usize) -> Option<u8> {
        if state.void & (1 << pass) != 0 {
            return None;
        }
        let mut fenced_pass = self.fenced_pass(state, fences, pass);
        let is_clean = |store: &&Store| store.others_clean & (1 << pass) != 0;
        let clean_pairs = state.stores.iter().filter(is_clean).count();
        for pair in pairs() {
            let [one, other] = pair;
            let clean = state.stores[3 - one - other].others_clean;
            let counted = match self.bug {
                Some(Bug::PassesMixed) => clean != 0,
                Some(Bug::RaisedWithoutAPair) => clean_pairs >= 2,
                _ => clean & (1 << pass) != 0,
            };
            if counted {
                let now = pair.map(|number| {
                    let fenced = state.stores[number].fenced[pass].saturating_sub(1);
                    incarnation(number as u8, fenced)
                });
                let pair = Pair::of(node(one), node(other));
                let is_fenced = self.has(Bug::RaisedWithoutAFence);
                let now = if is_fenced {
                    pair_incarnations(state, [one, other])
                } else {
                    now
                };
                fenced_pass.found_clean(PassId(pass as u64), pair, now);
            }
        }
        fenced_pass.forgets().map(to_number)
    }

    /// What a receiver remembers once it is filled.
    pub(super) fn filled(self, state: &mut State, store: usize) {
        let bounds = self
            .bounds(state, store)
            .filled(at(state.stores[store].heard.into()));
        state.stores[store].fence = to_number(bounds.fence);
        state.stores[store].forgotten = to_number(bounds.forgotten);
    }
}

fn pair_incarnations(state: &State, pair: [usize; 2]) -> [Incarnation; 2] {
    pair.map(|number| incarnation(number as u8, state.stores[number].incarnation))
}

const NODES: [NodeId; 3] = [NodeId::new(0), NodeId::new(1), NodeId::new(2)];

fn node(number: usize) -> NodeId {
    NodeId::new(number as u8)
}

/// The pairs of stores, the lower number first.
pub(super) fn pairs() -> [[usize; 2]; 3] {
    [0, 1, 2].map(others)
}

const _: () = assert!(PASSES <= 8, "a bit for each pass");
