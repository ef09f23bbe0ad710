//! Hints on a disk in memory, by a clock and an executor that are told what to do.

mod deliveries;
mod store;

use super::*;
use base::{Clock, Expiry, ManualClock, Timestamp};
use lsm::{Disk, FaultyDisk, MemoryDisk, StepExecutor};

const MIB: u64 = 1 << 20;

/// The wall clock's first moment, in milliseconds since the Unix epoch.
const START_MS: u64 = 1_700_000_000_000;

const A: NodeNumber = NodeNumber::new(0);
const B: NodeNumber = NodeNumber::new(1);
const NAMES: [&str; 3] = ["http://a:80", "http://b:80", "http://c:80"];

fn options() -> HintOptions {
    HintOptions {
        bytes_max: 64 * MIB,
        age_max: Duration::from_secs(3 * 3600),
        queue_bytes_max: 8 << 20,
        disk_spare_bytes: 0,
        drop_above: None,
    }
}

/// A machine, over the starts of its node.
struct Machine {
    memory: Arc<MemoryDisk>,
    disk: Arc<FaultyDisk>,
    clock: Arc<ManualClock>,
    executor: Arc<StepExecutor>,
}

impl Machine {
    fn new() -> Self {
        Self::on(MemoryDisk::new(), Arc::new(ManualClock::new(START_MS)))
    }

    fn on(memory: MemoryDisk, clock: Arc<ManualClock>) -> Self {
        let memory = Arc::new(memory);
        Self {
            disk: Arc::new(FaultyDisk::new(Arc::clone(&memory) as Arc<dyn Disk>)),
            memory,
            executor: Arc::new(StepExecutor::new(Arc::clone(&clock))),
            clock,
        }
    }

    /// The machine after a power cut that keeps only what was synced.
    fn after_crash(&self) -> Self {
        Self::on(self.memory.clone_synced(), Arc::clone(&self.clock))
    }

    /// The machine after the process was killed: the system keeps what it was given.
    fn after_kill(&self) -> Self {
        let memory = self.memory.crash_clone(&mut |_| true);
        Self::on(memory, Arc::clone(&self.clock))
    }

    fn environment(&self) -> HintEnvironment {
        HintEnvironment {
            folder: "/data/hints".into(),
            disk: Arc::clone(&self.disk) as Arc<dyn Disk>,
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            executor: Arc::clone(&self.executor) as Arc<dyn Executor>,
            secret: 0x5ec2e7,
        }
    }

    fn open_with(&self, options: HintOptions) -> HintStore {
        HintStore::open(self.environment(), options, NAMES).unwrap()
    }

    fn open(&self) -> HintStore {
        self.open_with(options())
    }

    fn hint(&self, key: &str, value: &[u8]) -> Entry {
        let timestamp = Timestamp::from_unix_ms(self.clock.unix_ms());
        Entry::value(key.as_bytes(), timestamp, value, Expiry::NEVER, 3)
    }

    /// Hands hints over and runs the jobs that are due; tells which were kept.
    fn keep(&self, store: &HintStore, peer: NodeNumber, hints: &[Entry]) -> Vec<bool> {
        let told = hand_over(store, peer, hints);
        self.executor.run_all_due();
        told.take()
    }

    /// Keeps one hint by name, of which it has to be told that it was kept.
    fn keep_one(&self, store: &HintStore, peer: NodeNumber, key: &str) {
        assert_eq!(self.keep(store, peer, &[self.hint(key, b"v")]), [true]);
    }

    fn next_batch(&self, store: &HintStore, peer: NodeNumber, after: u64) -> Option<Batch> {
        let cell = Arc::new(Mutex::new(None));
        let reply = Arc::clone(&cell);
        let reply = Box::new(move |batch| *reply.lock().unwrap() = Some(batch));
        store.next_batch(peer, after, reply);
        self.executor.run_all_due();
        cell.lock().unwrap().take().unwrap().unwrap()
    }

    /// The keys of all hints for a peer, segment by segment.
    fn keys(&self, store: &HintStore, peer: NodeNumber) -> Vec<String> {
        let mut keys = Vec::new();
        let mut after = 0;
        while let Some(batch) = self.next_batch(store, peer, after) {
            if batch.segment <= after {
                break;
            }
            after = batch.segment;
            let names = batch.entries.iter().map(|hint| hint.key().to_vec());
            keys.extend(names.map(|key| String::from_utf8(key).unwrap()));
        }
        keys
    }
}

/// What the `done`s of some hints were told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Option<bool>>>>);

impl Told {
    /// All of them, each of which has to have been told.
    fn take(&self) -> Vec<bool> {
        let told = self.0.lock().unwrap();
        told.iter().map(|told| told.unwrap()).collect()
    }
}

fn hand_over(store: &HintStore, peer: NodeNumber, hints: &[Entry]) -> Told {
    let told = Told::default();
    told.0.lock().unwrap().resize(hints.len(), None);
    for (place, hint) in hints.iter().enumerate() {
        let told = told.clone();
        let done = Box::new(move |kept| {
            let before = told.0.lock().unwrap()[place].replace(kept);
            assert_eq!(before, None, "told once");
        });
        store.keep(peer, hint.clone(), done);
    }
    told
}
