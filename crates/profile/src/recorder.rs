//! The recorder, which synchronizes recording threads with the end of a
//! recording.
//!
//! [`ACTIVE`] says what is recorded. A recording thread increments
//! [`IN_FLIGHT`] and then checks [`ACTIVE`] again. The end of a recording
//! clears [`ACTIVE`] and then waits until [`IN_FLIGHT`] is 0. Both are
//! sequentially consistent, so either the end sees the thread in flight, or the
//! thread sees that the recording is over.

use crate::stack::Stack;
use crate::stack::table::{StackSum, StackTable};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The kind of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ProfileKind {
    /// CPU time, in samples.
    Cpu = 1,
    /// Allocated memory, in bytes.
    Allocations = 2,
    /// Waits for locks, in queues and for disks and peers, in nanoseconds.
    Waits = 3,
}

impl ProfileKind {
    /// Parses a kind: `cpu`, `alloc` or `wait`.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::Cpu, Self::Allocations, Self::Waits]
            .into_iter()
            .find(|kind| kind.word() == word)
    }

    /// The name of the kind in requests.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Allocations => "alloc",
            Self::Waits => "wait",
        }
    }
}

/// The value of [`ACTIVE`] while nothing is recorded.
const NOTHING: u8 = 0;

/// The value of [`ACTIVE`] while spans are recorded.
const SPANS: u8 = 4;

/// How long the end of a recording waits for threads that are recording. They
/// need microseconds. A thread that the system suspends for longer only adds to
/// sums that have already been read.
const QUIET_MAX: Duration = Duration::from_secs(1);

static ACTIVE: AtomicU8 = AtomicU8::new(NOTHING);
static IN_FLIGHT: AtomicUsize = AtomicUsize::new(0);
/// Created for the first recording and kept, because a signal may arrive late.
static TABLE: OnceLock<StackTable> = OnceLock::new();

/// Whether this kind is recorded.
#[inline]
pub(crate) fn is_on(kind: ProfileKind) -> bool {
    ACTIVE.load(Ordering::Relaxed) == kind as u8
}

/// Whether spans are recorded.
#[inline]
pub(crate) fn records_spans() -> bool {
    ACTIVE.load(Ordering::Relaxed) == SPANS
}

/// Whether waits are timed, for their sums or as spans.
#[inline]
pub(crate) fn times_waits() -> bool {
    let active = ACTIVE.load(Ordering::Relaxed);
    active == ProfileKind::Waits as u8 || active == SPANS
}

/// Adds to the sum of a stack if this kind is still recorded. Neither allocates
/// nor locks, unless `stack` does.
pub(crate) fn record(kind: ProfileKind, weight: u64, stack: impl FnOnce() -> Stack) {
    during(kind, || {
        if let Some(table) = TABLE.get() {
            table.add(&stack(), weight);
        }
    });
}

/// Runs `action` if this kind is still recorded; the end of the recording waits
/// for it.
pub(crate) fn during(kind: ProfileKind, action: impl FnOnce()) {
    while_active(kind as u8, action);
}

/// The same while spans are recorded.
pub(crate) fn during_spans(action: impl FnOnce()) {
    while_active(SPANS, action);
}

fn while_active(value: u8, action: impl FnOnce()) {
    IN_FLIGHT.fetch_add(1, Ordering::SeqCst);
    if ACTIVE.load(Ordering::SeqCst) == value {
        action();
    }
    IN_FLIGHT.fetch_sub(1, Ordering::SeqCst);
}

/// Clears the sums before a recording.
pub(crate) fn clear() {
    wait_for_quiet();
    Stack::prepare();
    TABLE.get_or_init(StackTable::new).clear();
}

/// Starts recording this kind.
pub(crate) fn begin(kind: ProfileKind) {
    ACTIVE.store(kind as u8, Ordering::SeqCst);
}

/// Starts recording spans.
pub(crate) fn begin_spans() {
    ACTIVE.store(SPANS, Ordering::SeqCst);
}

/// Stops recording.
pub(crate) fn end() {
    ACTIVE.store(NOTHING, Ordering::SeqCst);
}

/// The recorded sums, and the weight of stacks that did not fit into the table.
pub(crate) fn sums() -> (Vec<StackSum>, u64) {
    wait_for_quiet();
    match TABLE.get() {
        Some(table) => (table.sums(), table.lost()),
        None => (Vec::new(), 0),
    }
}

/// Waits until no thread is recording.
pub(crate) fn wait_for_quiet() {
    let began = Instant::now();
    while IN_FLIGHT.load(Ordering::SeqCst) > 0 && began.elapsed() < QUIET_MAX {
        std::thread::yield_now();
    }
}
