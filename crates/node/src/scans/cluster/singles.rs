//! The keys of a scan that are read one by one: where the replicas differ, and where no page has
//! brought the value.

use super::ClusterScanPlan;
use crate::coordinator::{Coordinator, Failure};
use crate::scans::batch::BatchFailure;
use base::{Entry, Reservation};
use bytes::Bytes;
use cluster::pages::PageItem;
use cluster::{NodeId, Replicas};
use peer::PeerAnswer;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::JoinSet;

/// How often a key is read before the scan ends because too few of its replicas answer.
const READS_MAX: usize = 4;

/// How long the scan waits before it reads a key again.
const PAUSE: Duration = Duration::from_millis(100);

/// What a key has: its entity, if it is live, and the reservation of memory for a long value.
type Single = (Option<Entry>, Option<Reservation>);

/// The reads of a batch, which run side by side.
pub(super) struct Singles {
    coordinator: Rc<Coordinator>,
    replicas: Replicas,
    running: JoinSet<(usize, Result<Single, Failure>)>,
    count: usize,
    /// How long one that is read alone waits for memory.
    patient_until: Duration,
}

impl Singles {
    pub(super) fn new(
        coordinator: &Rc<Coordinator>,
        plan: ClusterScanPlan,
        patient_until: Duration,
    ) -> Self {
        Self {
            coordinator: Rc::clone(coordinator),
            replicas: plan.replicas,
            running: JoinSet::new(),
            count: 0,
            patient_until,
        }
    }

    /// How many reads there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Reads a key from all of its replicas, and repairs those that are stale. Returns the number
    /// of the read.
    pub(super) fn read(&mut self, key: Vec<u8>, is_alone: bool) -> usize {
        let (coordinator, replicas) = (Rc::clone(&self.coordinator), self.replicas);
        coordinator.metrics.coordination.scan_reads.add(1);
        let patient_until = self.patient_until(is_alone);
        self.spawn(async move { read(&coordinator, &key, replicas, patient_until).await })
    }

    /// Fetches a value from a node that has it. Returns the number of the read.
    pub(super) fn fetch(&mut self, node: NodeId, item: PageItem, is_alone: bool) -> usize {
        let (coordinator, replicas) = (Rc::clone(&self.coordinator), self.replicas);
        let patient_until = self.patient_until(is_alone);
        self.spawn(async move {
            match fetch(&coordinator, node, &item).await {
                Some((entry, reservation)) => Ok((Some(entry), reservation)),
                // It has changed meanwhile, the node is gone, or there was no memory.
                None => read(&coordinator, item.entry.key(), replicas, patient_until).await,
            }
        })
    }

    /// Until when a read is repeated for lack of memory alone.
    fn patient_until(&self, is_alone: bool) -> Duration {
        if is_alone {
            self.patient_until
        } else {
            Duration::ZERO
        }
    }

    fn spawn(&mut self, read: impl Future<Output = Result<Single, Failure>> + 'static) -> usize {
        let number = self.count;
        self.count += 1;
        self.running
            .spawn_local(async move { (number, read.await) });
        number
    }

    /// Waits for all reads; gives what they found in the order of their numbers. There is nothing
    /// of a read that has panicked.
    pub(super) async fn finish(mut self) -> Vec<Option<Result<Single, Failure>>> {
        let mut found = Vec::new();
        found.resize_with(self.count, || None);
        while let Some(joined) = self.running.join_next().await {
            if let Ok((number, single)) = joined {
                found[number] = Some(single);
            }
        }
        found
    }
}

impl From<Failure> for BatchFailure {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NotEnoughReplicas(receipt) | Failure::DiskFull(receipt) => {
                Self::TooFewNodes(Box::new(receipt))
            }
            Failure::Overloaded | Failure::NoTimestamp(_) | Failure::StoreFailed(_) => {
                Self::Overloaded
            }
        }
    }
}

async fn read(
    coordinator: &Rc<Coordinator>,
    key: &[u8],
    replicas: Replicas,
    patient_until: Duration,
) -> Result<Single, Failure> {
    let mut reads = 1;
    loop {
        let now = coordinator.clock.monotonic();
        let deadline = now.saturating_add(coordinator.timeout);
        match coordinator.read_from_all(key, replicas, deadline).await {
            Ok(found) => {
                let now_unix_ms = coordinator.clock.unix_ms();
                let live = found.entry.filter(|entry| entry.is_live(now_unix_ms));
                return Ok((live, found.reservation));
            }
            Err(failure) if failure.lacks_memory() && now < patient_until => {
                tokio::time::sleep(PAUSE).await;
            }
            Err(failure) if reads == READS_MAX => return Err(failure),
            Err(_) => {
                reads += 1;
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// The version that a page has named, with its value; [`None`] if it does not come.
async fn fetch(
    coordinator: &Coordinator,
    node: NodeId,
    item: &PageItem,
) -> Option<(Entry, Option<Reservation>)> {
    let key = Bytes::copy_from_slice(item.entry.key());
    let deadline = coordinator.clock.monotonic() + coordinator.timeout;
    let (answer, reservation) = coordinator.read_one(node, &key, deadline).await;
    let (PeerAnswer::Found(Some(entry))
    | PeerAnswer::FoundBehind {
        entry: Some(entry), ..
    }) = answer
    else {
        return None;
    };
    let reservation = match reservation {
        Some(reservation) => Some(reservation),
        None => {
            let value_bytes = entry.value_bytes().len();
            coordinator
                .answers
                .try_reserve_for_value(value_bytes)
                .ok()?
        }
    };
    item.is_version_of(&entry).then_some((entry, reservation))
}
