//! fjall with one keyspace, on the common terms.
//!
//! fjall syncs only when its caller asks for it, and for each caller alone. The other
//! engines let writers share a sync. Here too, a writer syncs the writes of all writers
//! so far, and a writer whose write an earlier sync covered returns at once.

use super::{Durability, Failure, Store};
use crate::data::Key;
use crate::terms;
use fjall::compaction::Leveled;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The pause between two checks whether the background work is done.
const POLL: Duration = Duration::from_millis(5);

/// The number of checks in a row that must find nothing to do, because a job that has
/// ended may start another one a moment later.
const IDLE_LOOKS: u32 = 10;

/// An open fjall database.
pub struct Fjall {
    database: Database,
    keyspace: Keyspace,
    durability: Durability,
    written: AtomicU64,
    /// How many of the writes that `written` counts the last sync has covered.
    synced: Mutex<u64>,
}

impl Fjall {
    /// Opens the database in `folder`.
    pub fn open(folder: &Path, durability: Durability) -> Result<Self, Failure> {
        let database = Database::builder(folder)
            .cache_size(terms::CACHE_BYTES as u64)
            .worker_threads(terms::BACKGROUND_THREADS)
            .open()?;
        let filter = BloomConstructionPolicy::BitsPerKey(terms::FILTER_BITS_PER_KEY);
        let compaction = Leveled::default()
            .with_l0_threshold(terms::LEVEL_0_TABLES as u8)
            .with_table_target_size(terms::TABLE_BYTES as u64);
        let keyspace = database.keyspace("default", || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(terms::MEMTABLE_BYTES as u64)
                .data_block_size_policy(BlockSizePolicy::all(terms::BLOCK_BYTES as u32))
                .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
                .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(filter)))
                .compaction_strategy(Arc::new(compaction))
        })?;
        Ok(Self {
            database,
            keyspace,
            durability,
            written: AtomicU64::new(0),
            synced: Mutex::new(0),
        })
    }

    /// Makes all writes before this call as durable as the store was opened with.
    fn persist(&self) -> Result<(), Failure> {
        if self.durability == Durability::Os {
            return Ok(());
        }
        let mine = self.written.fetch_add(1, SeqCst) + 1;
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if *synced < mine {
            let all = self.written.load(SeqCst);
            self.database.persist(PersistMode::SyncData)?;
            *synced = all;
        }
        Ok(())
    }
}

impl Store for Fjall {
    fn put(&self, key: &Key, value: &[u8]) -> Result<(), Failure> {
        self.keyspace.insert(key.as_slice(), value)?;
        self.persist()
    }

    fn put_batch(&self, pairs: &[(Key, Vec<u8>)]) -> Result<(), Failure> {
        let mut batch = self.database.batch();
        for (key, value) in pairs {
            batch.insert(&self.keyspace, key.as_slice(), value.as_slice());
        }
        batch.commit()?;
        self.persist()
    }

    fn get(&self, key: &Key, seen: &mut dyn FnMut(&[u8])) -> Result<(), Failure> {
        if let Some(value) = self.keyspace.get(key)? {
            seen(&value);
        }
        Ok(())
    }

    fn scan(
        &self,
        start: &[u8],
        count_max: usize,
        seen: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), Failure> {
        for item in self.keyspace.range(start..).take(count_max) {
            let (key, value) = item.into_inner()?;
            seen(&key, &value);
        }
        Ok(())
    }

    fn settle(&self) -> Result<(), Failure> {
        self.keyspace.rotate_memtable_and_wait()?;
        let mut idle_looks = 0;
        let mut completed = self.database.compactions_completed();
        while idle_looks < IDLE_LOOKS {
            std::thread::sleep(POLL);
            let now = self.database.compactions_completed();
            let is_idle = self.database.active_compactions() == 0
                && self.database.outstanding_flushes() == 0
                && now == completed;
            idle_looks = if is_idle { idle_looks + 1 } else { 0 };
            completed = now;
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(())
    }
}
