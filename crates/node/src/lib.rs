//! One node's part in the cluster: what a process needs to answer for a store.
//! It knows no HTTP, no sockets and no admission; what serves it gives it a
//! transport, an executor, and runtimes to work on.
//!
//! - [`Node`] (`node`) is opened and closed; [`NodeConfig`] (`config`) says what
//!   can be set, [`Resources`] what it is given to work with.
//! - [`Worker`] (`worker`) answers on one runtime: its coordinator, its links to
//!   the other nodes (`peers`), its own replica, and their upkeep.
//! - `coordinator` asks the replicas of a key and counts answers; `stamping`
//!   orders writes.
//! - `completion_queue` brings answers of other threads back to the waiting request:
//!   those of group commits, and of `read_pool`, where reads may block.
//! - `membership` remembers which node of which cluster this is.
//! - `hints` keeps writes that peers missed, and delivers them.
//! - [`metrics`] counts, and [`families`] tells what was counted; `waits` names the places where requests wait, for
//!   profiles of them.

mod completion_queue;
mod config;
mod coordinator;
mod expiry;
mod families;
#[doc(hidden)]
pub mod fuzzing;
mod hints;
mod membership;
pub mod metrics;
mod node;
mod or_abort;
mod peers;
mod pending;
mod read_pool;
mod replicas;
mod seams;
#[doc(hidden)]
pub mod simulation;
mod stamping;
mod submissions;
mod turn_budget;
mod wait_sites;
mod worker;

pub use config::{
    BATCH_BYTES_MAX, ConfigError, MemoryParts, NodeConfig, Resources, Secret, bounds,
};
pub use coordinator::{
    Batch, BatchFailure, Change, Coordinator, Failure, Found, Receipt, ReplicaLine, Written,
};
pub use families::families;
pub use hints::HintsWaiting;
pub use node::{Load, Node};
pub use or_abort::or_abort;
pub use seams::{OpenError, Seams};
pub use stamping::{NoStamp, StampingStatus};
pub use turn_budget::Allotment;
pub use worker::Worker;
