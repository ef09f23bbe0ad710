//! Sums by stack in memory of a fixed size, for concurrent threads and signal
//! handlers.
//!
//! A lock-free hash table with open addressing. A thread claims a slot by
//! changing its fingerprint from 0, which happens once per slot; that thread
//! writes the frames, and all threads add to the weight. Frames are read only
//! when no thread records any more, so readers need not wait until they are
//! complete. Only [`StackTable::clear`] removes stacks.

use super::{DEPTH_MAX, NAME_BYTES, Stack};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How many different stacks a recording can hold, in about 7 MB of memory.
const SLOTS: usize = 8192;

/// How many slots are probed for a stack.
const PROBES_MAX: usize = 32;

/// The length of a thread's name in 64-bit words.
const NAME_WORDS: usize = NAME_BYTES / 8;

/// Sums by stack.
pub(crate) struct StackTable {
    slots: Box<[StackSlot]>,
    /// The weight of stacks that did not fit.
    lost: AtomicU64,
}

struct StackSlot {
    /// The fingerprint of the slot's stack; 0 for a free slot.
    fingerprint: AtomicU64,
    weight: AtomicU64,
    thread: [AtomicU64; NAME_WORDS],
    depth: AtomicUsize,
    frames: [AtomicUsize; DEPTH_MAX],
}

/// A stack and its sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StackSum {
    /// The thread's name.
    pub(crate) thread: String,
    /// Return addresses, innermost first.
    pub(crate) frames: Vec<usize>,
    /// Whether outer frames were cut off.
    pub(crate) is_cut: bool,
    /// Samples, bytes or nanoseconds.
    pub(crate) weight: u64,
}

impl StackTable {
    /// Creates an empty table with all its memory.
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

    /// Adds `weight` to the sum of `stack`. Does not allocate, lock or wait.
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

    /// Removes all stacks. No thread may be adding.
    pub(crate) fn clear(&self) {
        for slot in &self.slots {
            slot.fingerprint.store(0, Ordering::Relaxed);
            slot.weight.store(0, Ordering::Relaxed);
        }
        self.lost.store(0, Ordering::Relaxed);
    }

    /// All stacks and their sums. No thread may be adding.
    pub(crate) fn sums(&self) -> Vec<StackSum> {
        let used = |slot: &&StackSlot| slot.fingerprint.load(Ordering::Relaxed) != 0;
        self.slots
            .iter()
            .filter(used)
            .map(StackSlot::read)
            .collect()
    }

    /// The weight of stacks that did not fit.
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
        // An address that is on no stack stands alone.
        assert_eq!((seven.weight, &seven.frames[..]), (7, &[2][..]));
        table.clear();
        assert_eq!(table.sums(), []);
    }

    #[test]
    fn stacks_that_do_not_fit_are_counted() {
        let table = StackTable::with_slots(8);
        for address in 0..100 {
            table.add(&Stack::take(Origin::Interrupted(address)), 1);
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
        // The threads have the same name, so they share their stacks.
        let sums = table.sums();
        assert_eq!(sums.len(), 10);
        assert!(sums.iter().all(|sum| sum.weight == 4000), "{sums:?}");
    }
}
