//! Why a run could not start.

use std::io;
use tls::HandshakeFailure;

/// Why a run could not start. What goes wrong later is part of its
/// [`Run`](crate::Run).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The plan cannot be carried out: correct it and try again.
    #[error("{0}")]
    Plan(String),
    /// A target accepted no connection before the load began: start it, or name
    /// another one.
    #[error("cannot connect to {target}: {source}; start the node, or name another one")]
    Unreachable {
        /// The target as written in the plan.
        target: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A target and the generator do not trust each other.
    #[error("there is no safe connection to {target}: {problem}")]
    Distrusted {
        /// The target as written in the plan.
        target: String,
        /// Why.
        failure: HandshakeFailure,
        /// Why, in words, and what to do.
        problem: String,
    },
    /// A target refused the token before the load began.
    #[error("{target} answers {status} to a request for its status")]
    Refused {
        /// The target as written in the plan.
        target: String,
        /// The status.
        status: u16,
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
