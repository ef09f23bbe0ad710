//! The checker of the tests: it compares what clients saw of a cluster with
//! every promise of *What a client may rely on* in `docs/reference/api.md`.
//!
//! A test records a [`History`]: who asked for what, when, and how it ended.
//! The checker knows nothing else, and nothing of how a cluster works. Its
//! rules follow from the promises alone:
//!
//! - [`check`] goes by versions. It holds for every history, whatever failed.
//! - [`check_linearizability`] goes by contents. It holds for histories in
//!   which all replicas answered.
//!
//! The checker expects nothing of a write that was not acknowledged: such a
//! write may appear at any time, or never.
//!
//! The tests of `cluster` record histories of the coordinators' state machines,
//! the simulation in `node` records histories of whole clusters. Programs do
//! not depend on this crate, only tests do.

mod history;
mod linearizability;
mod promise;
mod versions;

pub use history::{
    Action, ClockSpan, Completion, Content, Expected, History, Moment, Operation, OperationId,
    Outcome, Request,
};
pub use linearizability::{Linearizability, check_linearizability};
pub use promise::{Promise, Violation};
pub use versions::{check, check_as_if_acks_overlapped};
