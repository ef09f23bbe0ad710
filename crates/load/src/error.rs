//! Why a run could not start.

use std::io;

/// Why a run could not start. What goes wrong later is part of its
/// [`Run`](crate::Run).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The plan cannot be carried out: correct it and try again.
    #[error("{0}")]
    Plan(String),
    /// A target accepted no connection before the load began: start it, or name
    /// another one.
    #[error("cannot connect to {target}: {source}")]
    Unreachable {
        /// The target as written in the plan.
        target: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The system denied the generator threads, sockets or memory.
    #[error("the load generator cannot continue: {0}")]
    System(#[from] io::Error),
}

impl Error {
    pub(crate) fn plan(problem: impl Into<String>) -> Self {
        Self::Plan(problem.into())
    }
}
