//! Which repairs this node's own store takes.
//!
//! Below the fence a store takes a repair only with a version that a store of the cluster has
//! answered with ([`Bounds::admit`](cluster::forgetting::Bounds::admit)). A full pass meets that
//! version in the other store, too, but a repair may be late: by the time that it arrives
//! - the store that has answered may have a newer version, a tombstone of fewer copies, which
//!   does not name this node as a replica;
//! - the pass may have compared the key, and found nothing of it here.
//!
//! Once the forget bound has risen, the others let go of the tombstone, and the version would be
//! back. So while the fence is above the forget bound, a live version below the fence is first
//! compared with what all other nodes hold of the key, and stored only if that is not newer; what is
//! newer is stored before it. That holds for one from below the forget bound, too: the tombstone
//! may be from above it. It cannot be missed: as nothing below the fence is written any
//! more, it lies on some node all the time, and whoever has dropped it names the forget bound that
//! allowed that, which is greater than what this node knew. If a node cannot be asked the repair is
//! refused, and the read is not answered: the version is older than the grace, and this node is one
//! that has missed it or is no replica of it.
//!
//! A mend may be late as well. While its pass, or another one, is still to ask this store whether
//! anything has come in behind the scan, that is no harm: the forget bound does not rise then. Once
//! the store is sealed, nobody asks any more, and such a
//! mend is compared in the same way. So is one of a pass that has gone back to a checkpoint: it may
//! be from before.
//!
//! A pass may fence the store while a repair is on its way into it. The store refuses it then,
//! because it was admitted before the fence, and it is admitted anew under the new one.

use super::LocalReplica;
use crate::pending::Completion;
use base::{Entry, Kind, Reservation, Timestamp};
use bytes::Bytes;
use cluster::Miss;
use cluster::forgetting::{Answerer, NamedBounds, Obsolete, Receiving};
use lsm::{Admission, LateSource};
use peer::{PeerAnswer, PeerRequest};
use std::rc::Rc;
use std::time::Duration;

/// The repairs and mends that are compared at a time.
pub const COMPARING_MAX: usize = 64;

/// How often a repair is admitted while passes fence the store.
const ADMISSIONS_MAX: usize = 4;

/// How long the other nodes have to say what they hold.
const PEEK_MAX: Duration = Duration::from_secs(5);

/// How a version is taken that comes as a mend or a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// As it is.
    AtOnce(Admission),
    /// Once it was compared with what all other nodes hold.
    OnceCompared {
        /// As what it is written then.
        admission: Admission,
        /// The greatest F that this node knew when it decided so.
        greatest: Timestamp,
    },
}

impl Taken {
    /// As what it is written.
    pub fn admission(self) -> Admission {
        let (Self::AtOnce(admission) | Self::OnceCompared { admission, .. }) = self;
        admission
    }
}

impl LocalReplica {
    /// Repairs with an entry; the outcome comes to `address`. Below the fence it is taken
    /// only if the store that has answered with it is still there, because a pass then
    /// meets the version in that store, too.
    ///
    /// # Errors
    /// As [`LocalReplica::write`], and [`Miss::Obsolete`].
    pub(super) fn repair(
        self: &Rc<Self>,
        entry: Entry,
        by: Option<Answerer>,
        address: u64,
    ) -> Result<(), Miss> {
        match self.taken(&entry, by)? {
            Taken::AtOnce(Admission::Ordinary) => {
                self.write(entry, None, Admission::Ordinary, address)
            }
            taken => self.write_below_fence(entry, taken, by, address),
        }
    }

    /// Writes an entry from below the fence as it was taken, compared with what all other nodes
    /// hold if that was the condition; the outcome comes to `address`. If a pass fences the store
    /// meanwhile, the store refuses what was admitted before. A repair of `by` is admitted anew
    /// then, because the pass still meets what it brings; any other is missed.
    ///
    /// # Errors
    /// [`Miss::Overloaded`] if too many are compared.
    pub(super) fn write_below_fence(
        self: &Rc<Self>,
        entry: Entry,
        taken: Taken,
        by: Option<Answerer>,
        address: u64,
    ) -> Result<(), Miss> {
        let comparing = if matches!(taken, Taken::OnceCompared { .. }) {
            Some(self.comparing.try_take().ok_or(Miss::Overloaded)?)
        } else {
            None
        };
        let replica = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let outcome = replica.admitted_anew(&entry, taken, by).await;
            drop(comparing);
            let completion =
                outcome.unwrap_or_else(|why| Completion::Peer(PeerAnswer::Missed(why)));
            replica.pending.complete(address, completion);
        });
        Ok(())
    }

    /// Compares and writes an entry, and admits it anew while passes fence the store meanwhile.
    ///
    /// # Errors
    /// Why it is not written.
    async fn admitted_anew(
        &self,
        entry: &Entry,
        mut taken: Taken,
        by: Option<Answerer>,
    ) -> Result<Completion, Miss> {
        for _ in 1..ADMISSIONS_MAX {
            let outcome = self.compared_and_written(entry, taken).await;
            if by.is_none() || !self.is_from_before_barrier(taken.admission()) {
                return outcome;
            }
            if let Ok(Completion::Written(Ok(_))) = outcome {
                return outcome;
            }
            taken = self.taken(entry, by)?;
        }
        self.compared_and_written(entry, taken).await
    }

    /// Compares an entry if it was taken on that condition, and waits for what the store makes
    /// of it.
    ///
    /// # Errors
    /// Why it was not given to the store, or that the store has not said what came of it.
    async fn compared_and_written(&self, entry: &Entry, taken: Taken) -> Result<Completion, Miss> {
        if let Taken::OnceCompared {
            admission,
            greatest,
        } = taken
        {
            self.compare_with_all(entry, admission, greatest).await?;
        }
        let wait = self.pending.wait(self.peek_deadline());
        self.write(entry.clone(), None, taken.admission(), wait.address())?;
        wait.only().await.ok_or(Miss::Timeout)
    }

    /// Whether the store refuses what was admitted so, because it was fenced since.
    fn is_from_before_barrier(&self, admission: Admission) -> bool {
        matches!(admission, Admission::Late { barrier, .. } if barrier != self.engine.barrier(LateSource::Read))
    }

    /// Whether a repair is taken below the fence, and how.
    ///
    /// # Errors
    /// [`Miss::Obsolete`].
    pub fn taken(&self, entry: &Entry, by: Option<Answerer>) -> Result<Taken, Miss> {
        // The store itself compares what names no store with its fence.
        let Some(by) = by else {
            return Ok(Taken::AtOnce(Admission::Ordinary));
        };
        // Before what the admission rests on.
        let barrier = self.engine.barrier(LateSource::Read);
        let bounds = self.bounds.bounds();
        let timestamp = entry.timestamp();
        if timestamp >= bounds.fence.max(bounds.forgotten) {
            return Ok(Taken::AtOnce(Admission::Ordinary));
        }
        let greatest = self.bounds.greatest();
        let receiving = Receiving {
            greatest,
            replica_state: self
                .bounds
                .replica_state_of(self.membership.replica_state()),
            takes_part: false,
            answering: self.membership.present_start(by.node),
        };
        let is_dead = !entry.is_live(self.clock.unix_ms());
        if let Err(Obsolete { below }) = bounds.admit(timestamp, is_dead, by.arrival(), receiving) {
            return Err(Miss::Obsolete { below });
        }
        let admission = Admission::Late {
            gc_threshold: bounds.forgotten,
            barrier,
        };
        // Below the forget bound the store that has answered knew that bound: no tombstone from
        // below it hides what it had. One from above may, and a pass that has fenced this store
        // there lets others drop it. A tombstone itself brings nothing back.
        let is_late = bounds.fence > greatest && entry.kind() == Kind::Value;
        Ok(if is_late {
            Taken::OnceCompared {
                admission,
                greatest,
            }
        } else {
            Taken::AtOnce(admission)
        })
    }

    /// Asks all other nodes what they hold of the key of an entry, and stores it if it is newer.
    ///
    /// # Errors
    /// Why one has not said it, and [`Miss::Obsolete`] if the version may have been deleted and
    /// forgotten.
    async fn compare_with_all(
        &self,
        entry: &Entry,
        admission: Admission,
        greatest: Timestamp,
    ) -> Result<(), Miss> {
        let key = Bytes::copy_from_slice(entry.key());
        let mut peeks = Vec::new();
        for link in self.peers.links() {
            let wait = self.pending.wait(self.peek_deadline());
            link.call(
                PeerRequest::Peek(key.clone()),
                self.peek_deadline(),
                wait.address(),
            )?;
            peeks.push(wait);
        }
        let mut newest: Option<Entry> = None;
        for peek in peeks {
            let (held, named) = match peek.only().await {
                Some(Completion::Peer(PeerAnswer::FoundBehind { entry, named })) => {
                    (entry, named.forgotten)
                }
                // A peer of a release that does not forget.
                Some(Completion::Peer(PeerAnswer::Found(entry))) => (entry, Timestamp::ZERO),
                Some(Completion::Peer(PeerAnswer::Missed(why))) => return Err(why),
                Some(_) => return Err(Miss::Failed),
                None => return Err(Miss::Timeout),
            };
            if entry.timestamp() < named && named > greatest {
                return Err(Miss::Obsolete { below: named });
            }
            if held.as_ref().map(Entry::rank) > newest.as_ref().map(Entry::rank) {
                newest = held;
            }
        }
        let Some(newest) = newest.filter(|newest| newest.rank() > entry.rank()) else {
            return Ok(());
        };
        let wait = self.pending.wait(self.peek_deadline());
        self.write(newest, None, admission, wait.address())?;
        match wait.only().await {
            Some(Completion::Written(Ok(_))) => Ok(()),
            Some(Completion::Written(Err(error))) => Err(self.miss_of(&error)),
            Some(_) => Err(Miss::Failed),
            None => Err(Miss::Timeout),
        }
    }

    fn peek_deadline(&self) -> Duration {
        self.clock.monotonic().saturating_add(PEEK_MAX)
    }

    /// The answer to a peek, whether or not the store counts, and the reservation of memory that a
    /// long value came with. Of a key that a damaged block may have held the store says nothing.
    pub(super) fn peeked(
        &self,
        key: &[u8],
        completion: Option<Completion>,
    ) -> (PeerAnswer, Option<Reservation>) {
        match completion {
            Some(Completion::Read(_)) if self.is_damaged(key) => {
                (PeerAnswer::Missed(Miss::Learner), None)
            }
            Some(Completion::Read(Ok(read))) => {
                let named = NamedBounds {
                    // Afterwards: what the read has not found may have been dropped below it.
                    forgotten: self.bounds.forgotten(),
                    store: self.own_start,
                };
                let entry = read.entry;
                (PeerAnswer::FoundBehind { entry, named }, read.reservation)
            }
            Some(Completion::Read(Err(error))) => (PeerAnswer::Missed(self.miss_of(&error)), None),
            Some(Completion::Peer(answer)) => (answer, None),
            Some(_) => (PeerAnswer::Missed(Miss::Failed), None),
            None => (PeerAnswer::Missed(Miss::Timeout), None),
        }
    }
}
