//! The coordinators, as text and against a model.
//!
//! - Golden cases (`tests/golden/*.txt`) say what the machines do, event by event, and
//!   what a client may rely on.
//! - The model runs many requests against replicas that are lists of versions. Messages
//!   come in any order or are lost, nodes are down, and clocks are minutes apart. A checker
//!   compares what clients saw with the contract.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on panics"
)]

mod exhaustive;
mod linearizable;
mod message;
mod model;
mod node;
mod pairs;
mod promises;
mod read;
mod repair;
#[path = "../golden/run.rs"]
mod run;
mod scan;
mod script;
mod world;
mod write;
