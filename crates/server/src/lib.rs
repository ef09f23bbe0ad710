//! A server: a node on a machine, with its threads, its sockets and HTTP.
//!
//! From the socket to the node:
//! - [`Server`] (`server`) starts and stops everything; [`ServerConfig`] (`config`) is
//!   its configuration and divides the memory.
//! - `runtime` is a thread with a scheduler of its own; an acceptor hands each
//!   connection to the runtime that has the fewest. Each runtime has the
//!   connections of `net`, and a [`node::Worker`], which answers for the store.
//! - `admission` bounds what connections and requests take.
//! - `http` turns requests into answers.
//! - `trust` decides who may do what, and writes the audit log; `tls_files` reads the TLS files.
//! - `status` is what an operator sees of the node and of the cluster.
//! - `slow_requests` logs where the time of slow requests went. `line_writer` writes log lines on
//!   its own thread, so that no serving thread waits for their reader.
//! - `open_files` bounds connections by the process's limit of open files.
//! - `executor` and `read_threads` are the threads of the store: for its jobs, and for
//!   reads that may block on the disk.
//! - [`fuzzing`] is what fuzzers call.
//! - `metrics` counts requests and has the gauges of the listeners, `metrics_page` renders all
//!   metrics; `wait_sites` names the places where requests wait for admission.

mod admission;
mod config;
mod executor;
pub mod fuzzing;
mod http;
mod line_writer;
mod metrics;
mod metrics_page;
mod net;
mod open_files;
mod read_threads;
mod runtime;
mod server;
mod slow_requests;
mod start_error;
mod status;
mod tls_files;
mod trust;
mod wait_sites;

pub use config::{
    AuditTarget, LogKeys, MEMORY_BYTES_MIN, MemorySplit, ServerConfig, TlsConfig, TlsSplit,
    TrustConfig, bounds,
};
pub use line_writer::{FLUSH_MAX, LeftOut, LineWriter, Output};
pub use node::{ConfigError, NodeConfig, Seams, Secret, Secrets, before_abort};
pub use peer::LinkFaults;
pub use server::{Extras, Server};
pub use start_error::StartError;
pub use tls::TlsFiles;
pub use trust::reloading::Reload;
