//! What the listeners of all runtimes share.

use super::connection_slots::peer_slots;
use super::counted_since::CountedSince;
use super::start_hold::StartHold;
use super::tls::ListenerTls;
use crate::admission::Uploads;
use crate::admission::batch_streams::BatchStreams;
use crate::config::ServerConfig;
use crate::logs::line_writer::LineWriter;
use crate::logs::slow_requests::SlowRequests;
use crate::metrics::{History, Metrics};
use crate::traces::Traces;
use crate::trust::Trust;
use base::{Clock, Quota};
use cluster::Members;
use node::Node;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tls::NodeTls;

/// What the listeners of all runtimes share: the node behind them, and the quotas
/// for what clients send and receive.
pub(crate) struct ListenerShared {
    config: ServerConfig,
    /// The node behind the listeners.
    pub(crate) node: Arc<Node>,
    /// TLS, where the node speaks it.
    pub(crate) tls: Option<Arc<ListenerTls>>,
    /// The quotas for bodies that are being received, in bytes.
    pub(crate) uploads: Uploads,
    /// Slots for connections of peers that were accepted when those of clients were taken.
    pub(crate) peer_slots: Arc<Quota>,
    /// Quota for long request heads, in bytes.
    pub(crate) heads: Arc<Quota>,
    /// The scans that are streamed. Each holds memory that no quota counts, and lasts as long as
    /// its client reads. Most are short, so one that finds too many waits for a while, and holds
    /// nothing meanwhile: neither memory, nor a permit, nor anything of another node.
    pub(crate) scans: Arc<Quota>,
    /// Quota for the groups of aggregates, in bytes.
    pub(crate) groups: Arc<Quota>,
    /// Quota for the values of up to 64 KiB that batches have read, in bytes.
    pub(crate) batch_answers: Arc<Quota>,
    /// Quota for the operations that batches have read and not answered, in bytes.
    pub(crate) batch_windows: Arc<Quota>,
    /// The chunked batches that run.
    pub(crate) batch_streams: Arc<BatchStreams>,
    /// Who may do what.
    pub(crate) trust: Arc<Trust>,
    /// Logs slow requests, if any are to be logged.
    pub(crate) slow_requests: Option<Arc<SlowRequests>>,
    /// Makes the spans of sampled requests, if there is a collector for them.
    pub(crate) traces: Option<Traces>,
    /// The counters of all listeners.
    pub(crate) metrics: Arc<Metrics>,
    /// What the node did in the last hour.
    pub(crate) history: Arc<History>,
    /// What writes the log, if it is known.
    pub(crate) log: Option<Arc<LineWriter>>,
    /// Holds the first status.
    pub(crate) start_hold: StartHold,
    /// For how long the store has counted.
    pub(crate) counted_since: CountedSince,
    /// Whether the node is stopping.
    is_stopping: AtomicBool,
}

impl ListenerShared {
    /// The shared part of the listeners of a server with this configuration.
    pub(crate) fn new(
        config: ServerConfig,
        node: Arc<Node>,
        trust: Arc<Trust>,
        node_tls: Option<Arc<NodeTls>>,
        log: Option<Arc<LineWriter>>,
        traces: Option<Traces>,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let split = config.memory_split();
        let metrics = Arc::new(Metrics::new(config.threads));
        let seen = Arc::clone(&metrics);
        node.see_clients_by(Box::new(move || seen.clients_seen()));
        let history = Arc::new(History::new(Arc::clone(&metrics), &**clock));
        let (seen, seen_at) = (Arc::clone(&history), Arc::clone(clock));
        node.see_activity_by(Box::new(move || seen.activity(&*seen_at)));
        let tls = config.tls.as_ref().zip(node_tls);
        let slow_requests = config
            .slow_request
            .map(|after| Arc::new(SlowRequests::new(after, config.trust.log_keys)));
        if let Some(slow_requests) = slow_requests.clone() {
            node.see_traced_by(Box::new(move |request| slow_requests.note_traced(request)));
        }
        Self {
            tls: tls.map(|(tls, node_tls)| Arc::new(ListenerTls::new(&config, tls, node_tls))),
            uploads: Uploads::new(
                (split.uploads_short_bytes, split.uploads_long_bytes),
                config.requests_queued_max,
                config.node.timeout,
            ),
            peer_slots: Quota::new(peer_slots(&config.node.members, config.threads)),
            heads: Quota::new(split.heads_bytes),
            scans: Quota::with_line(split.scans_max, config.requests_queued_max),
            groups: Quota::new(split.groups_bytes),
            batch_answers: Quota::new(split.batch_answers_bytes),
            batch_windows: Quota::new(split.batch_windows_bytes),
            batch_streams: BatchStreams::new(split.batch_streams_max),
            trust,
            history,
            start_hold: StartHold::new(clock.monotonic()),
            counted_since: CountedSince::default(),
            is_stopping: AtomicBool::new(false),
            slow_requests,
            traces,
            log,
            metrics,
            node,
            config,
        }
    }

    /// Has what all runtimes share know the nodes of a layout.
    pub(super) fn follow(&self, members: &Members) {
        self.peer_slots
            .resize(peer_slots(members, self.config.threads));
        if let Some(tls) = &self.tls {
            tls.follow(members);
        }
    }

    /// Notes that the node is stopping.
    pub(super) fn begin_to_stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Whether the node is stopping.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// The configuration of the server.
    pub(crate) fn config(&self) -> &ServerConfig {
        &self.config
    }
}
