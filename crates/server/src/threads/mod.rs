//! The threads of a node.
//!
//! - `runtime`: those that serve connections, and the acceptor that feeds them.
//! - `executor`: those of the store's jobs.
//! - `read_threads`: those of reads that may block on the disk.

pub(crate) mod executor;
pub(crate) mod read_threads;
pub(crate) mod runtime;
