//! What a search explores: where it starts, and what may go wrong on the way.

use super::state::{NONE, State, TOMBSTONE, VALUE, is_dead};

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
    /// Whether the write of the first value to the third store is on its way.
    pub(super) has_late_value: bool,
    /// Whether writes are synced before they are acknowledged, and repairs as well.
    /// Mends are only at the end of a range.
    pub(super) has_synced_writes: bool,
    /// Whether the tombstone is for two stores only: one of them has it, the other one still
    /// has the value, and the third one has neither. Its delete was acknowledged by one, so
    /// reads ask all three.
    pub(super) has_short_tombstone: bool,
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
            ..State::default()
        };
        for store in &mut state.stores[..2] {
            (store.held, store.durable) = (VALUE, VALUE);
        }
        if self.has_short_tombstone {
            let held = [VALUE, TOMBSTONE, NONE];
            for (store, held) in state.stores.iter_mut().zip(held) {
                (store.held, store.durable) = (held, held);
            }
            state.stores[2].is_beyond_tombstone = true;
            let delete = &mut state.writes[usize::from(TOMBSTONE)];
            (delete.has_begun, delete.is_acknowledged) = (true, true);
            (state.acknowledged, state.seen) = (TOMBSTONE, TOMBSTONE);
        }
        state.stores[2].incoming = u8::from(self.has_late_value) << VALUE;
        state.stores[2].has_jumped = self.has_jumped_clock;
        state.writes[usize::from(VALUE)].has_begun = true;
        state.writes[usize::from(VALUE)].is_acknowledged = true;
        state
    }

    /// Whether everything that is to be forgotten is, on all stores.
    pub(super) fn is_over(&self, state: &State) -> bool {
        state.writes[usize::from(TOMBSTONE)].is_acknowledged
            && state.stores.iter().all(|store| {
                store.forgotten > 0
                    && !is_dead(store.held)
                    && store.held != VALUE
                    && !store.is_unfilled
            })
    }
}
