//! Metrics about coordinated requests, hints, the clock and the peers.

use crate::metrics::{
    Cell, ConditionalMetrics, CoordinationMetrics, Family, Labels, LinkMetrics, MISSES, Metrics,
};
use crate::node::Node;
use crate::node_report::NodeSnapshot;
use cluster::{NodeId, ReplicaState};
use peer::{CALLS_MAX, LinkProblem};

/// Selects one of the numbers of a link.
type OfLink = fn(&LinkMetrics) -> &Cell;

/// The metrics about the other nodes.
pub(super) fn families(node: &Node, snapshot: &NodeSnapshot) -> Vec<Family> {
    let mut families = coordination(&node.metrics);
    families.extend(conditional(node));
    families.extend(hints(node));
    families.extend(own(snapshot));
    families.extend(clock(node, snapshot));
    families.extend(peers(node, snapshot));
    families
}

fn coordination(metrics: &Metrics) -> Vec<Family> {
    let sum = |of: fn(&CoordinationMetrics) -> &Cell| {
        metrics.sum(|worker| of(&worker.coordination).get())
    };
    let not_enough = MISSES.iter().enumerate().map(|(number, miss)| {
        let reason = cluster::Fate::Missed(*miss).word();
        let count = metrics.sum(|worker| worker.coordination.not_enough[number].get());
        (vec![("reason", reason.to_owned())], count)
    });
    vec![
        Family::counter(
            "kvorum_timestamp_pushes",
            "Writes that got a second timestamp",
            sum(|counts| &counts.pushes),
        ),
        Family::counter(
            "kvorum_read_repairs",
            "Versions that reads wrote to stale replicas",
            sum(|counts| &counts.repairs),
        ),
        Family::counter(
            "kvorum_hedges",
            "Hedged reads: they asked one more replica because one was slow",
            sum(|counts| &counts.hedges),
        ),
        Family::counter(
            "kvorum_scan_reads",
            "Keys of cluster scans that were read one by one because their replicas differed",
            sum(|counts| &counts.scan_reads),
        ),
        Family::counters(
            "kvorum_not_enough_replicas",
            "Requests that too few replicas answered, by the reason of the first replica that \
             failed outright",
            not_enough,
        ),
    ]
}

fn conditional(node: &Node) -> [Family; 4] {
    let sum = |of: fn(&ConditionalMetrics) -> &Cell| {
        node.metrics.sum(|worker| of(&worker.conditional).get())
    };
    let outcome = |outcome: &str, count| (vec![("outcome", outcome.to_owned())], count);
    [
        Family::counters(
            "kvorum_conditional_writes",
            "Conditional writes, by outcome; unknown ones may have been applied",
            [
                outcome("applied", sum(|counts| &counts.applied)),
                outcome("not_matched", sum(|counts| &counts.not_matched)),
                outcome("not_applied", sum(|counts| &counts.not_applied)),
                outcome("unknown", sum(|counts| &counts.unknown)),
            ],
        ),
        Family::counter(
            "kvorum_conditional_ballots",
            "Ballots of conditional writes: more than one each shows contention",
            sum(|counts| &counts.ballots),
        ),
        Family::counters(
            "kvorum_settled_keys",
            "Keys whose promises were settled because their coordinator was gone, by outcome",
            [
                outcome("settled", sum(|counts| &counts.settled)),
                outcome("failed", sum(|counts| &counts.unsettled)),
            ],
        ),
        Family::gauge(
            "kvorum_promises_kept",
            "Promises of conditional writes that the node's store keeps",
            node.engine.promises_kept() as f64,
        ),
    ]
}

fn hints(node: &Node) -> Vec<Family> {
    let hints = node.hints.statistics();
    let dropped = [
        ("queue", hints.dropped_from_queue),
        ("unwritten", hints.dropped_unwritten),
        ("room", hints.dropped_for_room),
        ("age", hints.dropped_for_age),
        ("obsolete", hints.dropped_obsolete),
        ("damaged", hints.dropped_damaged),
        ("removed", hints.dropped_with_peer),
    ];
    let dropped = dropped.map(|(reason, count)| (vec![("reason", reason.to_owned())], count));
    vec![
        Family::counter("kvorum_hints_kept", "Hints written to the log", hints.kept),
        Family::counter(
            "kvorum_hints_delivered",
            "Hints that their peer stored",
            hints.delivered,
        ),
        Family::counters("kvorum_hints_dropped", "Hints dropped, by reason", dropped),
        Family::gauge(
            "kvorum_hint_max_bytes",
            "Bytes of hints that may wait for all peers together; the oldest are dropped first",
            node.config.hint_bytes_max as f64,
        ),
    ]
}

/// The replica state of this node's store, and what may be lost with stores that are learners.
fn own(snapshot: &NodeSnapshot) -> Vec<Family> {
    let loss = snapshot.loss.as_ref().filter(|report| !report.is_over);
    let loss = loss.map(|report| report.loss).unwrap_or_default();
    let set_aside = snapshot.store.set_aside.versions_max;
    let replica_state = snapshot.replica_state;
    let replica_states = ReplicaState::ALL.map(|each| {
        let holds = f64::from(u8::from(each == replica_state));
        (vec![("state", each.word().to_owned())], holds)
    });
    vec![
        Family::gauges(
            "kvorum_replica_state",
            "State of the node's store: 1 for its current state",
            replica_states,
        ),
        Family::gauge(
            "kvorum_writes_possibly_lost",
            "Acknowledged writes that may be lost, at most, as far as the node knows: with stores that are learners, until they are rebuilt, and those that the node has set aside, until an operator decides",
            loss.writes_max().saturating_add(set_aside) as f64,
        ),
        Family::gauge(
            "kvorum_writes_possibly_lost_unknown",
            "Whether more may be lost with those stores than the node knows",
            f64::from(u8::from(loss.has_unknown)),
        ),
    ]
}

/// This node's clock, and whether it allocates timestamps.
fn clock(node: &Node, snapshot: &NodeSnapshot) -> [Family; 5] {
    let timestamps = &snapshot.timestamps;
    let seconds = |ms: i64| ms as f64 / 1e3;
    [
        Family::gauge(
            "kvorum_clock_behind_seconds",
            "How far the clock is behind the clocks of the other nodes, at the median; 0 while none is known",
            timestamps.peers_ahead_ms.map_or(0.0, seconds),
        ),
        Family::gauge(
            "kvorum_clock_drift_max_seconds",
            "How far the clock may be from the clocks of most other nodes",
            node.config.clock_drift_max.as_secs_f64(),
        ),
        Family::gauge(
            "kvorum_clock_proven",
            "Whether the clock is near the clocks of a majority of the other nodes",
            f64::from(u8::from(timestamps.is_proven)),
        ),
        Family::gauge(
            "kvorum_timestamps_refused",
            "Whether writes are refused because the node allocates no timestamps",
            f64::from(u8::from(timestamps.refusal.is_some())),
        ),
        Family::gauge(
            "kvorum_timestamp_ahead_seconds",
            "How far the greatest timestamp issued or seen is ahead of the clock",
            seconds(i64::try_from(timestamps.timestamp_ahead_ms).unwrap_or(i64::MAX)),
        ),
    ]
}

fn peers(node: &Node, snapshot: &NodeSnapshot) -> Vec<Family> {
    let (layout, metrics) = (node.layout(), &node.metrics);
    let members = layout.members();
    let hints = |peer: NodeId| {
        let waiting = snapshot.hints.get(peer).copied();
        waiting.unwrap_or_default()
    };
    let runtimes = metrics.workers.len().max(1) as f64;
    let labels = |peer: NodeId| -> Labels { vec![("peer", members.name(peer).to_owned())] };
    let and = |mut labels: Labels, name: &'static str, value: &str| -> Labels {
        labels.push((name, value.to_owned()));
        labels
    };
    let sum = |peer: NodeId, of: OfLink| {
        metrics.sum(|runtime| runtime.of_link(peer, of).unwrap_or_default())
    };
    let counts = |of: OfLink| -> Vec<(Labels, u64)> {
        let peers = members.peers();
        peers.map(|peer| (labels(peer), sum(peer, of))).collect()
    };
    let gauges = |of: &dyn Fn(NodeId) -> f64| -> Vec<(Labels, f64)> {
        let peers = members.peers();
        peers.map(|peer| (labels(peer), of(peer))).collect()
    };
    let calls = members.peers().flat_map(|peer| {
        let ends: [(&str, OfLink); 4] = [
            ("answered", |link| &link.answered),
            ("timeout", |link| &link.timeouts),
            ("lost", |link| &link.lost),
            ("overloaded", |link| &link.overloaded),
        ];
        ends.map(|(end, of)| (and(labels(peer), "end", end), sum(peer, of)))
    });
    let bytes = members.peers().flat_map(|peer| {
        let directions: [(&str, OfLink); 2] = [
            ("sent", |link| &link.sent_bytes),
            ("received", |link| &link.received_bytes),
        ];
        directions.map(|(direction, of)| (and(labels(peer), "direction", direction), sum(peer, of)))
    });
    // Each runtime has its own link. A link that is connected knows the replica state.
    let replica_states = members.peers().flat_map(|peer| {
        let links = metrics.workers.iter();
        let known = links.filter_map(|runtime| runtime.of_link(peer, |link| &link.replica_state));
        let known = known.max().unwrap_or(0);
        ReplicaState::ALL.map(|replica_state| {
            let holds = f64::from(u8::from(known == 1 + replica_state as u64));
            (and(labels(peer), "state", replica_state.word()), holds)
        })
    });
    let problems = members.peers().flat_map(|peer| {
        let links = metrics.workers.iter();
        let known = links.filter_map(|runtime| runtime.of_link(peer, |link| &link.problem));
        let known = known.max().unwrap_or(0);
        let words = LinkProblem::WORDS.into_iter().zip(1..);
        let words = words.map(move |(word, number)| (word, f64::from(u8::from(known == number))));
        words
            .map(|(word, holds)| (and(labels(peer), "problem", word), holds))
            .collect::<Vec<_>>()
    });
    let latencies = members.peers().flat_map(|peer| {
        let kinds: [(&str, OfLink); 2] = [
            ("read", |link| &link.read_us),
            ("write", |link| &link.write_us),
        ];
        kinds.map(|(kind, of)| {
            let links = metrics.workers.iter();
            let measured = links.filter_map(|runtime| runtime.of_link(peer, of));
            let seconds = mean_of_known(measured) / 1e6;
            (and(labels(peer), "request", kind), seconds)
        })
    });
    // Each runtime has its own link. The link that sees the clock furthest away counts.
    let clock_ahead = |peer: NodeId| {
        let runtimes = metrics.workers.iter();
        let ahead = runtimes.filter_map(|runtime| {
            let ahead = runtime.of_link(peer, |link| &link.clock_ahead_ms)?;
            Some(ahead.cast_signed())
        });
        ahead.max_by_key(|ahead_ms| ahead_ms.unsigned_abs())
    };
    vec![
        Family::gauges(
            "kvorum_peer_up",
            "The share of the runtimes whose link to a peer is up",
            gauges(&|peer| sum(peer, |link| &link.is_up) as f64 / runtimes),
        ),
        Family::gauges(
            "kvorum_peer_replica_state",
            "State of a peer's store as the peer reports it: 1 for its current state, all 0 while \
             it is not connected",
            replica_states,
        ),
        Family::gauges(
            "kvorum_peer_problem",
            "What keeps this node and a peer apart although they reach each other: 1 for what it \
             is, all 0 if nothing does",
            problems,
        ),
        Family::gauges(
            "kvorum_peer_clock_ahead_seconds",
            "How far a peer's clock is ahead of this node's clock, as far as that is known",
            gauges(&|peer| clock_ahead(peer).unwrap_or_default() as f64 / 1e3),
        ),
        Family::counters("kvorum_peer_calls", "Calls to a peer, by their end", calls),
        Family::counters(
            "kvorum_peer_bytes",
            "Bytes of the requests that this node sent to a peer, and of the answers that it received",
            bytes,
        ),
        Family::gauges(
            "kvorum_peer_calls_in_flight",
            "Calls that wait for a peer",
            gauges(&|peer| sum(peer, |link| &link.in_flight) as f64),
        ),
        Family::gauge(
            "kvorum_peer_calls_in_flight_max",
            "Calls that may wait for a peer; more count as overloaded",
            CALLS_MAX as f64 * runtimes,
        ),
        Family::gauges(
            "kvorum_peer_latency_seconds",
            "How long a peer takes, smoothed",
            latencies,
        ),
        Family::counters(
            "kvorum_peer_connects",
            "Handshakes with a peer",
            counts(|link| &link.connects),
        ),
        Family::counters(
            "kvorum_peer_suspicions",
            "How often a silent peer was suspected",
            counts(|link| &link.suspicions),
        ),
        Family::gauges(
            "kvorum_hints_waiting",
            "Hints that wait for a peer",
            gauges(&|peer| hints(peer).hints as f64),
        ),
        Family::gauges(
            "kvorum_hint_bytes",
            "Bytes of hints that wait for a peer",
            gauges(&|peer| hints(peer).bytes as f64),
        ),
    ]
}

/// The mean of what the links have measured; a link that has measured nothing yet has zero,
/// and does not count.
fn mean_of_known(measured: impl Iterator<Item = u64>) -> f64 {
    let known: Vec<u64> = measured.filter(|value| *value > 0).collect();
    match known.len() {
        0 => 0.0,
        number => known.iter().sum::<u64>() as f64 / number as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_has_measured_nothing_makes_the_others_no_faster() {
        for (measured, mean) in [
            (&[][..], 0.0),
            (&[0, 0], 0.0),
            (&[250, 0], 250.0),
            (&[0, 100, 300], 200.0),
        ] {
            assert_eq!(
                mean_of_known(measured.iter().copied()),
                mean,
                "{measured:?}"
            );
        }
    }
}
