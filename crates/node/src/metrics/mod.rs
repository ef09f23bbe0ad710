//! The counters of a node.
//!
//! Each runtime counts in cells of its own that no other thread writes. Counting is a plain load
//! and store, without a lock or a contended cache line on the hot path. The metrics page sums the
//! cells and gets them as plain data (`family`).

mod cluster;
mod family;

pub use family::{Distribution, Family, Labels, Series};

use ::cluster::{NodeId, NodeTable};
pub(crate) use cluster::{ConditionalMetrics, CoordinationMetrics, LinkMetrics, MISSES};
use peer::LinkStatus;
use profile::lock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A number that one thread writes and other threads read.
#[derive(Default)]
pub struct Cell(AtomicU64);

impl Cell {
    /// Adds to the number.
    pub fn add(&self, number: u64) {
        // There is one writer, so no other write comes between load and store.
        self.set(self.get().wrapping_add(number));
    }

    /// Sets the number.
    pub fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }

    /// The number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of the worker of one runtime.
#[derive(Default)]
pub(crate) struct WorkerMetrics {
    /// The requests that the worker coordinates.
    pub(crate) coordination: CoordinationMetrics,
    /// The conditional writes among them.
    pub(crate) conditional: ConditionalMetrics,
    /// The links of the worker. The numbers of a peer that has left stay, so that no sum falls.
    /// The worker publishes them a few times a second, so a lock costs nothing.
    links: Mutex<NodeTable<LinkMetrics>>,
}

impl WorkerMetrics {
    /// Publishes the numbers of the link to a peer.
    pub(crate) fn publish_link(&self, peer: NodeId, status: &LinkStatus) {
        let mut links = lock(&self.links);
        links
            .get_or_insert_with(peer, LinkMetrics::default)
            .publish(status);
    }

    /// A number of the link to a peer; `None` if there has been no link.
    pub(crate) fn of_link(&self, peer: NodeId, of: impl Fn(&LinkMetrics) -> &Cell) -> Option<u64> {
        lock(&self.links).get(peer).map(|link| of(link).get())
    }

    /// The sum of a number over all links.
    pub(crate) fn sum_of_links(&self, of: impl Fn(&LinkMetrics) -> &Cell) -> u64 {
        lock(&self.links).values().map(|link| of(link).get()).sum()
    }
}

/// The counters of a node.
pub(crate) struct Metrics {
    /// By runtime.
    pub(crate) workers: Vec<Arc<WorkerMetrics>>,
}

impl Metrics {
    /// Counters for the workers of so many runtimes.
    pub(crate) fn new(runtimes: usize) -> Self {
        Self {
            workers: (0..runtimes).map(|_| Arc::default()).collect(),
        }
    }

    /// The counters of one worker.
    pub(crate) fn of_worker(&self, number: usize) -> Arc<WorkerMetrics> {
        self.workers.get(number).map(Arc::clone).unwrap_or_default()
    }

    /// The sum of a number over all workers.
    pub(crate) fn sum(&self, of: impl Fn(&WorkerMetrics) -> u64) -> u64 {
        self.workers.iter().map(|worker| of(worker)).sum()
    }
}
