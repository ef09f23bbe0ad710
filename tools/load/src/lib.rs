//! A load generator for the store.
//!
//! A [`Plan`] says which requests to send where and how fast; a [`Run`] holds
//! the results. [`run`] generates the load ([`run_with_slowest`] also tells of its slowest
//! requests one by one), [`fill`] puts each key once
//! beforehand, and [`find_breaking_point`] searches for the highest rate that a
//! store holds.
//!
//! In an open loop ([`plan::Rate::PerSecond`]) requests fall due at a constant
//! arrival rate, even if earlier requests are unanswered, and latency counts
//! from when a request was due. So the latencies include the time that requests
//! had to wait while the server stalled. A closed loop leaves this time out,
//! which is known as coordinated omission.

pub mod plan;
pub mod report;
pub mod results;
pub mod summary;

mod breaking_point;
mod error;
mod generator;
mod http;
mod target;
#[cfg(test)]
mod testing;
mod workload;

/// The version of the generator, which is part of each run.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub use breaking_point::find_breaking_point;
pub use error::Error;
pub use generator::{fill, run, run_with_slowest};
pub use plan::Plan;
pub use results::{Run, SlowRequest};
pub use target::Credentials;
