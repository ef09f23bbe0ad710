//! How a node and its cluster are: for operators, for the console, for Prometheus, and for load
//! balancers. All of it is outside admission, so that an overloaded node can be inspected.
//!
//! Each file is the resource of its name.

pub(super) mod cluster;
pub(super) mod health;
pub(super) mod history;
pub(super) mod metrics;
pub(super) mod status;
