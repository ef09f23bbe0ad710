//! Node reports: how each node of the cluster is, for people who look at the cluster through
//! one of its nodes.
//!
//! - `snapshot` is what a node is like at one moment.
//! - `own` is what this node says of itself, to its readers and to peers that examine it.
//! - `disk_room` is what its disk has left. A disk may hang, so no runtime asks it.
//! - `examiner` asks all other nodes.
//!
//! Nodes are examined only while somebody looks, and by each node once a second at most: what
//! they have said is kept that long, one record for each node.

mod disk_room;
mod examiner;
mod own;
mod snapshot;

#[cfg(test)]
mod tests;

pub use examiner::ExaminedNode;
pub(crate) use examiner::Examiner;
pub(crate) use own::OwnReport;
pub use snapshot::NodeSnapshot;

use peer::{LatencyQuantiles, LinkStatus};
use std::time::Duration;

/// For how long what was found out is told again.
const FRESH: Duration = Duration::from_secs(1);

/// What clients did lately, as the owner of a node sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientActivity {
    /// Requests for keys and operations of batches, as many as that is in 1000 seconds.
    pub requests_per_1000_s: u64,
    /// How long reads of keys took; `None` if there were none.
    pub reads: Option<LatencyQuantiles>,
    /// How long writes took; `None` if there were none.
    pub writes: Option<LatencyQuantiles>,
}

/// Returns what clients did lately.
pub type SeeActivity = Box<dyn Fn() -> ClientActivity + Send + Sync>;

/// Returns the status of the node in bytes, for its report; it gets the links of a runtime, by
/// node.
pub type SeeStatus = Box<dyn Fn(&NodeSnapshot, &[Option<LinkStatus>]) -> Vec<u8> + Send + Sync>;
