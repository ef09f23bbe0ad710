//! What a node does beside the requests of a session: it scans on for the next range, and writes the
//! tables of the range before.
//!
//! ```text
//! requests      digest of 1   compare 1 ...   digest of 2   compare 2 ...   digest of 3 ...
//! scan          on for 2 ->                   on for 3 ->                   on for 4 ->
//! streamed                    of 1                          of 2
//! tables                                      of 1 ->                       of 2 ->
//! ```

use crate::session::part::{Advance, Digested, Participant, RangeId, Streamed, UnknownRange};
use crate::session::worker::RepairSessions;
use bytes::Bytes;
use cluster::comparison::RangeSummary;
use cluster::repair::SessionId;
use profile::lock;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

impl RepairSessions {
    /// Ends a range, and the one before is over: its tables are written while this one is compared.
    /// Those of an earlier one have to be written by now. [`None`] if the node is closed.
    pub(super) async fn digest(
        self: &Arc<Self>,
        (session, number): RangeId,
        end: Option<Bytes>,
    ) -> Option<Result<RangeSummary, UnknownRange>> {
        let permit = Arc::clone(&self.writing).acquire_owned().await.ok();
        let digest = self.paced(move |own| own.digest(session, number, end.as_deref()));
        let digested = match digest.await.ok()? {
            Ok(digested) => digested,
            Err(unknown) => return Some(Err(unknown)),
        };
        let Digested {
            summary,
            streamed,
            read,
        } = digested;
        self.record.range_compared(session, read);
        self.write_streamed(session, streamed, permit);
        self.scan_ahead(session);
        Some(Ok(summary))
    }

    /// Scans on for one step: see [`Participant::advance`].
    ///
    /// # Errors
    /// The same.
    pub(super) fn scan_step(
        &self,
        own: &mut Participant,
        session: SessionId,
        start: &[u8],
    ) -> Result<Advance, lsm::Error> {
        let store_side = &self.environment.store_side;
        let before = || match session {
            SessionId::Full(_) => store_side.scan_begins(),
            SessionId::Incremental(_) => Ok(()),
        };
        let advanced = own.advance(session, start, before)?;
        self.name_keys_ahead(own, session);
        Ok(advanced)
    }

    /// Scans on for the next range while this one is compared. The range still ends where the node
    /// is that has come least far, so this only has a node scan earlier what it would scan anyway.
    /// What cannot be read is read once more when the coordinator asks, which hears of it.
    fn scan_ahead(self: &Arc<Self>, session: SessionId) {
        let sessions = Arc::clone(self);
        let _nobody_waits = self.paced(move |own| {
            let is_open = match session {
                SessionId::Full(token) => sessions.environment.store_side.scans_for(token),
                SessionId::Incremental(_) => true,
            };
            // One that this node has left names no keys.
            if is_open
                && own.takes_part(session)
                && let Ok(Advance::GoOn) = sessions.scan_step(own, session, &[])
            {
                sessions.scan_ahead(session);
            }
        });
    }

    /// Writes what was streamed of a range into tables, while the session goes on. A session whose
    /// tables cannot be written is left: its coordinator finds that this node does not know it any
    /// more. The permit is held until they are written.
    fn write_streamed(
        self: &Arc<Self>,
        session: SessionId,
        streamed: Streamed,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        if streamed.is_empty() {
            return;
        }
        let sessions = Arc::clone(self);
        let write = move || {
            let written = streamed.write();
            drop(permit);
            if let Err(error) = written {
                sessions.leave_unwritten(session, &error);
            }
        };
        let _nobody_waits = self.ingest_pacer.spawn(write);
    }

    /// Makes durable what a session has streamed, and whatever else the store has committed. Returns
    /// whether it is; it is not if this node takes no part in the session: after a restart it may have
    /// lost what the session has brought since the last checkpoint.
    pub(super) async fn commit_streamed(self: &Arc<Self>, session: SessionId) -> bool {
        let rest = self.paced(move |own| own.take_streamed(session));
        let Ok(Ok(rest)) = rest.await else {
            return false;
        };
        let sessions = Arc::clone(self);
        let commit = move || {
            // The store's side syncs once more, in a job for which requests wait: little is left then.
            let committed = rest.commit();
            let committed = committed.and_then(|()| sessions.environment.engine.sync());
            match committed {
                Ok(()) => true,
                Err(error) => {
                    sessions.leave_unwritten(session, &error);
                    false
                }
            }
        };
        self.ingest_pacer.spawn(commit).await.unwrap_or(false)
    }

    /// This node cannot store what a session has streamed, and leaves it.
    fn leave_unwritten(&self, session: SessionId, error: &lsm::Error) {
        tracing::error!(%error, "cannot store what a repair has streamed");
        lock(&self.participant).leave(session);
    }
}
