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
//! - `metrics` counts.

mod admission;
mod config;
mod context;
mod coordinator;
mod executor;
#[cfg_attr(
    not(test),
    expect(
        dead_code,
        unused_imports,
        reason = "the coordinator that keeps hints comes next"
    )
)]
mod hints;
mod http;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the handshake that tells it of peers comes next")
)]
mod membership;
mod metrics;
mod node;
mod outbox;
mod read_pool;
mod runtime;
mod stamping;
mod submissions;

pub use config::{
    ConfigError, MEMORY_BYTES_MIN, MemorySplit, NodeConfig, ReplicasDefault, bounds, check_url,
};
pub use node::{Node, Seams, StartError};
