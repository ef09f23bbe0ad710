//! What a write meets before the log: the queue, its admission, the pace of the writers, and
//! what its writer is told.

pub(super) mod admission;
pub(super) mod closed_timestamp;
pub(super) mod committer;
pub(super) mod ingests;
pub(super) mod newer_versions;
pub(super) mod outbox;
pub(super) mod queue;
pub(super) mod write_rate;
