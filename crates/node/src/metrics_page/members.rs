//! Metrics about the list of members and a change of it.

use crate::metrics::{Family, Labels};
use crate::node::Node;
use cluster::layout::Phase;
use repair::session::RepairStatus;

const PHASES: [Phase; 4] = [
    Phase::Stable,
    Phase::Copying,
    Phase::Settling,
    Phase::Aborting,
];

/// What this node knows of the list.
pub(super) fn families(node: &Node, status: &RepairStatus) -> [Family; 5] {
    let layout = node.layout();
    let members = layout.members();
    let changes = node.member_changes().status();
    let label = |name, value: &str| -> Labels { vec![(name, value.to_owned())] };
    let phases = PHASES.map(|phase| {
        let holds = f64::from(u8::from(phase == layout.phase()));
        (label("phase", phase.word()), holds)
    });
    let reported = members.ids().map(|id| {
        let report = changes.reported.get(id).copied().unwrap_or_default();
        (
            label("peer", members.name(id)),
            report.epoch.as_u64() as f64,
        )
    });
    let missing = changes.waits_for().map_or(0, |waits| waits.facts.len());
    [
        Family::gauge(
            "kvorum_members_epoch",
            "Epoch of the list of members that is in force on this node",
            layout.epoch().as_u64() as f64,
        ),
        Family::gauges(
            "kvorum_members_phase",
            "How far a change of the members is: 1 for the current phase, which is stable without one",
            phases,
        ),
        Family::gauges(
            "kvorum_members_reported_epoch",
            "The last epoch that each member has reported to this node, itself included",
            reported,
        ),
        Family::gauge(
            "kvorum_members_facts_missing",
            "Pairs of a node that gains keys and an old member whose data it has yet to be brought, in a change",
            missing as f64,
        ),
        Family::counter(
            "kvorum_members_moved_bytes",
            "Bytes of keys and values that repair sessions have brought to this node in changes of the members",
            status.counts.moved_bytes,
        ),
    ]
}
