//! The least timestamps of what memtables and tables have taken in since some moment, for repair
//! sessions that compare only what has changed.
//!
//! If two stores were found equal at some moment, versions below the least timestamp
//! that was committed later need not be compared again. That
//! takes no work on the way of a write: memtables are asked when the question
//! comes, and a flush leaves behind what it has seen. A restart forgets, so a
//! sequence number from before it says nothing.

use super::ReadState;
use crate::error::Error;
use crate::locks::lock;
use crate::record::RecordCursor;
use base::{EntryRef, Timestamp};
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Mutex;

/// The most flushes that are remembered apart; older ones are remembered together.
const FLUSHES_MAX: usize = 32;
/// The most steps that a memtable or a flush is divided into.
const STEPS_MAX: usize = 32;
/// A key that begins a step is cut to this many bytes.
const STEP_KEY_BYTES_MAX: usize = 32;

/// The least timestamps of a set of versions, by parts of the key space: the key
/// at which each part begins, in ascending order, with the least timestamp of its
/// versions. No version lies before the first.
pub type LeastTimestamps = Vec<(Vec<u8>, Timestamp)>;

/// The owner of what flushes have seen. Its lock is held briefly, and no other
/// lock is taken meanwhile.
#[derive(Default)]
pub(in crate::engine) struct Changes {
    flushes: Mutex<VecDeque<FlushedChanges>>,
}

struct FlushedChanges {
    last_sequence: u64,
    least: LeastTimestamps,
}

impl Changes {
    /// Remembers a flush or an ingest whose last record had this sequence number.
    pub(in crate::engine) fn flushed(&self, last_sequence: u64, least: LeastTimestamps) {
        let mut flushes = lock(&self.flushes);
        flushes.push_back(FlushedChanges {
            last_sequence,
            least,
        });
        if flushes.len() > FLUSHES_MAX
            && let Some(oldest) = flushes.pop_front()
            && let Some(next) = flushes.front_mut()
        {
            // A memtable may be flushed after an ingest that came later.
            next.last_sequence = next.last_sequence.max(oldest.last_sequence);
            let both = oldest.least.iter().chain(&next.least);
            let least = both.map(|(_, least)| *least).min();
            next.least = least.map(|least| (Vec::new(), least)).into_iter().collect();
        }
    }

    /// The least timestamps of what was committed after `sequence`, flushed or not:
    /// a list for each flush and memtable.
    ///
    /// # Errors
    /// None from memtables; the type is that of all cursors.
    pub(in crate::engine) fn since(
        &self,
        sequence: u64,
        state: &ReadState,
    ) -> Result<Vec<LeastTimestamps>, Error> {
        // The memtables first: one that is flushed meanwhile is seen twice.
        let mut all = Vec::new();
        for memtable in state.memtables() {
            if memtable.last_sequence() <= sequence {
                continue;
            }
            let mut records = memtable.cursor(Bound::Unbounded);
            let mut steps = Steps::default();
            while records.advance()? {
                let record = records.record();
                if record.sequence > sequence {
                    steps.add(record.entry);
                }
            }
            all.push(steps.finish());
        }
        let flushes = lock(&self.flushes);
        let later = flushes
            .iter()
            .filter(|flush| flush.last_sequence > sequence);
        all.extend(later.map(|flush| flush.least.clone()));
        Ok(all)
    }
}

/// Gathers least timestamps from records in the order of their keys.
#[derive(Default)]
pub(in crate::engine) struct Steps {
    steps: LeastTimestamps,
    /// How many records a step has, at least.
    records_a_step: usize,
    /// How many the last one has.
    records: usize,
    /// The key of the last record, cut.
    last_key: Vec<u8>,
}

impl Steps {
    /// Takes the next record.
    pub(in crate::engine) fn add(&mut self, entry: EntryRef<'_>) {
        let timestamp = entry.timestamp();
        let key = entry.key();
        let begin = &key[..key.len().min(STEP_KEY_BYTES_MAX)];
        self.records += 1;
        // A step begins at a cut key, so it must not begin between keys that are
        // equal up to the cut: the step would not hold the first of them.
        let may_begin = begin > self.last_key.as_slice();
        match self.steps.last_mut() {
            Some((_, least)) if self.records <= self.records_a_step || !may_begin => {
                *least = timestamp.min(*least);
            }
            _ => {
                if self.steps.len() == STEPS_MAX {
                    self.halve();
                }
                self.steps.push((begin.to_vec(), timestamp));
                self.records = 1;
            }
        }
        if may_begin {
            self.last_key.clear();
            self.last_key.extend_from_slice(begin);
        }
    }

    /// The steps so far.
    pub(in crate::engine) fn finish(self) -> LeastTimestamps {
        self.steps
    }

    /// Joins each two neighbours.
    fn halve(&mut self) {
        let steps = std::mem::take(&mut self.steps);
        for (index, (key, least)) in steps.into_iter().enumerate() {
            match self.steps.last_mut() {
                Some((_, last)) if index % 2 == 1 => *last = least.min(*last),
                _ => self.steps.push((key, least)),
            }
        }
        self.records_a_step = (self.records_a_step * 2).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Engine;
    use crate::Options;
    use crate::testing::{BlockingWrite, MemoryDisk, environment};
    use base::{Entry, Expiry};
    use std::sync::Arc;

    fn entry(key: &str, timestamp: u64) -> Entry {
        let timestamp = Timestamp::from_u64(timestamp);
        Entry::value(key.as_bytes(), timestamp, b"v", Expiry::NEVER, 1)
    }

    fn least_of(all: &[LeastTimestamps], key: &str) -> Option<u64> {
        let of_list = |list: &LeastTimestamps| {
            let after = list.partition_point(|(begin, _)| begin.as_slice() <= key.as_bytes());
            list[..after].last().map(|(_, least)| least.as_u64())
        };
        all.iter().filter_map(of_list).min()
    }

    #[test]
    fn versions_are_seen_in_memtables_and_after_their_flush() {
        let (environment, _executor) = environment(Arc::new(MemoryDisk::new()));
        let (engine, _) = Engine::open(environment, Options::default()).unwrap();
        engine.write(entry("a", 50)).unwrap();
        let before = engine.last_sequence();
        assert!(engine.changes_since(before).unwrap().is_empty());
        engine.write(entry("b", 70)).unwrap();
        engine.write(entry("c", 20)).unwrap();
        for _ in ["memtable", "table"] {
            let changes = engine.changes_since(before).unwrap();
            let least = changes.iter().flatten().map(|(_, least)| least.as_u64());
            assert_eq!(least.min(), Some(20));
            engine.flush().unwrap();
        }
        let after = engine.last_sequence();
        assert!(engine.changes_since(after).unwrap().is_empty());
        engine.write(entry("d", 10)).unwrap();
        let changes = engine.changes_since(after).unwrap();
        assert_eq!(changes, [[(b"d".to_vec(), Timestamp::from_u64(10))]]);
    }

    #[test]
    fn every_version_is_at_or_above_the_bound_of_its_key() {
        // Groups of keys are equal in their first 32 bytes. Their length does not
        // divide that of a step, so steps would begin between keys of a group.
        let keys: Vec<String> = (0..3000)
            .map(|number| format!("{:032}-{:03}", number / 7, number % 7))
            .collect();
        let any_order = |index: u64| 1 + index * 7919 % 3001;
        // The later the key the later the version: the first key of a group is the
        // one that a step that begins too late would pass over.
        let ascending = |index: u64| index;
        for timestamp_of in [any_order as fn(u64) -> u64, ascending] {
            let mut steps = Steps::default();
            for (sequence, key) in (0..).zip(&keys) {
                let entry = entry(key, timestamp_of(sequence));
                steps.add(entry.lend());
            }
            let steps = steps.finish();
            assert!(steps.len() <= STEPS_MAX);
            assert!(steps.len() > STEPS_MAX / 4, "steps should tell keys apart");
            for (sequence, key) in (0..).zip(&keys) {
                let bound = least_of(std::slice::from_ref(&steps), key).unwrap();
                assert!(bound <= timestamp_of(sequence), "{key}");
            }
        }
    }

    #[test]
    fn old_flushes_are_remembered_together() {
        let changes = Changes::default();
        for flush in 1..=100u64 {
            let least = Timestamp::from_u64(1000 - flush);
            changes.flushed(flush * 10, vec![(vec![flush as u8], least)]);
        }
        let flushes = lock(&changes.flushes);
        assert_eq!(flushes.len(), FLUSHES_MAX);
        let first = flushes.front().unwrap();
        assert_eq!(first.least, [(Vec::new(), Timestamp::from_u64(931))]);
        assert_eq!(first.last_sequence, 690);
    }
}
