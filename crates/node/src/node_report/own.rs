//! What this node says of itself.

use super::disk_room::DiskRoom;
use super::examiner::EXAMINE_MAX;
use super::{ClientActivity, SeeActivity};
use base::Clock;
use cluster::Members;
use lsm::{Disk, Engine, Executor};
use peer::{NodeReport, PeerAnswer, Reply};
use replica::background::Background;
use replica::hints::HintStore;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How much of the time until a deadline the disk has. The rest is for the answer's way.
const DISK_SHARE: u32 = 2;

/// What this node is asked about.
pub(crate) struct OwnEnvironment {
    /// All nodes.
    pub(crate) members: Members,
    /// The store.
    pub(crate) engine: Engine,
    /// The hints for the other nodes.
    pub(crate) hints: HintStore,
    /// The budget of background work.
    pub(crate) background: Arc<Background>,
    /// The disk that the store lies on, and where.
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) folder: PathBuf,
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
    /// Runs the jobs that ask the disk.
    pub(crate) executor: Arc<dyn Executor>,
}

/// Says how this node is.
pub(crate) struct OwnReport {
    members: Members,
    engine: Engine,
    hints: HintStore,
    background: Arc<Background>,
    clock: Arc<dyn Clock>,
    disk_room: Arc<DiskRoom>,
    see_activity: OnceLock<SeeActivity>,
}

impl OwnReport {
    pub(crate) fn new(environment: OwnEnvironment) -> Arc<Self> {
        let OwnEnvironment {
            members,
            engine,
            hints,
            background,
            disk,
            folder,
            clock,
            executor,
        } = environment;
        Arc::new(Self {
            members,
            engine,
            hints,
            background,
            disk_room: DiskRoom::new(disk, folder, Arc::clone(&clock), executor),
            clock,
            see_activity: OnceLock::new(),
        })
    }

    /// Says where the node sees what clients did lately. Until then they did nothing.
    pub(crate) fn see_activity_by(&self, see: SeeActivity) {
        // A second one would be a bug, and the first stays in force.
        let _first = self.see_activity.set(see);
    }

    /// What the disk has left for the node, in bytes; `None` if it does not say so in time.
    pub(crate) async fn disk_free_bytes(&self) -> Option<u64> {
        self.disk_room.free_bytes(EXAMINE_MAX / DISK_SHARE).await
    }

    /// How this node is, in time for `deadline` on the monotonic clock.
    pub(crate) async fn tell(&self, deadline: Duration) -> NodeReport {
        let left = deadline.saturating_sub(self.clock.monotonic());
        let free_bytes = self.disk_room.free_bytes(left / DISK_SHARE).await;
        let statistics = self.engine.statistics();
        let table_bytes: u64 = statistics.levels.iter().map(|level| level.bytes).sum();
        let waiting = self.members.peers().map(|peer| self.hints.waiting(peer));
        let see = self.see_activity.get();
        let ClientActivity {
            requests_per_1000_s,
            reads,
            writes,
        } = see.map(|see| see()).unwrap_or_default();
        NodeReport {
            data_bytes: table_bytes.saturating_add(statistics.log_bytes),
            free_bytes,
            hints: waiting.map(|waiting| waiting.hints).sum(),
            requests_per_1000_s,
            background_permille: (self.background.status().share * 1000.0).round() as u16,
            reads,
            writes,
        }
    }

    /// Replies to a peer that examines this node.
    pub(crate) fn reply(self: &Arc<Self>, reply: Reply) {
        let own = Arc::clone(self);
        tokio::task::spawn_local(async move {
            let report = own.tell(reply.deadline()).await;
            reply.send(PeerAnswer::Examined(report));
        });
    }
}
