//! Sums by stack, in memory of a fixed size, for threads and signal handlers at
//! the same time.
//!
//! A hash table with open addressing, without locks: a slot is claimed by
//! setting its fingerprint from 0, once; its frames are then written by the one
//! that claimed it and its weight is added to by all. Frames are read only when
//! nobody records any more, so nobody has to wait for them to be complete.
//! Nothing is ever removed but by [`StackTable::clear`].

use crate::stack::{DEPTH_MAX, NAME_BYTES, Stack};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How many different stacks a recording can hold: some 7 MB of memory.
const SLOTS: usize = 8192;

/// How many slots are tried for a stack.
const PROBES_MAX: usize = 32;

/// The words of a thread's name.
const NAME_WORDS: usize = NAME_BYTES / 8;

/// Sums by stack.
pub(crate) struct StackTable {
    slots: Box<[StackSlot]>,
    /// The weight of stacks for which there was no room.
    lost: AtomicU64,
}

struct StackSlot {
    /// Whose slot it is; 0: nobody's.
    fingerprint: AtomicU64,
    weight: AtomicU64,
    thread: [AtomicU64; NAME_WORDS],
    depth: AtomicUsize,
    frames: [AtomicUsize; DEPTH_MAX],
}

/// A stack and its sum, as read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StackSum {
    /// The thread's name.
    pub(crate) thread: String,
    /// Addresses behind the calls, innermost first.
    pub(crate) frames: Vec<usize>,
    /// Whether there are more frames outside of these.
    pub(crate) is_cut: bool,
    /// Samples, bytes or nanoseconds.
    pub(crate) weight: u64,
}

impl StackTable {
    /// An empty table, with all the memory that it will ever have.
    pub(crate) fn new() -> Self {
        Self::with_slots(SLOTS)
    }

    fn with_slots(slots: usize) -> Self {
        let slot = |_| StackSlot {
            fingerprint: AtomicU64::new(0),
            weight: AtomicU64::new(0),
            thread: std::array::from_fn(|_| AtomicU64::new(0)),
            depth: AtomicUsize::new(0),
            frames: std::array::from_fn(|_| AtomicUsize::new(0)),
        };
        Self {
            slots: (0..slots).map(slot).collect(),
            lost: AtomicU64::new(0),
        }
    }

    /// Adds `weight` to the sum of `stack`. Does not allocate, takes no lock and
    /// never waits.
    pub(crate) fn add(&self, stack: &Stack, weight: u64) {
        let fingerprint = stack.fingerprint();
        let first = fingerprint as usize;
        for probe in 0..PROBES_MAX {
            let slot = &self.slots[first.wrapping_add(probe) % self.slots.len()];
            match slot.fingerprint.compare_exchange(
                0,
                fingerprint,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => slot.fill(stack),
                Err(known) if known == fingerprint => {}
                Err(_) => continue,
            }
            slot.weight.fetch_add(weight, Ordering::Relaxed);
            return;
        }
        self.lost.fetch_add(weight, Ordering::Relaxed);
    }

    /// Forgets all stacks. Nobody may be adding.
    pub(crate) fn clear(&self) {
        for slot in &self.slots {
            slot.fingerprint.store(0, Ordering::Relaxed);
            slot.weight.store(0, Ordering::Relaxed);
        }
        self.lost.store(0, Ordering::Relaxed);
    }

    /// All stacks and their sums. Nobody may be adding.
    pub(crate) fn sums(&self) -> Vec<StackSum> {
        let used = |slot: &&StackSlot| slot.fingerprint.load(Ordering::Relaxed) != 0;
        self.slots
            .iter()
            .filter(used)
            .map(StackSlot::read)
            .collect()
    }

    /// The weight of what there was no room for.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl StackSlot {
    fn fill(&self, stack: &Stack) {
        let frames = stack.frames();
        for (word, bytes) in self.thread.iter().zip(stack.thread().as_chunks().0) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        for (slot, frame) in self.frames.iter().zip(frames) {
            slot.store(*frame, Ordering::Relaxed);
        }
        self.depth.store(frames.len(), Ordering::Relaxed);
    }

    fn read(&self) -> StackSum {
        let name: Vec<u8> = self
            .thread
            .iter()
            .flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes())
            .take_while(|byte| *byte != 0)
            .collect();
        let depth = self.depth.load(Ordering::Relaxed).min(DEPTH_MAX);
        let frames = self.frames[..depth].iter();
        StackSum {
            thread: String::from_utf8_lossy(&name).into_owned(),
            frames: frames.map(|frame| frame.load(Ordering::Relaxed)).collect(),
            is_cut: depth == DEPTH_MAX,
            weight: self.weight.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::Origin;

    #[test]
    fn equal_stacks_share_a_sum() {
        let table = StackTable::with_slots(64);
        let stack = Stack::take(Origin::Here);
        table.add(&stack, 2);
        table.add(&stack, 3);
        table.add(&Stack::take(Origin::Interrupted(1)), 7);
        let mut sums = table.sums();
        sums.sort_by_key(|sum| sum.weight);
        let [five, seven] = &sums[..] else {
            panic!("{sums:?}");
        };
        assert_eq!((five.weight, &five.frames[..]), (5, stack.frames()));
        // A place that is on no stack stands alone.
        assert_eq!((seven.weight, &seven.frames[..]), (7, &[2][..]));
        table.clear();
        assert_eq!(table.sums(), []);
    }

    #[test]
    fn what_finds_no_room_is_told() {
        let table = StackTable::with_slots(8);
        for place in 0..100 {
            table.add(&Stack::take(Origin::Interrupted(place)), 1);
        }
        assert_eq!(table.sums().len(), 8);
        assert_eq!(table.lost(), 92);
    }

    #[test]
    fn threads_add_at_the_same_time() {
        let table = StackTable::with_slots(64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for turn in 0..10_000 {
                        table.add(&Stack::take(Origin::Interrupted(turn % 10)), 1);
                    }
                });
            }
        });
        // The threads share no name of their own, so they share their stacks.
        let sums = table.sums();
        assert_eq!(sums.len(), 10);
        assert!(sums.iter().all(|sum| sum.weight == 4000), "{sums:?}");
    }
}
