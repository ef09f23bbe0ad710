//! How a node serves the repair writes of other nodes, and the requests of sessions. `ahead`: what
//! it does beside them.

mod ahead;
#[cfg(test)]
mod ahead_tests;

use super::part::{Advance, Agreed, Known, RangeId, StreamedKeys, UnknownRange, report_unreadable};
use super::worker::RepairWorker;
use base::{Entry, Timestamp};
use bytes::Bytes;
use cluster::comparison::RepairKind;
use cluster::layout::Phase;
use cluster::repair::{Facts, SessionAnswer, SessionId, SessionRequest, Token};
use cluster::{Epoch, NodeId};
use lsm::{Admission, LateSource};
use peer::{PeerAnswer, RepairAnswer, RepairRequest, Reply};
use std::rc::Rc;
use std::sync::Arc;

/// What this node answers; as an error, if it refuses or fails.
type Answered = Result<RepairAnswer, RepairAnswer>;

/// What a session has shown: the GC threshold, the single copies of each node, and with which nodes
/// this one is equal and of which it has all that they have.
type Outcome = (Timestamp, Vec<u64>, [Vec<NodeId>; 2]);

/// The greatest of the closed timestamps and GC thresholds that a request names.
fn named_timestamp(request: &RepairRequest) -> Option<Timestamp> {
    match request {
        RepairRequest::Close {
            gc_threshold,
            below,
            ..
        } => Some(*gc_threshold.max(below)),
        RepairRequest::Finish { below, .. } => Some(*below),
        RepairRequest::Agree { gc_threshold, .. } | RepairRequest::Outcome { gc_threshold, .. } => {
            Some(*gc_threshold)
        }
        RepairRequest::Begin { .. }
        | RepairRequest::Advance { .. }
        | RepairRequest::Digest { .. }
        | RepairRequest::Reconcile { .. }
        | RepairRequest::Recount { .. }
        | RepairRequest::Symbols { .. }
        | RepairRequest::Send { .. }
        | RepairRequest::Stream { .. }
        | RepairRequest::Announce { .. }
        | RepairRequest::Offer { .. }
        | RepairRequest::Sync { .. } => None,
    }
}

impl RepairWorker {
    /// Serves the repair write of a peer.
    pub fn serve_repair_write(self: &Rc<Self>, session: SessionId, entry: Entry, reply: Reply) {
        let record = &self.sessions.record;
        let moved_bytes = self.moved_bytes(entry.data_bytes());
        record.count(|counts| {
            counts.repair_writes_received += 1;
            counts.moved_bytes += moved_bytes;
        });
        let admission = self.sessions.admits(session, &entry);
        if admission.is_ok() {
            self.sessions.written.note(session, entry.key());
        }
        let own = self.replicas.own();
        own.repair_write_for_peer(entry, admission, reply);
    }

    /// Serves what the coordinator of a session, or another node in it, asks for.
    pub fn serve(self: &Rc<Self>, request: RepairRequest, reply: Reply) {
        let store_side = &self.sessions.environment.store_side;
        let named = named_timestamp(&request);
        if named.is_some_and(|named| !store_side.believes(reply.peer(), named)) {
            // The coordinator goes on without this node.
            return reply.send(PeerAnswer::Session(self.refusal()));
        }
        let worker = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let answer = match request {
                RepairRequest::Stream {
                    session,
                    range,
                    asker,
                    after,
                    until,
                    held,
                } => {
                    let range = (session, range);
                    let keys = StreamedKeys { after, until, held };
                    worker.answer_stream(range, asker, keys).await
                }
                request => PeerAnswer::Session(worker.answer(request).await),
            };
            reply.send(answer);
        });
    }

    /// What this node answers. The requests of a session come one after another.
    pub(super) async fn answer(&self, request: RepairRequest) -> RepairAnswer {
        self.sessions.record.count(|counts| counts.requests += 1);
        self.sessions.record.asked(request.session());
        self.answered(request)
            .await
            .unwrap_or_else(|refusal| refusal)
    }

    async fn answered(&self, request: RepairRequest) -> Answered {
        match request {
            RepairRequest::Begin { session, epoch } => self.begin(session, epoch).await,
            RepairRequest::Close {
                session: SessionId::Full(token),
                gc_threshold,
                below,
                are_all,
                start,
            } => {
                let close = SessionRequest::Close {
                    gc_threshold,
                    below,
                    are_all,
                };
                self.close(token, close, start).await
            }
            RepairRequest::Agree {
                session,
                cut,
                gc_threshold,
                reaches,
                bounds,
            } => {
                let agreed = Agreed {
                    cut,
                    gc_threshold,
                    reaches,
                    bounds,
                };
                let agree = self.in_background(move |own| own.agree(session, agreed));
                self.known(agree.await)?;
                Ok(RepairAnswer::Done)
            }
            RepairRequest::Advance { session, start } => self.advance(session, &start).await,
            RepairRequest::Digest {
                session,
                range,
                end,
            } => self.digest((session, range), end).await,
            RepairRequest::Reconcile {
                session,
                range,
                with,
            } => Ok(self.reconcile((session, range), with).await),
            RepairRequest::Recount {
                session,
                range,
                asker,
            } => {
                let recount = self.in_background(move |own| own.recount((session, range), asker));
                self.known(recount.await).map(RepairAnswer::Recounted)
            }
            RepairRequest::Symbols {
                session,
                range,
                asker,
                first,
                count,
            } => {
                let (range, sessions) = ((session, range), Arc::clone(&self.sessions));
                let symbols = self.in_background(move |own| {
                    sessions.note_difference(own, range, asker);
                    own.symbols(range, asker, first, count)
                });
                self.known(symbols.await).map(RepairAnswer::Symbols)
            }
            RepairRequest::Send {
                session,
                range,
                asker,
                key_hashes,
            } => Ok(self.send((session, range), asker, key_hashes).await),
            RepairRequest::Announce { session, range } => Ok(self.announce((session, range)).await),
            RepairRequest::Offer {
                session,
                range,
                asker,
                offers,
            } => Ok(self.answer_offers((session, range), asker, offers).await),
            RepairRequest::Sync { session } => self.sync(session).await,
            RepairRequest::Finish {
                session: SessionId::Full(token),
                below,
            } => self.finish(token, below).await,
            RepairRequest::Outcome {
                session,
                gc_threshold,
                single_copies,
                equal_with,
                has_all_of,
            } => {
                let outcome = (gc_threshold, single_copies, [equal_with, has_all_of]);
                self.end(session, outcome).await
            }
            // No incremental session closes or finishes anything; no node streams from itself, and
            // `serve` answers the others.
            RepairRequest::Close { .. }
            | RepairRequest::Finish { .. }
            | RepairRequest::Stream { .. } => Err(self.refusal()),
        }
    }

    /// Has the store's side do as the coordinator of a full session asks.
    async fn ask_store(
        &self,
        token: Token,
        request: SessionRequest,
    ) -> Result<SessionAnswer, RepairAnswer> {
        let store_side = &self.sessions.environment.store_side;
        match store_side.asked(token, request).await {
            Ok(SessionAnswer::Refused { greatest }) => Err(RepairAnswer::Refused { greatest }),
            Ok(answer) => Ok(answer),
            Err(_) => Err(RepairAnswer::Failed),
        }
    }

    /// Begins to take part in a session, or goes on.
    async fn begin(&self, session: SessionId, epoch: Epoch) -> Answered {
        let environment = &self.sessions.environment;
        let is_ready = match session {
            SessionId::Full(_) => self.is_ready_for_full().await,
            SessionId::Incremental(_) => true,
        };
        if !is_ready || epoch != environment.layouts.peek().epoch() {
            return Err(self.other_epoch());
        }
        let record = environment.store_side.record();
        let (mut gc_threshold, mut closed) = (record.gc_threshold, record.closed);
        let (mut latest, mut may_raise) = (Timestamp::ZERO, false);
        if let SessionId::Full(token) = session {
            let begin = SessionRequest::Begin { epoch };
            if let SessionAnswer::Begun {
                gc_threshold: known,
                closed: present,
                latest: allowed,
                may_raise: may,
            } = self.ask_store(token, begin).await?
            {
                (gc_threshold, closed) = (known, present);
                (latest, may_raise) = (allowed, may);
            }
            environment.membership.session_began(token);
        }
        let incarnation = self.incarnation();
        let greatest_seen = environment.timestamps.greatest();
        let begin = self.in_background(move |own| own.begin(session, epoch, incarnation));
        let begun = begin.await;
        let Some(Some(Known { reach, bounds })) = begun else {
            // The store has begun it, and others would wait for its end.
            if let SessionId::Full(token) = session {
                environment.store_side.abandoned(token);
            }
            return Err(begun.map_or(RepairAnswer::Failed, |_| self.other_epoch()));
        };
        self.sessions.record.began(session);
        Ok(RepairAnswer::Begun {
            greatest_seen,
            gc_threshold,
            closed,
            latest,
            may_raise,
            reach,
            bounds,
        })
    }

    /// Says that this node takes no part in a session, because it has another list of members.
    fn other_epoch(&self) -> RepairAnswer {
        let epoch = self.sessions.environment.layouts.peek().epoch();
        RepairAnswer::OtherEpoch { epoch }
    }

    /// Raises the closed timestamp. Until then, and until it is known where the scan ends, nothing
    /// counts as ahead of it.
    async fn close(&self, token: Token, close: SessionRequest, start: Bytes) -> Answered {
        let environment = &self.sessions.environment;
        let store_side = &environment.store_side;
        store_side.set_ahead(&start, Some(&start));
        let SessionAnswer::Closed(closed) = self.ask_store(token, close).await? else {
            return Err(RepairAnswer::Failed);
        };
        // The store takes repair writes of this attempt from now on, and no others.
        let admission = Admission::Late {
            generation: environment.engine.generation(LateSource::RepairWrite),
            gc_threshold: store_side.record().gc_threshold,
        };
        let session = SessionId::Full(token);
        let sessions = Arc::clone(&self.sessions);
        let named = self.in_background(move |own| {
            own.close(session, &start, admission)?;
            sessions.name_keys_ahead(own, session);
            Ok(())
        });
        self.known(named.await)?;
        Ok(RepairAnswer::Closed(closed))
    }

    async fn advance(&self, session: SessionId, start: &Bytes) -> Answered {
        if let SessionId::Full(token) = session {
            let open = SessionRequest::Open { range: 0 };
            self.ask_store(token, open).await?;
        }
        loop {
            let (start, sessions) = (start.clone(), Arc::clone(&self.sessions));
            let step = self.in_background(move |own| sessions.scan_step(own, session, &start));
            match step.await {
                Some(Ok(Advance::GoOn)) => {}
                Some(Ok(Advance::Reached(end))) => return Ok(RepairAnswer::Advanced(end)),
                Some(Ok(Advance::Unknown)) | None => return Err(self.refusal()),
                Some(Err(error)) => {
                    report_unreadable(&error);
                    return Err(self.refusal());
                }
            }
        }
    }

    async fn digest(&self, (session, range): RangeId, end: Option<Bytes>) -> Answered {
        let summary = self.known(self.sessions.digest((session, range), end).await)?;
        Ok(RepairAnswer::Digests {
            non_owned: summary.non_owned,
            announces: summary.announces,
            single_copies: summary.single_copies,
            digests: summary.digests,
        })
    }

    /// Makes durable what a session has brought. Refuses if this node takes no part in it.
    async fn commit_streamed(&self, session: SessionId) -> Result<(), RepairAnswer> {
        if self.sessions.commit_streamed(session).await {
            Ok(())
        } else {
            Err(self.refusal())
        }
    }

    async fn sync(&self, session: SessionId) -> Answered {
        self.commit_streamed(session).await?;
        match session {
            SessionId::Full(token) => self.ask_synced(token, SessionRequest::Sync).await,
            SessionId::Incremental(_) => Ok(RepairAnswer::Done),
        }
    }

    async fn finish(&self, token: Token, below: Timestamp) -> Answered {
        self.commit_streamed(SessionId::Full(token)).await?;
        self.ask_synced(token, SessionRequest::Finish { below })
            .await
    }

    /// Asks the store whether it may still raise the threshold.
    async fn ask_synced(&self, token: Token, request: SessionRequest) -> Answered {
        match self.ask_store(token, request).await? {
            SessionAnswer::Synced { may_raise } => Ok(RepairAnswer::Synced { may_raise }),
            _ => Err(RepairAnswer::Failed),
        }
    }

    /// Takes note of what a session has shown.
    async fn end(&self, session: SessionId, outcome: Outcome) -> Answered {
        let ended = self.take_outcome(session, outcome).await;
        if ended.is_err() {
            self.sessions.record.left(session);
        }
        ended
    }

    async fn take_outcome(
        &self,
        session: SessionId,
        (gc_threshold, single_copies, [equal_with, has_all_of]): Outcome,
    ) -> Answered {
        let environment = &self.sessions.environment;
        if let SessionId::Full(token) = session {
            let outcome = SessionRequest::Outcome { gc_threshold };
            self.ask_store(token, outcome).await?;
        }
        let (with, of) = (equal_with.clone(), has_all_of.clone());
        let incarnation = self.incarnation();
        let ended = self.in_background(move |own| own.end(session, incarnation, (&with, &of)));
        let Some(layout) = ended.await.flatten() else {
            return Err(self.refusal());
        };
        let record = &self.sessions.record;
        if session.kind() == RepairKind::Full && layout.phase() == Phase::Copying {
            record.shown(Facts {
                change: layout.change(),
                incarnation,
                equal_with: has_all_of.iter().copied().collect(),
            });
            self.sessions.report_facts();
        }
        record.ended(session, &equal_with, &single_copies);
        self.sessions.rebuild.ended(session);
        self.sessions.store_file();
        // A store that was lost had acknowledged each write together with another one,
        // and has all of that one: it need not wait for other pairs, nor for others to have all of it.
        if let SessionId::Full(token) = session {
            let membership = &environment.membership;
            let peers = layout.members().peers();
            // A clock that was far at the handshake may have come near since.
            for peer in peers.filter(|peer| environment.timestamps.has_observed(*peer)) {
                membership.observed(peer);
            }
            membership.session_ended(token, &has_all_of, &single_copies);
        }
        Ok(RepairAnswer::Done)
    }

    /// What a part of a session has said, if this node has one.
    fn known<T>(&self, said: Option<Result<T, UnknownRange>>) -> Result<T, RepairAnswer> {
        match said {
            Some(Ok(said)) => Ok(said),
            Some(Err(UnknownRange)) | None => Err(self.refusal()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_that_brings_a_closed_timestamp_or_a_gc_threshold_is_asked_for_it() {
        let session = SessionId::Full(Token::default());
        let (least, named) = (Timestamp::from_u64(5), Timestamp::from_u64(7));
        let close = |gc_threshold, below| RepairRequest::Close {
            session,
            gc_threshold,
            below,
            are_all: true,
            start: Bytes::new(),
        };
        let agree = RepairRequest::Agree {
            session,
            cut: Timestamp::MAX,
            gc_threshold: named,
            reaches: Vec::new(),
            bounds: Vec::new(),
        };
        let finish = RepairRequest::Finish {
            session,
            below: named,
        };
        let outcome = RepairRequest::Outcome {
            session,
            gc_threshold: named,
            single_copies: Vec::new(),
            equal_with: Vec::new(),
            has_all_of: Vec::new(),
        };
        for request in [
            close(least, named),
            close(named, least),
            agree,
            finish,
            outcome,
        ] {
            assert_eq!(named_timestamp(&request), Some(named), "{request:?}");
        }
        let begin = RepairRequest::Begin {
            session,
            epoch: Epoch::new(u64::MAX),
        };
        for request in [begin, RepairRequest::Sync { session }] {
            assert_eq!(named_timestamp(&request), None, "{request:?}");
        }
    }
}
