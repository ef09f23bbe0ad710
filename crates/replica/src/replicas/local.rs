//! This node's own store, as one runtime sees it.

use super::{AnswerTime, PageTelling, ReplicaRequest};
use crate::pending::Completion;
use crate::pending::PendingRequests;
use crate::read_pool::{PoolFull, Read, ReadJob, ReadPool};
use crate::shared_bounds::{BeforeRead, SharedBounds};
use crate::submissions::Submissions;
use crate::timestamps::{AllocatedTimestamp, TimestampAllocator};
use base::{Clock, Entry, Kind, LimitedLog, Quota, Reservation, Timestamp};
use cluster::Miss;
use lsm::{Admission, Engine, Lookup};
use membership::Membership;
use peer::{PeerAnswer, PromiseAnswer};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Says when something is durable; the sender is dropped if it cannot be.
pub type VoidSession = Rc<dyn Fn() -> oneshot::Receiver<()>>;

/// This node's own store, for one runtime.
pub struct LocalReplica {
    /// The store.
    pub engine: Engine,
    /// Checks the timestamps of other nodes against the clock bound.
    pub timestamps: Arc<TimestampAllocator>,
    /// Whether the store is a voter.
    pub membership: Membership,
    /// For reads that may block.
    pub read_pool: Arc<ReadPool>,
    /// Long values on their way out.
    pub answers: Arc<Quota>,
    /// Writes on their way to the store.
    pub submissions: Rc<Submissions>,
    /// The requests that wait for the store.
    pub pending: Rc<PendingRequests>,
    /// The closed timestamp and the GC threshold of the store, and what it does in sessions.
    pub bounds: Arc<SharedBounds>,
    /// Notes durably that the present session does not raise the GC threshold.
    pub void_session: VoidSession,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Limits the log lines that requests cause.
    pub log: Arc<LimitedLog>,
    /// For the pages of scans.
    pub telling: PageTelling,
}

impl LocalReplica {
    /// Asks the store. An answer that is not here at once comes to `address`.
    pub fn ask(
        self: &Rc<Self>,
        request: ReplicaRequest<'_>,
        deadline: Duration,
        address: u64,
    ) -> AnswerTime {
        let asked = match request {
            ReplicaRequest::Write { entry, allocated } => self.write(
                entry.clone(),
                allocated.take(),
                Admission::Ordinary,
                address,
            ),
            ReplicaRequest::Repair { entry, named } => self.repair(entry.clone(), named, address),
            ReplicaRequest::Promise(request) => {
                self.promise_to(request.clone(), deadline, address);
                Ok(())
            }
            ReplicaRequest::Accept {
                ballot,
                entry,
                allocated,
            } => {
                let admission = Admission::Accept { ballot };
                self.write(entry.clone(), allocated.take(), admission, address)
            }
            ReplicaRequest::Read(key) | ReplicaRequest::ReadUnlessSame(key, _) => {
                match self.read_cached(key) {
                    Some(answer) => return AnswerTime::Now(answer),
                    None => self.read(key, address),
                }
            }
        };
        match asked {
            Ok(()) => AnswerTime::Later,
            Err(why) => AnswerTime::Now(PeerAnswer::Missed(why)),
        }
    }

    /// Writes an entry; the outcome comes to `address`, as [`Completion::Written`].
    /// The entry of any write, repair or hint comes this way. An entry whose timestamp this
    /// node allocated comes with the allocation; the clock observes the timestamp of any other.
    /// Below the closed timestamp the store takes no ordinary ones.
    ///
    /// # Errors
    /// [`Miss::Refused`] for a timestamp beyond the clock bound: nothing is written
    /// then, because the version of a broken clock must not reach the store.
    pub fn write(
        &self,
        entry: Entry,
        allocated: Option<AllocatedTimestamp>,
        admission: Admission,
        address: u64,
    ) -> Result<(), Miss> {
        if allocated.is_none() {
            self.observe(entry.timestamp())?;
        }
        self.submissions.push(entry, allocated, admission, address);
        Ok(())
    }

    pub(super) fn observe(&self, timestamp: Timestamp) -> Result<(), Miss> {
        if self.timestamps.observe(timestamp) {
            return Ok(());
        }
        self.log.line("version from the future", |left_out| {
            tracing::warn!(
                %timestamp,
                left_out,
                "refused a version: its timestamp is too far ahead of this node's clock"
            );
        });
        Err(Miss::Refused)
    }

    /// The answer to a read, with the GC threshold that the store names; `before` held before the
    /// read. What was set aside since does not count, because its tombstone may be gone.
    fn found(&self, entry: Option<Entry>, before: BeforeRead) -> PeerAnswer {
        let gc_threshold = match &entry {
            Some(_) if self.bounds.was_set_aside_since(before) => {
                return PeerAnswer::Missed(Miss::Learner);
            }
            // Others take it below the threshold that is named, which must have held for the
            // store when it was read.
            Some(held) if held.kind() == Kind::Value => before.gc_threshold,
            // A tombstone may be gone by now, and others take it below no threshold.
            _ => self.bounds.gc_threshold(),
        };
        PeerAnswer::FoundBehind {
            entry,
            gc_threshold,
        }
    }

    /// The newest version of a key, if no disk has to be read for it: a tombstone
    /// and an expired value are versions, too.
    pub fn read_cached(&self, key: &[u8]) -> Option<PeerAnswer> {
        if let Err(why) = self.check_replica_state(key) {
            return Some(PeerAnswer::Missed(why));
        }
        let before = self.bounds.before_read();
        match self.engine.get_cached(key) {
            Ok(Lookup::Found(entry)) => Some(self.found(entry, before)),
            Ok(Lookup::MayBlock) => None,
            Err(error) => Some(PeerAnswer::Missed(self.miss_of(&error))),
        }
    }

    /// Reads a key where blocking is allowed; the outcome comes to `address`, as
    /// [`Completion::Read`].
    ///
    /// # Errors
    /// Too many reads wait; then nothing comes.
    pub fn read(&self, key: &[u8], address: u64) -> Result<(), Miss> {
        let read = Read::Key {
            key: Box::from(key),
            quota: Arc::clone(&self.answers),
            before: self.bounds.before_read(),
        };
        self.submit(read, address)
            .map_err(|PoolFull| Miss::Overloaded)
    }

    /// Whether the store takes writes: its disk is not full, and neither has failed.
    pub(super) fn takes_puts(&self) -> bool {
        self.engine.takes_puts()
    }

    /// Why the store takes no writes, if a failure of its folder or its disk is the reason.
    pub fn refuses_writes(&self) -> Option<Arc<str>> {
        self.engine.refuses_writes()
    }

    /// Whether the peers have said if the store is a voter.
    pub fn is_settled(&self) -> bool {
        self.membership.is_settled()
    }

    /// Waits until the peers have said whether the store is a voter: at a first
    /// start, and for a moment at each start. An eighth of the time until the
    /// deadline is left, to answer without them.
    pub async fn settled(&self, deadline: Duration) {
        let left = deadline.saturating_sub(self.clock.monotonic());
        let patience = left / 8 * 7;
        let _in_time = tokio::time::timeout(patience, self.membership.settled()).await;
    }

    /// What a completion is to the request that asked for `key`, and the reservation of
    /// memory that a long value came with; `None` is the deadline. Where the store is no
    /// voter its acks and its reads are misses, because it may have lost what it once
    /// acknowledged.
    pub fn answer_of(
        &self,
        key: &[u8],
        completion: Option<Completion>,
    ) -> (PeerAnswer, Option<Reservation>) {
        let answer = match completion {
            Some(Completion::Peer(answer)) => return (answer, None),
            Some(Completion::Written(Ok(newer_version))) => self
                .check_replica_state(key)
                .map(|()| (PeerAnswer::Stored { newer_version }, None)),
            Some(Completion::Read(Ok(read))) => self
                .check_replica_state(key)
                .map(|()| (self.found(read.entry, read.before), read.reservation)),
            Some(Completion::Written(Err(lsm::Error::NotPromised))) => {
                Ok((PeerAnswer::Promise(PromiseAnswer::NotKept), None))
            }
            Some(Completion::Written(Err(error)) | Completion::Read(Err(error))) => {
                Err(self.miss_of(&error))
            }
            Some(
                Completion::Promised { .. }
                | Completion::Scanned(..)
                | Completion::Digested(..)
                | Completion::Paged(_)
                | Completion::HintKept,
            ) => Err(Miss::Failed),
            None => Err(Miss::Timeout),
        };
        answer.unwrap_or_else(|why| (PeerAnswer::Missed(why), None))
    }

    /// Whether what the store says of a key counts: only that of a voter does, and
    /// not if a damaged block may have held the key, or if the store is behind the GC threshold.
    pub(super) fn check_replica_state(&self, key: &[u8]) -> Result<(), Miss> {
        if self.is_damaged(key) {
            Err(Miss::Learner)
        } else {
            self.check_whole()
        }
    }

    /// Whether what the store says counts, damaged parts aside.
    pub(super) fn check_whole(&self) -> Result<(), Miss> {
        if self.membership.is_voter() && !self.bounds.is_behind() {
            Ok(())
        } else {
            Err(Miss::Learner)
        }
    }

    /// Whether what the store says of a key counts, or will once it knows the GC threshold. If not, it
    /// will only after it was compared with all others.
    pub fn counts_for(&self, key: &[u8]) -> bool {
        self.membership.is_voter() && !self.is_damaged(key)
    }

    /// Whether a damaged block may have held the key, and a peer may have what it held.
    pub fn is_damaged(&self, key: &[u8]) -> bool {
        self.engine.is_damaged(key) && !self.membership.is_alone()
    }

    pub(super) fn submit(&self, read: Read, address: u64) -> Result<(), PoolFull> {
        self.read_pool.submit(ReadJob {
            read,
            completions: Arc::clone(self.pending.completions()),
            address,
        })
    }

    /// What an error of the store is to a request, which it has failed.
    pub fn miss_of(&self, error: &lsm::Error) -> Miss {
        let miss = miss_of(error);
        // The engine logs these once for the store or the file.
        let is_known = matches!(
            error,
            lsm::Error::Poisoned { .. } | lsm::Error::Corrupt { .. }
        );
        match miss {
            Miss::Failed if is_known => tracing::debug!(%error, "the store failed a request"),
            Miss::Failed => {
                let text = error.to_string();
                self.log.failure("failed request", &text, |left_out| {
                    tracing::error!(%error, left_out, "the store failed a request");
                });
            }
            _ => {}
        }
        miss
    }
}

/// What an error of the store is to a request that may ask other replicas.
fn miss_of(error: &lsm::Error) -> Miss {
    match error {
        lsm::Error::Overloaded => Miss::Overloaded,
        lsm::Error::DiskFull => Miss::Full,
        lsm::Error::Closed | lsm::Error::Promised { .. } | lsm::Error::NotPromised => Miss::Refused,
        lsm::Error::Obsolete { below } => Miss::Obsolete { below: *below },
        lsm::Error::Poisoned { .. }
        | lsm::Error::Corrupt { .. }
        | lsm::Error::Io { .. }
        | lsm::Error::Sync { .. }
        | lsm::Error::Locked { .. }
        | lsm::Error::Invalid(_) => Miss::Failed,
    }
}
