//! What a write meets before the log: the queue, its admission, the pace of the writers, and
//! what its writer is told.
//!
//! `queue` is where writes wait for the next group commit, `admission` which are taken:
//! `closed_timestamp` and `promises` decide that. `committer` belongs to the holder of the commit
//! lock; `newer_versions` makes the answer to a write an acknowledgement, or not, and `outbox`
//! delivers it. `write_rate` paces the writers, `ingests_under_way` knows what is streamed in past
//! them.

pub(super) mod admission;
pub(super) mod closed_timestamp;
pub(super) mod committer;
pub(super) mod ingests_under_way;
pub(super) mod newer_versions;
pub(super) mod outbox;
pub(super) mod promises;
pub(super) mod queue;
pub(super) mod write_rate;
