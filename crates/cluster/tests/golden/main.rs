//! Golden cases: what the coordinators do, event by event, and where keys go,
//! as text that can be read beside the contract.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod placement;
mod read;
mod script;
mod write;
