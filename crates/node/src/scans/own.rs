//! Scans of this node's own keys, and the interface of scans of the whole cluster.

use super::batch::{Batch, BatchFailure, BatchMemory};
use super::cluster::{ClusterScan, ClusterScanPlan};
use super::window::ScanWindow;
use crate::config::BATCH_BYTES_MAX;
use crate::coordinator::Coordinator;
use base::{Refused, Reservation};
use cluster::comparison::KeptScope;
use lsm::Scan;
use replica::Completion;
use replica::RangeDigest;
use replica::SCAN_MEMORY;
use replica::{PoolFull, Read, ReadJob};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::AbortHandle;

/// The most bytes of keys and values that a long scan reads at a time, if other scans hold
/// little: two threads hand each batch over, which costs more than to read a short one.
const LONG_BATCH_BYTES_MAX: usize = 4 * BATCH_BYTES_MAX;

/// How long a scan waits before it reads a very long value again, for which others have the
/// memory.
const MEMORY_PAUSE: Duration = Duration::from_millis(50);

/// A scan of the keys that this node held when it began: a scan over a snapshot.
///
/// A snapshot keeps the disk space of what it sees, so it lives for a limited time, however
/// slowly the client reads.
pub struct NodeScan {
    /// None while a batch is read, and once the snapshot is too old.
    scan: Rc<RefCell<Option<Box<Scan>>>>,
    /// How many bytes of keys and values the next batch may have while memory is free: twice as
    /// many as the last.
    batch_bytes: usize,
    /// When the snapshot is too old, on the monotonic clock.
    ends: Duration,
    /// Drops the scan then.
    timer: AbortHandle,
}

impl Drop for NodeScan {
    fn drop(&mut self) {
        self.timer.abort();
    }
}

/// A scan that is under way.
pub enum KeyScan {
    /// Of the keys that this node held when it began.
    Own(NodeScan),
    /// Of the whole cluster.
    Cluster(Box<ClusterScan>),
}

/// A batch of any scan.
pub type ScanBatch = Batch<KeyScan>;

impl KeyScan {
    /// Passes over all keys before this one, which lies behind the last one that was returned.
    pub fn skip_to(&mut self, key: &[u8]) {
        match self {
            Self::Own(scan) => scan.skip_to(key),
            Self::Cluster(scan) => scan.skip_to(key),
        }
    }
}

impl NodeScan {
    fn skip_to(&mut self, key: &[u8]) {
        // Whoever skips wants few of the keys that follow.
        self.batch_bytes = BATCH_BYTES_MAX;
        if let Some(scan) = &mut *self.scan.borrow_mut() {
            scan.skip_to(key);
        }
    }
}

impl Coordinator {
    /// Begins a scan of the keys that this node holds now.
    #[must_use]
    pub fn begin_node_scan(&self, start: &[u8], end: Option<&[u8]>) -> KeyScan {
        let scan = self.replicas.own().engine.scan(start, end);
        let scan = Rc::new(RefCell::new(Some(Box::new(scan))));
        let (aging, age_max) = (Rc::clone(&scan), self.snapshot_age_max);
        let timer = tokio::task::spawn_local(async move {
            tokio::time::sleep(age_max).await;
            let too_old = aging.take();
            drop(too_old);
        });
        KeyScan::Own(NodeScan {
            scan,
            batch_bytes: BATCH_BYTES_MAX,
            ends: self.clock.monotonic().saturating_add(age_max),
            timer: timer.abort_handle(),
        })
    }

    /// Waits until `deadline` for the memory that a scan of the whole cluster begins with.
    ///
    /// # Errors
    /// Other scans hold it.
    pub async fn scan_window(&self, deadline: Duration) -> Result<ScanWindow, Refused> {
        let nodes = self.peers.nodes().into();
        let mut wait = self.pending.wait(deadline);
        tokio::select! {
            biased;
            taken = ScanWindow::take(&self.windows, nodes, self.page_bytes_max) => taken,
            // Nothing was asked yet, so this is the deadline.
            _ = wait.next() => Err(Refused),
        }
    }

    /// Begins a scan of the whole cluster. The nodes are asked at once.
    pub fn begin_cluster_scan(
        self: &Rc<Self>,
        start: &[u8],
        end: Option<&[u8]>,
        plan: ClusterScanPlan,
        window: ScanWindow,
        deadline: Duration,
    ) -> KeyScan {
        let scan = ClusterScan::begin(self, start, end, plan, window, deadline);
        KeyScan::Cluster(Box::new(scan))
    }

    /// Reads the next batch of a scan.
    ///
    /// # Errors
    /// See [`BatchFailure`]; the scan is lost.
    pub async fn next_batch(
        &self,
        scan: KeyScan,
        deadline: Duration,
    ) -> Result<ScanBatch, BatchFailure> {
        match scan {
            KeyScan::Own(scan) => self.next_node_batch(scan, deadline).await,
            KeyScan::Cluster(scan) => {
                let batch = scan.next_batch(deadline).await?;
                Ok(Batch {
                    rest: batch.rest.map(KeyScan::Cluster),
                    entries: batch.entries,
                    memory: batch.memory,
                })
            }
        }
    }

    /// Reads the next batch of a scan of this node, once there is memory for the largest
    /// batch. The batch returns the memory that it does not need.
    async fn next_node_batch(
        &self,
        mut node_scan: NodeScan,
        deadline: Duration,
    ) -> Result<ScanBatch, BatchFailure> {
        let mut scan = node_scan.scan.take().ok_or(BatchFailure::TooOld)?;
        let bytes = if self.is_scan_memory_free() {
            node_scan.batch_bytes
        } else {
            BATCH_BYTES_MAX
        };
        node_scan.batch_bytes = (2 * node_scan.batch_bytes).min(LONG_BATCH_BYTES_MAX);
        // As much on top as a short batch has, where entries are short.
        let memory = self.scan_batch_bytes + 2 * (bytes - BATCH_BYTES_MAX);
        loop {
            let answers = Arc::clone(&self.answers);
            let read = |reservation| Read::Batch(scan, bytes, reservation, answers);
            match self.read_batch(read, memory, deadline).await? {
                Some(Completion::Scanned(scan, Ok(entries), memory)) => {
                    if self.clock.monotonic() < node_scan.ends {
                        *node_scan.scan.borrow_mut() = Some(scan);
                    }
                    // An empty batch is the end of the scan.
                    let is_at_end = entries.is_empty();
                    return Ok(Batch {
                        rest: (!is_at_end).then_some(KeyScan::Own(node_scan)),
                        entries,
                        memory: BatchMemory::of_own(memory),
                    });
                }
                // Others have the memory for a value that is longer than any that clients may
                // send. The scan holds nothing while it waits.
                Some(Completion::Scanned(again, Err(lsm::Error::Overloaded), memory)) => {
                    drop(memory);
                    if self.clock.monotonic().saturating_add(MEMORY_PAUSE) >= deadline {
                        return Err(BatchFailure::Overloaded);
                    }
                    tokio::time::sleep(MEMORY_PAUSE).await;
                    scan = again;
                }
                Some(Completion::Scanned(_, Err(error), _)) => {
                    return Err(self.failed_scan(error));
                }
                _ => return Err(BatchFailure::TimedOut),
            }
        }
    }

    /// Begins to sum up the keys of a range that this node keeps now.
    #[must_use]
    pub fn begin_digest(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
        scope: KeptScope,
    ) -> Box<RangeDigest> {
        let engine = &self.replicas.own().engine;
        Box::new(RangeDigest::new(engine, start, end, scope))
    }

    /// Goes on for a step with a sum over a range, once there is memory for the largest
    /// batch. Gives whether it was the last step.
    ///
    /// # Errors
    /// See [`BatchFailure`]; the sum is lost.
    pub async fn continue_digest(
        &self,
        digest: Box<RangeDigest>,
        deadline: Duration,
    ) -> Result<(Box<RangeDigest>, bool), BatchFailure> {
        let read = |reservation| Read::Digest(digest, reservation);
        let memory = self.scan_batch_bytes;
        match self.read_batch(read, memory, deadline).await? {
            Some(Completion::Digested(digest, Ok(is_complete))) => Ok((digest, is_complete)),
            Some(Completion::Digested(_, Err(error))) => Err(self.failed_scan(error)),
            _ => Err(BatchFailure::TimedOut),
        }
    }

    fn failed_scan(&self, error: lsm::Error) -> BatchFailure {
        self.replicas.own().log.line("failed scan", |left_out| {
            tracing::error!(%error, left_out, "this node cannot read a part of a scan");
        });
        BatchFailure::Failed(error)
    }

    /// Whether scans hold at most a quarter of their memory, beside that of the batch that is
    /// read: then long batches keep nobody out.
    fn is_scan_memory_free(&self) -> bool {
        let held_max = self.scans.max().saturating_sub(self.scan_batch_bytes) / 4;
        self.scans.used() <= held_max
    }

    /// Waits for this much memory for a batch, then for the read that takes it.
    async fn read_batch(
        &self,
        read: impl FnOnce(Reservation) -> Read,
        memory: usize,
        deadline: Duration,
    ) -> Result<Option<Completion>, BatchFailure> {
        let mut wait = self.pending.wait(deadline);
        let reservation = tokio::select! {
            biased;
            taken = self.scans.reserve(memory, &SCAN_MEMORY) => taken.ok(),
            // Nothing was asked yet, so this is the deadline.
            _ = wait.next() => None,
        };
        let reservation = reservation.ok_or(BatchFailure::Overloaded)?;
        let own = self.replicas.own();
        own.read_pool
            .submit(ReadJob {
                read: read(reservation),
                completions: Arc::clone(self.pending.completions()),
                address: wait.address(),
            })
            .map_err(|PoolFull| BatchFailure::Overloaded)?;
        Ok(wait.only().await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::NodeConfig;
    use crate::tests::open_node;
    use crate::worker::Worker;
    use base::{Entry, Expiry, ManualClock, Timestamp};
    use cluster::NodeUrl;
    use lsm::{Disk, Durability};
    use lsm_testing::{BlockingWrite, MemoryDisk, PATIENCE, StepExecutor};
    use peer::{TcpTransport, Transport};

    const ENTRIES: usize = 600;
    const ENTRY_BYTES: usize = 1 << 10;
    const SHORT: usize = BATCH_BYTES_MAX / ENTRY_BYTES;

    fn worker() -> Rc<Worker> {
        let url: NodeUrl = "http://a:1".parse().unwrap();
        let config = NodeConfig {
            durability: Durability::Os,
            value_bytes_max: BATCH_BYTES_MAX,
            ..NodeConfig::new(url, "/data")
        };
        let clock = Arc::new(ManualClock::new(1_700_000_000_000));
        let executor = Arc::new(StepExecutor::new(Arc::clone(&clock)));
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let node = open_node(config, 1 << 20, disk, &clock, &executor);
        for number in 0..ENTRIES {
            let key = format!("{number:04}");
            let value = [b'v'; ENTRY_BYTES - 4];
            let timestamp = Timestamp::from_u64(1 + number as u64);
            let entry = Entry::value(key.as_bytes(), timestamp, &value, Expiry::NEVER, 1);
            node.engine.write(entry).unwrap();
        }
        let transport: Arc<dyn Transport> = Arc::new(TcpTransport::default());
        Worker::new(Arc::new(node), 0, &transport)
    }

    /// How many entries each batch of a scan has.
    async fn batches(coordinator: &Coordinator) -> Vec<usize> {
        let (mut scan, mut told) = (coordinator.begin_node_scan(b"", None), Vec::new());
        loop {
            let Ok(batch) = coordinator.next_batch(scan, Duration::MAX).await else {
                panic!("no batch came");
            };
            match batch.rest {
                Some(next) => scan = next,
                None => return told,
            }
            told.push(batch.entries.len());
        }
    }

    #[tokio::test]
    async fn a_long_scan_reads_more_at_a_time_while_memory_is_free() {
        let worker = worker();
        let coordinator = Rc::clone(worker.coordinator());
        let tasks = tokio::task::LocalSet::new();
        tasks.spawn_local(Rc::clone(&coordinator.pending).deliver_forever());
        let alone = tasks.run_until(batches(&coordinator)).await;
        let rest = ENTRIES - 7 * SHORT;
        assert_eq!(alone, [SHORT, 2 * SHORT, 4 * SHORT, rest]);

        let beside_batch = coordinator.scans.max() - coordinator.scan_batch_bytes;
        let held = coordinator.scans.try_reserve(beside_batch / 2).unwrap();
        let others_wait = tokio::time::timeout(PATIENCE, tasks.run_until(batches(&coordinator)));
        let others_wait = others_wait
            .await
            .expect("a long batch waits for the others");
        let mut short = vec![SHORT; ENTRIES / SHORT];
        short.push(ENTRIES % SHORT);
        assert_eq!(others_wait, short);
        drop(held);
        assert_eq!(coordinator.scans.used(), 0);
    }
}
