//! Memory that is asked for, by sampling.
//!
//! [`Allocator`] stands in front of the real allocator. While allocations are
//! recorded, each thread counts down the bytes that it asks for, from a random
//! number with an exponential distribution; the allocation that passes zero is
//! sampled, with its stack. This is a Poisson process over bytes: an allocation
//! of `s` bytes is met with probability `1 - exp(-s / mean)`, whatever came
//! before, and counts for `s` divided by that. So the sums are unbiased, and a
//! long allocation is hardly ever missed.
//!
//! What is given back is not counted: the profile says who asks, not who holds.
//! A reallocation counts for what it asks for beyond what it had.

use crate::recorder::{self, ProfileKind};
use crate::stack::{Origin, Stack};
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many bytes lie between two samples, on the average.
const SAMPLE_BYTES_MEAN: f64 = (128 << 10) as f64;

/// An allocator that can tell who asks for memory, in front of `A`, which
/// gives it. Made for `#[global_allocator]`.
#[derive(Debug, Default)]
pub struct Allocator<A>(A);

impl<A> Allocator<A> {
    /// Puts itself in front of `allocator`.
    pub const fn new(allocator: A) -> Self {
        Self(allocator)
    }
}

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: every call goes to the real allocator as it is. What is done beside it
// touches no memory but that of the thread and the recorder's table, and does
// not allocate.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Allocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promises are those that this call asks for.
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

/// A thread's place in its process of samples.
struct Countdown {
    /// How many bytes are left until the next sample.
    bytes: Cell<f64>,
    /// The state of its random numbers; 0 before the first.
    random: Cell<u64>,
    /// How many allocations it has seen.
    seen: Cell<u64>,
}

thread_local! {
    // Made by the compiler and never dropped: the first allocation of a thread
    // finds it, and so does the last.
    static COUNTDOWN: Countdown = const {
        Countdown { bytes: Cell::new(0.0), random: Cell::new(0), seen: Cell::new(0) }
    };
}

#[cold]
fn count_down(bytes: usize) {
    if bytes == 0 {
        return;
    }
    // A thread without its local memory is at its very end.
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

/// What an allocation that was sampled stands for, in bytes.
fn weight_of(bytes: usize) -> u64 {
    let bytes = bytes as f64;
    // 1 - exp(-x), exact for small x too.
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
        // Between 0, which it never is, and 1.
        let uniform = ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        -uniform.ln() * SAMPLE_BYTES_MEAN
    }
}

/// Another one for each thread, and never 0.
fn seed() -> u64 {
    static SEEDS: AtomicU64 = AtomicU64::new(0);
    let number = SEEDS.fetch_add(1, Ordering::Relaxed) + 1;
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 32)).max(1)
}

/// Whether allocations pass through here. To be asked while they are recorded.
pub(crate) fn is_installed() -> bool {
    let seen = || COUNTDOWN.with(|countdown| countdown.seen.get());
    let before = seen();
    drop(std::hint::black_box(Box::new(0_u64)));
    seen() != before
}
