//! Tests of a node as a replica (`own_replica`, `own_promises`, `behind_closed_timestamp`) and of one
//! whose layout changes (`changing_layout`), and a node for all unit tests.

mod behind_closed_timestamp;
mod changing_layout;
mod own_promises;
mod own_replica;

use crate::config::{MemoryParts, NodeConfig, Resources};
use crate::node::{Node, Seams};
use base::{Clock, ManualClock, SeededRandom};
use lsm::{Disk, Executor};
use lsm_testing::{FaultyDisk, MemoryDisk, StepExecutor};
use replica::ReadsRun;
use std::sync::Arc;

/// A node without peers, and with an empty folder.
pub(crate) fn alone() -> Node {
    let disk = Arc::new(FaultyDisk::new(Arc::new(MemoryDisk::new())));
    let clock = Arc::new(ManualClock::new(own_replica::START_MS));
    own_replica::open(&disk, &clock)
}

/// Opens a node of one runtime and little memory. Its jobs run when the test runs them, and
/// its reads at once.
pub(crate) fn open_node(
    config: NodeConfig,
    memtable_bytes: usize,
    disk: Arc<dyn Disk>,
    clock: &Arc<ManualClock>,
    executor: &Arc<StepExecutor>,
) -> Node {
    let bytes = 1 << 20;
    let resources = Resources {
        runtimes: 1,
        requests_max: 8,
        memory: MemoryParts {
            memtable_bytes,
            write_queue_bytes: bytes,
            cache_bytes: bytes,
            peer_bytes: bytes,
            answers_bytes: bytes,
            scans_bytes: bytes,
        },
    };
    let seams = Seams {
        disk,
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        random: Arc::new(SeededRandom::new(1)),
        boot_id: None,
    };
    let executor = Arc::clone(executor) as Arc<dyn Executor>;
    Node::open_with(config, resources, seams, &executor, ReadsRun::OnTheSpot).unwrap()
}
