//! Profiles of the running process: where its time goes (`cpu`), by whom its
//! memory is asked for (`alloc`), and what it waits for (`lock`).
//!
//! The idea is the same for all three. Something happens (a clock tick of CPU
//! time, an allocation, the end of a wait), the stack of the thread is taken,
//! and its weight (a sample, bytes, nanoseconds) is added to that stack's sum
//! in a table (`stack_table`). Only when the recording ends are addresses made
//! into names (`symbols`) and the sums into a picture (`flame_graph`).
//!
//! Invariants:
//! - One recording at a time ([`Recording`]), in the whole process.
//! - While none runs, what is left in the way of the process is one relaxed load
//!   of an atomic (`recorder::is_on`) for an allocation and for a
//!   wait in a queue, and nothing at all for a lock that is free.
//! - Taking and adding a stack neither allocates nor locks, so it may happen in
//!   a signal handler and inside the allocator.
//! - All memory is bounded: the table has a fixed size, and tells what it lost.
//!
//! The unsafe code of the project is in this crate: the allocator ([`Allocator`]),
//! the signal handler (`cpu`), and the walk along the stack (`stack`).

mod allocator;
mod cpu;
mod flame_graph;
mod profile;
mod recorder;
mod recording;
mod stack;
mod stack_table;
mod symbols;
mod waits;

pub use allocator::Allocator;
pub use profile::Profile;
pub use recorder::ProfileKind;
pub use recording::{Recording, RecordingError};
pub use waits::{Stopwatch, WaitSite, lock};
