//! Requests of repair and of tombstone GC.

mod forgetting;
mod rebuilding;
mod sessions;

use super::*;
