//! Samples allocations.
//!
//! [`Allocator`] wraps the real allocator. While allocations are recorded, each
//! thread counts down its allocated bytes from a random number with an
//! exponential distribution, and samples the allocation that passes zero. This
//! is a Poisson process over bytes: an allocation of `s` bytes is sampled with
//! probability `1 - exp(-s / mean)`, independent of earlier ones, and has the
//! weight `s` divided by that probability. So the sums are unbiased, and a
//! large allocation is hardly ever missed.
//!
//! Deallocations are not counted: the profile shows where memory is allocated,
//! not what holds it. A reallocation counts for the bytes that it adds.

use crate::recorder::{self, ProfileKind};
use crate::stack::{Origin, Stack};
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The average number of bytes between two samples.
const SAMPLE_BYTES_MEAN: f64 = (128 << 10) as f64;

/// An allocator that can sample allocations, in front of `A`, which makes them.
/// It is meant for `#[global_allocator]`.
#[derive(Debug, Default)]
pub struct Allocator<A>(A);

impl<A> Allocator<A> {
    /// Wraps `allocator`.
    pub const fn new(allocator: A) -> Self {
        Self(allocator)
    }
}

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: each call is passed on to the real allocator unchanged. The sampling
// only touches memory of the thread and the recorder's table, and does not
// allocate.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Allocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller guarantees what this call requires.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: as above.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        note(bytes.saturating_sub(layout.size()));
        // SAFETY: as above.
        unsafe { self.0.realloc(memory, layout, bytes) }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { self.0.dealloc(memory, layout) }
    }
}

#[inline]
fn note(bytes: usize) {
    if recorder::is_on(ProfileKind::Allocations) {
        count_down(bytes);
    }
}

/// The countdown of a thread to its next sample.
struct Countdown {
    /// The bytes left until the next sample.
    bytes: Cell<f64>,
    /// The state of its random numbers; 0 before the first one.
    random: Cell<u64>,
    /// The number of allocations so far.
    seen: Cell<u64>,
}

thread_local! {
    // Initialized at compile time and never dropped, so it exists during the
    // first allocation of a thread and during the last.
    static COUNTDOWN: Countdown = const {
        Countdown { bytes: Cell::new(0.0), random: Cell::new(0), seen: Cell::new(0) }
    };
}

#[cold]
fn count_down(bytes: usize) {
    if bytes == 0 {
        return;
    }
    // The thread-local is gone only at the very end of a thread.
    let _ = COUNTDOWN.try_with(|countdown| {
        countdown.seen.set(countdown.seen.get().wrapping_add(1));
        if countdown.random.get() == 0 {
            countdown.random.set(seed());
            countdown.bytes.set(countdown.next_distance());
        }
        let left = countdown.bytes.get() - bytes as f64;
        if left > 0.0 {
            countdown.bytes.set(left);
            return;
        }
        countdown.bytes.set(countdown.next_distance());
        let weight = weight_of(bytes);
        recorder::record(ProfileKind::Allocations, weight, || {
            Stack::take(Origin::Here)
        });
    });
}

/// The weight of a sampled allocation, in bytes.
fn weight_of(bytes: usize) -> u64 {
    let bytes = bytes as f64;
    // 1 - exp(-x), also exact for small x.
    let probability = -(-bytes / SAMPLE_BYTES_MEAN).exp_m1();
    (bytes / probability) as u64
}

impl Countdown {
    /// The distance to the next sample, in bytes.
    fn next_distance(&self) -> f64 {
        let mut state = self.random.get();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.random.set(state);
        // Between 0 and 1, and never 0.
        let uniform = ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        -uniform.ln() * SAMPLE_BYTES_MEAN
    }
}

/// A seed that is different for each thread and never 0.
fn seed() -> u64 {
    static SEEDS: AtomicU64 = AtomicU64::new(0);
    let number = SEEDS.fetch_add(1, Ordering::Relaxed) + 1;
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 32)).max(1)
}

/// Whether allocations pass through [`Allocator`]. Allocations must be recorded
/// during the call.
pub(crate) fn is_installed() -> bool {
    let seen = || COUNTDOWN.with(|countdown| countdown.seen.get());
    let before = seen();
    drop(std::hint::black_box(Box::new(0_u64)));
    seen() != before
}
