//! Metrics about sweeps.

use crate::metrics::{Cell, Family, Labels, LinkMetrics, WorkerMetrics};
use crate::node::Node;
use crate::sweep::{EndedPasses, LastClean};
use cluster::sweep::PassKind;

/// What this node knows of sweeps.
pub(super) fn families(node: &Node) -> [Family; 14] {
    let status = node.sweep_status();
    let label = |name, value: &str| -> Labels { vec![(name, value.to_owned())] };
    let of_kind = |kind: PassKind| status.ended[kind as usize];
    let ended = PassKind::ALL.into_iter().flat_map(|kind| {
        let EndedPasses {
            clean, incomplete, ..
        } = of_kind(kind);
        [("clean", clean), ("incomplete", incomplete)].map(|(outcome, count)| {
            let mut labels = label("kind", kind.word());
            labels.push(("outcome", outcome.to_owned()));
            (labels, count)
        })
    });
    let durations = PassKind::ALL.map(|kind| {
        let seconds = of_kind(kind).last_duration.as_secs_f64();
        (label("kind", kind.word()), seconds)
    });
    let running = PassKind::ALL.map(|kind| {
        let running = status.running.iter().filter(|pass| pass.kind == kind);
        (label("kind", kind.word()), running.count() as f64)
    });
    let last_clean = |of: fn(&LastClean) -> Option<u64>| {
        let (peers, status) = (node.config.members.peers(), &status);
        peers.map(move |peer| {
            let clean = status.last_clean.get(peer.index()).and_then(of);
            let seconds = clean.map_or(0.0, |unix_ms| unix_ms as f64 / 1e3);
            (label("peer", node.config.members.name(peer)), seconds)
        })
    };
    let counts = status.counts;
    let surplus = counts.surplus_announced;
    let bytes = |of: fn(&LinkMetrics) -> &Cell| {
        let links = |worker: &WorkerMetrics| worker.links.iter().map(|link| of(link).get()).sum();
        node.metrics.sum(links)
    };
    [
        Family::counters(
            "kvorum_sweeps",
            "Passes that ended: clean if this node is equal with every other node, else incomplete",
            ended,
        ),
        Family::gauges(
            "kvorum_sweeps_running",
            "Passes that this node takes part in",
            running,
        ),
        Family::gauges(
            "kvorum_sweep_last_duration_seconds",
            "How long the last pass that ended took; 0 before the first",
            durations,
        ),
        Family::gauges(
            "kvorum_sweep_last_clean_timestamp_seconds",
            "When a pass last found this node equal with a peer; 0 if none ever did",
            last_clean(|clean| clean.any_unix_ms),
        ),
        Family::gauges(
            "kvorum_sweep_last_full_clean_timestamp_seconds",
            "When a full pass last found this node equal with a peer; 0 if none ever did",
            last_clean(|clean| clean.full_unix_ms),
        ),
        Family::counter(
            "kvorum_sweep_requests",
            "Requests of sweeps that this node answered",
            counts.requests,
        ),
        Family::counters(
            "kvorum_sweep_mends",
            "Versions that sweeps sent to a node that lacked them",
            [
                (label("direction", "sent"), counts.mends_sent),
                (label("direction", "received"), counts.mends_received),
            ],
        ),
        Family::counters(
            "kvorum_sweep_ranges",
            "Ranges that this node compared, and those in which it differed, once for each other node",
            [
                (label("result", "compared"), counts.ranges_compared),
                (label("result", "differing"), counts.ranges_differing),
            ],
        ),
        Family::counters(
            "kvorum_sweep_bytes",
            "Bytes of the requests of sweeps that this node sent to peers, mends included, and of the answers that it received",
            [
                (
                    label("direction", "sent"),
                    bytes(|link| &link.sweep_sent_bytes),
                ),
                (
                    label("direction", "received"),
                    bytes(|link| &link.sweep_received_bytes),
                ),
            ],
        ),
        Family::counter(
            "kvorum_refill_received_keys",
            "Keys whose newest versions sweeps brought to this node in bulk",
            counts.bulk_keys_received,
        ),
        Family::counter(
            "kvorum_refill_received_bytes",
            "Bytes of keys and values that sweeps brought to this node in bulk",
            counts.bulk_bytes_received,
        ),
        Family::gauge(
            "kvorum_refill_ratio",
            "How far the pass has come that fills this node's store in bulk; 0 while there is none",
            status
                .refill
                .map_or(0.0, |refill| f64::from(refill.position_permille) / 1e3),
        ),
        Family::counter(
            "kvorum_sweep_surplus_announced",
            "Surplus copies, and versions of fewer copies than an older one, that were sent where they were lacking",
            surplus,
        ),
        Family::counter(
            "kvorum_sweep_leftovers_buried",
            "Versions that this node deleted because the others had forgotten that they were deleted",
            counts.leftovers_buried,
        ),
    ]
}
