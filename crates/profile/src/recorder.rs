//! What is recorded: who may record, and when what was recorded may be read.
//!
//! [`ACTIVE`] says what is recorded. Whoever records first enters
//! ([`IN_FLIGHT`]) and then looks at [`ACTIVE`] once more; whoever ends a
//! recording first clears [`ACTIVE`] and then waits for all to have left. Both
//! are sequentially consistent, so either the one is seen to be in flight, or it
//! sees that the recording is over.

use crate::stack::Stack;
use crate::stack_table::{StackSum, StackTable};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What a profile is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ProfileKind {
    /// CPU time, in samples.
    Cpu = 1,
    /// Memory that was asked for, in bytes.
    Allocations = 2,
    /// Waits for locks, in queues and for disks and peers, in nanoseconds.
    Waits = 3,
}

impl ProfileKind {
    /// The kind that a word stands for: `cpu`, `alloc` or `lock`.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::Cpu, Self::Allocations, Self::Waits]
            .into_iter()
            .find(|kind| kind.word() == word)
    }

    /// The word by which it is asked for.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Allocations => "alloc",
            Self::Waits => "lock",
        }
    }
}

/// In [`ACTIVE`]: nothing is recorded.
const NOTHING: u8 = 0;

/// How long the end of a recording waits for those that are in the middle of
/// it. They take microseconds; one that the system has stopped for longer only
/// adds to sums that have been read.
const QUIET_MAX: Duration = Duration::from_secs(1);

static ACTIVE: AtomicU8 = AtomicU8::new(NOTHING);
static IN_FLIGHT: AtomicUsize = AtomicUsize::new(0);
/// Made for the first recording and kept for all: a signal may come late.
static TABLE: OnceLock<StackTable> = OnceLock::new();

/// Whether this kind is recorded.
#[inline]
pub(crate) fn is_on(kind: ProfileKind) -> bool {
    ACTIVE.load(Ordering::Relaxed) == kind as u8
}

/// Adds to the sum of a stack, if this kind is still recorded. Neither
/// allocates nor locks, as far as `stack` does not.
pub(crate) fn record(kind: ProfileKind, weight: u64, stack: impl FnOnce() -> Stack) {
    during(kind, || {
        if let Some(table) = TABLE.get() {
            table.add(&stack(), weight);
        }
    });
}

/// Does something to what is recorded, if this kind still is.
pub(crate) fn during(kind: ProfileKind, action: impl FnOnce()) {
    IN_FLIGHT.fetch_add(1, Ordering::SeqCst);
    if ACTIVE.load(Ordering::SeqCst) == kind as u8 {
        action();
    }
    IN_FLIGHT.fetch_sub(1, Ordering::SeqCst);
}

/// Forgets what was recorded, before anything is again.
pub(crate) fn clear() {
    wait_for_quiet();
    Stack::prepare();
    TABLE.get_or_init(StackTable::new).clear();
}

/// From here on this kind is recorded.
pub(crate) fn begin(kind: ProfileKind) {
    ACTIVE.store(kind as u8, Ordering::SeqCst);
}

/// From here on nothing is.
pub(crate) fn end() {
    ACTIVE.store(NOTHING, Ordering::SeqCst);
}

/// What was recorded, and how many stacks the table had no room for.
pub(crate) fn sums() -> (Vec<StackSum>, u64) {
    wait_for_quiet();
    match TABLE.get() {
        Some(table) => (table.sums(), table.lost()),
        None => (Vec::new(), 0),
    }
}

/// Waits until nobody records any more.
fn wait_for_quiet() {
    let began = Instant::now();
    while IN_FLIGHT.load(Ordering::SeqCst) > 0 && began.elapsed() < QUIET_MAX {
        std::thread::yield_now();
    }
}
