//! Node reports: the state of each node of the cluster, for people who look at the cluster through
//! one of its nodes.
//!
//! - `snapshot` is what a node is like at one moment.
//! - `own` is this node's report about itself, for its readers and for peers that ask.
//! - `free_space` is the free space on its disk. A disk may hang, so no runtime asks it.
//! - `examiner` asks all other nodes.
//!
//! A node asks the others only while somebody looks, and at most once a second; it keeps their
//! reports for that long, one for each node.

mod examiner;
mod free_space;
mod own;
mod snapshot;

#[cfg(test)]
mod tests;

pub use examiner::ExaminedNode;
pub(crate) use examiner::Examiner;
pub(crate) use free_space::FreeSpace;
pub(crate) use own::OwnReport;
pub use snapshot::NodeSnapshot;

use cluster::NodeTable;
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

/// Returns the status of the node in bytes, for its report; it gets the states of the links of
/// a runtime.
pub type SeeStatus = Box<dyn Fn(&NodeSnapshot, &NodeTable<LinkStatus>) -> Vec<u8> + Send + Sync>;
