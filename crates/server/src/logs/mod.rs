//! What the node writes to logs, beside what `tracing` formats.
//!
//! - `line_writer`: lines of the log and of the audit log, written on a thread of its own.
//! - `slow_requests`: slow requests, with where their time went.

pub(crate) mod line_writer;
pub(crate) mod slow_requests;
