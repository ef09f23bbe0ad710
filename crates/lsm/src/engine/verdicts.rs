//! What a store held of a key when a version of it first arrived: the verdict
//! that makes a replica's answer to a write an acknowledgement, or not.
//!
//! A version may come several times, from its coordinator, as a mend or as a
//! hint, and newer ones in between. All who ask within a request's time must be
//! told the same: as of the first arrival. So:
//!
//! - *Nothing newer now* means nothing newer then, and needs no memory at all.
//!   With sound clocks that is nearly every write.
//! - A version that is still in a memtable came before, and was clean unless it
//!   is noted here as not clean. So clean ones, however many, take no room.
//! - So was one that came with a memtable that was flushed a moment ago
//!   ([`Flushed`](super::table_set::Flushed)).
//! - Any other arrives now, unless more came with such a memtable than is
//!   remembered, or the store was opened a moment ago: then it may have come
//!   before, and cannot be told.
//! - What came longer ago than the longest request takes cannot be told. Nobody
//!   waits for it.
//!
//! What is newer may lie in a table whose blocks are not in memory. The commit
//! path reads no disk: such a verdict is a [`PendingVerdict`] at the tables as they are
//! now, which whoever asked finishes where blocking is allowed.
//!
//! All of it is under the commit lock, and bounded.

use super::outbox::Applied;
use super::table_set::{Beside, Came, ReadState, Tables, Version};
use crate::memtable::Rivals;
use crate::record::Record;
use crate::sync::lock;
use crate::table::{Access, KeyHash};
use base::{Timestamp, Verdict};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// So many verdicts that are not clean are kept: some two mebibytes. Those that
/// came before the oldest of them cannot be told then.
const NOTED_MAX: usize = 16 << 10;

/// The time of sequence numbers is known to this part of the time that verdicts are kept.
const MARKS: u32 = 8;

/// The verdicts that can be told.
pub(super) struct Verdicts {
    /// How long a verdict may be asked for.
    kept: Duration,
    /// Those of versions that first arrived before this cannot be told.
    told_from: u64,
    /// Nobody asks for those of versions that arrived before this.
    asked_from: u64,
    /// When all sequence numbers before some had come.
    marks: VecDeque<(Duration, u64)>,
    /// Those that are not clean, and when their versions arrived last.
    noted: BTreeMap<Version, (Applied, u64)>,
    /// The same, by sequence number; and when their versions arrived before.
    sequences: VecDeque<(u64, Version)>,
}

impl Verdicts {
    /// None yet; the first record arrives as `next_sequence`.
    pub(super) fn new(kept: Duration, next_sequence: u64) -> Self {
        Self {
            kept,
            told_from: next_sequence,
            asked_from: 0,
            marks: VecDeque::with_capacity(MARKS as usize + 2),
            noted: BTreeMap::new(),
            sequences: VecDeque::new(),
        }
    }

    /// It is `now`, and `next_sequence` is next: forgets what nobody asks for any more.
    pub(super) fn age(&mut self, now: Duration, next_sequence: u64) {
        let last = self.marks.back().map(|(at, _)| *at);
        if last.is_some_and(|last| now.saturating_sub(last) < self.kept / MARKS) {
            return;
        }
        while let Some((at, sequence)) = self.marks.front()
            && now.saturating_sub(*at) >= self.kept
        {
            self.asked_from = *sequence;
            self.told_from = self.told_from.max(*sequence);
            self.marks.pop_front();
        }
        self.marks.push_back((now, next_sequence));
        while let Some((sequence, _)) = self.sequences.front()
            && *sequence < self.told_from
        {
            self.forget_first();
        }
    }

    /// What was told of a version, if it was not clean.
    pub(super) fn noted(&self, version: Version) -> Option<&Applied> {
        self.noted.get(&version).map(|(told, _)| told)
    }

    /// Whether what arrived then was clean unless it is noted.
    pub(super) fn can_tell(&self, sequence: u64) -> bool {
        sequence >= self.told_from
    }

    /// Notes what is told of a version that arrives.
    pub(super) fn note(&mut self, version: Version, sequence: u64, told: &Applied) {
        if self.sequences.len() == NOTED_MAX {
            self.forget_first();
        }
        self.noted.insert(version, (told.clone(), sequence));
        self.sequences.push_back((sequence, version));
    }

    fn forget_first(&mut self) {
        if let Some((sequence, version)) = self.sequences.pop_front() {
            let last = self.noted.get(&version).map(|(_, last)| *last);
            if last == Some(sequence) {
                self.noted.remove(&version);
            }
            self.told_from = self.told_from.max(sequence + 1);
        }
    }
}

/// What was held when the version of a record first arrived. The record is in
/// the active memtable; `rivals` is what that held of its key before. Called
/// under the commit lock, so it reads no disk.
pub(super) fn judge(
    verdicts: &mut Verdicts,
    state: &ReadState,
    record: &Record,
    rivals: Rivals,
    now: Duration,
) -> Applied {
    let stamp = record.entry.timestamp();
    let is_added = rivals.same.is_none();
    let mut rivals = rivals;
    for memtable in &state.frozen {
        if memtable.greatest_timestamp() >= stamp {
            rivals = rivals.and(memtable.rivals(record));
        }
    }
    let may_be_in_tables = state.tables.greatest_timestamp() > stamp;
    if rivals.newer.is_none() && !may_be_in_tables {
        // Also where it came before: what is newer never goes before it could
        // no longer come.
        return Applied::Known(Verdict::Clean);
    }
    let key = record.entry.key();
    let version = Version::new(KeyHash::of(key), stamp);
    if let Some(noted) = verdicts.noted(version) {
        let told = noted.clone();
        if is_added {
            // As long as it can be told that the record came, so can this: else
            // the record would pass for a clean one.
            verdicts.note(version, record.sequence, &told);
        }
        return told;
    }
    if rivals
        .same
        .is_some_and(|sequence| verdicts.can_tell(sequence))
    {
        return Applied::Known(Verdict::Clean);
    }
    let kept = verdicts.kept;
    let mut is_doubtful = rivals.same.is_some();
    for flushed in &state.flushed {
        if !flushed.is_recent(now, kept) {
            continue;
        }
        match flushed.came(version, verdicts.asked_from) {
            Came::Not => {}
            Came::As(sequence) if verdicts.can_tell(sequence) => {
                return Applied::Known(Verdict::Clean);
            }
            Came::As(_) | Came::Perhaps => is_doubtful = true,
        }
    }
    let beside = match may_be_in_tables {
        true => state.tables.beside(key, stamp, Access::Cached),
        false => Ok(Beside::default()),
    };
    let told = match beside {
        Ok(beside) => Applied::Known(beside.verdict(rivals.newer, is_doubtful)),
        // What is damaged is found to be so when it is read.
        Err(_) => Applied::Pending(PendingVerdict::new(Due {
            tables: Arc::clone(&state.tables),
            key: Box::from(key),
            stamp,
            newer: rivals.newer,
            is_doubtful,
        })),
    };
    if !matches!(told, Applied::Known(Verdict::Clean)) {
        verdicts.note(version, record.sequence, &told);
    }
    told
}

/// A verdict for which blocks of tables have to be read that are not in memory.
/// It is as of the commit of its write, whenever it is finished.
#[derive(Clone)]
pub struct PendingVerdict(Arc<Mutex<Looking>>);

enum Looking {
    /// Nobody has looked yet.
    Due(Due),
    /// What was found.
    Told(Verdict),
}

/// What to look at.
pub(super) struct Due {
    /// The tables as of the commit.
    pub(super) tables: Arc<Tables>,
    /// The key.
    pub(super) key: Box<[u8]>,
    /// The stamp of the write.
    pub(super) stamp: Timestamp,
    /// The greatest newer stamp of the key in the memtables.
    pub(super) newer: Option<Timestamp>,
    /// Whether the version may have come before.
    pub(super) is_doubtful: bool,
}

impl PendingVerdict {
    pub(super) fn new(due: Due) -> Self {
        Self(Arc::new(Mutex::new(Looking::Due(due))))
    }

    /// Reads what has to be read, once, and tells what was held. May block.
    #[must_use]
    pub fn finish(&self) -> Verdict {
        self.settle(Due::look)
    }

    /// Tells what can be told without reading: what is told once stays.
    #[must_use]
    pub fn give_up(&self) -> Verdict {
        self.settle(|due| Verdict::Unknown(due.bound()))
    }

    fn settle(&self, how: impl FnOnce(&Due) -> Verdict) -> Verdict {
        let mut looking = lock(&self.0);
        let verdict = match &*looking {
            Looking::Due(due) => how(due),
            Looking::Told(verdict) => return *verdict,
        };
        // The tables may be removed meanwhile: they are held no longer than needed.
        *looking = Looking::Told(verdict);
        verdict
    }
}

impl fmt::Debug for PendingVerdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PendingVerdict")
            .finish_non_exhaustive()
    }
}

impl Due {
    fn look(&self) -> Verdict {
        match self.tables.beside(&self.key, self.stamp, Access::MayRead) {
            Ok(beside) => beside.verdict(self.newer, self.is_doubtful),
            // What is damaged may hide anything up to the greatest stamp.
            Err(_) => Verdict::Unknown(self.bound()),
        }
    }

    fn bound(&self) -> Timestamp {
        let tables = self.tables.greatest_timestamp();
        self.newer.map_or(tables, |newer| newer.max(tables))
    }
}
