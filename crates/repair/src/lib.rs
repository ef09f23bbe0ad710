//! Anti-entropy and tombstone GC: how the stores of a cluster become equal, and when what is
//! dead may go.
//!
//! - [`session`] compares what the nodes keep, and sends each missing version where it belongs.
//!   A node coordinates a session with its [`RepairWorker`](session::RepairWorker), or takes part
//!   in one.
//! - [`store`] is the store's side of sessions: its closed timestamp, and the GC threshold below
//!   which what is dead may be dropped.
//! - `non_owned` says which non-owned copies may be dropped.

mod non_owned;
pub mod session;
mod sizes;
pub mod store;

pub use non_owned::{NonOwnedRule, NonOwnedStatus};
pub use sizes::RepairSizes;
