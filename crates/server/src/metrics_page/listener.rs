//! The present load of a node and its limits: each limit stands beside what it limits.

use crate::net::ListenerShared;
use node::metrics::Family;

/// The gauges of the listeners and of the node's load.
pub(super) fn families(shared: &ListenerShared) -> Vec<Family> {
    let metrics = &shared.metrics;
    let config = shared.config();
    let load = shared.node.load();
    let split = config.memory_split();
    [
        (
            ("kvorum_connections", "Open connections"),
            metrics.sum(|listener| listener.connections.get()) as usize,
            (
                "kvorum_connections_max",
                "Maximum of open connections; more wait to be accepted, or may only be a peer's",
            ),
            config.connections_max,
        ),
        (
            ("kvorum_requests_in_flight", "Requests that are running"),
            metrics.sum(|listener| listener.in_flight.get()) as usize,
            (
                "kvorum_requests_in_flight_max",
                "Maximum of running requests; more wait",
            ),
            config.requests_in_flight_max,
        ),
        (
            ("kvorum_requests_queued", "Requests that are waiting to run"),
            metrics.sum(|listener| listener.queued.get()) as usize,
            (
                "kvorum_requests_queued_max",
                "Maximum of waiting requests; more are refused at once",
            ),
            config.requests_queued_max,
        ),
        (
            ("kvorum_reads_queued", "Reads that wait for a thread"),
            load.reads_queued,
            (
                "kvorum_reads_queued_max",
                "Reads that may wait for a thread; more are refused",
            ),
            config.node.read_queue,
        ),
        (
            ("kvorum_upload_bytes", "Bytes of bodies being received"),
            shared.uploads.used(),
            (
                "kvorum_upload_max_bytes",
                "Maximum of bytes of bodies being received",
            ),
            split
                .uploads_short_bytes
                .saturating_add(split.uploads_long_bytes),
        ),
        (
            (
                "kvorum_peer_request_bytes",
                "Bytes of other nodes' requests that run",
            ),
            load.peer_request_bytes,
            (
                "kvorum_peer_request_max_bytes",
                "Bytes of other nodes' requests that may run at a time",
            ),
            split.node.peer_bytes,
        ),
        (
            (
                "kvorum_answer_bytes",
                "Bytes of long values that are being sent",
            ),
            load.answer_bytes,
            (
                "kvorum_answer_max_bytes",
                "Bytes of long values that may be sent at a time",
            ),
            split.node.answers_bytes,
        ),
        (
            (
                "kvorum_batch_answer_bytes",
                "Bytes of short values that batches have read and not sent",
            ),
            shared.batch_answers.used(),
            (
                "kvorum_batch_answer_max_bytes",
                "Bytes of short values that batches may have read and not sent",
            ),
            split.batch_answers_bytes,
        ),
        (
            (
                "kvorum_batch_window_bytes",
                "Bytes of operations that batches have read and not answered, beyond 16 KiB of \
                 each batch",
            ),
            shared.batch_windows.used(),
            (
                "kvorum_batch_window_max_bytes",
                "Bytes of operations that batches may have read and not answered, beyond 16 KiB \
                 of each batch",
            ),
            split.batch_windows_bytes,
        ),
        (
            ("kvorum_batch_streams", "Chunked batches that are running"),
            shared.batch_streams.used(),
            (
                "kvorum_batch_streams_max",
                "Maximum of running chunked batches; more are refused",
            ),
            split.batch_streams_max,
        ),
        (
            (
                "kvorum_head_bytes",
                "Bytes of heads of requests, beyond 8 KiB of each",
            ),
            shared.heads.used(),
            (
                "kvorum_head_max_bytes",
                "Bytes of heads that may be held, beyond 8 KiB of each",
            ),
            split.heads_bytes,
        ),
        (
            (
                "kvorum_unsent_bytes",
                "Bytes of short answers that their clients have not read",
            ),
            metrics.sum(|listener| listener.unsent.get()) as usize,
            (
                "kvorum_unsent_max_bytes",
                "Maximum of bytes of unread short answers; beyond it the oldest connection is \
                 closed",
            ),
            split.unsent_bytes,
        ),
        (
            (
                "kvorum_scan_bytes",
                "Bytes of the batches of scans that are being sent",
            ),
            load.scan_bytes,
            (
                "kvorum_scan_max_bytes",
                "Maximum of bytes of the batches of scans that are being sent",
            ),
            split.node.scans_bytes,
        ),
        (
            (
                "kvorum_scans_queued",
                "Scans that are waiting to be streamed",
            ),
            shared.scans.waiting(),
            (
                "kvorum_scans_queued_max",
                "Maximum of scans that wait to be streamed; more are refused",
            ),
            shared.scans.waiting_max(),
        ),
        (
            ("kvorum_scans", "Scans that are being streamed"),
            shared.scans.used(),
            (
                "kvorum_scans_max",
                "Maximum of scans that are streamed at a time; more wait",
            ),
            split.scans_max,
        ),
    ]
    .into_iter()
    .flat_map(|((name, help), used, (name_max, help_max), max)| {
        [
            Family::gauge(name, help, used as f64),
            Family::gauge(name_max, help_max, max as f64),
        ]
    })
    .collect()
}
