//! The terms on which a request is served.

use super::ReplicaTimes;
use base::TraceId;
use cluster::Replicas;
use std::rc::Rc;
use std::time::Duration;

/// The terms on which a request is served.
#[derive(Clone, Debug)]
pub struct Terms {
    /// How many replicas must answer, of how many.
    pub replicas: Replicas,
    /// Until when, on the monotonic clock.
    pub deadline: Duration,
    /// The trace that the request is part of, which its replicas get to know.
    pub trace: Option<TraceId>,
    /// Who notes when each replica answers.
    pub watch: Option<Rc<ReplicaTimes>>,
}

impl Terms {
    /// Terms of a request that is part of no trace, and that nobody watches.
    #[must_use]
    pub fn new(replicas: Replicas, deadline: Duration) -> Self {
        Self {
            replicas,
            deadline,
            trace: None,
            watch: None,
        }
    }
}
