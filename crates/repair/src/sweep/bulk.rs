//! Fills a range of which this node lacks most: in bulk, not mend by mend.

use super::Sweeper;
use super::exchange::RangeId;
use super::participant::UnknownRange;
use super::runs::{Gap, RunRefusal, TakenRun};
use base::Entry;
use bytes::Bytes;
use cluster::sweep::{Digest, PassId};
use cluster::{Miss, NodeId};
use peer::{PeerAnswer, PeerRequest, Run, SweepAnswer, SweepRequest};
use replica::Taken;
use std::sync::Arc;

/// What pulling a range has come to.
pub(super) enum Filled {
    /// The range is equal with that of the other node, which has sent this many versions.
    Equal(u64),
    /// The two may still differ: symbols tell where. The other node has sent this many
    /// versions.
    Rest(u64),
    /// The other node has sent what it was not asked for.
    Refused,
}

impl Sweeper {
    /// Pulls a range from a node that has far more of it. [`None`] if the range is
    /// not known any more.
    pub(super) async fn fill(
        &self,
        range: RangeId,
        with: NodeId,
        theirs: Digest,
    ) -> Option<Filled> {
        let mut received = 0;
        if let Gap::Large { held } = match self.gap(range, with, theirs).await? {
            Gap::None => return Some(Filled::Equal(0)),
            gap => gap,
        } {
            match self.pull_all(range, with, theirs.items, held).await {
                Ok(keys) => received = keys,
                Err(RunRefusal::Unknown) => return None,
                Err(RunRefusal::Malformed(what)) => {
                    let peer = self.sweeps.environment.members.name(with);
                    tracing::error!(
                        peer,
                        "refused what a peer has sent of a range in bulk: {what}; the peer \
                         may run a defective release or have a defective disk"
                    );
                    return Some(Filled::Refused);
                }
            }
            if self.gap(range, with, theirs).await? == Gap::None {
                return Some(Filled::Equal(received));
            }
        }
        Some(Filled::Rest(received))
    }

    async fn gap(&self, range: RangeId, with: NodeId, theirs: Digest) -> Option<Gap> {
        let gap = self.in_background(move |own| own.gap(range, with, theirs));
        gap.await?.ok()
    }

    /// Pulls run after run: while one is taken, the next is on its way. A node that
    /// does not answer ends it; then the two compare what is left, as ever.
    async fn pull_all(
        &self,
        range: RangeId,
        with: NodeId,
        items_max: u64,
        held: Vec<u32>,
    ) -> Result<u64, RunRefusal> {
        let (mut seen, mut received) = (0, 0);
        let mut after: Option<Bytes> = None;
        let mut pulled = self.pull(range, with, None, &held).await;
        while let Ok(run) = pulled {
            let entries = run.entries().map_err(RunRefusal::Malformed)?;
            seen += entries.len() as u64;
            if seen > items_max || (entries.is_empty() && !run.is_last) {
                return Err(RunRefusal::Malformed("more, or less, than it has"));
            }
            let last = entries.last().map(|last| last.key().to_vec().into());
            let position = run.position_permille;
            let next = async {
                if run.is_last {
                    Err(Miss::Refused)
                } else {
                    self.pull(range, with, last.clone(), &held).await
                }
            };
            let taken = self.take_run(range, after, entries);
            let (next, taken) = tokio::join!(next, taken);
            let taken = taken?;
            received += taken.keys;
            let refill = &self.sweeps.refill;
            refill.received(range.0, taken.keys, taken.bytes, position);
            if !taken.has_room {
                break;
            }
            (pulled, after) = (next, last);
        }
        Ok(received)
    }

    async fn pull(
        &self,
        (pass, range): RangeId,
        with: NodeId,
        after: Option<Bytes>,
        held: &[u32],
    ) -> Result<Run, Miss> {
        let request = SweepRequest::Pull {
            pass,
            range,
            asker: self.sweeps.environment.members.own(),
            after,
            held: held.to_vec(),
        };
        match self.call_patiently(with, PeerRequest::Sweep(request)).await {
            PeerAnswer::Pulled(run) => Ok(run),
            PeerAnswer::Missed(why) => Err(why),
            _ => Err(Miss::Failed),
        }
    }

    async fn take_run(
        &self,
        range: RangeId,
        after: Option<Bytes>,
        mut entries: Vec<Entry>,
    ) -> Result<TakenRun, RunRefusal> {
        let environment = &self.sweeps.environment;
        let timestamps = Arc::clone(&environment.timestamps);
        let forgetting = Arc::clone(&environment.forgetting);
        let replica_state = environment.membership.replica_state();
        let rules = forgetting.mend_rules(range.0, replica_state);
        let engine = environment.engine.clone();
        let disturbs = |entry: &Entry| self.disturbs(&rules, entry, engine.is_damaged(entry.key()));
        if entries.iter().any(disturbs) {
            let noted = forgetting.disturb().await;
            noted.map_err(|_| RunRefusal::Unknown)?;
        }
        let job = self.in_background(move |own| {
            let greatest = entries.iter().map(Entry::timestamp).max();
            if greatest.is_some_and(|greatest| !timestamps.observe(greatest)) {
                // The version of a broken clock does not reach the store. The two
                // differ in it, and the other node is told so when it sends a mend.
                entries.retain(|entry| timestamps.observe(entry.timestamp()));
            }
            // What others should have forgotten does not come back. The two differ in it, and
            // what is to be compared with all others comes as a mend.
            let rules = forgetting.mend_rules(range.0, replica_state).for_answers();
            entries.retain(|entry| {
                let is_damaged = engine.is_damaged(entry.key());
                let is_taken = matches!(rules.admit(entry, is_damaged), Ok(Taken::AtOnce(_)));
                if is_taken && rules.is_old(entry, is_damaged) {
                    own.environment
                        .mended
                        .old_version_came(range.0, entry.key());
                }
                is_taken
            });
            own.take_run(range, after.as_ref(), entries)
        });
        job.await.unwrap_or(Err(RunRefusal::Unknown))
    }

    /// Answers a node that pulls a range.
    pub(super) async fn answer_pull(
        &self,
        range: RangeId,
        asker: NodeId,
        after: Option<Bytes>,
        held: Vec<u32>,
    ) -> PeerAnswer {
        self.sweeps.record.request_received();
        let run = self.in_background(move |own| own.run(range, asker, after.as_ref(), held));
        match run.await {
            Some(Ok(Ok(run))) => PeerAnswer::Pulled(run),
            Some(Ok(Err(error))) => {
                super::report_unreadable(&error);
                PeerAnswer::Missed(Miss::Failed)
            }
            Some(Err(UnknownRange)) | None => PeerAnswer::Swept(SweepAnswer::Unknown),
        }
    }

    /// Writes what was pulled into tables, while the pass goes on. The next job of the
    /// pass comes after it.
    pub(super) fn push_pulled(&self, pass: PassId) {
        self.spawn_in_background(move |own| {
            if let Err(error) = own.push_pulled(pass) {
                tracing::error!(%error, "cannot store what a repair has brought");
            }
        });
    }
}
