//! Batches of scans, and the reasons why one fails.

use super::window::ScanWindow;
use crate::coordinator::Receipt;
use base::{Entry, Reservation};
use std::rc::Rc;

/// A batch of a scan: what is left of the scan, and its next entries.
pub struct Batch<R> {
    /// What is left of the scan, unless this is its end.
    pub rest: Option<R>,
    /// The entries. There may be none although more follow.
    pub entries: Vec<Entry>,
    /// The memory that the entries take, to be kept as long as one of them is.
    pub memory: BatchMemory,
}

/// The memory of a batch, until it is dropped.
pub struct BatchMemory {
    _reservation: Option<Reservation>,
    _window: Option<Rc<ScanWindow>>,
    _values: Vec<Reservation>,
}

impl BatchMemory {
    /// That of a scan of this node, and of a value that is longer than its reservation.
    pub(super) fn of_own((reservation, value): (Reservation, Option<Reservation>)) -> Self {
        Self {
            _reservation: Some(reservation),
            _window: None,
            _values: value.into_iter().collect(),
        }
    }

    /// The window of a scan of the cluster, and the long values of the batch.
    pub(super) fn of_cluster(window: Rc<ScanWindow>, values: Vec<Reservation>) -> Self {
        Self {
            _reservation: None,
            _window: Some(window),
            _values: values,
        }
    }
}

/// Why a batch of a scan did not come.
#[derive(Debug)]
pub enum BatchFailure {
    /// No memory for the batch was free in time, or too many reads wait.
    Overloaded,
    /// The store did not answer in time.
    TimedOut,
    /// The snapshot has lived as long as it may.
    TooOld,
    /// More nodes are missing than may be: what became of the scan at each node.
    TooFewNodes(Box<Receipt>),
    /// The store cannot read it.
    Failed(lsm::Error),
}
