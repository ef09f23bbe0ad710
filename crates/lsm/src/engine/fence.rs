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
//! The owner of the store makes the fence durable, and gives it back when it opens
//! the store. The replay of the log refuses nothing, because the log was checked
//! when it was written.

use super::log::Committer;
use super::queue::Group;
use crate::error::Error;
use crate::sync::lock;
use base::Timestamp;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

/// What kind of write an entry is to the fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// A write, a hint or a repair: refused below the fence.
    Ordinary,
    /// A version that another store holds and that the present pass compares: taken
    /// below the fence, too. The owner of the store checks that it is one.
    Mend,
}

/// Keeps the fence where it is.
pub(super) type FenceGuard<'a> = MutexGuard<'a, ()>;

/// The owner of the fence.
///
/// Its lock comes before those of the table set and the commit lock.
pub(super) struct Fence {
    bound: AtomicU64,
    edits: Mutex<()>,
}

impl Fence {
    /// The fence of a store that is being opened.
    pub(super) fn new(bound: Timestamp) -> Self {
        Self {
            bound: AtomicU64::new(bound.as_u64()),
            edits: Mutex::default(),
        }
    }

    /// Keeps the fence where it is until the guard is dropped.
    pub(super) fn hold(&self) -> FenceGuard<'_> {
        lock(&self.edits)
    }

    /// Checks the least timestamp of what is to be stored. The caller holds the
    /// commit lock or the fence until it is.
    ///
    /// # Errors
    /// [`Error::Obsolete`].
    pub(super) fn check(&self, least: Timestamp, admission: Admission) -> Result<(), Error> {
        let fence = Timestamp::from_u64(self.bound.load(Relaxed));
        if least < fence && admission == Admission::Ordinary {
            return Err(Error::Obsolete { fence });
        }
        Ok(())
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

    /// Takes out of a group, which is sorted by timestamp, the writes that are
    /// refused, and gives them with the error that they get. The caller holds the
    /// commit lock.
    pub(super) fn take_refused(&self, group: &mut Group) -> Option<(Group, Error)> {
        let least = group.front()?.entry.timestamp();
        let error = self.check(least, Admission::Ordinary).err()?;
        let is_refused = |timestamp, admission| self.check(timestamp, admission).is_err();
        let (refused, taken): (Group, Group) = std::mem::take(group)
            .into_iter()
            .partition(|pending| is_refused(pending.entry.timestamp(), pending.admission));
        *group = taken;
        Some((refused, error))
    }
}
