//! Profiles of the running process: where CPU time is spent (`cpu`), where
//! memory is allocated (`alloc`), and what is waited for (`wait`).
//!
//! All three work alike. On an event (a tick of CPU time, an allocation, the
//! end of a wait) the stack of the thread is captured, and its weight (a
//! sample, bytes, nanoseconds) is added to the stack's sum in a table
//! (`stack/table`). Only at the end of the recording are addresses resolved to
//! names (`recording/symbols`) and the sums drawn as a flame graph (`recording/flame_graph`).
//!
//! A recording of spans ([`SpanRecording`]) keeps waits one by one instead, with their
//! times, to show what single requests waited for.
//!
//! Invariants:
//! - There is at most one recording at a time ([`Recording`], [`SpanRecording`]) in the
//!   process.
//! - While nothing is recorded, the overhead is one relaxed load of an atomic
//!   (`recorder::is_on`) per allocation and per wait in a queue, and none for a
//!   free lock.
//! - Capturing and adding a stack neither allocates nor locks, so both are
//!   possible in a signal handler and in the allocator.
//! - Memory is bounded: the table has a fixed size, and counts the weight of
//!   stacks that did not fit.
//!
//! [`ProcessorTimes`] tell what the system counts of one thread, recording or not.
//!
//! All unsafe code of the project is in this crate: the allocator
//! ([`Allocator`]), the signal handler (`cpu`), the signal that is ignored
//! (`system/file_size_signal`), how a static program looks up hosts (`system/host_names`), the
//! stack walk (`stack`), and the clocks that std does not have (`system/time`).

mod allocator;
mod cpu;
mod recorder;
mod recording;
mod spans;
mod stack;
mod system;
mod waits;

pub use allocator::Allocator;
pub use recorder::ProfileKind;
pub use recording::{Profile, Recording, RecordingError, SpanRecording};
pub use spans::{STEPS, record_steps, records_spans, thread_parks, thread_wakes};
pub use system::{
    ProcessorTime, ProcessorTimes, look_up_hosts_without_modules, monotonic_ns,
    survive_file_size_limit,
};
pub use waits::{Stopwatch, WaitSite, Waiting, lock, read, write};
