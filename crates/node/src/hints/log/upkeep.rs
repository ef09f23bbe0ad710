//! Making hints durable, beside what writes them.

use super::{Logs, PeerLog};
use cluster::NodeNumber;
use lsm::{Error, PendingSync, SegmentWriter};

/// What is to be made durable. It is done without the lock of the logs, since
/// replies wait for what is written meanwhile.
pub(in crate::hints) struct Upkeep {
    retired: Vec<SegmentWriter>,
    syncs: Vec<SegmentSync>,
}

struct SegmentSync {
    peer: NodeNumber,
    segment: u64,
    sync: PendingSync,
}

impl Upkeep {
    /// Seals and syncs; gives the syncs with how they ended. Blocks.
    pub(in crate::hints) fn run(self) -> SyncOutcomes {
        for mut segment in self.retired {
            if let Err(error) = segment.seal() {
                // It reads the same without a seal, and hints are not missed
                // so badly that they would have to be written again.
                tracing::warn!(%error, "cannot end a segment of hints");
            }
        }
        let run = |sync: SegmentSync| {
            let result = sync.sync.run();
            (sync, result)
        };
        SyncOutcomes(self.syncs.into_iter().map(run).collect())
    }
}

/// How syncs ended.
pub(in crate::hints) struct SyncOutcomes(Vec<(SegmentSync, Result<(), Error>)>);

impl Logs {
    /// Whether upkeep is to come soon that nobody has been told of yet.
    pub(in crate::hints) fn wants_upkeep(&mut self) -> bool {
        let has_active = self.peers.iter().any(|peer| peer.active.is_some());
        let has_work = has_active || !self.retired.is_empty();
        has_work && !self.is_closed && !std::mem::replace(&mut self.is_upkeep_scheduled, true)
    }

    /// What is to be made durable now.
    pub(in crate::hints) fn take_upkeep(&mut self) -> Upkeep {
        self.is_upkeep_scheduled = false;
        let sync_of = |(place, peer): (usize, &PeerLog)| {
            let active = peer.active.as_ref()?;
            Some(SegmentSync {
                peer: NodeNumber::new(place as u8),
                segment: active.segment,
                sync: active.writer.pending_sync()?,
            })
        };
        Upkeep {
            syncs: self.peers.iter().enumerate().filter_map(sync_of).collect(),
            retired: std::mem::take(&mut self.retired),
        }
    }

    /// Takes note of what was made durable, and lets a segment alone whose
    /// sync has failed: no later one could tell anything.
    pub(in crate::hints) fn note_upkeep(&mut self, SyncOutcomes(outcomes): SyncOutcomes) {
        for (sync, result) in outcomes {
            let active = &mut self.peers[sync.peer.index()].active;
            let Some(synced) = active.as_mut().filter(|one| one.segment == sync.segment) else {
                continue;
            };
            match result {
                Ok(()) => synced.writer.synced(&sync.sync),
                Err(error) => {
                    tracing::warn!(%error, "hints may be lost; others go to a new segment");
                    *active = None;
                }
            }
        }
    }

    /// Takes no more hints; what is to be made durable is left to do.
    pub(in crate::hints) fn close(&mut self) -> Upkeep {
        self.is_closed = true;
        self.retire_where(|_| true);
        self.take_upkeep()
    }
}
