//! One recording at a time: who may record, and when what was recorded may be read.
//!
//! [`ACTIVE`] says what is recorded. Whoever records first enters
//! ([`IN_FLIGHT`]) and then looks at [`ACTIVE`] once more; whoever ends a
//! recording first clears [`ACTIVE`] and then waits for all to have left. Both
//! are sequentially consistent, so either the one is seen to be in flight, or it
//! sees that the recording is over.

use crate::profile::Profile;
use crate::stack::Stack;
use crate::stack_table::StackTable;
use crate::symbols;
use crate::{allocator, cpu, waits};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What a profile is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// CPU time, in samples.
    Cpu = 1,
    /// Memory that was asked for, in bytes.
    Allocations = 2,
    /// Waits for locks, in queues and for disks and peers, in nanoseconds.
    Waits = 3,
}

/// In [`ACTIVE`]: nothing is recorded.
const NOTHING: u8 = 0;

/// How long the end of a recording waits for those that are in the middle of
/// it. They take microseconds; one that the system has stopped for longer only
/// adds to sums that have been read.
const QUIET_MAX: Duration = Duration::from_secs(1);

static ACTIVE: AtomicU8 = AtomicU8::new(NOTHING);
static IN_FLIGHT: AtomicUsize = AtomicUsize::new(0);
/// Whether there is a [`Recording`].
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Made for the first recording and kept for all: a signal may come late.
static TABLE: OnceLock<StackTable> = OnceLock::new();

/// Whether this kind is recorded.
#[inline]
pub(crate) fn is_on(kind: Kind) -> bool {
    ACTIVE.load(Ordering::Relaxed) == kind as u8
}

/// Adds to the sum of a stack, if this kind is still recorded. Neither
/// allocates nor locks, as far as `stack` does not.
pub(crate) fn record(kind: Kind, weight: u64, stack: impl FnOnce() -> Stack) {
    during(kind, || {
        if let Some(table) = TABLE.get() {
            table.add(&stack(), weight);
        }
    });
}

/// Does something to what is recorded, if this kind still is.
pub(crate) fn during(kind: Kind, action: impl FnOnce()) {
    IN_FLIGHT.fetch_add(1, Ordering::SeqCst);
    if ACTIVE.load(Ordering::SeqCst) == kind as u8 {
        action();
    }
    IN_FLIGHT.fetch_sub(1, Ordering::SeqCst);
}

/// Waits until nobody records any more.
fn wait_for_quiet() {
    let began = Instant::now();
    while IN_FLIGHT.load(Ordering::SeqCst) > 0 && began.elapsed() < QUIET_MAX {
        std::thread::yield_now();
    }
}

/// Why a recording cannot be.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is one already, of whatever kind.
    #[error("another profile is being recorded: try again when it is done")]
    Busy,
    /// Allocations do not pass through [`crate::Allocator`].
    #[error("this program was built without the allocator that counts")]
    NoAllocator,
    /// The system refused a timer or a signal handler.
    #[error("the system cannot sample: {0}")]
    System(#[from] io::Error),
}

/// What is being recorded, until it is [finished](Recording::finish) or dropped.
#[derive(Debug)]
pub struct Recording {
    kind: Kind,
    began: Instant,
}

impl Recording {
    /// Begins to record, in all threads of the process. May take some
    /// milliseconds the first time.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(kind: Kind) -> Result<Self, StartError> {
        if TAKEN.swap(true, Ordering::SeqCst) {
            return Err(StartError::Busy);
        }
        // From here on its drop lets the next one in.
        let recording = Self {
            kind,
            began: Instant::now(),
        };
        wait_for_quiet();
        Stack::prepare();
        TABLE.get_or_init(StackTable::new).clear();
        waits::clear();
        ACTIVE.store(kind as u8, Ordering::SeqCst);
        match kind {
            Kind::Cpu => cpu::start()?,
            Kind::Allocations if !allocator::is_installed() => return Err(StartError::NoAllocator),
            Kind::Allocations | Kind::Waits => {}
        }
        Ok(recording)
    }

    /// Ends the recording and makes a profile of it. Blocks, for a second or
    /// so: addresses are looked up in the debugging information of the program.
    #[must_use]
    pub fn finish(self) -> Profile {
        self.stop();
        let took = self.began.elapsed();
        wait_for_quiet();
        let (sums, lost) = match TABLE.get() {
            Some(table) => (table.sums(), table.lost()),
            None => (Vec::new(), 0),
        };
        let mut lines = symbols::fold(self.kind, &sums);
        for (frames, weight) in waits::sums() {
            *lines.entry(frames).or_default() += weight;
        }
        if lost > 0 {
            lines.insert("(stacks beyond what a recording holds)".to_owned(), lost);
        }
        Profile::new(self.kind, took, lines)
    }

    fn stop(&self) {
        ACTIVE.store(NOTHING, Ordering::SeqCst);
        if self.kind == Kind::Cpu {
            cpu::stop();
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.stop();
        TAKEN.store(false, Ordering::SeqCst);
    }
}

impl Kind {
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
