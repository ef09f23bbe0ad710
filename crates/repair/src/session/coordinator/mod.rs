//! Leads a session over all nodes that can be reached.
//!
//! - `full`: carries out what [`cluster::repair::Session`] says, and goes on from checkpoints.
//! - `incremental`: a straight line, without a token.
//! - `comparing`: has the nodes compare a range, in both.
//! - `settling`: how long a session waits before.

mod comparing;
mod full;
mod incremental;
mod settling;

pub(super) use settling::LOOK_PERIOD;

use super::orders::SessionReport;
use cluster::repair::Token;

/// How a session that this node was to coordinate has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// With this result.
    With(SessionReport),
    /// Another session is running.
    Preempted {
        /// Its token.
        by: Token,
    },
}
