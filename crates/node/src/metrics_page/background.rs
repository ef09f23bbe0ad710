//! Metrics about the budget of background work.

use crate::metrics::{Family, Labels};
use crate::node::Node;
use replica::background::WorkKind;
use std::time::Duration;

/// The state of the budget, what it is derived from, and what it did.
pub(super) fn families(node: &Node) -> [Family; 7] {
    let status = node.background.status();
    let now_and_normal = |(now, normal): (Duration, Duration)| {
        [("now", now), ("normal", normal)].map(|(value, time)| {
            let labels: Labels = vec![("value", value.to_owned())];
            (labels, time.as_secs_f64())
        })
    };
    let of_kinds = |of: fn((Duration, Duration)) -> Duration| {
        WorkKind::ALL.map(|kind| {
            let labels: Labels = vec![("kind", kind.word().to_owned())];
            (labels, of(node.background.times(kind)).as_secs_f64())
        })
    };
    [
        Family::gauge(
            "kvorum_background_share",
            "Share of the time that each kind of background work may run",
            status.share,
        ),
        Family::gauges(
            "kvorum_background_floor",
            "Share of the time that a kind of background work may always run; raised while it is \
             overdue",
            WorkKind::ALL.map(|kind| {
                let labels: Labels = vec![("kind", kind.word().to_owned())];
                (labels, node.background.floor(kind))
            }),
        ),
        Family::gauges(
            "kvorum_background_queueing_delay_seconds",
            "How long a task of a runtime waits for its turn: now, and normally",
            now_and_normal(status.queueing_delay),
        ),
        Family::gauges(
            "kvorum_background_request_tail_seconds",
            "99th percentile of the latency of client requests for keys: in the last window, and \
             normally",
            now_and_normal(status.latency),
        ),
        Family::gauge(
            "kvorum_background_runtimes_busy",
            "Share of their time that the runtimes were busy",
            status.busy,
        ),
        Family::seconds_counters(
            "kvorum_background_work_seconds",
            "Time that background work ran, by kind",
            of_kinds(|(worked, _)| worked),
        ),
        Family::seconds_counters(
            "kvorum_background_rest_seconds",
            "Time that background work paused to spare clients, by kind",
            of_kinds(|(_, rested)| rested),
        ),
    ]
}
