//! Anti-entropy and tombstone GC: how the stores of a cluster become equal, and when what is
//! dead may go.
//!
//! - [`session`] compares what the nodes keep, and sends each missing version where it belongs.
//!   A node coordinates a session with its [`RepairWorker`](session::RepairWorker), or takes part
//!   in one.
//! - [`store`] is the store's side of sessions: its closed timestamp, and the GC threshold below
//!   which what is dead may be dropped.
//! - `surplus` says which non-owned copies may be dropped.

pub mod session;
mod sizes;
pub mod store;
mod surplus;

pub use sizes::RepairSizes;
pub use surplus::{SurplusRule, SurplusStatus};
