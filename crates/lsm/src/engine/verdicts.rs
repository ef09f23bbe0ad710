//! Verdicts: what newer versions of a key the store held when a version of it
//! first arrived. The verdict makes a replica's answer to a write an
//! acknowledgement, or not.
//!
//! A version may arrive several times, from its coordinator, as a repair or as a
//! hint, and newer versions may arrive in between. Every request that
//! waits for it must get the verdict of the first arrival. So:
//!
//! - If the store holds nothing newer now, it held nothing newer then. With sound
//!   clocks this is the usual case, and nothing has to be remembered for it.
//! - A version that is still in a memtable arrived before. Its verdict was clean,
//!   unless it is noted here as not clean. So clean verdicts take no memory,
//!   however many there are.
//! - The same holds for a version that came with a memtable that was flushed a
//!   moment ago ([`Flushed`](super::table_set::Flushed)).
//! - Any other version arrives now for the first time. There are two exceptions:
//!   more versions came with such a memtable than are remembered, or the store was
//!   opened a moment ago. Then the version may have arrived before, and the verdict
//!   is unknown.
//! - The verdict on a version that arrived longer ago than the longest request
//!   takes is unknown, too. No request waits for it.
//!
//! A newer version may lie in a table whose blocks are not in memory, and the
//! commit path does not read the disk. Such a verdict is a [`PendingVerdict`] on
//! the tables as they are now. The caller finishes it where blocking is allowed.
//!
//! All of this is under the commit lock, and bounded.

use super::outbox::Applied;
use super::table_set::{Beside, Came, ReadState, Tables, Version};
use crate::memtable::Rivals;
use crate::record::Record;
use crate::sync::{lock, try_lock};
use crate::table::{Access, KeyHash};
use base::{Timestamp, Verdict};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The most verdicts that are kept because they are not clean: about two
/// mebibytes. Verdicts on versions that arrived before the oldest of them are
/// unknown then.
const NOTED_MAX: usize = 16 << 10;

/// How many marks there are in the time that verdicts are kept. Each relates a
/// time to a sequence number.
const MARKS: u32 = 8;

/// The verdicts on recent writes.
pub(super) struct Verdicts {
    /// How long a verdict may be asked for.
    kept: Duration,
    /// Verdicts on versions with a lower sequence number are unknown.
    known_from: u64,
    /// No request asks for versions with a lower sequence number.
    asked_from: u64,
    /// Times, each with the sequence number that was next at that time.
    marks: VecDeque<(Duration, u64)>,
    /// The verdicts that are not clean, with the last sequence number of the version.
    noted: BTreeMap<Version, (Applied, u64)>,
    /// The noted versions in the order of their sequence numbers. A version that
    /// was noted twice is here twice.
    order: VecDeque<(u64, Version)>,
}

impl Verdicts {
    /// No verdicts yet; the next record gets `next_sequence`.
    pub(super) fn new(kept: Duration, next_sequence: u64) -> Self {
        Self {
            kept,
            known_from: next_sequence,
            asked_from: 0,
            marks: VecDeque::with_capacity(MARKS as usize + 2),
            noted: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Forgets the verdicts that no request asks for any more, given the time and
    /// the next sequence number.
    pub(super) fn age(&mut self, now: Duration, next_sequence: u64) {
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

    /// The verdict on a version, if it is known and not clean.
    fn noted(&self, version: Version) -> Option<&Applied> {
        self.noted.get(&version).map(|(applied, _)| applied)
    }

    /// Whether the verdict on a version with this sequence number is known: it is
    /// clean unless it is noted.
    fn is_known(&self, sequence: u64) -> bool {
        sequence >= self.known_from
    }

    /// Notes a verdict that is not clean.
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

/// The verdict on the version of a record, as of its first arrival. The record is
/// in the active memtable, and `rivals` is what that memtable held of the key
/// before. Called under the commit lock, so it does not read the disk.
pub(super) fn judge(
    verdicts: &mut Verdicts,
    state: &ReadState,
    record: &Record,
    rivals: Rivals,
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
        return Applied::Known(Verdict::Clean);
    }
    let key = record.entry.key();
    let version = Version::new(KeyHash::of(key), timestamp);
    if let Some(noted) = verdicts.noted(version) {
        let applied = noted.clone();
        if is_added {
            // The record lies in a memtable again, under a later sequence number.
            // Note its verdict under that number; if the note expired first, the
            // version would count as clean.
            verdicts.note(version, record.sequence, &applied);
        }
        return applied;
    }
    if rivals
        .same
        .is_some_and(|sequence| verdicts.is_known(sequence))
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
            Came::No => {}
            Came::As(sequence) if verdicts.is_known(sequence) => {
                return Applied::Known(Verdict::Clean);
            }
            Came::As(_) | Came::Perhaps => is_doubtful = true,
        }
    }
    let beside = if may_be_in_tables {
        state.tables.beside(key, timestamp, Access::Cached)
    } else {
        Ok(Beside::default())
    };
    let applied = match beside {
        Ok(beside) => Applied::Known(beside.verdict(rivals.newer, is_doubtful)),
        // Damage shows again when the verdict is finished.
        Err(_) => Applied::Pending(PendingVerdict::new(NeededReads {
            tables: Arc::clone(&state.tables),
            key: Box::from(key),
            timestamp,
            newer: rivals.newer,
            is_doubtful,
        })),
    };
    if !matches!(applied, Applied::Known(Verdict::Clean)) {
        verdicts.note(version, record.sequence, &applied);
    }
    applied
}

/// A verdict that needs reads of the disk. It is the verdict as of the commit of
/// its write, whenever it is finished.
#[derive(Clone)]
pub struct PendingVerdict(Arc<SharedVerdict>);

struct SharedVerdict {
    /// No version of the key that the store held at the commit is above this.
    bound: Timestamp,
    /// The lock is held while the tables are read.
    state: Mutex<VerdictState>,
}

enum VerdictState {
    /// The reads were not made yet.
    Pending(NeededReads),
    /// The verdict is known.
    Known(Verdict),
}

/// What a verdict needs to be finished.
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
}

impl PendingVerdict {
    fn new(reads: NeededReads) -> Self {
        Self(Arc::new(SharedVerdict {
            bound: reads.bound(),
            state: Mutex::new(VerdictState::Pending(reads)),
        }))
    }

    /// Reads what the verdict needs, once, and returns the verdict. May block.
    #[must_use]
    pub fn finish(&self) -> Verdict {
        settle(&mut lock(&self.0.state), NeededReads::read)
    }

    /// Settles the verdict as unknown, without reading. Later callers get the same
    /// verdict. Does not block: while another thread reads, the verdict is unknown
    /// to this caller only.
    #[must_use]
    pub fn give_up(&self) -> Verdict {
        let unknown = Verdict::Unknown(self.0.bound);
        match try_lock(&self.0.state) {
            Some(mut state) => settle(&mut state, |_| unknown),
            None => unknown,
        }
    }
}

/// The verdict, which `read` finds if it is not known yet.
fn settle(state: &mut VerdictState, read: impl FnOnce(&NeededReads) -> Verdict) -> Verdict {
    let verdict = match state {
        VerdictState::Pending(reads) => read(reads),
        VerdictState::Known(verdict) => return *verdict,
    };
    // This frees the handle on the tables, which compaction may have removed.
    *state = VerdictState::Known(verdict);
    verdict
}

impl fmt::Debug for PendingVerdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PendingVerdict")
            .finish_non_exhaustive()
    }
}

impl NeededReads {
    fn read(&self) -> Verdict {
        match self
            .tables
            .beside(&self.key, self.timestamp, Access::MayRead)
        {
            Ok(beside) => beside.verdict(self.newer, self.is_doubtful),
            // A damaged block may hide anything up to the greatest timestamp.
            Err(_) => Verdict::Unknown(self.bound()),
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
        let pending = PendingVerdict::new(NeededReads {
            tables: Arc::new(Tables::new(std::iter::empty())),
            key: Box::from(*b"k"),
            timestamp: Timestamp::from_u64(5),
            newer: Some(newer),
            is_doubtful: false,
        });
        let reading = lock(&pending.0.state);
        assert_eq!(pending.give_up(), Verdict::Unknown(newer));
        drop(reading);
        assert_eq!(
            pending.finish(),
            Verdict::Newer(newer),
            "the reads decide for their callers"
        );
        assert_eq!(pending.give_up(), Verdict::Newer(newer));
    }
}
