//! The counter of acknowledged writes: how many records the store has ever committed.
//!
//! A peer that remembers the counter notices a store that has lost writes, for example
//! because its folder was restored from a copy: its counter is lower than before.
//!
//! The counter costs a write no byte in the log. The manifest holds how many records
//! were committed that are in no live segment of the log, and a start adds those that
//! it replays. Ingested records count as soon as the manifest names their tables. So a
//! crash may lower the total by what was not synced, but never below what was durable. A
//! version that is written twice counts twice. A store that an older release has written
//! begins to count when it is opened.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many records a store has ever committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// All of them. May be lower after a power cut.
    pub total: u64,
    /// Those that are durable: no later start of the same store counts less. With
    /// [`Durability::Sync`](crate::Durability::Sync), those are all whose outcomes were
    /// delivered.
    pub durable: u64,
}

/// The owner of the counter. It has no lock. The holder of the commit lock changes it,
/// except that any thread may note a sync.
pub(in crate::engine) struct AcknowledgedCounter {
    committed: AtomicU64,
    /// How many of the committed records are synced.
    synced: AtomicU64,
    /// How many records were ingested since the start. They are durable.
    ingested: AtomicU64,
}

impl AcknowledgedCounter {
    /// The counter of a store that is being opened and has `total` durable records.
    pub(in crate::engine) fn new(total: u64) -> Self {
        Self {
            committed: AtomicU64::new(total),
            synced: AtomicU64::new(total),
            ingested: AtomicU64::new(0),
        }
    }

    /// Notes a group that was committed.
    pub(in crate::engine) fn add(&self, records: u64) {
        self.committed.fetch_add(records, Relaxed);
    }

    /// Notes records that were ingested.
    pub(in crate::engine) fn add_ingested(&self, records: u64) {
        self.ingested.fetch_add(records, Relaxed);
    }

    /// How many records were committed through the log. A caller that holds the commit
    /// lock passes this to [`AcknowledgedCounter::note_synced`] after the sync that it
    /// begins now.
    pub(in crate::engine) fn committed(&self) -> u64 {
        self.committed.load(Relaxed)
    }

    /// Notes that the first `records` committed records are durable.
    pub(in crate::engine) fn note_synced(&self, records: u64) {
        self.synced.fetch_max(records, Relaxed);
    }

    /// The counter now.
    pub(in crate::engine) fn get(&self) -> Acknowledged {
        // A record is synced after it is committed, so the total is no less.
        let synced = self.synced.load(Relaxed);
        let ingested = self.ingested.load(Relaxed);
        Acknowledged {
            total: self.committed().max(synced) + ingested,
            durable: synced + ingested,
        }
    }
}
