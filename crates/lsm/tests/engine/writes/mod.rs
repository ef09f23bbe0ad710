//! Writes: their way to the memtable, what their writers are told, and sorted entries that become tables.

mod acknowledged;
mod backpressure;
mod closed_timestamp;
mod commits;
mod ingest;
mod ingest_beside;
mod log_reuse;
mod newer_versions;
mod promises;
mod write_rate;
mod writeback;
