//! Requests of repair and of tombstone GC.

mod filling;
mod forgetting;
mod sweeps;

use super::*;
