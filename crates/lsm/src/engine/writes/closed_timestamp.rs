//! The closed timestamp: the store takes no ordinary writes below it.
//!
//! An owner that has compared its stores below a timestamp may let them collect tombstones
//! there (GC). That is safe only if no older write arrives behind the comparison: a slow
//! write, a hint, a repair. So each store first raises its closed timestamp. Below it, it
//! then takes only **late writes**: versions of which the owner knows that the comparison
//! sees them, too.
//!
//! The closed timestamp rises under the commit lock. The commit of its group refuses a
//! write that waits in the queue at that moment. A write that was committed before is
//! visible to every scan that begins later. A commit sorts its group by timestamp, so the
//! check costs one comparison for a group without obsolete writes.
//!
//! An ingest brings versions in by an edit of the table set, which is durable before it
//! takes the commit lock. So it keeps the closed timestamp where it is meanwhile:
//! [`ClosedTimestamp::hold`], then [`ClosedTimestamp::check`], then the edit.
//!
//! # The generations
//!
//! A comparison must not miss a late write that was admitted before it began and still
//! waits: for a turn of its thread, or for seconds in the queue while writers are held
//! back. So the owner begins a new **generation** of admissions before the scan, under the same
//! locks. Each late write names the generation of its admission, and the commit refuses those
//! of an earlier one, if they are below the closed timestamp. They are refused with
//! [`Error::Overloaded`], because they may come again: they are then checked like any other
//! and count for the new comparison.
//!
//! Each [`LateSource`] has generations of its own, because repair writes may go on where
//! read repairs must be checked anew.
//!
//! # The GC threshold
//!
//! An old live version must not be stored after a compaction has dropped the tombstone that
//! hid it. The owner checks that when it admits a late write, by the GC threshold of that
//! moment. The write may wait for long after that, and the threshold may rise meanwhile.
//! So the greatest threshold that any compaction has used is kept here, too, and the commit
//! checks each late write again:
//!
//! - A compaction first raises the threshold ([`ClosedTimestamp::raise_gc_threshold`]). Then
//!   it looks at what waits in the queue, is being committed, lies in a memtable or was
//!   pushed to an ingest. What it finds there keeps the tombstones that hide it.
//! - A write or a push first notes itself there. The commit, or that of the ingest, then
//!   compares it with the threshold. It refuses a late write below, **unless it was
//!   admitted under this threshold** ([`Admission::Late`]).
//!
//! Both note under the lock under which the compaction looks. So either the compaction finds
//! the late write, or the late write finds the raised threshold.
//!
//! The exception is for a store that lacks data and is rebuilt from others: it takes live
//! versions far below its own threshold. That is right, because the stores that send them
//! are equal below the threshold: if there had been a tombstone, they would have it. The
//! threshold of such a store rises once it is rebuilt, and from then on the rule is the
//! same as for any other store.
//!
//! A threshold below which the store [sets aside](crate::engine::jobs::set_aside) what it holds
//! refuses late writes in the same way, but no compaction uses it.
//!
//! Ordinary writes are not compared with the threshold. The owner promises that none comes
//! below it that the store does not have yet: a node in a cluster by the closed timestamp,
//! which is never lower; a node alone by its own clock, where the threshold may well pass a
//! write that waits in the queue.
//!
//! # Durability
//!
//! The owner makes the closed timestamp durable, and gives it back when it opens the store.
//! The replay of the log refuses nothing, because the log was checked when it was written.

use super::admission::{Admission, Generation, LateSource};
use super::committer::Committer;
use super::queue::{Group, PendingWrite};
use crate::error::Error;
use crate::locks::lock;
use base::Timestamp;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Mutex, MutexGuard};

/// Keeps the closed timestamp where it is.
pub(in crate::engine) type ClosedGuard<'a> = MutexGuard<'a, ()>;

/// Holds the closed timestamp.
///
/// Its lock comes before those of the table set and the commit lock.
pub(in crate::engine) struct ClosedTimestamp {
    bound: AtomicU64,
    /// The greatest GC threshold that a compaction has used.
    gc_threshold: AtomicU64,
    /// Below which threshold the store has set aside, or is about to.
    set_aside_below: AtomicU64,
    repair_write_generation: AtomicU64,
    read_repair_generation: AtomicU64,
    /// Locked while the closed timestamp must not rise ([`ClosedTimestamp::hold`]), and to raise it.
    held: Mutex<()>,
}

impl ClosedTimestamp {
    /// The closed timestamp of a store that is being opened.
    pub(in crate::engine) fn new(bound: Timestamp) -> Self {
        Self {
            bound: AtomicU64::new(bound.as_u64()),
            gc_threshold: AtomicU64::default(),
            set_aside_below: AtomicU64::default(),
            repair_write_generation: AtomicU64::default(),
            read_repair_generation: AtomicU64::default(),
            held: Mutex::default(),
        }
    }

    /// Below which timestamp ordinary writes are refused.
    pub(in crate::engine) fn bound(&self) -> Timestamp {
        Timestamp::from_u64(self.bound.load(Relaxed))
    }

    /// Keeps the closed timestamp where it is until the guard is dropped.
    pub(in crate::engine) fn hold(&self) -> ClosedGuard<'_> {
        lock(&self.held)
    }

    /// Checks the least timestamp of what is to be stored. The caller holds the
    /// commit lock or the closed timestamp until it is.
    ///
    /// # Errors
    /// [`Error::Obsolete`], [`Error::Overloaded`] for a late write from an earlier generation of
    /// its source.
    pub(in crate::engine) fn check(
        &self,
        least: Timestamp,
        admission: Admission,
    ) -> Result<(), Error> {
        let bound = self.bound();
        if admission == Admission::Release {
            // It brings no version, and the promise must end however old it is.
            return Ok(());
        }
        let Admission::Late {
            gc_threshold,
            generation,
        } = admission
        else {
            return if least < bound {
                Err(Error::Obsolete { below: bound })
            } else {
                Ok(())
            };
        };
        let risen = self.gc_threshold();
        if risen > gc_threshold && least < risen {
            return Err(Error::Obsolete { below: risen });
        }
        if generation.number < self.generation(generation.source).number && least < bound {
            Err(Error::Overloaded)
        } else {
            Ok(())
        }
    }

    /// The present generation of a source. What is read after it is at least as new.
    pub(in crate::engine) fn generation(&self, source: LateSource) -> Generation {
        let number = self.generation_of(source).load(Acquire);
        Generation { source, number }
    }

    /// Begins a generation of a source. The guard and the committer show that the caller holds
    /// the closed timestamp and the commit lock.
    pub(in crate::engine) fn begin_generation(
        &self,
        source: LateSource,
        _held: &ClosedGuard<'_>,
        _committer: &mut Committer,
    ) {
        self.generation_of(source).fetch_add(1, Release);
    }

    fn generation_of(&self, source: LateSource) -> &AtomicU64 {
        match source {
            LateSource::RepairWrite => &self.repair_write_generation,
            LateSource::ReadRepair => &self.read_repair_generation,
        }
    }

    /// The greatest GC threshold that a compaction has used, or a setting aside.
    fn gc_threshold(&self) -> Timestamp {
        let of_compactions = self.gc_threshold.load(Relaxed);
        Timestamp::from_u64(of_compactions.max(self.set_aside_below.load(Relaxed)))
    }

    /// Raises the closed timestamp, if it is lower. The guard and the committer show that the
    /// caller holds the closed timestamp and the commit lock.
    pub(in crate::engine) fn raise(
        &self,
        closed_timestamp: Timestamp,
        _held: &ClosedGuard<'_>,
        _committer: &mut Committer,
    ) {
        self.bound.fetch_max(closed_timestamp.as_u64(), Relaxed);
    }

    /// Raises the GC threshold to that of a compaction, if it is lower. Returns what the
    /// compaction may use. It looks at what lies in memory only afterwards.
    pub(in crate::engine) fn raise_gc_threshold(&self, gc_threshold: Timestamp) -> Timestamp {
        let before = self.gc_threshold.fetch_max(gc_threshold.as_u64(), Relaxed);
        Timestamp::from_u64(before).max(gc_threshold)
    }

    /// Refuses from now on all writes below a GC threshold but late ones that were admitted under
    /// it. The guard and the committer show that the caller holds the closed timestamp and the
    /// commit lock.
    pub(in crate::engine) fn set_aside(
        &self,
        below: Timestamp,
        held: &ClosedGuard<'_>,
        committer: &mut Committer,
    ) {
        self.raise(below, held, committer);
        self.set_aside_below.fetch_max(below.as_u64(), Relaxed);
    }

    /// Takes out of a group, which is sorted by timestamp, the writes that are refused, and
    /// gives them with the errors that they get: see [`ClosedTimestamp::check`]. First come the
    /// ordinary writes below the closed timestamp, then the late ones below the GC threshold,
    /// then the late ones of an earlier generation. The caller holds the commit lock.
    pub(in crate::engine) fn take_refused(&self, group: &mut Group) -> Option<[(Group, Error); 3]> {
        let least = group.front()?.entry.timestamp();
        let (closed_timestamp, gc_threshold) = (self.bound(), self.gc_threshold());
        if least >= closed_timestamp.max(gc_threshold) {
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
        let is_ordinary =
            |pending: &PendingWrite| !matches!(pending.admission, Admission::Late { .. });
        let (ordinary, late): (Group, Group) = refused.into_iter().partition(is_ordinary);
        let is_early = |pending: &PendingWrite| matches!(refusal(pending), Some(Error::Overloaded));
        let (early, old): (Group, Group) = late.into_iter().partition(is_early);
        let obsolete = |below| Error::Obsolete { below };
        Some([
            (ordinary, obsolete(closed_timestamp)),
            (old, obsolete(gc_threshold)),
            (early, Error::Overloaded),
        ])
    }
}
