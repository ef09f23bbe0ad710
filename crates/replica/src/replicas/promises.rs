//! How this node's own store promises ballots of conditional writes.
//!
//! ```text
//! newest version as expected? -- promise, in the log -- still so? --> promised
//!          | no                        | another            | no
//!          v                           v                    v
//!       differs                      busy          release, differs
//! ```
//!
//! The first look spares a condition that does not hold the sync. The second one counts: while the
//! promise is kept nothing below the ballot comes in, so what it finds stays the newest version below
//! the ballot. No look needs the value: if the version is in memory or in the cache, nothing is
//! copied.

use super::LocalReplica;
use crate::pending::Completion;
use base::{Entry, Timestamp};
use cluster::repair::is_absent;
use cluster::{Met, Miss, Newest};
use lsm::Admission;
use peer::{PeerAnswer, Prepare, PromiseAnswer, PromiseRequest};
use std::rc::Rc;
use std::time::Duration;

/// How long the release of a promise may take.
const RELEASE_MAX: Duration = Duration::from_secs(5);

impl LocalReplica {
    /// Does what a conditional write asks for; the answer comes to `address`.
    pub(super) fn promise_to(
        self: &Rc<Self>,
        request: PromiseRequest,
        deadline: Duration,
        address: u64,
    ) {
        let replica = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let answer = replica.promise(request, deadline).await;
            replica.pending.complete(address, Completion::Peer(answer));
        });
    }

    /// Does what a conditional write asks for, before `deadline` on the monotonic clock.
    pub(super) async fn promise(&self, request: PromiseRequest, deadline: Duration) -> PeerAnswer {
        let answer = match request {
            PromiseRequest::Prepare(prepare) => self.prepare(&prepare, deadline).await,
            PromiseRequest::Release { key, ballot } => self
                .release(&key, ballot)
                .await
                .map(|()| PromiseAnswer::Released),
        };
        answer.map_or_else(PeerAnswer::Missed, PeerAnswer::Promise)
    }

    async fn prepare(&self, prepare: &Prepare, deadline: Duration) -> Result<PromiseAnswer, Miss> {
        self.observe(prepare.ballot)?;
        // Neither of an earlier list, whose replicas may not suffice any more, nor of a later one,
        // which is not durable here.
        if self.telling.layouts.peek().epoch() != prepare.epoch {
            return Err(Miss::OtherEpoch);
        }
        if prepare.is_value && !self.takes_puts() {
            return Err(Miss::Full);
        }
        let (newest, _) = self.newest(prepare, deadline).await?;
        if !is_as_expected(prepare, newest) {
            return Ok(PromiseAnswer::Differs(newest));
        }
        let is_forced = prepare.base.is_none();
        let wait = self.pending.wait(deadline);
        self.submissions.push(
            Entry::tombstone(&prepare.key, prepare.ballot, prepare.copies),
            None,
            Admission::Promise {
                is_forced,
                epoch: prepare.epoch.as_u64(),
            },
            wait.address(),
        );
        let met = match wait.only().await {
            Some(Completion::Promised { replaced: None }) => Met::Nothing,
            Some(Completion::Promised {
                replaced: Some(epoch),
            }) if epoch < prepare.epoch.as_u64() => Met::EarlierList,
            Some(Completion::Promised { .. }) => Met::SameList,
            Some(Completion::Written(Err(lsm::Error::Promised { with, is_stale }))) => {
                return Ok(PromiseAnswer::Busy { with, is_stale });
            }
            Some(Completion::Written(Err(error))) => return Err(self.miss_of(&error)),
            Some(_) => return Err(Miss::Failed),
            None => {
                // It may be promised yet, and nobody would know. The release comes after it.
                if !is_forced {
                    self.release(&prepare.key, prepare.ballot).await?;
                }
                return Err(Miss::Timeout);
            }
        };
        match self.newest(prepare, deadline).await {
            Ok((newest, gc_threshold)) if is_as_expected(prepare, newest) => {
                Ok(PromiseAnswer::Promised {
                    newest: newest.timestamp,
                    met,
                    gc_threshold,
                })
            }
            Ok((newest, _)) => {
                // By force any version is expected but one at or above the ballot. That would have
                // ended a promise that was met.
                self.release(&prepare.key, prepare.ballot).await?;
                Ok(PromiseAnswer::Differs(newest))
            }
            Err(why) => {
                // What a promise that was met hides is not known, so it is kept.
                if met == Met::Nothing {
                    self.release(&prepare.key, prepare.ballot).await?;
                }
                Err(why)
            }
        }
    }

    /// Ends the promise of a ballot, if it is kept.
    async fn release(&self, key: &[u8], ballot: Timestamp) -> Result<(), Miss> {
        let deadline = self.clock.monotonic().saturating_add(RELEASE_MAX);
        let wait = self.pending.wait(deadline);
        let promise = Entry::tombstone(key, ballot, 0);
        self.submissions
            .push(promise, None, Admission::Release, wait.address());
        match wait.only().await {
            Some(Completion::Written(Ok(_))) => Ok(()),
            Some(Completion::Written(Err(error))) => Err(self.miss_of(&error)),
            Some(_) => Err(Miss::Failed),
            None => Err(Miss::Timeout),
        }
    }

    /// The newest version of the key, and the GC threshold; none for a dead one below that, which
    /// other stores have dropped.
    ///
    /// # Errors
    /// It cannot be read, or does not count.
    async fn newest(
        &self,
        prepare: &Prepare,
        deadline: Duration,
    ) -> Result<(Newest, Timestamp), Miss> {
        let answer = match self.read_cached(&prepare.key) {
            Some(answer) => answer,
            None => {
                let wait = self.pending.wait(deadline);
                self.read(&prepare.key, wait.address())?;
                self.answer_of(&prepare.key, wait.only().await).0
            }
        };
        let (entry, gc_threshold) = match answer {
            PeerAnswer::FoundBehind {
                entry,
                gc_threshold,
            } => (entry, gc_threshold),
            PeerAnswer::Missed(why) => return Err(why),
            // Not what a store answers to a read.
            _ => return Err(Miss::Failed),
        };
        let Some(entry) = entry else {
            return Ok((Newest::NOTHING, gc_threshold));
        };
        let is_value = entry.is_live(prepare.unix_ms);
        if is_absent(entry.timestamp(), !is_value, gc_threshold) {
            return Ok((Newest::NOTHING, gc_threshold));
        }
        let newest = Newest {
            timestamp: Some(entry.timestamp()),
            is_value,
        };
        Ok((newest, gc_threshold))
    }
}

/// Whether a ballot may be promised on this version.
fn is_as_expected(prepare: &Prepare, newest: Newest) -> bool {
    let is_below = newest
        .timestamp
        .is_none_or(|newest| newest < prepare.ballot);
    is_below && prepare.base.is_none_or(|base| base.is(newest))
}
