//! What the nodes of a cluster decide together: pure functions and state
//! machines, without I/O and without a clock of their own.
//!
//! - [`HybridClock`] gives the timestamps that order versions.

mod hybrid_clock;
mod replicas;

pub use hybrid_clock::HybridClock;
pub use replicas::Miss;
