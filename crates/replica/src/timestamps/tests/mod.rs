//! TimestampAllocator with a disk in memory and with a clock and an executor that the tests
//! control. This module has the [`Machine`] that they run on.

mod near_the_time;
mod pending;
mod unique;

use super::*;
use cluster::Member;
use lsm_testing::{Fault, FaultyDisk, MemoryDisk, StepExecutor};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const FOLDER: &str = "/store";
const BOUND: Duration = Duration::from_secs(3600);
const BOUND_MS: u64 = 3_600_000;
/// The time on the wall clock at the start, in milliseconds since the Unix epoch.
const START_MS: u64 = 1_700_000_000_000;
const PEER: NodeId = NodeId::new(0);
const OTHER: NodeId = NodeId::new(2);

/// The executor's clock with a wall clock that a test can set.
struct SetClock {
    inner: Arc<base::ManualClock>,
    /// How far the wall clock is ahead of `inner`, modulo 2^64.
    ahead_ms: AtomicU64,
}

impl Clock for SetClock {
    fn unix_ms(&self) -> u64 {
        self.inner
            .unix_ms()
            .wrapping_add(self.ahead_ms.load(Relaxed))
    }

    fn monotonic(&self) -> Duration {
        self.inner.monotonic()
    }
}

/// A machine on which a node starts again and again.
struct Machine {
    memory: Arc<MemoryDisk>,
    disk: Arc<FaultyDisk>,
    clock: Arc<SetClock>,
    executor: Arc<StepExecutor>,
    members: Members,
}

impl Machine {
    fn on(memory: MemoryDisk, clock: Arc<base::ManualClock>, members: Members) -> Self {
        memory.create_folder(Path::new(FOLDER)).unwrap();
        let memory = Arc::new(memory);
        Self {
            disk: Arc::new(FaultyDisk::new(Arc::clone(&memory) as Arc<dyn Disk>)),
            memory,
            executor: Arc::new(StepExecutor::new(Arc::clone(&clock))),
            clock: Arc::new(SetClock {
                inner: clock,
                ahead_ms: AtomicU64::new(0),
            }),
            members,
        }
    }

    /// The machine of a node alone.
    fn alone() -> Self {
        let members = Members::single_node("http://a:1".parse().unwrap());
        Self::on(MemoryDisk::new(), clock(), members)
    }

    /// The machine of the second of three nodes.
    fn of_three() -> Self {
        let nodes: Vec<Member> = ["http://a:1", "http://b:1", "http://c:1"]
            .map(|url| url.parse().unwrap())
            .into();
        let members = Members::new(nodes, &"http://b:1".parse().unwrap()).unwrap();
        Self::on(MemoryDisk::new(), clock(), members)
    }

    /// The machine after a power cut that keeps only what was synced.
    fn after_crash(&self) -> Self {
        let memory = self.memory.clone_synced();
        let machine = Self::on(memory, Arc::clone(&self.clock.inner), self.members.clone());
        machine.set_ahead_ms(self.clock.ahead_ms.load(Relaxed) as i64);
        machine
    }

    fn set_ahead_ms(&self, ahead_ms: i64) {
        self.clock.ahead_ms.store(ahead_ms as u64, Relaxed);
    }

    fn now(&self) -> u64 {
        self.clock.unix_ms()
    }

    fn closed(&self) -> Arc<TimestampAllocator> {
        TimestampAllocator::new(
            Arc::clone(&self.clock) as Arc<dyn Clock>,
            Arc::clone(&self.executor) as Arc<dyn Executor>,
            &self.members,
            BOUND,
        )
    }

    /// A start before any peer has said hello.
    fn open(&self, greatest_stored: Timestamp) -> Arc<TimestampAllocator> {
        let timestamps = self.closed();
        timestamps
            .open(&*self.disk, Path::new(FOLDER), greatest_stored, None, true)
            .unwrap();
        timestamps
    }

    /// As [`Machine::open`], without an operator who answers for a store that was lost.
    fn open_unaccepted(&self) -> Arc<TimestampAllocator> {
        let timestamps = self.closed();
        let (disk, folder) = (&*self.disk, Path::new(FOLDER));
        timestamps
            .open(disk, folder, Timestamp::ZERO, None, false)
            .unwrap();
        timestamps
    }

    /// A start that a peer has confirmed.
    fn open_near(&self) -> Arc<TimestampAllocator> {
        let timestamps = self.open(Timestamp::ZERO);
        timestamps.record_hello(PEER, self.now(), Timestamp::ZERO);
        timestamps
    }

    /// A timestamp, after the timestamp bound is raised if necessary.
    fn allocated(&self, timestamps: &Arc<TimestampAllocator>) -> Timestamp {
        match timestamps.allocate() {
            Err(NoTimestamp::Bound) => {
                self.executor.run_all_due();
                timestamps
                    .allocate()
                    .map(|allocated| allocated.timestamp())
                    .unwrap()
            }
            allocated => allocated.unwrap().timestamp(),
        }
    }

    fn pass(&self, time: Duration) {
        self.executor.run_for(time);
    }
}

fn clock() -> Arc<base::ManualClock> {
    Arc::new(base::ManualClock::new(START_MS))
}

fn at(unix_ms: u64) -> Timestamp {
    Timestamp::from_unix_ms(unix_ms)
}

fn refusal(timestamps: &Arc<TimestampAllocator>) -> NoTimestamp {
    timestamps.allocate().err().unwrap()
}

const HOUR: Duration = Duration::from_secs(3600);
const MS: Duration = Duration::from_millis(1);
