//! Problems of a write that gets no timestamp.

use super::Problem;
use api::problem_type::{
    CLOCK, NEW_STORE, NO_TIMESTAMPS_LEFT, RESTORED_STORE, STORE_NOT_OPEN,
    TIMESTAMP_BOUND_NOT_STORED,
};

impl Problem {
    /// The node's clock is not near enough to those of its peers to timestamp a write.
    pub(super) fn clock(detail: String) -> Self {
        Self::new(&CLOCK, detail)
    }

    /// The node's disk refuses to raise the timestamp bound.
    pub(super) fn timestamp_bound_not_stored(detail: String) -> Self {
        Self::new(&TIMESTAMP_BOUND_NOT_STORED, detail)
    }

    /// Another process may have issued the timestamps that the node would issue.
    pub(super) fn restored_store(detail: String) -> Self {
        Self::new(&RESTORED_STORE, detail)
    }

    /// A store that was lost may have issued the timestamps that the node would issue.
    pub(super) fn new_store(detail: String) -> Self {
        Self::new(&NEW_STORE, detail)
    }

    /// The store is not open.
    pub(super) fn store_not_open(detail: String) -> Self {
        Self::new(&STORE_NOT_OPEN, detail)
    }

    /// There is no greater timestamp.
    pub(super) fn no_timestamps_left(detail: String) -> Self {
        Self::new(&NO_TIMESTAMPS_LEFT, detail)
    }
}
