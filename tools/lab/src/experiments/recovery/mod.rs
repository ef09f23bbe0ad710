//! What happens when nodes fail, and how they recover.

pub(super) mod healing;
pub(super) mod members;
pub(super) mod outage;
pub(super) mod tombstone_gc;
