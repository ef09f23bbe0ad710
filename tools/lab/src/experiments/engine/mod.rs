//! What the storage engine makes of them: tables, flushes, syncs, scans.

pub(super) mod durability;
pub(super) mod flush;
pub(super) mod range;
pub(super) mod slowest;
pub(super) mod tables;
