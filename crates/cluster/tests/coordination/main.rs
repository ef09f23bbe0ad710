//! The coordinators, as text and against a model.
//!
//! - Golden cases (`tests/golden/*.txt`) tell what the machines do, event by
//!   event, where keys go, and what a client may rely on, beside the contract.
//! - The model runs many requests against replicas that are lists of versions,
//!   with messages in any order, lost ones, nodes down and clocks minutes
//!   apart, and holds what clients saw against the contract.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on panics"
)]

mod exhaustive;
mod linearizable;
mod model;
mod placement;
mod promises;
mod read;
mod script;
mod world;
mod write;
