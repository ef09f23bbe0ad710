//! The page of metrics, for Prometheus.
//!
//! A scrape adds up what was counted, as plain data, and encodes that (`text`).
//! It tells of the requests, of what the doors have taken on (`door`), of the
//! store and the cluster, as the node has them, and of the process (`process`).
//!
//! Names follow Prometheus' conventions: base units (seconds, bytes) at the
//! end, counters with `_total`, a bound beside what it bounds (`kvorum_scans_max`,
//! `kvorum_answer_max_bytes`). A series exists from the start, so that the first event of a kind is a rise
//! and no new line.

mod door;
mod process;
mod text;

use crate::door::DoorShared;
use node::metrics::Family;

pub(crate) use text::{open_metrics_text, prometheus_text};

/// All that is told, as plain data.
pub(crate) fn families(shared: &DoorShared) -> Vec<Family> {
    let mut families = vec![Family::gauges(
        "kvorum_build_info",
        "The version of the node: always 1",
        [(vec![("version", shared.config().version.clone())], 1.0)],
    )];
    families.extend(shared.metrics.requests());
    families.extend(door::families(shared));
    families.extend(node::families(&shared.node));
    families.extend(process::families());
    families
}
