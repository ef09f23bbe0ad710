//! The page of metrics, for Prometheus.
//!
//! A scrape adds up the metrics of all threads as plain data, and encodes them
//! (`text`). The page has the requests, what the listeners hold (`listener`), the store and the
//! cluster, which the node provides, and the process (`process`).
//!
//! Names follow Prometheus' conventions: base units (seconds, bytes) at the end,
//! counters with `_total`, a bound beside what it bounds (`kvorum_scans_max`,
//! `kvorum_answer_max_bytes`). A series exists from the start, so that its first event
//! shows as a rise and not as a new series.

mod listener;
mod process;
mod text;
mod tls;

use crate::net::ListenerShared;
use node::metrics::Family;

pub(crate) use text::{open_metrics_text, prometheus_text};

/// All metrics, as plain data. `disk_free_bytes` is what [`node::Node::disk_free_bytes`] says.
pub(crate) fn families(shared: &ListenerShared, disk_free_bytes: Option<u64>) -> Vec<Family> {
    let mut families = vec![Family::gauges(
        "kvorum_build_info",
        "The version of the node: always 1",
        [(vec![("version", shared.config().version.clone())], 1.0)],
    )];
    families.extend(shared.metrics.requests());
    families.extend(listener::families(shared));
    families.extend(shared.trust.families());
    families.push(log(shared));
    families.extend(tls::families(shared));
    families.extend(node::metric_families(&shared.node, disk_free_bytes));
    families.extend(process::families());
    families
}

/// What the log leaves out.
fn log(shared: &ListenerShared) -> Family {
    let left_out = shared.log.as_ref().map(|log| log.refused() + log.failed());
    Family::counters(
        "kvorum_log_left_out",
        "Log lines that were dropped, because they were not read fast enough or could not be \
         written",
        [(Vec::new(), left_out.unwrap_or(0))],
    )
}
