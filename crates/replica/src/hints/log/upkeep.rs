//! Upkeep: completes and syncs segments while others are written.

use super::{HintLogs, PeerLog};
use cluster::NodeId;
use lsm::{Error, PendingSync, SegmentWriter};

/// The segments to seal and to sync. The job does that without the lock of the logs,
/// because requests wait for hints that are written meanwhile.
pub(in crate::hints) struct Upkeep {
    retired: Vec<SegmentWriter>,
    syncs: Vec<SegmentSync>,
}

struct SegmentSync {
    peer: NodeId,
    segment: u64,
    sync: PendingSync,
}

impl Upkeep {
    /// Seals and syncs segments. Blocks.
    pub(in crate::hints) fn run(self) -> SyncOutcomes {
        for mut segment in self.retired {
            if let Err(error) = segment.seal() {
                // The segment can be read without a seal, too. If its end is lost,
                // read repairs replace the lost hints.
                tracing::warn!(%error, "a segment of hints could not be completed: a power cut \
                 may take its last hints");
            }
        }
        let run = |sync: SegmentSync| {
            let result = sync.sync.run();
            (sync, result)
        };
        SyncOutcomes(self.syncs.into_iter().map(run).collect())
    }
}

/// The results of syncs.
pub(in crate::hints) struct SyncOutcomes(Vec<(SegmentSync, Result<(), Error>)>);

impl HintLogs {
    /// Whether the caller has to schedule upkeep. Returns `true` once until
    /// [`HintLogs::take_upkeep`].
    pub(in crate::hints) fn wants_upkeep(&mut self) -> bool {
        let has_active = self.peers.values().any(|log| log.active.is_some());
        let has_work = has_active || !self.retired.is_empty();
        has_work && !self.is_closed && !std::mem::replace(&mut self.is_upkeep_scheduled, true)
    }

    /// The segments to seal and to sync now.
    pub(in crate::hints) fn take_upkeep(&mut self) -> Upkeep {
        self.is_upkeep_scheduled = false;
        let sync_of = |(peer, log): (NodeId, &PeerLog)| {
            let active = log.active.as_ref()?;
            Some(SegmentSync {
                peer,
                segment: active.segment,
                sync: active.writer.pending_sync()?,
            })
        };
        Upkeep {
            syncs: self.peers.iter().filter_map(sync_of).collect(),
            retired: std::mem::take(&mut self.retired),
        }
    }

    /// Records which segments were synced. A segment whose sync failed takes no more
    /// hints, because a later sync of it may succeed although data is lost.
    pub(in crate::hints) fn record_upkeep(&mut self, SyncOutcomes(outcomes): SyncOutcomes) {
        for (sync, result) in outcomes {
            let Some(PeerLog { active, .. }) = self.peers.get_mut(sync.peer) else {
                continue;
            };
            let Some(synced) = active.as_mut().filter(|one| one.segment == sync.segment) else {
                continue;
            };
            match result {
                Ok(()) => synced.writer.synced(&sync.sync),
                Err(error) => {
                    tracing::warn!(%error, "a segment of hints could not be synced: a power cut may take its hints; new ones go to another segment");
                    *active = None;
                }
            }
        }
    }

    /// Takes no more hints, and returns the last upkeep for the caller to run.
    pub(in crate::hints) fn close(&mut self) -> Upkeep {
        self.is_closed = true;
        self.retire_where(|_| true);
        self.take_upkeep()
    }
}
