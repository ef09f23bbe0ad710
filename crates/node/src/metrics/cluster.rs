//! What a node counts of its dealings with the others.

use super::{Cell, Metrics, RuntimeMetrics};
use crate::hints::{HintStatistics, HintsWaiting};
use crate::peer::{LinkState, LinkStatus};
use crate::shared::Shared;
use cluster::Miss;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;

const MISSES: [Miss; 5] = [
    Miss::Timeout,
    Miss::Refused,
    Miss::Overloaded,
    Miss::Full,
    Miss::Failed,
];

/// What one runtime counts of the requests that it coordinates.
#[derive(Default)]
pub(crate) struct CoordinationMetrics {
    /// Writes that were stamped once more.
    pub(crate) restamps: Cell,
    /// Versions that reads wrote to stale replicas.
    pub(crate) repairs: Cell,
    /// Reads that asked one replica more because one was slow.
    pub(crate) hedges: Cell,
    /// Requests that too few replicas answered, by what the first of the others
    /// did that did not just keep it waiting.
    not_enough: [Cell; MISSES.len()],
}

impl CoordinationMetrics {
    /// Counts a request that too few replicas answered.
    pub(crate) fn not_enough(&self, why: Miss) {
        for (miss, cell) in MISSES.iter().zip(&self.not_enough) {
            if *miss == why {
                cell.add(1);
            }
        }
    }
}

/// One runtime's link to a peer, as of the last sweep.
#[derive(Default)]
pub(crate) struct LinkMetrics {
    is_up: Cell,
    in_flight: Cell,
    answered: Cell,
    timeouts: Cell,
    lost: Cell,
    overloaded: Cell,
    connects: Cell,
    suspicions: Cell,
    read_us: Cell,
    write_us: Cell,
}

impl LinkMetrics {
    /// Takes over what the link counts.
    pub(crate) fn publish(&self, status: &LinkStatus) {
        let counts = status.counts;
        self.is_up.set(u64::from(status.state == LinkState::Up));
        self.in_flight.set(status.in_flight as u64);
        self.answered.set(counts.answered);
        self.timeouts.set(counts.timeouts);
        self.lost.set(counts.lost);
        self.overloaded.set(counts.overloaded);
        self.connects.set(counts.connects);
        self.suspicions.set(counts.suspicions);
        for (cell, latency) in [
            (&self.read_us, status.read_latency),
            (&self.write_us, status.write_latency),
        ] {
            let micros = latency.unwrap_or_default().as_micros();
            cell.set(u64::try_from(micros).unwrap_or(u64::MAX));
        }
    }
}

/// The numbers of one scrape.
#[derive(Debug)]
pub(super) struct ClusterSnapshot {
    restamps: u64,
    repairs: u64,
    hedges: u64,
    not_enough: Vec<(&'static str, u64)>,
    hints: HintStatistics,
    peers: Vec<PeerSnapshot>,
}

#[derive(Debug)]
struct PeerSnapshot {
    name: String,
    up: f64,
    in_flight: u64,
    calls: [(&'static str, u64); 4],
    connects: u64,
    suspicions: u64,
    latencies: [(&'static str, f64); 2],
    hints: HintsWaiting,
}

impl ClusterSnapshot {
    pub(super) fn of(metrics: &Metrics, shared: &Shared) -> Self {
        let sum = |of: fn(&CoordinationMetrics) -> &Cell| {
            metrics.sum(|runtime| of(&runtime.coordination).get())
        };
        let not_enough = MISSES.iter().enumerate().map(|(number, miss)| {
            let count = metrics.sum(|runtime| runtime.coordination.not_enough[number].get());
            (cluster::Fate::Missed(*miss).word(), count)
        });
        let members = &shared.config.members;
        let peers = members.peers().map(|node| {
            let link = |of: fn(&LinkMetrics) -> &Cell| {
                metrics.sum(|runtime: &RuntimeMetrics| {
                    runtime
                        .links
                        .get(node.index())
                        .map_or(0, |link| of(link).get())
                })
            };
            let runtimes = metrics.runtimes.len().max(1) as f64;
            let seconds = |micros: u64| micros as f64 / 1e6 / runtimes;
            PeerSnapshot {
                name: members.name(node).to_owned(),
                up: link(|link| &link.is_up) as f64 / runtimes,
                in_flight: link(|link| &link.in_flight),
                calls: [
                    ("answered", link(|link| &link.answered)),
                    ("timeout", link(|link| &link.timeouts)),
                    ("lost", link(|link| &link.lost)),
                    ("overloaded", link(|link| &link.overloaded)),
                ],
                connects: link(|link| &link.connects),
                suspicions: link(|link| &link.suspicions),
                latencies: [
                    ("read", seconds(link(|link| &link.read_us))),
                    ("write", seconds(link(|link| &link.write_us))),
                ],
                hints: shared.hints.waiting(node),
            }
        });
        Self {
            restamps: sum(|counts| &counts.restamps),
            repairs: sum(|counts| &counts.repairs),
            hedges: sum(|counts| &counts.hedges),
            not_enough: not_enough.collect(),
            hints: shared.hints.statistics(),
            peers: peers.collect(),
        }
    }

    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for (name, help, count) in [
            (
                "restamps",
                "Writes that were stamped once more",
                self.restamps,
            ),
            (
                "repairs",
                "Versions that reads wrote to stale replicas",
                self.repairs,
            ),
            ("hedges", "Reads that asked one replica more", self.hedges),
            ("hints_kept", "Hints written to the log", self.hints.kept),
            (
                "hints_delivered",
                "Hints taken by their peer",
                self.hints.delivered,
            ),
        ] {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(count).encode(metric)?;
        }
        let dropped = [
            ("queue", self.hints.dropped_from_queue),
            ("unwritten", self.hints.dropped_unwritten),
            ("room", self.hints.dropped_for_room),
            ("age", self.hints.dropped_for_age),
            ("damaged", self.hints.dropped_damaged),
        ];
        let counts = dropped.map(|(reason, count)| ([("reason", reason)], count));
        encode_counters(
            encoder,
            "hints_dropped",
            "Hints given up, by reason",
            &counts,
        )?;
        let counts: Vec<_> = self
            .not_enough
            .iter()
            .map(|(reason, count)| ([("reason", *reason)], *count))
            .collect();
        encode_counters(
            encoder,
            "not_enough_replicas",
            "Requests that too few replicas answered, by what the first of the others did that did not just keep it waiting",
            &counts,
        )?;
        self.encode_peers(encoder)
    }

    fn encode_peers(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let calls: Vec<_> = self
            .peers
            .iter()
            .flat_map(|peer| {
                let name = peer.name.as_str();
                let calls = peer.calls.iter();
                calls.map(move |(end, count)| ([("peer", name), ("end", *end)], *count))
            })
            .collect();
        encode_counters(
            encoder,
            "peer_calls",
            "Calls to a peer, by their end",
            &calls,
        )?;
        let by_peer = |of: fn(&PeerSnapshot) -> u64| -> Vec<_> {
            let peers = self.peers.iter();
            peers
                .map(|peer| ([("peer", peer.name.as_str())], of(peer)))
                .collect()
        };
        let connects = by_peer(|peer| peer.connects);
        encode_counters(
            encoder,
            "peer_connects",
            "Handshakes with a peer",
            &connects,
        )?;
        let suspicions = by_peer(|peer| peer.suspicions);
        let help = "How often a silent peer was suspected";
        encode_counters(encoder, "peer_suspicions", help, &suspicions)?;
        for (name, help, of) in [
            (
                "peer_up",
                "The share of the runtimes whose link to a peer is up",
                (|peer| peer.up) as fn(&PeerSnapshot) -> f64,
            ),
            (
                "peer_calls_in_flight",
                "Calls that wait for a peer",
                |peer| peer.in_flight as f64,
            ),
            ("hints_waiting", "Hints that wait for a peer", |peer| {
                peer.hints.hints as f64
            }),
            (
                "hint_bytes",
                "Bytes of hints that wait for a peer",
                |peer| peer.hints.bytes as f64,
            ),
        ] {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for peer in &self.peers {
                let labels = [("peer", peer.name.as_str())];
                ConstGauge::new(of(peer)).encode(family.encode_family(&labels)?)?;
            }
        }
        let mut family = encoder.encode_descriptor(
            "peer_latency_seconds",
            "How long a peer takes, smoothed",
            None,
            MetricType::Gauge,
        )?;
        for peer in &self.peers {
            for (request, seconds) in &peer.latencies {
                let labels = [("peer", peer.name.as_str()), ("request", *request)];
                ConstGauge::new(*seconds).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

fn encode_counters<const LABELS: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    counts: &[([(&str, &str); LABELS], u64)],
) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, count) in counts {
        ConstCounter::new(*count).encode(family.encode_family(labels)?)?;
    }
    Ok(())
}
