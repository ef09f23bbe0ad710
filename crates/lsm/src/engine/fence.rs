//! The fence: the timestamp below which the store takes no ordinary writes.
//!
//! A cluster forgets what is dead below a bound once a full pass has compared
//! everything below it. That holds only if nothing comes in behind the pass: a
//! write that was slow, a hint, a repair. So before the pass each store raises its
//! fence. From then on it refuses ordinary writes below the fence, and takes only
//! **mends**: versions of which the owner knows that the pass carries them, too.
//!
//! The fence rises under the commit lock. A write that waits in the queue at that
//! moment is refused by its group's commit, and one that was committed before is
//! visible to every scan that begins later. The commit sorts its group by
//! timestamp, so for a group without obsolete writes the fence costs one
//! comparison.
//!
//! An ingest brings versions in by an edit of the table set, which is durable before it
//! takes the commit lock. So it holds the fence meanwhile: [`Fence::hold`], then
//! [`Fence::check`], then the edit.
//!
//! # The barrier
//!
//! Mends pass the fence. But a pass must not miss one that another pass, or a repair, has
//! brought before, and that waits: for a turn of its runtime, or for seconds in the queue,
//! while writers are held back. The owner has counted it as from before the pass, and the
//! scan would not see it. So before the scan the owner raises the **barrier**, under the
//! same locks as the fence. Each mend names the barrier at its admission, and the commit
//! refuses those from before the present one, if they are below the fence. As the owner
//! refuses none of them for what they are, that is [`Error::Overloaded`]: they may come again,
//! are judged by then as any other, and count.
//!
//! # The drop bound
//!
//! Mends pass the fence, but an old live version must not be stored after a compaction
//! has dropped the tombstone that hid it. The owner checks that when it admits a mend, by
//! the drop bound of that moment. A mend may wait for long after that, and the bound may
//! rise meanwhile. So the fence also knows the greatest drop bound that any compaction
//! has used, and the commit checks each mend again:
//!
//! - A compaction first raises the drop bound ([`Fence::raise_drop_bound`]), and then looks
//!   at what waits in the queue, is being committed, lies in a memtable or was pushed to an
//!   ingest. What it finds there keeps the tombstones that hide it.
//! - A write or a push first notes itself there. The commit, or that of the ingest, then
//!   compares it with the drop bound: it is refused if it lies below, **unless it was
//!   admitted under this bound** ([`Admission::Mend`]).
//!
//! Both note under the lock under which the compaction looks. So either the compaction finds
//! the mend, or the mend finds the raised bound: no mend that was admitted under a lower
//! bound slips in beside a compaction that has begun under a greater one.
//!
//! The exception is what a store takes that lacks something and is filled by those that do not:
//! live versions far below its own bound. A live version there, where nothing
//! newer hides it, is right, because all those stores are equal below the bound: had there
//! ever been a tombstone, that store would have it, or neither. What such a store compacts
//! meanwhile changes nothing about that. But its bound rises once it is filled, and from
//! then on a mend that is late is as wrong as with any other store.
//!
//! Ordinary writes are not compared with the drop bound. The owner promises that none
//! comes below it that the store does not have yet: a node in a cluster by the fence, which
//! is never lower; a node alone by its own clock, and there the bound may well pass a write
//! that waits in the queue.
//!
//! # Durability
//!
//! The owner of the store makes the fence durable, and gives it back when it opens
//! the store. The replay of the log refuses nothing, because the log was checked
//! when it was written.

use super::log::Committer;
use super::queue::{Group, PendingWrite};
use crate::error::Error;
use crate::sync::lock;
use base::Timestamp;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Mutex, MutexGuard};

/// What kind of write an entry is to the fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// A write, a hint or a repair: refused below the fence.
    Ordinary,
    /// A version that another store holds and that the present pass compares: taken
    /// below the fence, too. The owner of the store checks that it is one.
    Mend {
        /// The drop bound when the owner has checked the version. If compaction uses a
        /// greater one by the time of the commit, a version below that is refused.
        drop_bound: Timestamp,
        /// The barrier then, read before the owner has looked at anything else. If it has
        /// risen by the time of the commit, a version below the fence is refused.
        barrier: Barrier,
    },
}

/// How often a store has refused the mends that waited: see [`Engine::raise_barrier`].
///
/// [`Engine::raise_barrier`]: super::Engine::raise_barrier
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Barrier(u64);

impl Barrier {
    /// That of a store that was just opened.
    pub const FIRST: Self = Self(0);
}

/// Keeps the fence where it is.
pub(super) type FenceGuard<'a> = MutexGuard<'a, ()>;

/// The owner of the fence.
///
/// Its lock comes before those of the table set and the commit lock.
pub(super) struct Fence {
    bound: AtomicU64,
    /// The greatest drop bound that a compaction has used.
    drop_bound: AtomicU64,
    barrier: AtomicU64,
    edits: Mutex<()>,
}

impl Fence {
    /// The fence of a store that is being opened.
    pub(super) fn new(bound: Timestamp) -> Self {
        Self {
            bound: AtomicU64::new(bound.as_u64()),
            drop_bound: AtomicU64::default(),
            barrier: AtomicU64::new(Barrier::FIRST.0),
            edits: Mutex::default(),
        }
    }

    /// Below which timestamp ordinary writes are refused.
    pub(super) fn bound(&self) -> Timestamp {
        Timestamp::from_u64(self.bound.load(Relaxed))
    }

    /// Keeps the fence where it is until the guard is dropped.
    pub(super) fn hold(&self) -> FenceGuard<'_> {
        lock(&self.edits)
    }

    /// Checks the least timestamp of what is to be stored. The caller holds the
    /// commit lock or the fence until it is.
    ///
    /// # Errors
    /// [`Error::Obsolete`], [`Error::Overloaded`] for a mend from before the barrier.
    pub(super) fn check(&self, least: Timestamp, admission: Admission) -> Result<(), Error> {
        let bound = self.bound();
        let Admission::Mend {
            drop_bound,
            barrier,
        } = admission
        else {
            return if least < bound {
                Err(Error::Obsolete { fence: bound })
            } else {
                Ok(())
            };
        };
        let risen = self.drop_bound();
        if risen > drop_bound && least < risen {
            return Err(Error::Obsolete { fence: risen });
        }
        if barrier < self.barrier() && least < bound {
            Err(Error::Overloaded)
        } else {
            Ok(())
        }
    }

    /// The present barrier. What is read after it is at least as new.
    pub(super) fn barrier(&self) -> Barrier {
        Barrier(self.barrier.load(Acquire))
    }

    /// Raises the barrier. The guard and the committer show that the caller holds the fence
    /// and the commit lock.
    pub(super) fn raise_barrier(&self, _held: &FenceGuard<'_>, _committer: &mut Committer) {
        self.barrier.fetch_add(1, Release);
    }

    /// The greatest drop bound that a compaction has used.
    fn drop_bound(&self) -> Timestamp {
        Timestamp::from_u64(self.drop_bound.load(Relaxed))
    }

    /// Raises the fence, if it is lower. The guard and the committer show that the
    /// caller holds the fence and the commit lock.
    pub(super) fn raise(
        &self,
        fence: Timestamp,
        _held: &FenceGuard<'_>,
        _committer: &mut Committer,
    ) {
        self.bound.fetch_max(fence.as_u64(), Relaxed);
    }

    /// Raises the drop bound to that of a compaction, if it is lower. Returns what the
    /// compaction may use. It looks at what lies in memory only afterwards.
    pub(super) fn raise_drop_bound(&self, drop_bound: Timestamp) -> Timestamp {
        let before = self.drop_bound.fetch_max(drop_bound.as_u64(), Relaxed);
        Timestamp::from_u64(before).max(drop_bound)
    }

    /// Takes out of a group, which is sorted by timestamp, the writes that are refused, and
    /// gives them with the errors that they get: see [`Fence::check`]. The caller holds the
    /// commit lock.
    pub(super) fn take_refused(&self, group: &mut Group) -> Option<[(Group, Error); 3]> {
        let least = group.front()?.entry.timestamp();
        let (fence, drop_bound) = (self.bound(), self.drop_bound());
        if least >= fence.max(drop_bound) {
            return None;
        }
        let refusal = |pending: &PendingWrite| {
            self.check(pending.entry.timestamp(), pending.admission)
                .err()
        };
        let (refused, taken): (Group, Group) = std::mem::take(group)
            .into_iter()
            .partition(|pending| refusal(pending).is_some());
        *group = taken;
        let is_ordinary = |pending: &PendingWrite| pending.admission == Admission::Ordinary;
        let (ordinary, mends): (Group, Group) = refused.into_iter().partition(is_ordinary);
        let is_early = |pending: &PendingWrite| matches!(refusal(pending), Some(Error::Overloaded));
        let (early, old): (Group, Group) = mends.into_iter().partition(is_early);
        let obsolete = |fence| Error::Obsolete { fence };
        Some([
            (ordinary, obsolete(fence)),
            (old, obsolete(drop_bound)),
            (early, Error::Overloaded),
        ])
    }
}
