//! A server: a node on a machine, with its threads, its sockets and HTTP.
//!
//! From the socket to the node:
//! - [`Server`] (`server`) starts and stops everything; [`ServerConfig`] (`config`) is
//!   its configuration and divides the memory.
//! - `threads` are those that serve connections, and those of the store. A connection belongs
//!   to the thread that had the fewest when it came. Each has the connections of `net`, and a
//!   [`node::Worker`], which answers for the store.
//! - `admission` bounds what connections and requests take.
//! - `http` turns requests into answers.
//! - `trust` decides who may do what, writes the audit log, and reads the TLS files.
//! - `status` is what an operator sees of the node and of the cluster.
//! - `logs` writes log lines on a thread of its own, so that no serving thread waits for their
//!   reader, and says of slow requests where their time went.
//! - [`fuzzing`] is what fuzzers call.
//! - `metrics` counts requests and has the gauges of the listeners, `metrics_page` renders all
//!   metrics.

mod admission;
mod config;
pub mod fuzzing;
mod http;
mod logs;
mod metrics;
mod metrics_page;
mod net;
mod server;
mod start_error;
mod status;
mod threads;
mod traces;
mod trust;

pub use config::{
    AuditTarget, LogKeys, MEMORY_BYTES_MIN, MemorySplit, ServerConfig, TlsConfig, TlsSplit,
    TrustConfig, bounds,
};
pub use logs::line_writer::{FLUSH_MAX, LeftOut, LineWriter, Output};
pub use node::{ConfigError, Format, NodeConfig, Seams, Secret, Secrets, before_abort};
pub use peer::{FEATURES, LinkFaults};
pub use server::{Checked, Extras, Outcome, Server, StartCheck};
pub use start_error::StartError;
pub use tls::TlsFiles;
pub use trust::reloading::Reload;

/// All formats of this release: those of a node, and what the server adds.
#[must_use]
pub fn formats() -> Vec<Format> {
    let mut all = node::formats();
    all.push(Format {
        name: "TOKENS",
        versions: trust::TOKENS_VERSIONS,
    });
    all
}
