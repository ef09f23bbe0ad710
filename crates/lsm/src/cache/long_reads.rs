//! Bounds the memory of long blocks that are being read.
//!
//! A usual block takes little memory, however many threads read one at a time. A
//! long block holds a value of megabytes, and is in memory twice while it is
//! unpacked. Therefore all reads of long blocks share a fixed amount of memory. A
//! read that finds too little left waits for its turn, first come, first served. A
//! read that needs more than the whole amount runs alone. No read waits for
//! anything else during its turn, so every wait ends with the reads before it.

use crate::sync::lock;
use crate::wait_sites;
use profile::Stopwatch;
use std::sync::{Condvar, Mutex, PoisonError};

/// The memory that all reads of long blocks share, in bytes.
const BYTES_MAX: usize = 8 << 20;

/// Issues turns to read long blocks.
#[derive(Default)]
pub(crate) struct LongReads {
    queue: Mutex<TurnQueue>,
    changed: Condvar,
}

#[derive(Default)]
struct TurnQueue {
    /// The memory of the current turns, in bytes.
    bytes: usize,
    /// The ticket of the next read that asks for a turn.
    next_ticket: u64,
    /// The ticket of the read whose turn comes next.
    serving: u64,
}

/// A turn to read a long block. Dropping it ends the turn.
pub(crate) struct LongReadTurn<'a> {
    reads: &'a LongReads,
    bytes: usize,
}

impl LongReads {
    /// Waits for a turn to read a block that takes `bytes` bytes of memory.
    pub(crate) fn wait(&self, bytes: usize) -> LongReadTurn<'_> {
        let mut queue = lock(&self.queue);
        let ticket = queue.next_ticket;
        queue.next_ticket += 1;
        let stopwatch = Stopwatch::start();
        while queue.serving != ticket || queue.bytes > 0 && queue.bytes + bytes > BYTES_MAX {
            queue = self
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
        stopwatch.stop(&wait_sites::LONG_READ);
        queue.serving += 1;
        queue.bytes += bytes;
        drop(queue);
        // The next read may have room at the same time.
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
    use crate::testing::waiting::{guarded, until};
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn concurrent_reads_stay_within_the_bound_and_all_get_their_turn() {
        guarded("turns of reads", read_concurrently);
    }

    fn read_concurrently() {
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
    fn a_read_that_needs_more_than_the_bound_runs_alone() {
        guarded("the turn of a large read", read_more_than_the_bound);
    }

    fn read_more_than_the_bound() {
        let reads = LongReads::default();
        let small = reads.wait(1);
        std::thread::scope(|scope| {
            let huge = scope.spawn(|| drop(reads.wait(10 * BYTES_MAX)));
            until("the large read", || lock(&reads.queue).next_ticket == 2);
            assert!(!huge.is_finished());
            // A later read waits behind it, although it would fit.
            let behind = scope.spawn(|| drop(reads.wait(1)));
            until("the later read", || lock(&reads.queue).next_ticket == 3);
            assert_eq!(lock(&reads.queue).serving, 1);
            drop(small);
            huge.join().unwrap();
            behind.join().unwrap();
        });
        assert_eq!(lock(&reads.queue).bytes, 0);
    }
}
