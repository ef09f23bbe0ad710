//! Kvorum's engine, with threads for its jobs, on the common terms.
//!
//! Writes go the way that a node's go: handed to the group commit, alone or in
//! a batch, and waited for.

use super::executor::JobThreads;
use super::{Durability, Failure, Store};
use crate::data::{KEY_BYTES, Key};
use crate::terms;
use base::{Entry, Expiry, OsRandom, SystemClock, Timestamp};
use lsm::{Admission, Compression, Engine, Environment, Options, Outbox, Outcome, RealDisk};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The pause between two checks whether the background work is done.
const POLL: Duration = Duration::from_millis(5);

/// The size of a batch of a long scan, as in a node, in bytes.
const SCAN_BATCH_BYTES: usize = 64 << 10;

/// An open store of Kvorum.
pub struct Kvorum {
    engine: Engine,
    executor: Arc<JobThreads>,
    /// The timestamp of the next write.
    clock: AtomicU64,
    entry_bytes: usize,
}

impl Kvorum {
    /// Opens the store in `folder`, for values of `value_bytes` bytes.
    pub fn open(
        folder: &Path,
        durability: Durability,
        value_bytes: usize,
    ) -> Result<Self, Failure> {
        let executor = Arc::new(JobThreads::start()?);
        let environment = Environment {
            folder: folder.to_owned(),
            disk: Arc::new(RealDisk::default()),
            clock: Arc::new(SystemClock::new()),
            random: Arc::new(OsRandom::new()?),
            executor: Arc::clone(&executor) as _,
            gc_threshold: Arc::new(|| Timestamp::ZERO),
            non_owned: None,
            expired_before_unix_ms: Arc::new(|| 0),
            // The other engines do not rest either.
            rest_after: Arc::new(|_took, _urgency| Duration::ZERO),
        };
        let options = Options {
            durability: match durability {
                Durability::Os => lsm::Durability::Os,
                Durability::Sync => lsm::Durability::Sync,
            },
            memtable_bytes: terms::MEMTABLE_BYTES,
            memtables_frozen_max: terms::MEMTABLES_MAX - 1,
            cache_bytes: terms::CACHE_BYTES,
            block_bytes: terms::BLOCK_BYTES,
            compression: Compression::Lz4,
            filter_false_positive_rate: Some(terms::FILTER_FALSE_POSITIVE_RATE),
            table_bytes: terms::TABLE_BYTES as u64,
            // The other engines have no limit on the rate and no reserve for a full disk.
            compaction_bytes_per_second: u64::MAX,
            disk_reserve_bytes: 0,
            ..Options::default()
        };
        let (engine, _) = Engine::open(environment, options)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        let now = Timestamp::from_unix_ms(u64::try_from(now)?).as_u64();
        Ok(Self {
            clock: AtomicU64::new(now.max(engine.greatest_timestamp().as_u64() + 1)),
            engine,
            executor,
            entry_bytes: KEY_BYTES + value_bytes,
        })
    }

    fn entry(&self, key: &Key, value: &[u8]) -> Entry {
        let timestamp = Timestamp::from_u64(self.clock.fetch_add(1, Relaxed));
        Entry::value(key, timestamp, value, Expiry::NEVER, 1)
    }
}

impl Store for Kvorum {
    fn put(&self, key: &Key, value: &[u8]) -> Result<(), Failure> {
        let arrivals = Arc::new(Arrivals::default());
        let outbox: Arc<dyn Outbox> = Arc::clone(&arrivals) as _;
        self.engine.submit(self.entry(key, value), &outbox, 0)?;
        arrivals.wait(1)
    }

    fn put_batch(&self, pairs: &[(Key, Vec<u8>)]) -> Result<(), Failure> {
        let arrivals = Arc::new(Arrivals::default());
        let outbox: Arc<dyn Outbox> = Arc::clone(&arrivals) as _;
        let entries = pairs
            .iter()
            .map(|(key, value)| (self.entry(key, value), Admission::Ordinary, 0));
        self.engine.submit_batch(entries, &outbox);
        arrivals.wait(pairs.len())
    }

    fn get(&self, key: &Key, seen: &mut dyn FnMut(&[u8])) -> Result<(), Failure> {
        if let Some(entry) = self.engine.get(key)? {
            seen(entry.value_bytes());
        }
        Ok(())
    }

    fn scan(
        &self,
        start: &[u8],
        count_max: usize,
        seen: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), Failure> {
        let mut scan = self.engine.scan(start, None);
        let mut left = count_max;
        while left > 0 {
            let bytes_max = SCAN_BATCH_BYTES.min(left.saturating_mul(self.entry_bytes));
            let batch = scan.next_batch(bytes_max)?;
            if batch.is_empty() {
                break;
            }
            for entry in batch.iter().take(left) {
                seen(entry.key(), entry.value_bytes());
            }
            left = left.saturating_sub(batch.len());
        }
        Ok(())
    }

    fn settle(&self) -> Result<(), Failure> {
        self.engine.flush()?;
        while !self.executor.is_idle() {
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.engine.close()?;
        self.executor.stop();
        Ok(())
    }
}

/// Counts the outcomes of a batch.
#[derive(Default)]
struct Arrivals {
    state: Mutex<(usize, Option<lsm::Error>)>,
    changed: Condvar,
}

impl Arrivals {
    fn wait(&self, expected: usize) -> Result<(), Failure> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self
            .changed
            .wait_while(state, |(arrived, _)| *arrived < expected)
            .unwrap_or_else(PoisonError::into_inner);
        match state.1.take() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}

impl Outbox for Arrivals {
    fn deliver(&self, outcomes: Vec<Outcome>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 += outcomes.len();
        let failed = outcomes
            .into_iter()
            .find_map(|outcome| outcome.result.err());
        state.1 = state.1.take().or(failed);
        drop(state);
        self.changed.notify_one();
    }
}
