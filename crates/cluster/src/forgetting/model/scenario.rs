//! What a search explores: where it starts, and what may go wrong on the way.

use super::state::{NONE, State, Store, TOMBSTONE, VALUE, is_dead};

/// What a search explores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// The fence of each pass.
    pub(super) fences: &'static [u64],
    /// The versions that clients write besides the first.
    pub(super) writes: &'static [u8],
    pub(super) crashes: u8,
    pub(super) losses: u8,
    pub(super) rollbacks: u8,
    pub(super) repairs: u8,
    /// Mends that are long on their way. Without them no pass need ask about them at its end.
    pub(super) mends: u8,
    /// Whether the write of the first value to the third store is on its way.
    pub(super) has_late_value: bool,
    /// Whether writes are synced before they are acknowledged, and repairs as well.
    /// Mends are only at the end of a range.
    pub(super) has_synced_writes: bool,
    /// Whether the tombstone is for two stores only: one of them has it, the other one still
    /// has the value, and the third one has neither. Its delete was acknowledged by one, so
    /// reads ask all three.
    pub(super) has_short_tombstone: bool,
    /// How many replicas the first value has, if not all stores are, so that reads ask all
    /// three:
    /// - with two of them, one has the value, its write to the other one may be on its way, and
    ///   the third store has a copy, which a read has left there;
    /// - with one, only that has it.
    pub(super) value_copies: u8,
    /// Whether the third store is a replica of nothing. The others are replicas of all versions, and
    /// have the first value. Reads ask all three.
    pub(super) has_bystander: bool,
    /// Whether the operator may start all nodes with another list, by which another store is the
    /// only replica of the first value.
    pub(super) relists: u8,
    /// Whether the clock of one store is years ahead.
    pub(super) has_jumped_clock: bool,
}

impl Scenario {
    /// Two stores have the first value, which was acknowledged; its write to the
    /// third is still on its way.
    pub(super) fn start(&self) -> State {
        let mut state = State {
            acknowledged: VALUE,
            seen: VALUE,
            crashes: self.crashes,
            losses: self.losses,
            rollbacks: self.rollbacks,
            repairs: self.repairs,
            mends: self.mends,
            relists: self.relists,
            ..State::default()
        };
        for store in &mut state.stores[..2] {
            (store.held, store.durable) = (VALUE, VALUE);
        }
        match self.value_copies {
            1 => {
                (state.stores[1].held, state.stores[1].durable) = (NONE, NONE);
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
        if self.has_bystander {
            state.stores[2].beyond = u8::MAX >> 4;
        }
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

    /// Whether everything that is to be forgotten is, on all stores.
    pub(super) fn is_over(&self, state: &State) -> bool {
        if self.writes.is_empty() && self.value_copies < 3 {
            let is_as_asked = |store: &Store| (store.held == VALUE) != store.is_beyond(VALUE);
            return state
                .stores
                .iter()
                .all(|store| store.forgotten > 0 && is_as_asked(store));
        }
        state.writes[usize::from(TOMBSTONE)].is_acknowledged
            && state.stores.iter().all(|store| {
                store.forgotten > 0
                    && !is_dead(store.held)
                    && store.held != VALUE
                    && !store.is_learner
            })
    }
}
