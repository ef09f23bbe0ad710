//! What scans hold from one batch of a long range to the next: their cursors, with what these
//! have read ahead. So the next batch goes on where the last one ended, and does not seek anew
//! in every table.
//!
//! A scan may stall for long, and then it shall cost no memory and keep no file. So what was not
//! needed for a moment is given up, and all scans together hold a few cursors. A scan that holds
//! nothing seeks, as at its beginning.

use crate::engine::background::{Background, EngineJob};
use crate::engine::table_set::{StoreCursor, TableSet};
use crate::locks::lock;
use crate::record::merge::Merge;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// For how long a scan holds its cursors without another batch.
const HELD_MAX: Duration = Duration::from_millis(100);

/// The most cursors that all scans hold together. Each may have read 64 KiB ahead.
const CURSORS_MAX: usize = 32;

/// The cursors of a scan.
pub(in crate::engine) struct HeldRecords {
    pub(in crate::engine) records: Merge<StoreCursor>,
    /// Whether they stand at the next entry already.
    pub(in crate::engine) is_pending: bool,
}

/// The owner of what scans hold between their batches. No other lock is taken under its lock.
#[derive(Default)]
pub(in crate::engine) struct HeldScans {
    /// The number of the next scan.
    next: AtomicU64,
    held: Mutex<HeldByScans>,
}

#[derive(Default)]
struct HeldByScans {
    /// For each scan what it holds, and since when.
    scans: BTreeMap<u64, (HeldRecords, Duration)>,
    /// Whether the job that gives up what is idle is scheduled.
    is_scheduled: bool,
}

impl HeldScans {
    /// A number for a scan.
    pub(in crate::engine) fn number(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    /// Holds the cursors of the scan with this number, if there is room for them, and unless
    /// one has a long value, for which there is no room.
    pub(in crate::engine) fn hold(
        &self,
        scan: u64,
        held: HeldRecords,
        now: Duration,
        background: &Background,
    ) {
        if held.records.has_long_value() {
            return;
        }
        let schedules = {
            let mut all = lock(&self.held);
            let cursors = all.scans.values();
            let cursors: usize = cursors.map(|(held, _)| held.records.cursors()).sum();
            if cursors + held.records.cursors() > CURSORS_MAX {
                drop(all);
                return;
            }
            all.scans.insert(scan, (held, now));
            !std::mem::replace(&mut all.is_scheduled, true)
        };
        if schedules {
            background.schedule(EngineJob::GiveUpIdle, HELD_MAX);
        }
    }

    /// What the scan with this number holds, if it still holds anything.
    pub(in crate::engine) fn take(&self, scan: u64) -> Option<HeldRecords> {
        let taken = lock(&self.held).scans.remove(&scan);
        taken.map(|(held, _)| held)
    }

    /// The job that gives up what no batch has needed for a while.
    pub(in crate::engine) fn give_up_idle(
        &self,
        now: Duration,
        tables: &TableSet,
        background: &Background,
    ) {
        let due = |since: Duration| since.saturating_add(HELD_MAX);
        let (idle, next) = {
            let mut all = lock(&self.held);
            let scans = std::mem::take(&mut all.scans).into_iter();
            let (idle, rest): (BTreeMap<_, _>, BTreeMap<_, _>) =
                scans.partition(|(_, (_, since))| due(*since) <= now);
            all.scans = rest;
            let next = all.scans.values().map(|(_, since)| due(*since)).min();
            all.is_scheduled = next.is_some();
            (idle, next)
        };
        // Outside the lock: this may free memory and files.
        drop(idle);
        // A scan may have held a memtable when it was flushed.
        tables.free_retired();
        if let Some(next) = next {
            let delay = next.saturating_sub(now);
            background.schedule(EngineJob::GiveUpIdle, delay);
        }
    }

    /// Gives up what all scans hold.
    pub(in crate::engine) fn give_up_all(&self) {
        let all = std::mem::take(&mut lock(&self.held).scans);
        drop(all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BlockingWrite, MemoryDisk, StepExecutor, environment};
    use crate::{Engine, Options, Scan};
    use base::{Entry, Expiry, ManualClock, Timestamp};
    use std::sync::Arc;

    const KEYS: u64 = 2_000;

    /// A store of overlapping tables, and a memtable.
    fn store() -> (Engine, Arc<StepExecutor>, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::new(0));
        let executor = Arc::new(StepExecutor::new(Arc::clone(&clock)));
        let (mut environment, _) = environment(Arc::new(MemoryDisk::new()));
        environment.clock = Arc::clone(&clock) as _;
        environment.executor = Arc::clone(&executor) as _;
        let options = Options {
            compaction: false,
            block_bytes: 256,
            ..Options::default()
        };
        let (engine, _) = Engine::open(environment, options).unwrap();
        for table in 0..4 {
            for number in (table..KEYS).step_by(4) {
                let key = format!("{number:05}");
                let timestamp = Timestamp::from_u64(1 + number);
                let entry = Entry::value(key.as_bytes(), timestamp, &[7; 40], Expiry::NEVER, 1);
                engine.write(entry).unwrap();
            }
            if table < 3 {
                engine.flush().unwrap();
            }
        }
        (engine, executor, clock)
    }

    fn begin(engine: &Engine) -> Scan {
        engine.scan(b"", None).of_long_range()
    }

    /// The keys of the rest of a scan, and how many data blocks it fetched.
    fn rest(engine: &Engine, scan: &mut Scan, after_each: impl Fn()) -> (Vec<u64>, u64) {
        let before = engine.statistics().data_blocks_fetched;
        let mut keys = Vec::new();
        loop {
            let batch = scan.next_batch(500).unwrap();
            if batch.is_empty() {
                let fetched = engine.statistics().data_blocks_fetched - before;
                return (keys, fetched);
            }
            let text = |entry: &Entry| String::from_utf8(entry.key().to_vec()).unwrap();
            keys.extend(
                batch
                    .iter()
                    .map(|entry| text(entry).parse::<u64>().unwrap()),
            );
            after_each();
        }
    }

    fn held(engine: &Engine) -> usize {
        lock(&engine.inner.core.held_scans.held).scans.len()
    }

    #[test]
    fn a_range_goes_on_where_its_last_batch_ended() {
        let (engine, executor, clock) = store();
        let all: Vec<u64> = (0..KEYS).collect();
        let (in_one, once) = {
            let batch = begin(&engine).next_batch(usize::MAX).unwrap();
            (batch.len(), engine.statistics().data_blocks_fetched)
        };
        assert_eq!(in_one as u64, KEYS);
        let (keys, fetched) = rest(&engine, &mut begin(&engine), || {});
        assert!(keys == all);
        assert_eq!(fetched, once, "each block is read once");
        // One whose client is slow seeks anew.
        let pause = || {
            clock.advance(HELD_MAX);
            executor.run_all_due();
            assert_eq!(held(&engine), 0);
        };
        let (keys, fetched) = rest(&engine, &mut begin(&engine), pause);
        assert!(keys == all);
        assert!(fetched > 2 * once, "{fetched} and {once}");
    }

    #[test]
    fn a_scan_that_stalls_or_ends_holds_nothing() {
        let (engine, executor, clock) = store();
        let memtable = Arc::downgrade(&engine.inner.core.tables.load().active);
        let mut scan = begin(&engine);
        scan.next_batch(500).unwrap();
        engine.flush().unwrap();
        assert!(held(&engine) == 1 && memtable.strong_count() > 0);
        // Another one keeps the job going, and does not keep this one's cursors.
        clock.advance(HELD_MAX / 2);
        let mut later = begin(&engine);
        later.next_batch(500).unwrap();
        clock.advance(HELD_MAX / 2);
        executor.run_all_due();
        assert_eq!((held(&engine), memtable.strong_count()), (1, 0));
        clock.advance(HELD_MAX / 2);
        executor.run_all_due();
        assert_eq!(held(&engine), 0);
        let (keys, _) = rest(&engine, &mut scan, || {});
        assert_eq!(keys.last(), Some(&(KEYS - 1)));
        assert_eq!(held(&engine), 0, "it has ended");
        later.next_batch(500).unwrap();
        assert_eq!(held(&engine), 1);
        drop(later);
        assert_eq!(held(&engine), 0);
    }

    #[test]
    fn few_cursors_are_held() {
        let (engine, ..) = store();
        let mut scans: Vec<Scan> = (0..20).map(|_| begin(&engine)).collect();
        for scan in &mut scans {
            scan.next_batch(500).unwrap();
        }
        // Four cursors each: three tables and the memtable.
        assert_eq!(held(&engine), CURSORS_MAX / 4, "of {}", scans.len());
        for scan in &mut scans {
            let (keys, _) = rest(&engine, scan, || {});
            assert_eq!(keys.last(), Some(&(KEYS - 1)));
        }
        assert_eq!(held(&engine), 0);
        scans[0] = begin(&engine);
        scans[0].next_batch(500).unwrap();
        engine.close().unwrap();
        assert_eq!(held(&engine), 0);
    }

    #[test]
    fn long_values_are_not_held() {
        let (engine, ..) = store();
        for number in 0..3_u64 {
            let key = format!("long-{number}");
            let timestamp = Timestamp::from_u64(1 + number);
            let value = vec![7; 100 << 10];
            let entry = Entry::value(key.as_bytes(), timestamp, &value, Expiry::NEVER, 1);
            engine.write(entry).unwrap();
        }
        engine.flush().unwrap();
        let mut scan = engine.scan(b"long", None).of_long_range();
        for waiting in [true, true, false] {
            assert_eq!(scan.next_batch(150 << 10).unwrap().len(), 1);
            assert!(held(&engine) == 0 || !waiting, "the next value waits");
        }
        assert!(scan.next_batch(1).unwrap().is_empty());
    }
}
