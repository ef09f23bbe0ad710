//! Replicas become equal: by hints, reads, repair and tombstone GC.

mod compactions;
mod damage;
mod digests;
pub(crate) mod equal_stores;
mod handoff;
mod requests;
mod set_aside;
mod tombstone_gc;
