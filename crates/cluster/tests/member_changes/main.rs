//! Changes of the list of members, as text and against models.
//!
//! - Golden cases (`tests/golden/members.txt`) say what operators may ask for, and what a change
//!   waits for.
//! - [`paxos`] goes through all interleavings of two proposers.
//! - [`model`] runs requests of one key through changes: quorums by the real machines, repair
//!   sessions, crashes, lost messages and lost stores. Planted bugs show that each rule is needed.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on panics"
)]

mod codec;
mod driver;
mod golden;
mod model;
mod names;
mod paxos;
#[path = "../golden/run.rs"]
mod run;
