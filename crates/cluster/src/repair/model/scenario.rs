//! What a search explores: where it starts, and what may go wrong on the way.

use super::state::{
    AGAIN, CLOSED, Left, NONE, ReadRepair, State, Store, TOMBSTONE, VALUE, at, is_dead,
};
use crate::layout::Epoch;
use crate::repair::{ShownBelow, StoreRecord, StoreState};
use base::Timestamp;

/// What a search explores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// What the clocks of the stores allow to close in each session; 0 in one that is to rebuild
    /// stores only, which begins once the GC threshold has risen.
    pub(super) sessions: &'static [u64],
    /// The versions that clients write besides the first.
    pub(super) writes: &'static [u8],
    /// What may happen.
    pub(super) left: Left,
    /// Whether the write of the first value to the third store is on its way.
    pub(super) has_late_value: bool,
    /// Whether writes are synced before they are acknowledged, and read repairs as well. Repair
    /// writes are only at checkpoints and at the end.
    pub(super) has_synced_writes: bool,
    /// Whether the tombstone is for two stores only: one of them has it, the other one still has
    /// the value, and the third one has neither. Its delete was acknowledged by one, so reads ask
    /// all three.
    pub(super) has_short_tombstone: bool,
    /// How many replicas the first value has, if not all stores are, so that reads ask all three:
    /// - with two of them, one has the value, its write to the other one may be on its way, and
    ///   the third store has a copy, which a read has left there;
    /// - with one, only that has it.
    pub(super) value_copies: u8,
    /// Whether the third store is a replica of nothing. The others are replicas of all versions,
    /// and have the first value. Reads ask all three.
    pub(super) has_bystander: bool,
    /// Whether the clock of one store is years ahead.
    pub(super) has_jumped_clock: bool,
    /// Whether a session begins only once the one before is over.
    pub(super) is_sequential: bool,
    /// Whether all stores close, scan and finish at the same time, and begin if sessions are
    /// sequential. Other scenarios show what happens in between.
    pub(super) is_asked_at_once: bool,
    /// Whether the first session has compared the key, and taken a checkpoint if one may go on from
    /// it, while a read repair with the value is on its way to the third store.
    pub(super) has_compared: bool,
    /// Whether two stores have collected the tombstone of the value, and the third one was restored
    /// from before that.
    pub(super) has_one_behind: bool,
    /// Whether it has so many states that it is explored only on demand.
    pub(super) is_large: bool,
}

pub(super) const NOTHING_LEFT: Left = Left {
    crashes: 0,
    losses: 0,
    rollbacks: 0,
    damages: 0,
    copies: 0,
    read_repairs: 0,
    strays: 0,
    late_requests: 0,
    misses: 0,
    resumes: 0,
    relists: 0,
};

pub(super) const PLAIN: Scenario = Scenario {
    name: "",
    sessions: &[CLOSED],
    writes: &[TOMBSTONE],
    left: NOTHING_LEFT,
    has_late_value: true,
    has_synced_writes: true,
    has_short_tombstone: false,
    value_copies: 3,
    has_bystander: false,
    has_jumped_clock: false,
    is_sequential: false,
    is_asked_at_once: false,
    has_compared: false,
    has_one_behind: false,
    is_large: false,
};

impl Scenario {
    /// Two stores have the first value, which was acknowledged; its write to the third is still
    /// on its way.
    pub(super) fn start(&self) -> State {
        let mut state = State {
            acknowledged: VALUE,
            seen: VALUE,
            left: self.left,
            ..State::default()
        };
        for store in &mut state.stores[..2] {
            (store.held, store.durable, store.has_value_below) = (VALUE, VALUE, true);
        }
        match self.value_copies {
            1 => {
                state.stores[1].held = NONE;
                (state.stores[1].durable, state.stores[1].has_value_below) = (NONE, false);
                for (number, store) in state.stores.iter_mut().enumerate() {
                    store.beyond = u8::from(number != 0) << VALUE;
                    store.beyond_by_next_list = u8::from(number != 1) << VALUE;
                }
            }
            // The second store has the copy, and the third one is the other replica.
            2 => state.stores[1].beyond = 1 << VALUE,
            _ => {}
        }
        if self.has_short_tombstone {
            let held = [VALUE, TOMBSTONE, NONE];
            for (store, held) in state.stores.iter_mut().zip(held) {
                (store.held, store.durable) = (held, held);
            }
            state.stores[2].beyond = 1 << TOMBSTONE;
            let delete = &mut state.writes[usize::from(TOMBSTONE)];
            (delete.has_begun, delete.is_acknowledged) = (true, true);
            (state.acknowledged, state.seen) = (TOMBSTONE, TOMBSTONE);
        }
        if self.has_one_behind {
            let shown = ShownBelow {
                below: at(CLOSED),
                epoch: Epoch::default(),
            };
            let record = StoreRecord {
                closed: at(CLOSED),
                gc_threshold: at(CLOSED),
                answered: shown,
                ..StoreRecord::default()
            };
            for store in &mut state.stores[..2] {
                (store.held, store.durable, store.has_value_below) = (NONE, NONE, false);
                (store.machine, store.disk) = (StoreState::opened(record), record);
            }
            let restored = &mut state.stores[2];
            (restored.held, restored.durable) = (VALUE, VALUE);
            restored.is_learner = true;
            let delete = &mut state.writes[usize::from(TOMBSTONE)];
            (delete.has_begun, delete.is_acknowledged) = (true, true);
            (state.acknowledged, state.seen) = (TOMBSTONE, TOMBSTONE);
        }
        if self.has_bystander {
            state.stores[2].beyond = u8::MAX >> 4;
        }
        state.read_repair = self.has_compared.then_some(ReadRepair {
            version: VALUE,
            gc_threshold: Timestamp::ZERO,
            to: 2,
        });
        state.stores[2].incoming = u8::from(self.has_late_value) << VALUE;
        state.stores[2].has_jumped = self.has_jumped_clock;
        state.writes[usize::from(VALUE)].has_begun = true;
        state.writes[usize::from(VALUE)].is_acknowledged = true;
        state
    }

    /// Whether some version has fewer replicas than there are stores. Then reads ask all.
    pub(super) fn has_few_copies(&self) -> bool {
        self.has_short_tombstone || self.has_bystander || self.value_copies < 3
    }

    /// Whether everything that is to be collected is, on all stores.
    pub(super) fn is_over(&self, state: &State) -> bool {
        let has_risen = |store: &Store| store.gc_threshold() > Timestamp::ZERO;
        if self.writes.is_empty() && self.value_copies < 3 {
            let is_as_asked = |store: &Store| (store.held == VALUE) != store.is_beyond(VALUE);
            let mut stores = state.stores.iter();
            return stores.all(|store| has_risen(store) && is_as_asked(store));
        }
        let is_done = |store: &Store| {
            let has_collected = !is_dead(store.held) && store.held != VALUE;
            has_risen(store) && has_collected && !store.is_learner
        };
        state.writes[usize::from(TOMBSTONE)].is_acknowledged && state.stores.iter().all(is_done)
    }

    /// How far the clock of a store allows it to close in a session.
    pub(super) fn latest(&self, session: usize, store: &Store) -> Timestamp {
        if store.has_jumped {
            // It is not trusted.
            Timestamp::ZERO
        } else {
            at(self.sessions[session].min(AGAIN))
        }
    }
}
