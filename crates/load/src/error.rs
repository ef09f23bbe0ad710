//! Why there is no run to tell of.

use std::io;

/// Why a run could not be made. What goes wrong while it is under way ends up
/// in its [`Run`](crate::Run) instead.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The plan cannot be carried out as it is: mend it and try again.
    #[error("{0}")]
    Plan(String),
    /// A target did not take a connection before the load began: start it, or
    /// name another one.
    #[error("cannot connect to {target}: {source}")]
    Unreachable {
        /// The target as the plan names it.
        target: String,
        /// What the system says.
        source: io::Error,
    },
    /// The system gives the generator no threads, sockets or memory.
    #[error("the load generator cannot go on: {0}")]
    System(#[from] io::Error),
}

impl Error {
    pub(crate) fn plan(problem: impl Into<String>) -> Self {
        Self::Plan(problem.into())
    }
}
