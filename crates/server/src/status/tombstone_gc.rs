//! The part of the status about tombstone GC and non-owned copies.

use crate::net::ListenerShared;
use api::status::{HeldBackBy, NonOwnedCopies, TombstoneGc};
use base::Timestamp;
use cluster::NodeId;
use node::{GcStatus, HeldBack, NodeSnapshot};

fn held_back_by(why: &HeldBack, name: impl Fn(NodeId) -> String) -> HeldBackBy {
    let of_nodes = |nodes: &[NodeId], what: &str, remedy: &str| {
        let nodes: Vec<String> = nodes.iter().map(|node| name(*node)).collect();
        let text = format!("{what}: {}; {remedy}", nodes.join(", "));
        HeldBackBy { nodes, text }
    };
    let of_none = |text: &str| HeldBackBy {
        nodes: Vec::new(),
        text: text.to_owned(),
    };
    match why {
        HeldBack::Away(nodes) => of_nodes(
            nodes,
            "these nodes did not take part until the end",
            "start, upgrade or replace them",
        ),
        HeldBack::Clocks(nodes) => of_nodes(
            nodes,
            "the clocks of these nodes are wrong, or cannot be verified",
            "see clock in their status",
        ),
        HeldBack::ClosedAhead(nodes) => of_nodes(
            nodes,
            "these nodes refuse writes up to a timestamp from the future, because a clock was \
             ahead",
            "it passes with time; see clock in the status of all nodes",
        ),
        HeldBack::CameBehind(nodes) => of_nodes(
            nodes,
            "reads repaired old versions on these nodes while the repair ran",
            "the next full repair includes them",
        ),
        HeldBack::Unequal(pairs) => {
            let texts = pairs
                .iter()
                .map(|(one, other)| format!("{} and {}", name(*one), name(*other)));
            let texts: Vec<String> = texts.collect();
            let mut nodes: Vec<NodeId> = pairs
                .iter()
                .flat_map(|(one, other)| [*one, *other])
                .collect();
            nodes.sort_unstable();
            nodes.dedup();
            HeldBackBy {
                nodes: nodes.into_iter().map(name).collect(),
                text: format!(
                    "these nodes could not be made equal: {}; look for errors of repairs in their \
                     logs, and in the status for damaged or full stores and learners",
                    texts.join(", ")
                ),
            }
        }
        HeldBack::Moved => of_none(
            "old versions were still moved at the end, because non-owned copies exist; \
             the next full repair shows whether that was all",
        ),
        HeldBack::Interrupted => of_none(
            "a node was restarted or replaced, or found damage in its store; the next full repair \
             starts over",
        ),
    }
}

/// A bound, once there is one.
fn given(bound: Timestamp) -> Option<Timestamp> {
    (bound > Timestamp::ZERO).then_some(bound)
}

/// How old a bound is.
fn age_seconds(snapshot: &NodeSnapshot, bound_unix_ms: u64) -> u64 {
    snapshot.unix_ms.saturating_sub(bound_unix_ms) / 1000
}

pub(super) fn non_owned(snapshot: &NodeSnapshot) -> Option<NonOwnedCopies> {
    let status = snapshot.non_owned?;
    let bound_unix_ms = given(status.below).map(Timestamp::unix_ms);
    Some(NonOwnedCopies {
        copies: status.copies,
        bound_unix_ms,
        age_seconds: bound_unix_ms.map(|bound| age_seconds(snapshot, bound)),
    })
}

/// Why the last full repair that this node led has not raised the bound.
pub(crate) fn held_back(shared: &ListenerShared, status: &GcStatus) -> Option<HeldBackBy> {
    let layout = shared.node.layout();
    let members = layout.members();
    let why = status.held_back.as_ref()?;
    Some(held_back_by(why, |node| members.name(node).to_owned()))
}

pub(super) fn tombstone_gc(shared: &ListenerShared, snapshot: &NodeSnapshot) -> TombstoneGc {
    let status = &snapshot.tombstone_gc;
    let gc_threshold = given(status.gc_threshold);
    let gc_threshold_unix_ms = gc_threshold.map(Timestamp::unix_ms);
    TombstoneGc {
        gc_grace_seconds: shared.config().node.gc_grace.as_secs(),
        gc_threshold: gc_threshold.map(|gc_threshold| gc_threshold.to_string()),
        gc_threshold_unix_ms,
        age_seconds: gc_threshold_unix_ms.map(|bound| age_seconds(snapshot, bound)),
        closed_timestamp_unix_ms: given(status.closed).map(Timestamp::unix_ms),
        held_back: held_back(shared, status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_held_the_bound_back_are_named_once() {
        let node = NodeId::new;
        let name = |node: NodeId| format!("n{}", node.index());
        let of = |why| held_back_by(&why, name);
        for of_nodes in [
            HeldBack::Away,
            HeldBack::Clocks,
            HeldBack::ClosedAhead,
            HeldBack::CameBehind,
        ] {
            let held_back = of(of_nodes(vec![node(2), node(0)]));
            assert_eq!(held_back.nodes, ["n2", "n0"]);
            assert!(held_back.text.contains(": n2, n0; "), "{}", held_back.text);
        }
        let pairs = vec![(node(0), node(2)), (node(1), node(2))];
        let unequal = of(HeldBack::Unequal(pairs));
        assert_eq!(unequal.nodes, ["n0", "n1", "n2"]);
        assert!(
            unequal.text.contains(": n0 and n2, n1 and n2; "),
            "{}",
            unequal.text
        );
        for of_none in [HeldBack::Moved, HeldBack::Interrupted] {
            let held_back = of(of_none);
            assert!(held_back.nodes.is_empty());
            assert!(held_back.text.contains("the next full repair"));
        }
    }
}
