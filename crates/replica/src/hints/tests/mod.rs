//! Hints with a disk in memory and with a clock and an executor that the tests
//! control. This module has the [`Machine`] that they run on.

mod bounds;
mod deliveries;
mod store;

use super::*;
use base::{Clock, Expiry, ManualClock, Timestamp};
use cluster::Member;
use lsm::Disk;
use lsm_testing::{FaultyDisk, MemoryDisk, StepExecutor};

const MIB: u64 = 1 << 20;

/// The time on the wall clock at the start, in milliseconds since the Unix epoch.
const START_MS: u64 = 1_700_000_000_000;

const A: NodeId = NodeId::new(0);
const B: NodeId = NodeId::new(1);
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

/// The nodes with these names, in the order of their IDs.
fn members(names: &[&str]) -> Members {
    let named = names
        .iter()
        .map(|name| Member::named(name, name.parse().unwrap()).unwrap());
    let nodes = (0..).map(NodeId::new).zip(named).collect();
    Members::with_ids(nodes, NodeId::new(0)).unwrap()
}

/// A machine on which a node starts again and again.
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

    /// The machine after the process was killed: the disk keeps everything written.
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
        HintStore::open(self.environment(), options, &members(&NAMES)).unwrap()
    }

    fn open(&self) -> HintStore {
        self.open_with(options())
    }

    fn hint(&self, key: &str, value: &[u8]) -> Entry {
        let timestamp = Timestamp::from_unix_ms(self.clock.unix_ms());
        Entry::value(key.as_bytes(), timestamp, value, Expiry::NEVER, 3)
    }

    /// Keeps hints and runs the jobs that are due. Returns for each hint whether it was kept.
    fn keep(&self, store: &HintStore, peer: NodeId, hints: &[Entry]) -> Vec<bool> {
        let replies = enqueue(store, peer, hints);
        self.executor.run_all_due();
        replies.take()
    }

    /// Keeps one hint with this key, which must succeed.
    fn keep_one(&self, store: &HintStore, peer: NodeId, key: &str) {
        assert_eq!(self.keep(store, peer, &[self.hint(key, b"v")]), [true]);
    }

    fn next_batch(&self, store: &HintStore, peer: NodeId, after: u64) -> Option<HintBatch> {
        let cell = Arc::new(Mutex::new(None));
        let reply = Arc::clone(&cell);
        let reply = Box::new(move |batch| *reply.lock().unwrap() = Some(batch));
        store.next_batch(peer, after, reply);
        self.executor.run_all_due();
        cell.lock().unwrap().take().unwrap().unwrap()
    }

    /// The keys of all hints for a peer, segment by segment.
    fn keys(&self, store: &HintStore, peer: NodeId) -> Vec<String> {
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

/// The replies to some hints; `None` for a hint without a reply yet.
#[derive(Clone, Default)]
struct KeepReplies(Arc<Mutex<Vec<Option<bool>>>>);

impl KeepReplies {
    /// All replies; each hint must have one.
    fn take(&self) -> Vec<bool> {
        let replies = self.0.lock().unwrap();
        replies.iter().map(|reply| reply.unwrap()).collect()
    }
}

fn enqueue(store: &HintStore, peer: NodeId, hints: &[Entry]) -> KeepReplies {
    let replies = KeepReplies::default();
    replies.0.lock().unwrap().resize(hints.len(), None);
    for (index, hint) in hints.iter().enumerate() {
        let replies = replies.clone();
        let reply = Box::new(move |kept| {
            let before = replies.0.lock().unwrap()[index].replace(kept);
            assert_eq!(before, None, "a second reply");
        });
        store.keep(peer, hint.clone(), reply);
    }
    replies
}
