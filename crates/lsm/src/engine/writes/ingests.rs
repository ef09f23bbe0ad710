//! The ingests under way, and how old the entries are that were pushed to them.
//!
//! No live table has these entries yet, so a compaction that asks what its tombstones may
//! still hide has to count them.

use crate::waits::lock;
use base::Timestamp;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The ingests under way, each with the least timestamp that was pushed to it.
///
/// Its lock is held briefly, and no other lock is taken meanwhile.
#[derive(Default)]
pub(in crate::engine) struct Ingests {
    under_way: Mutex<BTreeMap<u64, Timestamp>>,
    /// Whether the last one that ended found too little room. An ingest leaves the room that
    /// writes need, so the disk need not be full for them.
    lack_room: AtomicBool,
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

    /// Notes whether an ingest found too little room.
    pub(in crate::engine) fn note_room(&self, is_lacking: bool) {
        self.lack_room.store(is_lacking, Relaxed);
    }

    /// Whether the last ingest that ended found too little room.
    pub(in crate::engine) fn lack_room(&self) -> bool {
        self.lack_room.load(Relaxed)
    }

    /// The least timestamp that was pushed and is in no live table yet.
    pub(in crate::engine) fn least_timestamp(&self) -> Timestamp {
        let ingests = lock(&self.under_way);
        ingests.values().min().copied().unwrap_or(Timestamp::MAX)
    }
}
