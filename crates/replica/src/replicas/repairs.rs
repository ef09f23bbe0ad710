//! How this node's own store takes read repairs.
//!
//! A read repair brings a version with which a store of the cluster has answered a read. From below
//! the closed timestamp it is taken as [`cluster::repair::StoreState::admits`] says: ahead of the
//! scan of a session at once, and behind it once the store has noted durably that the session does
//! not raise the GC threshold. What was admitted holds for that state: the engine refuses it if the
//! state has changed before the commit, and it is admitted anew.

use super::LocalReplica;
use crate::pending::Completion;
use base::{Entry, Timestamp};
use cluster::Miss;
use cluster::repair::{Admission, Arriving};
use lsm::LateSource;
use peer::PeerAnswer;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

/// How often a read repair is admitted while the state of the store changes.
const ADMISSIONS_MAX: usize = 4;

/// How long the store has to take a version.
const WRITE_MAX: Duration = Duration::from_secs(5);

/// How long a read repair waits for a step of the scan to end. A step takes some milliseconds, and
/// one that never ends has scanned all that was ahead, as far as anyone knows.
const STEP_MAX: Duration = Duration::from_secs(1);

impl LocalReplica {
    /// Repairs with an entry, by the word of a store that has named its GC threshold; the outcome
    /// comes to `address`.
    ///
    /// # Errors
    /// As [`LocalReplica::write`].
    pub(super) fn repair(
        self: &Rc<Self>,
        entry: Entry,
        named: Option<Timestamp>,
        address: u64,
    ) -> Result<(), Miss> {
        let is_late = entry.timestamp() < self.bounds.closed();
        // The store refuses below its closed timestamp what comes without such a word.
        let Some(named) = named.filter(|_| is_late) else {
            return self.write(entry, None, lsm::Admission::Ordinary, address);
        };
        let replica = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let outcome = replica.repair_late(&entry, named).await;
            let completion =
                outcome.unwrap_or_else(|why| Completion::Peer(PeerAnswer::Missed(why)));
            replica.pending.complete(address, completion);
        });
        Ok(())
    }

    /// Takes a read repair from below the closed timestamp.
    ///
    /// # Errors
    /// Why it is not written.
    async fn repair_late(&self, entry: &Entry, named: Timestamp) -> Result<Completion, Miss> {
        let mut outcome = Err(Miss::Overloaded);
        for _ in 0..ADMISSIONS_MAX {
            let admission = self.admit_late(entry, named).await?;
            let wait = self
                .pending
                .wait(self.clock.monotonic().saturating_add(WRITE_MAX));
            self.write(entry.clone(), None, admission, wait.address())?;
            outcome = wait.only().await.ok_or(Miss::Timeout);
            if !matches!(
                outcome,
                Ok(Completion::Written(Err(lsm::Error::Overloaded)))
            ) || !self.has_changed_since(admission)
            {
                break;
            }
        }
        outcome
    }

    /// How the store takes a read repair, once it may.
    ///
    /// # Errors
    /// [`Miss::Obsolete`]; [`Miss::Undecided`].
    async fn admit_late(&self, entry: &Entry, named: Timestamp) -> Result<lsm::Admission, Miss> {
        let deadline = tokio::time::Instant::now() + STEP_MAX;
        loop {
            let mut step_ended = pin!(self.bounds.step_ended().notified());
            // Enabled before the look, so that no notification is missed.
            step_ended.as_mut().enable();
            // Before what the admission rests on.
            let generation = self.engine.generation(LateSource::ReadRepair);
            let is_in_time = tokio::time::Instant::now() < deadline;
            let key = is_in_time.then_some(entry.key());
            let version = self.arriving(entry);
            let Some(admitted) = self.bounds.admits_read_repair(version, named, key) else {
                // At the deadline the key counts as scanned.
                let _in_time = tokio::time::timeout_at(deadline, step_ended).await;
                continue;
            };
            let gc_threshold = admitted.gc_threshold;
            match admitted.admission {
                Admission::Taken => {
                    return Ok(lsm::Admission::Late {
                        gc_threshold,
                        generation,
                    });
                }
                Admission::OnceVoided => (self.void_session)().await.map_err(|_| Miss::Failed)?,
                Admission::NotNow => return Err(Miss::Undecided),
                Admission::Obsolete { below } => return Err(Miss::Obsolete { below }),
            }
        }
    }

    /// What the admission of a version depends on.
    fn arriving(&self, entry: &Entry) -> Arriving {
        Arriving {
            timestamp: entry.timestamp(),
            is_dead: !entry.is_live(self.clock.unix_ms()),
            is_lacking: self.membership.replica_state().lacks() || self.is_damaged(entry.key()),
        }
    }

    /// Whether the state of the store has changed since it admitted something so.
    fn has_changed_since(&self, admission: lsm::Admission) -> bool {
        matches!(admission, lsm::Admission::Late { generation, .. }
            if generation != self.engine.generation(LateSource::ReadRepair))
    }
}
