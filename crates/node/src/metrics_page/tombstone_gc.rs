//! Metrics about tombstone GC.

use crate::metrics::{Family, Labels};
use crate::node::Node;
use crate::node_report::NodeSnapshot;
use base::Timestamp;
use cluster::NodeId;
use repair::store::HeldBack;

/// The GC threshold, who holds it back, and the threshold for non-owned copies.
pub(super) fn families(node: &Node, snapshot: &NodeSnapshot) -> [Family; 5] {
    let status = &snapshot.tombstone_gc;
    let seconds = |bound: Timestamp| {
        if bound > Timestamp::ZERO {
            bound.unix_ms() as f64 / 1e3
        } else {
            0.0
        }
    };
    let non_owned_below = snapshot
        .non_owned
        .map_or(Timestamp::ZERO, |non_owned| non_owned.below);
    let holds_back = |member: NodeId| match &status.held_back {
        Some(
            HeldBack::Away(nodes)
            | HeldBack::Clocks(nodes)
            | HeldBack::ClosedAhead(nodes)
            | HeldBack::CameBehind(nodes),
        ) => nodes.contains(&member),
        Some(HeldBack::Unequal(pairs)) => {
            let mut pairs = pairs.iter();
            pairs.any(|(one, other)| *one == member || *other == member)
        }
        Some(HeldBack::Moved | HeldBack::Interrupted) | None => false,
    };
    let layout = node.layout();
    let members = layout.members();
    let held_back = members.ids().map(|member| {
        let labels: Labels = vec![("peer", members.name(member).to_owned())];
        (labels, f64::from(u8::from(holds_back(member))))
    });
    [
        Family::gauge(
            "kvorum_gc_threshold_timestamp_seconds",
            "The GC threshold: what was deleted before it is dropped; 0 before the first",
            seconds(status.gc_threshold),
        ),
        Family::gauge(
            "kvorum_gc_grace_seconds",
            "Least age of the GC threshold",
            node.config.gc_grace.as_secs_f64(),
        ),
        Family::gauges(
            "kvorum_gc_held_back",
            "1 for each node that kept the GC threshold from rising in the last full repair session that this node led",
            held_back,
        ),
        Family::counter(
            "kvorum_gc_voided_by_read_repairs",
            "Full repair sessions that a read repair of an old version has kept from raising the GC threshold",
            status.voided_by_read_repairs,
        ),
        Family::gauge(
            "kvorum_non_owned_gc_threshold_timestamp_seconds",
            "Non-owned values that are older than this are dropped; 0 while none are",
            seconds(non_owned_below),
        ),
    ]
}
