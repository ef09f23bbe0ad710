//! How many long blocks are read at a time.
//!
//! A usual block is nothing beside the memory of a store, however many threads
//! read one. A long one, with the value of megabytes that has it to itself, is
//! there twice while it is unpacked. So the reads of long blocks have some
//! memory together: who finds it taken waits for its turn, in the order of
//! arrival. A read that needs more than all of it goes alone. Nobody waits for
//! anything else while it has its turn, so each wait ends with the reads before.

use crate::sync::lock;
use crate::wait_sites;
use profile::Stopwatch;
use std::sync::{Condvar, Mutex, PoisonError};

/// The memory of all reads of long blocks together, in bytes.
const BYTES_MAX: usize = 8 << 20;

/// Hands out turns to read long blocks.
#[derive(Default)]
pub(crate) struct LongReads {
    queue: Mutex<TurnQueue>,
    changed: Condvar,
}

#[derive(Default)]
struct TurnQueue {
    /// The memory of those that have a turn, in bytes.
    bytes: usize,
    /// The number that the next to come gets.
    last: u64,
    /// The number whose turn is next.
    next: u64,
}

/// A turn to read; ends when it is dropped.
pub(crate) struct LongReadTurn<'a> {
    reads: &'a LongReads,
    bytes: usize,
}

impl LongReads {
    /// Waits for a turn to read a block that takes so many bytes of memory.
    pub(crate) fn wait(&self, bytes: usize) -> LongReadTurn<'_> {
        let mut queue = lock(&self.queue);
        let number = queue.last;
        queue.last += 1;
        let stopwatch = Stopwatch::start();
        while queue.next != number || queue.bytes > 0 && queue.bytes + bytes > BYTES_MAX {
            queue = self
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
        stopwatch.stop(&wait_sites::LONG_READ);
        queue.next += 1;
        queue.bytes += bytes;
        drop(queue);
        // There may be room for the one behind as well.
        self.changed.notify_all();
        LongReadTurn { reads: self, bytes }
    }
}

impl Drop for LongReadTurn<'_> {
    fn drop(&mut self) {
        lock(&self.reads.queue).bytes -= self.bytes;
        self.reads.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn what_is_read_at_a_time_stays_within_the_bound_and_all_get_their_turn() {
        let reads = LongReads::default();
        let (held, most, done) = (
            AtomicUsize::new(0),
            AtomicUsize::new(0),
            AtomicUsize::new(0),
        );
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (reads, held, most, done) = (&reads, &held, &most, &done);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(thread);
                    for _ in 0..200 {
                        let bytes = random.usize(1..BYTES_MAX / 2);
                        let turn = reads.wait(bytes);
                        most.fetch_max(held.fetch_add(bytes, SeqCst) + bytes, SeqCst);
                        std::thread::yield_now();
                        held.fetch_sub(bytes, SeqCst);
                        drop(turn);
                        done.fetch_add(1, SeqCst);
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), 1600);
        assert!(most.into_inner() <= BYTES_MAX);
    }

    #[test]
    fn what_needs_more_than_there_is_goes_alone() {
        let reads = LongReads::default();
        let small = reads.wait(1);
        std::thread::scope(|scope| {
            let huge = scope.spawn(|| drop(reads.wait(10 * BYTES_MAX)));
            while lock(&reads.queue).last < 2 {
                std::thread::yield_now();
            }
            assert!(!huge.is_finished());
            // One that would fit comes behind it all the same.
            let behind = scope.spawn(|| drop(reads.wait(1)));
            while lock(&reads.queue).last < 3 {
                std::thread::yield_now();
            }
            assert_eq!(lock(&reads.queue).next, 1);
            drop(small);
            huge.join().unwrap();
            behind.join().unwrap();
        });
        assert_eq!(lock(&reads.queue).bytes, 0);
    }
}
