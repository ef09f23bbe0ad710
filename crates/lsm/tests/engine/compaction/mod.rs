//! Compaction: what it does, when, and what it drops.

mod background;
mod gc_threshold;
mod non_owned;
mod purge;
mod stuck;
mod whole;
