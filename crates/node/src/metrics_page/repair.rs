//! Metrics about repair.

use crate::metrics::{Cell, Family, Labels, LinkMetrics};
use crate::node::Node;
use cluster::comparison::RepairKind;
use repair::session::{EndedSessions, LastEqual, RepairStatus};

/// What this node knows of repair.
pub(super) fn families(node: &Node, status: &RepairStatus) -> [Family; 13] {
    let layout = node.layout();
    let members = layout.members();
    let label = |name, value: &str| -> Labels { vec![(name, value.to_owned())] };
    let of_kind = |kind: RepairKind| status.ended[kind as usize];
    let ended = RepairKind::ALL.into_iter().flat_map(|kind| {
        let EndedSessions {
            equal, incomplete, ..
        } = of_kind(kind);
        [("succeeded", equal), ("incomplete", incomplete)].map(|(outcome, count)| {
            let mut labels = label("kind", kind.word());
            labels.push(("outcome", outcome.to_owned()));
            (labels, count)
        })
    });
    let durations = RepairKind::ALL.map(|kind| {
        let seconds = of_kind(kind).last_duration.as_secs_f64();
        (label("kind", kind.word()), seconds)
    });
    let running = RepairKind::ALL.map(|kind| {
        let running = status.running.iter().filter(|session| session.kind == kind);
        (label("kind", kind.word()), running.count() as f64)
    });
    let last_equal = |of: fn(&LastEqual) -> Option<u64>| {
        members.peers().map(move |peer| {
            let equal = status.last_equal.get(peer).and_then(of);
            let seconds = equal.map_or(0.0, |unix_ms| unix_ms as f64 / 1e3);
            (label("peer", members.name(peer)), seconds)
        })
    };
    let counts = status.counts;
    let bytes = |of: fn(&LinkMetrics) -> &Cell| node.metrics.sum(|worker| worker.sum_of_links(of));
    [
        Family::counters(
            "kvorum_repair_sessions",
            "Repair sessions that ended: succeeded if this node was equal with every other node, \
             else incomplete",
            ended,
        ),
        Family::gauges(
            "kvorum_repair_sessions_running",
            "Repair sessions that this node takes part in",
            running,
        ),
        Family::gauges(
            "kvorum_repair_session_last_duration_seconds",
            "Duration of the last repair session that ended; 0 before the first",
            durations,
        ),
        Family::gauges(
            "kvorum_repair_last_success_timestamp_seconds",
            "When a repair session last found this node equal with a peer; 0 if none ever did",
            last_equal(|equal| equal.any_unix_ms),
        ),
        Family::gauges(
            "kvorum_repair_last_full_success_timestamp_seconds",
            "When a full repair session last found this node equal with a peer; 0 if none ever did",
            last_equal(|equal| equal.full_unix_ms),
        ),
        Family::counter(
            "kvorum_repair_requests",
            "Requests of repairs that this node answered",
            counts.requests,
        ),
        Family::counters(
            "kvorum_repair_writes",
            "Versions that repairs sent to nodes that lacked them",
            [
                (label("direction", "sent"), counts.repair_writes_sent),
                (
                    label("direction", "received"),
                    counts.repair_writes_received,
                ),
            ],
        ),
        Family::counters(
            "kvorum_repair_ranges",
            "Ranges that this node compared with each other node, and those that differed",
            [
                (label("result", "compared"), counts.ranges_compared),
                (label("result", "differing"), counts.ranges_differing),
            ],
        ),
        Family::counters(
            "kvorum_repair_bytes",
            "Bytes of repair requests, repair writes included, that this node sent to peers, and \
             of their answers",
            [
                (
                    label("direction", "sent"),
                    bytes(|link| &link.repair_sent_bytes),
                ),
                (
                    label("direction", "received"),
                    bytes(|link| &link.repair_received_bytes),
                ),
            ],
        ),
        Family::counter(
            "kvorum_rebuild_received_keys",
            "Keys that rebuilds streamed to this node",
            counts.streamed_keys_received,
        ),
        Family::counter(
            "kvorum_rebuild_received_bytes",
            "Bytes of keys and values that rebuilds streamed to this node",
            counts.streamed_bytes_received,
        ),
        Family::gauge(
            "kvorum_rebuild_ratio",
            "Progress of the rebuild of this node's store, from 0 to 1; 0 while there is none",
            status
                .rebuild
                .map_or(0.0, |rebuild| f64::from(rebuild.position_permille) / 1e3),
        ),
        Family::counter(
            "kvorum_repair_non_owned_offered",
            "Non-owned copies, and versions with fewer copies than an older one, that were sent \
             to replicas that lacked them",
            counts.non_owned_offered,
        ),
    ]
}
