//! Problems of what operators ask for: repairs, compactions, profiles, and whether the node is
//! ready.

use super::Problem;
use api::problem_type::{
    CLIENT_LEFT, COMPACTION_FAILED, NO_OTHER_NODES, NOT_READY, PROFILE_FAILED, PROFILE_RUNNING,
    PROFILE_UNAVAILABLE,
};
use std::borrow::Cow;

impl Problem {
    /// A repair on a node alone.
    pub(crate) fn no_other_nodes() -> Self {
        Self::new(
            &NO_OTHER_NODES,
            "a repair compares the nodes of a cluster, and this node is alone: there is nothing \
             to do",
        )
    }

    /// A compaction that an operator asked for did not end well.
    pub(super) fn compaction_failed(error: &lsm::Error) -> Self {
        Self::new(
            &COMPACTION_FAILED,
            format!(
                "the compaction failed, but nothing is lost: {error}. Fix the cause, then order \
                 it again"
            ),
        )
    }

    /// Another profile is being recorded.
    pub(super) fn profile_running(detail: String) -> Self {
        Self::new(&PROFILE_RUNNING, detail)
    }

    /// The program cannot record this kind of profile.
    pub(super) fn profile_unavailable(detail: String) -> Self {
        Self::new(&PROFILE_UNAVAILABLE, detail)
    }

    /// The profile was lost, or the system refused to record it.
    pub(crate) fn profile_failed(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(&PROFILE_FAILED, detail)
    }

    /// The client left while its profile was recorded, or its digest or count made.
    pub(crate) fn client_left() -> Self {
        Self::new(
            &CLIENT_LEFT,
            "the client closed its side, which ends a profile, a digest or a count: keep the connection open",
        )
    }

    /// The node should get no requests now.
    pub(crate) fn not_ready(reasons: &[String]) -> Self {
        Self::new(&NOT_READY, reasons.join("; "))
    }
}
