//! The newer-version check: which newer versions of a key the store held when a version of
//! it first arrived. It makes a replica's answer to a write an acknowledgement, or not.
//!
//! A version may arrive several times, from its coordinator, as a repair or as a hint, and
//! newer versions may arrive in between. Every request that waits for it must get the
//! answer of the first arrival. So:
//!
//! - If the store holds nothing newer now, it held nothing newer then. With correct clocks
//!   this is the usual case, and nothing is remembered for it.
//! - A version that is still in a memtable arrived before. There was nothing newer, unless
//!   a note here says otherwise. So the usual answer takes no memory.
//! - The same holds for a version that came with a memtable that was flushed a
//!   moment ago ([`Flushed`](crate::engine::table_set::Flushed)).
//! - Any other version arrives now for the first time. There are two exceptions:
//!   more versions came with such a memtable than are remembered, or the store was
//!   opened a moment ago. Then the version may have arrived before, and the answer is
//!   unknown.
//! - The answer for a version that arrived longer ago than the longest request takes is
//!   unknown, too. No request waits for it.
//!
//! A newer version may lie in a table whose blocks are not in memory, and the commit path
//! does not read the disk. Such a check is a [`PendingCheck`] of the tables as they are
//! now. The caller finishes it where blocking is allowed.
//!
//! All of this is under the commit lock, and bounded.

use super::outbox::Applied;
use crate::engine::table_set::{Beside, Came, ReadState, Tables, Version};
use crate::locks::{lock, try_lock};
use crate::memtable::Rivals;
use crate::record::Record;
use crate::table::{DiskAccess, KeyHash};
use base::{NewerVersion, Timestamp};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The most answers that are kept because there was something newer: about two mebibytes.
/// Newer-version checks of versions that arrived before the oldest of them are unknown then.
const NOTED_MAX: usize = 16 << 10;

/// How many marks there are in the time that answers are kept. Each relates a time to a
/// sequence number.
const MARKS: u32 = 8;

/// The newer-version checks of recent writes.
pub(in crate::engine) struct NewerVersionChecks {
    /// How long an answer may be asked for.
    kept: Duration,
    /// The answers for versions with a lower sequence number are unknown.
    known_from: u64,
    /// No request asks for versions with a lower sequence number.
    asked_from: u64,
    /// Times, each with the sequence number that was next at that time.
    marks: VecDeque<(Duration, u64)>,
    /// The answers that name something newer, with the last sequence number of the version.
    noted: BTreeMap<Version, (Applied, u64)>,
    /// The noted versions in the order of their sequence numbers. A version that
    /// was noted twice is here twice.
    order: VecDeque<(u64, Version)>,
}

impl NewerVersionChecks {
    /// Nothing is noted yet; the next record gets `next_sequence`.
    pub(in crate::engine) fn new(kept: Duration, next_sequence: u64) -> Self {
        Self {
            kept,
            known_from: next_sequence,
            asked_from: 0,
            marks: VecDeque::with_capacity(MARKS as usize + 2),
            noted: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Forgets the answers that no request asks for any more, given the time and
    /// the next sequence number.
    pub(in crate::engine) fn age(&mut self, now: Duration, next_sequence: u64) {
        let last = self.marks.back().map(|(at, _)| *at);
        if last.is_some_and(|last| now.saturating_sub(last) < self.kept / MARKS) {
            return;
        }
        while let Some((at, sequence)) = self.marks.front()
            && now.saturating_sub(*at) >= self.kept
        {
            self.asked_from = *sequence;
            self.known_from = self.known_from.max(*sequence);
            self.marks.pop_front();
        }
        self.marks.push_back((now, next_sequence));
        while let Some((sequence, _)) = self.order.front()
            && *sequence < self.known_from
        {
            self.forget_first();
        }
    }

    /// The answer for a version, if it is known and names something newer.
    fn noted(&self, version: Version) -> Option<&Applied> {
        self.noted.get(&version).map(|(applied, _)| applied)
    }

    /// Whether the answer for a version with this sequence number is known: there was
    /// nothing newer unless it is noted.
    fn is_known(&self, sequence: u64) -> bool {
        sequence >= self.known_from
    }

    /// Notes an answer that names something newer.
    fn note(&mut self, version: Version, sequence: u64, applied: &Applied) {
        if self.order.len() == NOTED_MAX {
            self.forget_first();
        }
        self.noted.insert(version, (applied.clone(), sequence));
        self.order.push_back((sequence, version));
    }

    fn forget_first(&mut self) {
        if let Some((sequence, version)) = self.order.pop_front() {
            let last = self.noted.get(&version).map(|(_, last)| *last);
            if last == Some(sequence) {
                self.noted.remove(&version);
            }
            self.known_from = self.known_from.max(sequence + 1);
        }
    }
}

/// The newer-version check of the version of a record, as of its first arrival. The record is
/// in the active memtable, and `rivals` is what that memtable held of the key
/// before. `is_overtaken` says whether the store has promised a ballot above the version, and is asked
/// only where there may be something newer.
/// Called under the commit lock, so it does not read the disk.
pub(in crate::engine) fn check(
    checks: &mut NewerVersionChecks,
    state: &ReadState,
    record: &Record,
    rivals: Rivals,
    is_overtaken: impl FnOnce() -> bool,
    now: Duration,
) -> Applied {
    let timestamp = record.entry.timestamp();
    let is_added = rivals.same.is_none();
    let mut rivals = rivals;
    for memtable in &state.frozen {
        if memtable.greatest_timestamp() >= timestamp {
            rivals = rivals.and(memtable.rivals(record));
        }
    }
    let may_be_in_tables = state.tables.greatest_timestamp() > timestamp;
    if rivals.newer.is_none() && !may_be_in_tables {
        // If the version arrived before, nothing newer was here then either: a
        // newer version stays for as long as an older one may still arrive.
        return Applied::Known(NewerVersion::None);
    }
    let key = record.entry.key();
    let version = Version::new(KeyHash::of(key), timestamp);
    if let Some(noted) = checks.noted(version) {
        let applied = noted.clone();
        if is_added {
            // The record lies in a memtable again, under a later sequence number.
            // Note the answer under that number: if the note expired first, there would
            // seem to have been nothing newer.
            checks.note(version, record.sequence, &applied);
        }
        return applied;
    }
    if rivals
        .same
        .is_some_and(|sequence| checks.is_known(sequence))
    {
        return Applied::Known(NewerVersion::None);
    }
    let kept = checks.kept;
    let mut is_doubtful = rivals.same.is_some();
    for flushed in &state.flushed {
        if !flushed.is_recent(now, kept) {
            continue;
        }
        match flushed.came(version, checks.asked_from) {
            Came::No => {}
            Came::As(sequence) if checks.is_known(sequence) => {
                return Applied::Known(NewerVersion::None);
            }
            Came::As(_) | Came::Perhaps => is_doubtful = true,
        }
    }
    let beside = if may_be_in_tables {
        state.tables.beside(key, timestamp, DiskAccess::Cached)
    } else {
        Ok(Beside::default())
    };
    let is_overtaken = is_overtaken();
    let applied = match beside {
        Ok(beside) => {
            let newer_version = beside.newer_version(rivals.newer, is_doubtful);
            Applied::Known(overtaken(newer_version, is_overtaken))
        }
        // Damage shows again when the check is finished.
        Err(_) => Applied::Pending(PendingCheck::new(NeededReads {
            tables: Arc::clone(&state.tables),
            key: Box::from(key),
            timestamp,
            newer: rivals.newer,
            is_doubtful,
            is_overtaken,
        })),
    };
    if !matches!(applied, Applied::Known(NewerVersion::None)) {
        checks.note(version, record.sequence, &applied);
    }
    applied
}

/// What a check says of a version below a ballot that was promised before.
fn overtaken(newer_version: NewerVersion, is_overtaken: bool) -> NewerVersion {
    match newer_version {
        NewerVersion::At(newest) if is_overtaken => NewerVersion::Overtaken(newest),
        // The bound may be far above what the store holds. Whoever goes above it is right.
        NewerVersion::Unknown(bound) if is_overtaken => NewerVersion::Overtaken(bound),
        newer_version => newer_version,
    }
}

/// A newer-version check that needs reads of the disk. Its answer is that
/// of the commit of its write, whenever it is finished.
#[derive(Clone)]
pub struct PendingCheck(Arc<SharedCheck>);

struct SharedCheck {
    /// No version of the key that the store held at the commit is above this.
    bound: Timestamp,
    /// The lock is held while the tables are read.
    state: Mutex<CheckState>,
}

enum CheckState {
    /// The reads were not made yet.
    Pending(NeededReads),
    /// The answer is known.
    Known(NewerVersion),
}

/// What a check needs to be finished.
struct NeededReads {
    /// The tables as of the commit.
    tables: Arc<Tables>,
    /// The key.
    key: Box<[u8]>,
    /// The timestamp of the write.
    timestamp: Timestamp,
    /// The greatest newer timestamp of the key in the memtables.
    newer: Option<Timestamp>,
    /// Whether the version may have arrived before.
    is_doubtful: bool,
    /// Whether the store had promised a ballot above the version.
    is_overtaken: bool,
}

impl PendingCheck {
    fn new(reads: NeededReads) -> Self {
        Self(Arc::new(SharedCheck {
            bound: reads.bound(),
            state: Mutex::new(CheckState::Pending(reads)),
        }))
    }

    /// Reads what the check needs, once, and returns its answer. May block.
    #[must_use]
    pub fn finish(&self) -> NewerVersion {
        settle(&mut lock(&self.0.state), NeededReads::read)
    }

    /// Settles the check as unknown, without reading. Later callers get the same
    /// answer. Does not block: while another thread reads, the check is unknown
    /// to this caller only.
    #[must_use]
    pub fn give_up(&self) -> NewerVersion {
        let unknown = NewerVersion::Unknown(self.0.bound);
        match try_lock(&self.0.state) {
            Some(mut state) => settle(&mut state, |_| unknown),
            None => unknown,
        }
    }
}

/// The answer, which `read` finds if it is not known yet.
fn settle(state: &mut CheckState, read: impl FnOnce(&NeededReads) -> NewerVersion) -> NewerVersion {
    let newer_version = match state {
        CheckState::Pending(reads) => read(reads),
        CheckState::Known(newer_version) => return *newer_version,
    };
    // This frees the handle on the tables, which compaction may have removed.
    *state = CheckState::Known(newer_version);
    newer_version
}

impl fmt::Debug for PendingCheck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PendingCheck")
            .finish_non_exhaustive()
    }
}

impl NeededReads {
    fn read(&self) -> NewerVersion {
        match self
            .tables
            .beside(&self.key, self.timestamp, DiskAccess::MayRead)
        {
            Ok(beside) => {
                let newer_version = beside.newer_version(self.newer, self.is_doubtful);
                overtaken(newer_version, self.is_overtaken)
            }
            // A damaged block may hide anything up to the greatest timestamp.
            Err(_) => NewerVersion::Unknown(self.bound()),
        }
    }

    /// No version of the key in the memtables and tables is above this.
    fn bound(&self) -> Timestamp {
        let tables = self.tables.greatest_timestamp();
        self.newer.map_or(tables, |newer| newer.max(tables))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn giving_up_does_not_wait_for_the_reads_of_another_thread() {
        let newer = Timestamp::from_u64(7);
        let pending = PendingCheck::new(NeededReads {
            tables: Arc::new(Tables::new(std::iter::empty())),
            key: Box::from(*b"k"),
            timestamp: Timestamp::from_u64(5),
            newer: Some(newer),
            is_doubtful: false,
            is_overtaken: false,
        });
        let reading = lock(&pending.0.state);
        assert_eq!(pending.give_up(), NewerVersion::Unknown(newer));
        drop(reading);
        assert_eq!(
            pending.finish(),
            NewerVersion::At(newer),
            "the reads decide for their callers"
        );
        assert_eq!(pending.give_up(), NewerVersion::At(newer));
    }
}
