//! This node's report about itself.

use super::examiner::EXAMINE_MAX;
use super::free_space::FreeSpace;
use super::{ClientActivity, NodeSnapshot, SeeActivity, SeeStatus};
use base::Clock;
use cluster::NodeTable;
use lsm::{Engine, Executor};
use peer::{LinkStatus, NodeReport, ReportedStatus};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How much of the time until a deadline the disk has. The rest is for the answer's way.
const DISK_SHARE: u32 = 2;

/// Says how this node is, with what only its owner sees.
pub(crate) struct OwnReport {
    clock: Arc<dyn Clock>,
    free_space: Arc<FreeSpace>,
    see_activity: OnceLock<SeeActivity>,
    see_status: OnceLock<SeeStatus>,
}

impl OwnReport {
    /// Of a node with this store. `executor` runs the jobs that ask its disk.
    pub(crate) fn new(engine: Engine, clock: Arc<dyn Clock>, executor: Arc<dyn Executor>) -> Self {
        let look = Box::new(move || engine.look_at_folder().unwrap_or_default());
        Self {
            free_space: FreeSpace::new(look, Arc::clone(&clock), executor),
            clock,
            see_activity: OnceLock::new(),
            see_status: OnceLock::new(),
        }
    }

    /// Says where the node sees what clients did lately. Until then they did nothing.
    pub(crate) fn see_activity_by(&self, see: SeeActivity) {
        // A second one would be a bug, and the first stays in force.
        let _first = self.see_activity.set(see);
    }

    /// Says who puts the status of the node into bytes. Until then it has none.
    pub(crate) fn see_status_by(&self, see: SeeStatus) {
        // As above.
        let _first = self.see_status.set(see);
    }

    /// The disk of the data folder.
    pub(crate) fn free_space(&self) -> Arc<FreeSpace> {
        Arc::clone(&self.free_space)
    }

    /// What the disk has left for the node, in bytes; `None` if it does not say so in time.
    pub(crate) async fn disk_free_bytes(&self) -> Option<u64> {
        let space = self.free_space.space(EXAMINE_MAX / DISK_SHARE).await;
        space.free_bytes
    }

    /// How this node is, in time for `deadline` on the monotonic clock. `see` looks at the node,
    /// and at its links.
    pub(crate) async fn tell(
        &self,
        deadline: Duration,
        see: impl FnOnce() -> (NodeSnapshot, NodeTable<LinkStatus>),
    ) -> NodeReport {
        let left = deadline.saturating_sub(self.clock.monotonic());
        let space = self.free_space.space(left / DISK_SHARE).await;
        let (snapshot, links) = see();
        let see_activity = self.see_activity.get();
        let ClientActivity {
            requests_per_1000_s,
            reads,
            writes,
        } = see_activity.map(|see| see()).unwrap_or_default();
        let see_status = self.see_status.get();
        let status = see_status.map_or(ReportedStatus::Untold, |see| {
            ReportedStatus::Told(see(&snapshot, &links).into())
        });
        NodeReport {
            data_bytes: snapshot.data_bytes(),
            free_bytes: space.free_bytes,
            hints: snapshot.hints.values().map(|waiting| waiting.hints).sum(),
            requests_per_1000_s,
            background_permille: (snapshot.background_share * 1000.0).round() as u16,
            reads,
            writes,
            status,
            disk_bytes: space.size_bytes,
        }
    }
}
