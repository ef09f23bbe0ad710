//! The metrics of the listeners: requests, connections and queues. Each runtime counts in
//! cells of its own, as the node does.
//!
//! `requests` counts requests of clients, `operations` those of batches, `tls` handshakes;
//! `history` keeps the last hour, and `activity` a few figures for other nodes.

mod activity;
mod history;
mod operations;
mod requests;
mod tls;

pub(crate) use history::{History, SAMPLES_MAX};
pub(crate) use operations::OperationKind;
pub(crate) use requests::{LATENCY_BOUNDS_US, Route};
pub(crate) use tls::TlsMetrics;

use node::ClientsSeen;
use node::metrics::{Cell, Family};
use operations::OperationMetrics;
use profile::ProcessorTimes;
use requests::RequestMetrics;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeMetrics};

/// The metrics of the listener of one runtime.
#[derive(Default)]
pub(crate) struct ListenerMetrics {
    /// Answers to requests.
    pub(crate) requests: RequestMetrics,
    /// The operations of batches.
    pub(crate) operations: OperationMetrics,
    /// TLS.
    pub(crate) tls: TlsMetrics,
    /// Open connections.
    pub(crate) connections: Cell,
    /// Requests that are running.
    pub(crate) in_flight: Cell,
    /// Bytes of short answers that their clients have not read.
    pub(crate) unsent: Cell,
    /// Requests that wait for a permit to run.
    pub(crate) queued: Cell,
    /// What the scheduler of the runtime counts, once it runs, and what the system counts
    /// of its thread.
    scheduler: OnceLock<(RuntimeMetrics, ProcessorTimes)>,
}

impl ListenerMetrics {
    /// Notes that the calling thread's scheduler runs this listener.
    pub(crate) fn attach_to_this_thread(&self) {
        // A second one would be a bug, and the first stays in force.
        let counts = (
            Handle::current().metrics(),
            ProcessorTimes::of_this_thread(),
        );
        let _first = self.scheduler.set(counts);
    }

    /// How long the runtime was busy since it started: in its tasks, or on a processor or
    /// in the queue for one. It is idle only while it waits for events.
    fn busy(&self) -> Duration {
        let Some((scheduler, times)) = self.scheduler.get() else {
            return Duration::ZERO;
        };
        let of_thread = times.read();
        let in_tasks = scheduler.worker_total_busy_duration(0);
        in_tasks.max(of_thread.ran + of_thread.waited)
    }

    /// Sets the gauges to what others count.
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

/// The metrics of all listeners of a server.
pub(crate) struct Metrics {
    listeners: Vec<Arc<ListenerMetrics>>,
}

impl Metrics {
    /// Metrics for the listeners of `runtimes` runtimes.
    pub(crate) fn new(runtimes: usize) -> Self {
        Self {
            listeners: (0..runtimes).map(|_| Arc::default()).collect(),
        }
    }

    /// The metrics of one listener.
    pub(crate) fn of_listener(&self, number: usize) -> Arc<ListenerMetrics> {
        self.listeners
            .get(number)
            .map(Arc::clone)
            .unwrap_or_default()
    }

    /// The answers of all listeners.
    pub(crate) fn requests(&self) -> Vec<Family> {
        let mut families = requests::families(self);
        families.push(operations::family(self));
        families
    }

    /// The TLS of all listeners.
    pub(crate) fn tls(&self) -> Vec<Family> {
        let listeners: Vec<&TlsMetrics> = self.listeners.iter().map(|it| &it.tls).collect();
        tls::families(&listeners)
    }

    /// What clients feel of the node.
    pub(crate) fn clients_seen(&self) -> ClientsSeen {
        ClientsSeen {
            latencies: requests::entity_latencies(self),
            busy: self
                .listeners
                .iter()
                .map(|listener| listener.busy())
                .collect(),
        }
    }

    /// The sum of a number over all listeners.
    pub(crate) fn sum(&self, of: impl Fn(&ListenerMetrics) -> u64) -> u64 {
        self.listeners.iter().map(|listener| of(listener)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_busy_while_its_thread_works_outside_its_tasks() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let listener = ListenerMetrics::default();
        runtime.block_on(async {
            listener.attach_to_this_thread();
            let own = ProcessorTimes::of_this_thread();
            let counted = own.read();
            if counted.ran.is_zero() {
                // This system does not count it.
                return;
            }
            while own.read().ran == counted.ran {
                std::hint::spin_loop();
            }
            let ran = own.read().ran;
            assert!(listener.busy() >= ran, "{:?} {ran:?}", listener.busy());
        });
    }
}
