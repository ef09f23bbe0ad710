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
use crate::traces::{ExportCounts, Traces};
use node::metrics::Family;
use std::sync::atomic::{AtomicU64, Ordering};

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
    families.extend(traces(shared));
    families.extend(tls::families(shared));
    families.extend(node::metric_families(&shared.node, disk_free_bytes));
    families.extend(process::families());
    families
}

/// What became of the spans of requests.
fn traces(shared: &ListenerShared) -> [Family; 2] {
    let counts = shared.traces.as_ref().map(Traces::counts);
    let count = |of: fn(&ExportCounts) -> &AtomicU64| {
        counts.map_or(0, |counts| of(counts).load(Ordering::Relaxed))
    };
    [
        Family::counters(
            "kvorum_trace_spans_exported",
            "Spans that the collector of traces took",
            [(Vec::new(), count(|counts| &counts.exported))],
        ),
        Family::counters(
            "kvorum_trace_spans_dropped",
            "Spans that the collector of traces does not have",
            [
                ("queue_full", count(|counts| &counts.queue_full)),
                ("not_taken", count(|counts| &counts.not_taken)),
                ("rejected", count(|counts| &counts.rejected)),
            ]
            .map(|(reason, count)| (vec![("reason", reason.to_owned())], count)),
        ),
    ]
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
