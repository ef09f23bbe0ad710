//! Compaction: what it does, when, and what it drops.

mod background;
mod beside;
mod gc_threshold;
mod moves;
mod non_owned;
mod overhead;
mod purge;
mod stuck;
mod whole;
