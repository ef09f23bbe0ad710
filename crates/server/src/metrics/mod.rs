//! What the doors of a server count: requests, and what they have taken on.
//! Each runtime counts for itself, in cells like the node's.

mod requests;

pub(crate) use requests::Route;

use node::metrics::{Cell, Family};
use requests::RequestMetrics;
use std::sync::Arc;

/// What the door of one runtime counts.
#[derive(Default)]
pub(crate) struct DoorMetrics {
    /// The requests that it answers.
    pub(crate) requests: RequestMetrics,
    /// Open connections.
    pub(crate) connections: Cell,
    /// Requests that are worked on.
    pub(crate) in_flight: Cell,
    /// Bytes of short answers that their clients do not take.
    pub(crate) unsent: Cell,
    /// Requests that wait to be worked on.
    pub(crate) queued: Cell,
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

    /// What all doors have answered.
    pub(crate) fn requests(&self) -> Vec<Family> {
        requests::families(self)
    }

    /// A number, over all doors.
    pub(crate) fn sum(&self, of: impl Fn(&DoorMetrics) -> u64) -> u64 {
        self.doors.iter().map(|door| of(door)).sum()
    }
}
