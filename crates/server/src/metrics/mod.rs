//! What a server counts, for Prometheus.
//!
//! Each runtime counts for itself, in the node's cells. A scrape adds them up,
//! as plain data, and encodes that (`text`). What it tells of is in one module
//! each: the requests, what the doors have taken on, the process; the store and
//! the cluster are told by the node.
//!
//! Names follow Prometheus' conventions: base units (seconds, bytes) at the
//! end, counters with `_total`, a bound beside what it bounds (`kvorum_scans_max`,
//! `kvorum_answer_max_bytes`). A series exists from the start, so that the first event of a kind is a rise
//! and no new line.

mod door;
mod process;
mod requests;
mod text;

pub(crate) use requests::Route;

use crate::door::Common;
use node::metrics::{Cell, Family};
use requests::RequestMetrics;
use std::sync::Arc;

/// What the door of one runtime counts.
#[derive(Default)]
pub(crate) struct DoorMetrics {
    /// The requests that it answers.
    pub(crate) requests: RequestMetrics,
    connections: Cell,
    in_flight: Cell,
    unsent: Cell,
    queued: Cell,
}

impl DoorMetrics {
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

/// What the doors of a server count.
pub(crate) struct Metrics {
    doors: Vec<Arc<DoorMetrics>>,
}

impl Metrics {
    /// Counters for the doors of so many runtimes.
    pub(crate) fn new(runtimes: usize) -> Self {
        Self {
            doors: (0..runtimes).map(|_| Arc::default()).collect(),
        }
    }

    /// The counters of one door.
    pub(crate) fn of_door(&self, number: usize) -> Arc<DoorMetrics> {
        self.doors.get(number).map(Arc::clone).unwrap_or_default()
    }

    /// All of it in Prometheus' text format, version 0.0.4.
    pub(crate) fn text(&self, common: &Common) -> String {
        text::prometheus_text(&self.open_metrics_text(common))
    }

    /// All of it in the OpenMetrics text format.
    pub(crate) fn open_metrics_text(&self, common: &Common) -> String {
        let mut families = vec![Family::gauges(
            "kvorum_build_info",
            "The version of the node: always 1",
            [(vec![("version", common.config().version.clone())], 1.0)],
        )];
        families.extend(requests::families(self));
        families.extend(door::families(self, common));
        families.extend(common.node.families());
        families.extend(process::families());
        text::open_metrics_text(families)
    }

    fn sum(&self, of: impl Fn(&DoorMetrics) -> u64) -> u64 {
        self.doors.iter().map(|door| of(door)).sum()
    }
}
