//! A load generator for the store.
//!
//! A [`Plan`] says what to ask, of whom and how fast; a [`Run`] what came of it.
//! [`run`] makes the load, [`fill`] puts each key once beforehand, and
//! [`find_breaking_point`] searches the highest rate that a store holds.
//!
//! In an open loop ([`plan::Rate::PerSecond`]) requests fall due at a constant
//! rate, whatever becomes of those before them, and latency counts from when a
//! request was due: a server that stalls is not spared the requests that it
//! kept from being sent (the "coordinated omission" of closed loops).

pub mod plan;
pub mod report;
pub mod results;
pub mod summary;

mod breaking_point;
mod error;
mod file_limit;
mod generator;
mod http;
mod machine;
mod target;
#[cfg(test)]
mod testing;
mod workload;

/// The version that runs are marked with.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub use breaking_point::find_breaking_point;
pub use error::Error;
pub use generator::{fill, run};
pub use plan::Plan;
pub use results::Run;
