//! Scans: of this node's own keys (`own`), and of the keys of the whole cluster (`cluster`).
//!
//! A client gets a scan in batches (`batch`). `memory` divides the memory of scans, and `window` is
//! the part that a scan of the cluster holds for the pages that other nodes send it.

mod batch;
mod cluster;
mod memory;
mod own;
mod window;

pub use batch::{Batch, BatchFailure, BatchMemory};
pub use cluster::{ClusterScan, ClusterScanPlan};
pub(crate) use memory::ScanMemory;
pub use own::{KeyScan, NodeScan, ScanBatch};
pub use window::ScanWindow;
