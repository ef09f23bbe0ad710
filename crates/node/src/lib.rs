//! A node: HTTP, admission, runtimes, and the store behind them.
//!
//! From the socket to the disk:
//! - [`Node`] (`node`) starts and stops everything; [`NodeConfig`] (`config`)
//!   says what can be set and divides the memory.
//! - `runtime` is a thread with a scheduler of its own; an acceptor hands each
//!   connection to the runtime that has the fewest. `context` is what the
//!   requests of a runtime work with.
//! - `http` turns requests into answers; `admission` decides which to take on.
//! - `coordinator` asks the replicas of a key and counts answers; `stamping`
//!   orders writes.
//! - `outbox` brings answers of other threads back to the waiting request:
//!   those of group commits, and of `read_pool`, where reads may block.
//! - `membership` remembers which node of which cluster this is.
//! - `hints` keeps writes that peers missed, and delivers them.
//! - `executor` gives the store its threads.
//! - `peer` is how nodes ask each other.
//! - `metrics` counts; `waits` names the places where requests wait, for
//!   profiles of them.

mod admission;
mod config;
mod context;
mod coordinator;
mod executor;
mod expiry;
#[doc(hidden)]
pub mod fuzzing;
mod hints;
mod http;
mod membership;
mod metrics;
mod node;
mod outbox;
mod peers;
mod places;
mod read_pool;
mod replica;
mod runtime;
mod shared;
#[doc(hidden)]
pub mod simulation;
mod stamping;
mod submissions;
mod waiters;
mod waits;

pub use config::{ConfigError, MEMORY_BYTES_MIN, MemorySplit, NodeConfig, Secret, bounds};
pub use node::{Node, Seams, StartError};
#[doc(hidden)]
pub use peer::Protocol;
pub use peer::{Dialing, Stream, TcpTransport, Transport};
