//! What a node counts.
//!
//! Each runtime counts for itself, in cells that only it writes: a plain load
//! and store, without a lock or a contended cache line on the hot path. Whoever
//! shows the numbers adds them up, as plain data (`family`).

mod cluster;
mod family;

pub use family::{Distribution, Family, Labels, Series};

pub(crate) use cluster::{CoordinationMetrics, LinkMetrics, MISSES};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread writes and others read.
#[derive(Default)]
pub struct Cell(AtomicU64);

impl Cell {
    /// Counts.
    pub fn add(&self, number: u64) {
        // One writer: nothing can come between load and store.
        self.set(self.get().wrapping_add(number));
    }

    /// Writes.
    pub fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }

    /// Reads.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the worker of one runtime counts.
#[derive(Default)]
pub(crate) struct WorkerMetrics {
    /// The requests that it coordinates.
    pub(crate) coordination: CoordinationMetrics,
    /// Its links, by node.
    pub(crate) links: Box<[LinkMetrics]>,
}

/// What a node counts.
pub(crate) struct Metrics {
    /// By runtime.
    pub(crate) workers: Vec<Arc<WorkerMetrics>>,
}

impl Metrics {
    /// Counters for the workers of so many runtimes, of a node in a cluster of
    /// so many nodes.
    pub(crate) fn new(runtimes: usize, nodes: usize) -> Self {
        let worker = || WorkerMetrics {
            links: (0..nodes).map(|_| LinkMetrics::default()).collect(),
            ..WorkerMetrics::default()
        };
        Self {
            workers: (0..runtimes).map(|_| Arc::new(worker())).collect(),
        }
    }

    /// The counters of one worker.
    pub(crate) fn of_worker(&self, number: usize) -> Arc<WorkerMetrics> {
        self.workers.get(number).map(Arc::clone).unwrap_or_default()
    }

    /// A number, over all workers.
    pub(crate) fn sum(&self, of: impl Fn(&WorkerMetrics) -> u64) -> u64 {
        self.workers.iter().map(|worker| of(worker)).sum()
    }
}
