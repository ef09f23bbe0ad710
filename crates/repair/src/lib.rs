//! Anti-entropy and tombstone GC: how the stores of a cluster become equal, and when what is
//! dead may go.
//!
//! - [`sweep`] compares what the nodes keep, and sends each missing version where it belongs.
//!   A node drives a pass with its [`Sweeper`](sweep::Sweeper), or takes part in one.
//! - [`forgetting`] remembers the closed timestamp of the store and the GC threshold, below
//!   which what is dead may be dropped.
//! - `surplus` says which non-owned copies may be dropped.

pub mod forgetting;
mod surplus;
pub mod sweep;
mod sweep_sizes;

pub use surplus::{SurplusRule, SurplusStatus};
pub use sweep_sizes::SweepSizes;
