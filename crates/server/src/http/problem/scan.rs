//! Problems of scans, counts and digests.

use super::Problem;
use api::problem_type::{
    EXPRESSION_TOO_COSTLY, SCAN_FAILED, SCAN_NEEDS_HTTP_1_1, SCAN_TIMED_OUT, SCAN_TOO_LONG,
    TOO_FEW_NODES, TOO_MANY_GROUPS,
};
use node::Receipt;
use query::OutOfFuel;

impl Problem {
    /// A scan over HTTP/1.0.
    pub(crate) fn scan_needs_chunks() -> Self {
        Self::new(
            &SCAN_NEEDS_HTTP_1_1,
            "use HTTP/1.1: over HTTP/1.0 a scan that was cut short would look complete",
        )
    }

    /// Too few nodes take part in a scan of the whole cluster.
    pub(super) fn too_few_nodes(receipt: Receipt) -> Self {
        let mut problem = Self::new(
            &TOO_FEW_NODES,
            "more nodes are missing than ack and from allow, so the scan could miss acknowledged \
             writes: try again; a smaller ack may miss them. The receipt says what happened at \
             each node",
        );
        problem.receipt = Some(Box::new(receipt));
        problem
    }

    /// The node's disk did not answer a scan in time.
    pub(super) fn scan_timed_out() -> Self {
        Self::new(
            &SCAN_TIMED_OUT,
            "this node's disk did not answer in time: try again, or ask another node",
        )
    }

    /// A count takes longer than the snapshot that it counts may live.
    pub(super) fn scan_too_long() -> Self {
        Self::new(
            &SCAN_TOO_LONG,
            "the count takes longer than ten minutes, the lifetime of its snapshot: count in \
             parts, with start and end",
        )
    }

    /// The node's disk cannot read a scan.
    pub(super) fn scan_failed() -> Self {
        Self::new(
            &SCAN_FAILED,
            "this node cannot read these keys from its disk: ask another node, and see this \
             node's log",
        )
    }

    /// A condition takes too many steps for an entity.
    pub(crate) fn expression_too_costly(asked: u64) -> Self {
        Self::new(
            &EXPRESSION_TOO_COSTLY,
            format!(
                "{OutOfFuel}, or leave long values out with `size < 100000 && …`. {asked} entities were \
                 looked at"
            ),
        )
    }

    /// An aggregation has more groups than it may, as `bound` says.
    pub(crate) fn too_many_groups(bound: &str, asked: u64) -> Self {
        Self::new(
            &TOO_MANY_GROUPS,
            format!("{bound}. {asked} entities were looked at"),
        )
    }

    /// The groups of an aggregation take more memory than this node has for all.
    pub(crate) fn too_much_of_groups(bytes_max: usize, asked: u64) -> Self {
        let bound = format!(
            "groups of more than {bytes_max} bytes: group by something shorter or with fewer values, \
             ask of fewer entities, or give the node more --memory"
        );
        Self::too_many_groups(&bound, asked)
    }
}
