//! Problems of ranges, counts and digests.

use super::Problem;
use api::problem_type::{
    RANGE_FAILED, RANGE_NEEDS_HTTP_1_1, RANGE_TIMED_OUT, RANGE_TOO_LONG, TOO_FEW_NODES,
};
use node::Receipt;

impl Problem {
    /// A range over HTTP/1.0.
    pub(crate) fn range_needs_chunks() -> Self {
        Self::new(
            &RANGE_NEEDS_HTTP_1_1,
            "without chunks a stream that was cut short would look whole: use HTTP/1.1",
        )
    }

    /// Too few nodes take part in a range of the whole cluster.
    pub(super) fn too_few_nodes(receipt: Receipt) -> Self {
        let mut problem = Self::new(
            &TOO_FEW_NODES,
            "more nodes are missing than ack and from allow, so the range could miss what was \
             acknowledged: try again, or with a smaller ack. The outcomes say what became of \
             the range at each node",
        );
        problem.receipt = Some(Box::new(receipt));
        problem
    }

    /// The node's disk did not answer a range in time.
    pub(super) fn range_timed_out() -> Self {
        Self::new(
            &RANGE_TIMED_OUT,
            "this node's disk did not answer in time: try again, or ask another node",
        )
    }

    /// A count takes longer than the snapshot that it counts may live.
    pub(super) fn range_too_long() -> Self {
        Self::new(
            &RANGE_TOO_LONG,
            "the count takes longer than a snapshot may live, which is ten minutes: count the \
             range in parts, with start and end",
        )
    }

    /// The node's disk cannot read a range.
    pub(super) fn range_failed() -> Self {
        Self::new(
            &RANGE_FAILED,
            "this node cannot read the range from its disk: see its log, or ask another node",
        )
    }
}
