//! What a node says of itself, with a disk in memory and jobs that run when a test runs them.

use super::free_space::FreeSpace;
use super::*;
use crate::config::NodeConfig;
use crate::metric_families;
use crate::node::Node;
use crate::tests::open_node;
use crate::worker::Worker;
use base::{Clock, Entry, Expiry, ManualClock, Timestamp};
use cluster::{Members, NodeUrl};
use lsm::{Disk, Executor};
use lsm_testing::{BlockingWrite, MemoryDisk, StepExecutor};
use peer::{TcpTransport, Transport};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const WAIT_MAX: Duration = Duration::from_millis(500);

struct Machine {
    disk: Arc<MemoryDisk>,
    clock: Arc<ManualClock>,
    executor: Arc<StepExecutor>,
}

impl Machine {
    /// A machine whose disk has so many bytes.
    fn new(capacity_bytes: u64) -> Self {
        let clock = Arc::new(ManualClock::new(1_700_000_000_000));
        let disk = Arc::new(MemoryDisk::new());
        disk.set_capacity(capacity_bytes);
        Self {
            disk,
            executor: Arc::new(StepExecutor::new(Arc::clone(&clock))),
            clock,
        }
    }

    /// A node alone.
    fn open_node(&self) -> Node {
        let members = Members::from("http://a:1".parse::<NodeUrl>().unwrap());
        let config = NodeConfig::new(members, "/data");
        let disk = Arc::clone(&self.disk) as Arc<dyn Disk>;
        open_node(config, 1 << 20, disk, &self.clock, &self.executor)
    }

    fn free_space(&self) -> Arc<FreeSpace> {
        let disk = Arc::clone(&self.disk);
        FreeSpace::new(
            Box::new(move || lsm::DiskSpace {
                free_bytes: disk.available_bytes(Path::new("/data")).ok(),
                size_bytes: None,
            }),
            Arc::clone(&self.clock) as Arc<dyn Clock>,
            Arc::clone(&self.executor) as Arc<dyn Executor>,
        )
    }
}

async fn free_bytes(space: &Arc<FreeSpace>) -> Option<u64> {
    space.space(WAIT_MAX).await.free_bytes
}

#[tokio::test(start_paused = true)]
async fn all_who_wait_for_the_disk_share_one_job_and_its_answer_for_a_second() {
    let machine = Machine::new(700);
    let space = machine.free_space();
    let jobs = async { machine.executor.run_all_due() };
    let (first, second, jobs) = tokio::join!(free_bytes(&space), free_bytes(&space), jobs);
    assert_eq!((first, second, jobs), (Some(700), Some(700), 1));

    machine.disk.set_capacity(600);
    machine.clock.advance(FRESH - Duration::from_millis(1));
    assert_eq!(free_bytes(&space).await, Some(700));
    assert_eq!(machine.executor.run_all_due(), 0);
    machine.clock.advance(Duration::from_millis(1));
    let jobs = async { machine.executor.run_all_due() };
    let asked = tokio::join!(free_bytes(&space), jobs);
    assert_eq!(asked, (Some(600), 1));
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_long_for_a_disk_that_hangs_and_it_is_asked_once() {
    let machine = Machine::new(700);
    let space = machine.free_space();
    for _ in 0..3 {
        assert_eq!(free_bytes(&space).await, None);
    }
    // It answers after all.
    assert_eq!(machine.executor.run_all_due(), 1);
    assert_eq!(free_bytes(&space).await, Some(700));
}

#[tokio::test(start_paused = true)]
async fn a_node_tells_its_disk_its_store_and_what_clients_did() {
    let machine = Machine::new(1 << 30);
    let node = machine.open_node();
    let entry = Entry::value(b"k", Timestamp::from_u64(1), &[7; 1000], Expiry::NEVER, 1);
    node.engine.write(entry).unwrap();
    machine.executor.run_all_due();
    let tell = async || {
        let deadline = machine.clock.monotonic() + WAIT_MAX;
        let jobs = async { machine.executor.run_all_due() };
        let see = || (node.snapshot(), NodeTable::default());
        tokio::join!(node.report.tell(deadline, see), jobs).0
    };
    let report = tell().await;
    assert!(report.data_bytes >= 1000, "{report:?}");
    assert!(
        report.free_bytes.is_some_and(|free| free < 1 << 30),
        "{report:?}"
    );
    assert_eq!((report.hints, report.background_permille), (0, 1000));
    assert_eq!((report.requests_per_1000_s, report.reads), (0, None));

    let reads = LatencyQuantiles {
        p50_us: 1,
        p99_us: 2,
        p999_us: 3,
    };
    let activity = ClientActivity {
        requests_per_1000_s: 1_500,
        reads: Some(reads),
        writes: None,
    };
    node.see_activity_by(Box::new(move || activity));
    node.see_status_by(Box::new(|snapshot, links| {
        assert!(links.is_empty());
        format!("{} bytes", snapshot.data_bytes()).into_bytes()
    }));
    let report = tell().await;
    assert_eq!(report.requests_per_1000_s, 1_500);
    assert_eq!((report.reads, report.writes), (Some(reads), None));
    let status = format!("{} bytes", report.data_bytes);
    assert_eq!(report.status, peer::ReportedStatus::Told(status.into()));
}

#[tokio::test(start_paused = true)]
async fn nodes_are_examined_once_a_second_for_all_who_look() {
    let machine = Machine::new(1 << 30);
    let node = Arc::new(machine.open_node());
    let examinations = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&examinations);
    node.see_activity_by(Box::new(move || {
        counted.fetch_add(1, Relaxed);
        ClientActivity::default()
    }));
    let transport = Arc::<TcpTransport>::default() as Arc<dyn Transport>;
    let worker = Worker::new(Arc::clone(&node), 0, &transport);
    let jobs = async || machine.executor.run_all_due();
    let (first, second, _) = tokio::join!(worker.examine(), worker.examine(), jobs());
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!((first.len(), examinations.load(Relaxed)), (1, 1));
    assert!(first[0].report.is_ok());
    machine.clock.advance(FRESH);
    let (third, _) = tokio::join!(worker.examine(), jobs());
    assert_eq!((third.len(), examinations.load(Relaxed)), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn metrics_ask_the_disk_by_a_job_and_do_without_one_that_hangs() {
    let machine = Machine::new(1 << 30);
    let node = machine.open_node();
    let told = |free_bytes| {
        let families = metric_families(&node, free_bytes).into_iter();
        families
            .filter(|family| family.name == "kvorum_disk_free_bytes")
            .count()
    };
    let hangs = node.disk_free_bytes().await;
    assert_eq!((hangs, told(hangs)), (None, 0));
    machine.executor.run_all_due();
    let free = node.disk_free_bytes().await;
    let left = machine.disk.available_bytes(Path::new("/data")).unwrap();
    assert_eq!((free, told(free)), (Some(left), 1));
}
