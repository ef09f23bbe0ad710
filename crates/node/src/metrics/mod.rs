//! The counters of a node.
//!
//! Each runtime counts in cells of its own that no other thread writes. Counting is a plain load
//! and store, without a lock or a contended cache line on the hot path. The metrics page sums the
//! cells and gets them as plain data (`family`).

mod cluster;
mod family;

pub use family::{Distribution, Family, Labels, Series};

pub(crate) use cluster::{CoordinationMetrics, LinkMetrics, MISSES};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
    /// The links of the worker, by node.
    pub(crate) links: Box<[LinkMetrics]>,
}

/// The counters of a node.
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

    /// The sum of a number over all workers.
    pub(crate) fn sum(&self, of: impl Fn(&WorkerMetrics) -> u64) -> u64 {
        self.workers.iter().map(|worker| of(worker)).sum()
    }
}
