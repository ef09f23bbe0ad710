//! What a node counts of its dealings with the others.

use crate::metrics::{Cell, CoordinationMetrics, Family, Labels, LinkMetrics, MISSES, Metrics};
use crate::node::Node;
use cluster::{NodeNumber, Standing};
use peer::CALLS_MAX;

/// One of the numbers of a link.
type OfLink = fn(&LinkMetrics) -> &Cell;

/// What the node counts of the requests that it coordinates, of its hints and
/// of its peers.
pub(super) fn families(metrics: &Metrics, shared: &Node) -> Vec<Family> {
    let mut families = coordination(metrics);
    families.extend(hints(shared));
    families.extend(own(shared));
    families.extend(clock(shared));
    families.extend(peers(metrics, shared));
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
            "kvorum_restamps",
            "Writes that were stamped once more",
            sum(|counts| &counts.restamps),
        ),
        Family::counter(
            "kvorum_repairs",
            "Versions that reads wrote to stale replicas",
            sum(|counts| &counts.repairs),
        ),
        Family::counter(
            "kvorum_hedges",
            "Reads that asked one replica more",
            sum(|counts| &counts.hedges),
        ),
        Family::counters(
            "kvorum_not_enough_replicas",
            "Requests that too few replicas answered, by what the first of the others did that did not just keep it waiting",
            not_enough,
        ),
    ]
}

fn hints(shared: &Node) -> Vec<Family> {
    let hints = shared.hints.statistics();
    let dropped = [
        ("queue", hints.dropped_from_queue),
        ("unwritten", hints.dropped_unwritten),
        ("room", hints.dropped_for_room),
        ("age", hints.dropped_for_age),
        ("damaged", hints.dropped_damaged),
    ];
    let dropped = dropped.map(|(reason, count)| (vec![("reason", reason.to_owned())], count));
    vec![
        Family::counter("kvorum_hints_kept", "Hints written to the log", hints.kept),
        Family::counter(
            "kvorum_hints_delivered",
            "Hints taken by their peer",
            hints.delivered,
        ),
        Family::counters("kvorum_hints_dropped", "Hints given up, by reason", dropped),
        Family::gauge(
            "kvorum_hint_max_bytes",
            "Bytes of hints that may wait for all peers together; the oldest go first",
            shared.config.hint_bytes_max as f64,
        ),
    ]
}

/// What the node is in its cluster.
fn own(shared: &Node) -> Vec<Family> {
    let standing = shared.membership.standing();
    let standings = Standing::ALL.map(|each| {
        let holds = f64::from(u8::from(each == standing));
        (vec![("standing", each.word().to_owned())], holds)
    });
    vec![Family::gauges(
        "kvorum_standing",
        "How the node's store stands with its peers: 1 for what it is",
        standings,
    )]
}

/// This node's clock, and whether writes get a stamp from it.
fn clock(shared: &Node) -> [Family; 5] {
    let stamping = shared.stamping.status();
    let seconds = |ms: i64| ms as f64 / 1e3;
    [
        Family::gauge(
            "kvorum_clock_behind_seconds",
            "How far the clock is behind those of the other nodes that were heard from, at the median; 0 while none was",
            stamping.peers_ahead_ms.map_or(0.0, seconds),
        ),
        Family::gauge(
            "kvorum_clock_drift_max_seconds",
            "How far the clock may be from those of most other nodes",
            shared.config.clock_drift_max.as_secs_f64(),
        ),
        Family::gauge(
            "kvorum_clock_proven",
            "Whether the clock is near those of a majority of the other nodes",
            f64::from(u8::from(stamping.is_proven)),
        ),
        Family::gauge(
            "kvorum_stamps_refused",
            "Whether writes are refused because the clock gives them no timestamp",
            f64::from(u8::from(stamping.refusal.is_some())),
        ),
        Family::gauge(
            "kvorum_stamp_ahead_seconds",
            "How far the greatest timestamp given or seen is ahead of the clock",
            seconds(i64::try_from(stamping.stamp_ahead_ms).unwrap_or(i64::MAX)),
        ),
    ]
}

fn peers(metrics: &Metrics, shared: &Node) -> Vec<Family> {
    let members = &shared.config.members;
    let runtimes = metrics.workers.len().max(1) as f64;
    let labels = |node: NodeNumber| -> Labels { vec![("peer", members.name(node).to_owned())] };
    let and = |mut labels: Labels, name: &'static str, value: &str| -> Labels {
        labels.push((name, value.to_owned()));
        labels
    };
    let sum = |node: NodeNumber, of: OfLink| {
        metrics.sum(|runtime| {
            let link = runtime.links.get(node.index());
            link.map_or(0, |link| of(link).get())
        })
    };
    let counts = |of: OfLink| -> Vec<(Labels, u64)> {
        let peers = members.peers();
        peers.map(|node| (labels(node), sum(node, of))).collect()
    };
    let gauges = |of: &dyn Fn(NodeNumber) -> f64| -> Vec<(Labels, f64)> {
        let peers = members.peers();
        peers.map(|node| (labels(node), of(node))).collect()
    };
    let calls = members.peers().flat_map(|node| {
        let ends: [(&str, OfLink); 4] = [
            ("answered", |link| &link.answered),
            ("timeout", |link| &link.timeouts),
            ("lost", |link| &link.lost),
            ("overloaded", |link| &link.overloaded),
        ];
        ends.map(|(end, of)| (and(labels(node), "end", end), sum(node, of)))
    });
    // Of the runtimes' links, one that is connected knows.
    let standings = members.peers().flat_map(|node| {
        let links = metrics.workers.iter();
        let told =
            links.filter_map(|runtime| Some(runtime.links.get(node.index())?.standing.get()));
        let told = told.max().unwrap_or(0);
        Standing::ALL.map(|standing| {
            let holds = f64::from(u8::from(told == 1 + standing as u64));
            (and(labels(node), "standing", standing.word()), holds)
        })
    });
    let latencies = members.peers().flat_map(|node| {
        let kinds: [(&str, OfLink); 2] = [
            ("read", |link| &link.read_us),
            ("write", |link| &link.write_us),
        ];
        kinds.map(|(kind, of)| {
            let seconds = sum(node, of) as f64 / 1e6 / runtimes;
            (and(labels(node), "request", kind), seconds)
        })
    });
    // Of the runtimes, each of which has its own link, the one that sees the
    // clock furthest away.
    let clock_ahead = |node: NodeNumber| {
        let runtimes = metrics.workers.iter();
        let ahead = runtimes.filter_map(|runtime| {
            let link = runtime.links.get(node.index())?;
            Some(link.clock_ahead_ms.get().cast_signed())
        });
        ahead.max_by_key(|ahead_ms| ahead_ms.unsigned_abs())
    };
    vec![
        Family::gauges(
            "kvorum_peer_up",
            "The share of the runtimes whose link to a peer is up",
            gauges(&|node| sum(node, |link| &link.is_up) as f64 / runtimes),
        ),
        Family::gauges(
            "kvorum_peer_standing",
            "How a peer says that its store stands: 1 for what it is, all 0 while it is not connected",
            standings,
        ),
        Family::gauges(
            "kvorum_peer_clock_ahead_seconds",
            "How far a peer's clock is ahead of this node's, as far as that is known",
            gauges(&|node| clock_ahead(node).unwrap_or_default() as f64 / 1e3),
        ),
        Family::counters("kvorum_peer_calls", "Calls to a peer, by their end", calls),
        Family::gauges(
            "kvorum_peer_calls_in_flight",
            "Calls that wait for a peer",
            gauges(&|node| sum(node, |link| &link.in_flight) as f64),
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
            gauges(&|node| shared.hints.waiting(node).hints as f64),
        ),
        Family::gauges(
            "kvorum_hint_bytes",
            "Bytes of hints that wait for a peer",
            gauges(&|node| shared.hints.waiting(node).bytes as f64),
        ),
    ]
}
