//! What a node counts, for Prometheus.
//!
//! Each runtime counts for itself, in cells that only it writes: a plain load
//! and store, without a lock or a contended cache line on the hot path. A
//! scrape adds them up, as plain data (`family`), and encodes that. What it
//! tells of is in one module each: the requests, what the door has taken on,
//! the store, the cluster and the process.
//!
//! Names follow Prometheus' conventions: base units (seconds, bytes) at the
//! end, counters with `_total`, a bound beside what it bounds (`kvorum_scans_max`,
//! `kvorum_answer_max_bytes`). A series exists from the start, so that the first event of a kind is a rise
//! and no new line.

mod cluster;
mod door;
mod family;
mod process;
mod requests;
mod store;

use crate::shared::Shared;
use cluster::{CoordinationMetrics, LinkMetrics};
use family::Family;
use requests::RequestMetrics;
pub(crate) use requests::Route;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread writes and others read.
#[derive(Default)]
pub(crate) struct Cell(AtomicU64);

impl Cell {
    /// Counts.
    pub(crate) fn add(&self, number: u64) {
        // One writer: nothing can come between load and store.
        self.set(self.get().wrapping_add(number));
    }

    fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one runtime counts.
#[derive(Default)]
pub(crate) struct RuntimeMetrics {
    /// The requests that it answers.
    pub(crate) requests: RequestMetrics,
    connections: Cell,
    in_flight: Cell,
    unsent: Cell,
    queued: Cell,
    /// The requests that it coordinates.
    pub(crate) coordination: CoordinationMetrics,
    /// Its links, by node.
    pub(crate) links: Box<[LinkMetrics]>,
}

impl RuntimeMetrics {
    /// Takes over what others count.
    pub(crate) fn publish(
        &self,
        connections: usize,
        in_flight: usize,
        queued: usize,
        unsent_bytes: usize,
    ) {
        self.unsent.set(unsent_bytes as u64);
        self.connections.set(connections as u64);
        self.in_flight.set(in_flight as u64);
        self.queued.set(queued as u64);
    }
}

/// What a node counts.
pub(crate) struct Metrics {
    runtimes: Vec<Arc<RuntimeMetrics>>,
}

impl Metrics {
    /// Counters for so many runtimes of a node in a cluster of so many nodes.
    pub(crate) fn new(runtimes: usize, nodes: usize) -> Self {
        let runtime = || RuntimeMetrics {
            links: (0..nodes).map(|_| LinkMetrics::default()).collect(),
            ..RuntimeMetrics::default()
        };
        Self {
            runtimes: (0..runtimes).map(|_| Arc::new(runtime())).collect(),
        }
    }

    /// The counters of one runtime.
    pub(crate) fn of_runtime(&self, number: usize) -> Arc<RuntimeMetrics> {
        self.runtimes
            .get(number)
            .map(Arc::clone)
            .unwrap_or_default()
    }

    /// All of it in Prometheus' text format, version 0.0.4.
    pub(crate) fn text(&self, shared: &Shared) -> String {
        family::prometheus_text(&self.open_metrics_text(shared))
    }

    /// All of it in the OpenMetrics text format.
    pub(crate) fn open_metrics_text(&self, shared: &Shared) -> String {
        let mut families = vec![Family::gauges(
            "kvorum_build_info",
            "The version of the node: always 1",
            [(vec![("version", shared.config.version.clone())], 1.0)],
        )];
        families.extend(requests::families(self));
        families.extend(door::families(self, shared));
        families.extend(store::families(shared));
        families.extend(cluster::families(self, shared));
        families.extend(process::families());
        family::open_metrics_text(families)
    }

    fn sum(&self, of: impl Fn(&RuntimeMetrics) -> u64) -> u64 {
        self.runtimes.iter().map(|runtime| of(runtime)).sum()
    }
}
