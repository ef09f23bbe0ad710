//! A node: HTTP, admission, runtimes, and the store behind them.
//!
//! From the socket to the disk:
//! - [`Node`] (`node`) starts and stops everything; [`ServerConfig`]
//!   (`server_config`) says what can be set and divides the memory; the node's
//!   part is [`NodeConfig`] (`config`).
//! - `runtime` is a thread with a scheduler of its own; an acceptor hands each
//!   connection to the runtime that has the fewest. Each has a `door`, which
//!   decides what to take on, and behind it a `worker`, which answers for the
//!   store.
//! - `http` turns requests into answers.
//! - `coordinator` asks the replicas of a key and counts answers; `stamping`
//!   orders writes.
//! - `outbox` brings answers of other threads back to the waiting request:
//!   those of group commits, and of `read_pool`, where reads may block.
//! - `membership` remembers which node of which cluster this is.
//! - `hints` keeps writes that peers missed, and delivers them.
//! - `executor` gives the store its threads.
//! - `peer` is how nodes ask each other.
//! - `metrics` and `door_metrics` count; `waits` names the places where requests wait, for
//!   profiles of them.

mod config;
mod coordinator;
mod door;
mod door_metrics;
mod executor;
mod expiry;
#[doc(hidden)]
pub mod fuzzing;
mod hints;
mod http;
mod membership;
mod metrics;
mod node;
mod or_abort;
mod outbox;
mod peers;
mod read_pool;
mod replica;
mod runtime;
mod seams;
mod server_config;
mod shared;
#[doc(hidden)]
pub mod simulation;
mod stamping;
mod submissions;
mod turn_budget;
mod waiters;
mod waits;
mod worker;

pub use config::{ConfigError, MemoryParts, NodeConfig, Resources, Secret};
pub use node::{Node, StartError};
#[doc(hidden)]
pub use peer::Protocol;
pub use peer::{Dialing, Stream, TcpTransport, Transport};
pub use seams::{OpenError, Seams};
pub use server_config::{MEMORY_BYTES_MIN, MemorySplit, ServerConfig, bounds};
