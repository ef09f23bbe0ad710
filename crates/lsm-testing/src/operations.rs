//! Operations on a whole store, chosen by bytes. A model, a map of the newest versions,
//! says what the store has to answer.

use super::{BlockingWrite, MemoryDisk, StepExecutor, environment};
use base::{Entry, Expiry, Timestamp};
use lsm::{Disk, Engine, Error, Options};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The largest number of operations, because each may be a compaction.
const OPERATIONS_MAX: usize = 500;

/// The number of keys. They are few, so that a key gets many versions.
const KEYS: u8 = 16;

/// The newest version of each key.
type Model = BTreeMap<Vec<u8>, Entry>;

/// A store and what it has to hold.
struct Run {
    memory: Arc<MemoryDisk>,
    executor: Arc<StepExecutor>,
    engine: Engine,
    model: Model,
}

/// Decodes `bytes` to operations of four bytes each: writes with any timestamp, reads,
/// jobs, flushes, compactions, orderly and sudden ends. Whatever their order, a read
/// has to return the winner of the key's versions.
pub fn fuzz_operations(bytes: &[u8]) {
    let mut run = Run::new();
    for operation in bytes.as_chunks::<4>().0.iter().take(OPERATIONS_MAX) {
        let [what, key, timestamp, form] = *operation;
        let key = [b'a' + key % KEYS];
        match what % 16 {
            0..8 => run.write(&key, timestamp, form),
            8 | 9 => run.check(&key),
            10 | 11 => drop(run.executor.run_one(|jobs| usize::from(form) % jobs)),
            12 => done(run.engine.flush()),
            13 => done(run.engine.compact()),
            14 => run.check_all(),
            _ => run = run.begin_anew(form),
        }
    }
    run.check_all();
}

impl Run {
    fn new() -> Self {
        Self::on(Arc::new(MemoryDisk::new()), Model::new())
    }

    fn on(memory: Arc<MemoryDisk>, model: Model) -> Self {
        let (environment, executor) = environment(Arc::clone(&memory) as Arc<dyn Disk>);
        // The store is so small that a few writes reach every part of it.
        let options = Options {
            memtable_bytes: 2 << 10,
            cache_bytes: 8 << 10,
            block_bytes: 256,
            table_bytes: 4 << 10,
            disk_reserve_bytes: 0,
            ..Options::default()
        };
        let (engine, _) = done(Engine::open(environment, options));
        Self {
            memory,
            executor,
            engine,
            model,
        }
    }

    fn write(&mut self, key: &[u8], timestamp: u8, form: u8) {
        let timestamp = Timestamp::from_u64(timestamp.into());
        let entry = match form {
            0..64 => Entry::tombstone(key, timestamp, form % 3),
            64..128 => {
                let expiry = Expiry::at_unix_ms((form % 4).into());
                Entry::value(key, timestamp, &[form], expiry, form % 3)
            }
            _ => {
                let value = vec![form; usize::from(form - 128) * 4];
                Entry::value(key, timestamp, &value, Expiry::NEVER, 1)
            }
        };
        done(self.engine.write(entry.clone()));
        let held = self
            .model
            .entry(key.to_vec())
            .or_insert_with(|| entry.clone());
        if entry.rank() > held.rank() {
            *held = entry;
        }
    }

    fn check(&self, key: &[u8]) {
        let found = done(self.engine.get(key));
        assert_eq!(found.as_ref(), self.model.get(key), "key {key:?}");
    }

    fn check_all(&self) {
        let mut scan = self.engine.scan(b"", None);
        let mut found = Vec::new();
        loop {
            let batch = done(scan.next_batch(1000));
            if batch.is_empty() {
                break;
            }
            found.extend(batch);
        }
        assert!(found.iter().eq(self.model.values()), "{found:?}");
    }

    /// The store after an orderly close, a kill, a power cut or a pause.
    fn begin_anew(self, how: u8) -> Self {
        let Self {
            memory,
            engine,
            model,
            ..
        } = match how % 4 {
            0 => {
                self.executor.run_for(std::time::Duration::from_secs(2));
                return self;
            }
            _ => self,
        };
        let memory = match how % 4 {
            1 => {
                done(engine.close());
                memory
            }
            2 => memory,
            _ => Arc::new(memory.crash_clone(&mut |_| how % 8 == 7)),
        };
        drop(engine);
        Self::on(memory, model)
    }
}

/// The result of an operation; none can fail on this disk.
fn done<T>(result: Result<T, Error>) -> T {
    match result {
        Ok(done) => done,
        Err(error) => unreachable!("{error}"),
    }
}
