//! The ingests under way, and how old the entries are that were pushed to them.
//!
//! No live table has these entries yet, so a compaction that asks what its tombstones may
//! still hide has to count them.

use crate::locks::lock;
use base::Timestamp;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The ingests under way, each with the least timestamp that was pushed to it.
///
/// Its lock is held briefly, and no other lock is taken meanwhile.
#[derive(Default)]
pub(in crate::engine) struct Ingests {
    under_way: Mutex<BTreeMap<u64, Timestamp>>,
    /// How many free bytes the last one that ended wanted, if it found fewer and there are not that
    /// many now; 0 otherwise. An ingest leaves the room that writes need, so the disk need not be
    /// full for them.
    room_wanted_bytes: AtomicU64,
}

impl Ingests {
    /// Notes another ingest. Returns its number.
    pub(in crate::engine) fn begin(&self) -> u64 {
        let mut ingests = lock(&self.under_way);
        let number = ingests.last_key_value().map_or(0, |(last, _)| last + 1);
        ingests.insert(number, Timestamp::MAX);
        number
    }

    /// Notes the least timestamp that was pushed to an ingest.
    pub(in crate::engine) fn note(&self, number: u64, least: Timestamp) {
        lock(&self.under_way).insert(number, least);
    }

    /// Notes that an ingest is over: its tables are live, or never will be.
    pub(in crate::engine) fn end(&self, number: u64) {
        lock(&self.under_way).remove(&number);
    }

    /// Notes that an ingest found room.
    pub(in crate::engine) fn note_room(&self) {
        self.room_wanted_bytes.store(0, Relaxed);
    }

    /// Notes how many bytes of the disk are free: the room that an ingest wanted may be there now.
    pub(in crate::engine) fn note_free_bytes(&self, free_bytes: u64) {
        let has_room = |wanted: u64| (wanted <= free_bytes).then_some(0);
        let _wants_more = self
            .room_wanted_bytes
            .fetch_update(Relaxed, Relaxed, has_room);
    }

    /// Notes that an ingest found less than these free bytes, counting those of its own tables.
    pub(in crate::engine) fn note_lack_of_room(&self, wanted_bytes: u64) {
        self.room_wanted_bytes.store(wanted_bytes.max(1), Relaxed);
    }

    /// How many free bytes the last ingest that ended wanted, if there were fewer when the disk was
    /// last looked at.
    pub(in crate::engine) fn room_wanted_bytes(&self) -> Option<u64> {
        Some(self.room_wanted_bytes.load(Relaxed)).filter(|wanted| *wanted > 0)
    }

    /// The least timestamp that was pushed and is in no live table yet.
    pub(in crate::engine) fn least_timestamp(&self) -> Timestamp {
        let ingests = lock(&self.under_way);
        ingests.values().min().copied().unwrap_or(Timestamp::MAX)
    }
}
