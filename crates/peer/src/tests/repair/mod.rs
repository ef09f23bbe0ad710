//! Requests of repair and of tombstone GC.

mod gc_threshold;
mod rebuilding;
mod sessions;

use super::*;
