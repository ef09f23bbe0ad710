//! Has a range streamed of which this node lacks much, instead of write after write.

use crate::session::part::{
    Gap, RangeId, ReadRun, RunRefusal, StreamedKeys, TakenRun, UnknownRange, report_unreadable,
};
use crate::session::worker::RepairWorker;
use base::Entry;
use cluster::comparison::Digest;
use cluster::{Miss, NodeId};
use peer::{PeerAnswer, PeerRequest, RepairRequest, Run};
use std::sync::Arc;

/// What streaming a range has come to.
pub(super) enum StreamEnd {
    /// The range is equal with that of the other node, which has sent this many versions.
    Equal(u64),
    /// The two may still differ: symbols tell where. The other node has sent this many
    /// versions.
    Rest(u64),
    /// The other node has sent what it was not asked for.
    Refused,
}

impl RepairWorker {
    /// Has a range streamed by a node that has far more of it. [`None`] if the range is
    /// not known any more.
    pub(super) async fn stream(
        &self,
        range: RangeId,
        with: NodeId,
        theirs: Digest,
    ) -> Option<StreamEnd> {
        let mut received = 0;
        if let Gap::Large { parts } = match self.gap(range, with, theirs).await? {
            Gap::None => return Some(StreamEnd::Equal(0)),
            gap => gap,
        } {
            match self.stream_parts(range, with, theirs.items, parts).await {
                Ok(keys) => received = keys,
                Err(RunRefusal::Unknown) => return None,
                Err(RunRefusal::Malformed(what)) => {
                    let layout = self.peers.layout();
                    let peer = layout.members().name(with);
                    tracing::error!(
                        peer,
                        "refused what a peer has streamed of a range: {what}; the peer \
                         may run a defective release or have a defective disk"
                    );
                    return Some(StreamEnd::Refused);
                }
            }
            if self.gap(range, with, theirs).await? == Gap::None {
                return Some(StreamEnd::Equal(received));
            }
        }
        Some(StreamEnd::Rest(received))
    }

    async fn gap(&self, range: RangeId, with: NodeId, theirs: Digest) -> Option<Gap> {
        let sessions = Arc::clone(&self.sessions);
        let gap = self.in_background(move |own| {
            let gap = own.gap(range, with, theirs)?;
            if gap != Gap::None {
                sessions.note_difference(own, range, with);
            }
            Ok::<_, UnknownRange>(gap)
        });
        gap.await?.ok()
    }

    /// Asks for run after run: while one is taken, the next is on its way. A node that
    /// does not answer ends it; then the two compare what is left, as ever.
    async fn stream_parts(
        &self,
        range: RangeId,
        with: NodeId,
        items_max: u64,
        parts: Vec<StreamedKeys>,
    ) -> Result<u64, RunRefusal> {
        let (mut seen, mut received) = (0, 0);
        let mut parts = parts.into_iter();
        let Some(first) = parts.next() else {
            return Ok(0);
        };
        let mut streamed = self.stream_run(range, with, &first).await;
        let mut keys = first;
        while let Ok(run) = streamed {
            let entries = run.entries().map_err(RunRefusal::Malformed)?;
            seen += entries.len() as u64;
            if seen > items_max || (entries.is_empty() && !run.is_last) {
                return Err(RunRefusal::Malformed("more, or less, than it has"));
            }
            let next_keys = if run.is_last {
                parts.next()
            } else {
                let last = entries.last().map(|last| last.key().to_vec().into());
                Some(StreamedKeys {
                    after: last,
                    ..keys.clone()
                })
            };
            let position = run.position_permille;
            let next = async {
                match &next_keys {
                    Some(keys) => self.stream_run(range, with, keys).await,
                    None => Err(Miss::Refused),
                }
            };
            let taken = self.take_run(range, keys, entries);
            let (next, taken) = tokio::join!(next, taken);
            let taken = taken?;
            received += taken.keys;
            let rebuild = &self.sessions.rebuild;
            rebuild.received(range.0, taken.keys, taken.bytes, position);
            let moved_bytes = self.moved_bytes(taken.bytes as usize);
            let record = &self.sessions.record;
            record.count(|counts| counts.moved_bytes += moved_bytes);
            if !taken.has_room {
                break;
            }
            (streamed, keys) = (next, next_keys.unwrap_or_default());
        }
        Ok(received)
    }

    async fn stream_run(
        &self,
        (session, range): RangeId,
        with: NodeId,
        keys: &StreamedKeys,
    ) -> Result<Run, Miss> {
        let StreamedKeys { after, until, held } = keys.clone();
        let request = RepairRequest::Stream {
            session,
            range,
            asker: self.peers.own(),
            after,
            until,
            held,
        };
        match self
            .call_patiently(with, PeerRequest::Session(request))
            .await
        {
            PeerAnswer::Streamed(run) => Ok(run),
            PeerAnswer::Missed(why) => Err(why),
            _ => Err(Miss::Failed),
        }
    }

    async fn take_run(
        &self,
        range: RangeId,
        keys: StreamedKeys,
        mut entries: Vec<Entry>,
    ) -> Result<TakenRun, RunRefusal> {
        let environment = &self.sessions.environment;
        let (timestamps, sessions) = (
            Arc::clone(&environment.timestamps),
            Arc::clone(&self.sessions),
        );
        let job = self.in_background(move |own| {
            let greatest = entries.iter().map(Entry::timestamp).max();
            if greatest.is_some_and(|greatest| !timestamps.observe(greatest)) {
                // The version of a broken clock does not reach the store. The two
                // differ in it, and the other node is told so when it sends a repair write.
                entries.retain(|entry| timestamps.observe(entry.timestamp()));
            }
            // What others have dropped does not come back. The two differ in it.
            entries.retain(|entry| sessions.admits(range.0, entry).is_ok());
            own.take_run(range, &keys, entries)
        });
        job.await.unwrap_or(Err(RunRefusal::Unknown))
    }

    /// Answers a node that asks for a range.
    pub(in crate::session) async fn answer_stream(
        &self,
        range: RangeId,
        asker: NodeId,
        keys: StreamedKeys,
    ) -> PeerAnswer {
        self.sessions.record.count(|counts| counts.requests += 1);
        let sessions = Arc::clone(&self.sessions);
        let run = self.in_background(move |own| {
            sessions.note_difference(own, range, asker);
            own.run(range, asker, &keys)
        });
        match run.await {
            Some(Ok(Ok(ReadRun { run, next }))) => {
                if let Some(keys) = next {
                    self.spawn_in_background(move |own| own.prepare_run(range, asker, keys));
                }
                PeerAnswer::Streamed(run)
            }
            Some(Ok(Err(error))) => {
                report_unreadable(&error);
                PeerAnswer::Missed(Miss::Failed)
            }
            Some(Err(UnknownRange)) | None => PeerAnswer::Session(self.refusal()),
        }
    }
}
