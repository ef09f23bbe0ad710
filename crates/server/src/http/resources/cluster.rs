//! `/v0/cluster`: how each node of the cluster is, as it says itself. Outside admission, so
//! that an operator can inspect an overloaded cluster. The other nodes are asked only when
//! this is, and once a second at most.

use crate::http::exchange::{Answer, Exchange};
use crate::http::page;
use crate::http::query;
use cluster::{Fate, Miss};
use node::ExaminedNode;
use peer::{LatencyQuantiles, NodeReport};
use schemars::JsonSchema;
use serde::Serialize;
use tokens::RequestedKeys;

/// How the nodes of a cluster are.
#[derive(Serialize, JsonSchema)]
pub(super) struct Cluster<'a> {
    /// All nodes, in the order of their names.
    nodes: Vec<ClusterNode<'a>>,
}

/// A node, as it says itself.
#[derive(Serialize, JsonSchema)]
struct ClusterNode<'a> {
    name: &'a str,
    url: String,
    /// Why the node has said nothing; left out if it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [
        "timeout", "suspected", "refused", "unsupported", "overloaded", "failed",
    ]))]
    missed: Option<&'static str>,
    /// What it has said; left out if it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<NodeNumbers>,
}

/// What a node says of itself.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NodeReport")]
struct NodeNumbers {
    /// What the tables and the log of its store take.
    data_bytes: u64,
    /// What the disk of its data folder has left for it; left out if the disk did not tell in
    /// time.
    #[serde(skip_serializing_if = "Option::is_none")]
    free_bytes: Option<u64>,
    /// The writes that it keeps for nodes that missed them.
    hints: u64,
    /// The share of its time that background work may use: 1 unless clients feel it.
    background_share: f64,
    /// Requests for keys and operations of batches that it answered in the last seconds.
    requests_a_second: f64,
    /// How long `GET`s and `HEAD`s of keys took in the last minute; left out if there were
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    reads: Option<Quantiles>,
    /// The same of `PUT`s and `DELETE`s.
    #[serde(skip_serializing_if = "Option::is_none")]
    writes: Option<Quantiles>,
}

/// What a half, 99% and 99.9% of the requests took at most, about.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LatencyQuantiles")]
struct Quantiles {
    p50_us: u64,
    p99_us: u64,
    p999_us: u64,
}

impl From<NodeReport> for NodeNumbers {
    fn from(report: NodeReport) -> Self {
        Self {
            data_bytes: report.data_bytes,
            free_bytes: report.free_bytes,
            hints: report.hints,
            background_share: f64::from(report.background_permille) / 1000.0,
            requests_a_second: report.requests_per_1000_s as f64 / 1000.0,
            reads: report.reads.map(Quantiles::from),
            writes: report.writes.map(Quantiles::from),
        }
    }
}

impl From<LatencyQuantiles> for Quantiles {
    fn from(quantiles: LatencyQuantiles) -> Self {
        let LatencyQuantiles {
            p50_us,
            p99_us,
            p999_us,
        } = quantiles;
        Self {
            p50_us,
            p99_us,
            p999_us,
        }
    }
}

/// `GET` and `HEAD`.
pub(super) async fn answer(exchange: Exchange<'_>) -> Answer {
    query::none(exchange.query())?;
    exchange.authorize(RequestedKeys::NoKey)?;
    exchange.check_body_limit()?;
    let listener = exchange.listener;
    let members = &listener.shared().config().node.members;
    let nodes = listener.worker.examine().await;
    let line = |ExaminedNode { node, report }: &ExaminedNode| ClusterNode {
        name: members.name(*node),
        url: members.url(*node).to_string(),
        missed: report.err().map(word),
        report: report.ok().map(NodeNumbers::from),
    };
    let render = || {
        page::json(&Cluster {
            nodes: nodes.iter().map(line).collect(),
        })
    };
    exchange.render(render).await
}

/// Why a node says nothing. Some reasons are those of requests for keys only.
fn word(why: Miss) -> &'static str {
    match why {
        Miss::Full | Miss::Learner | Miss::Obsolete { .. } => word(Miss::Failed),
        why => Fate::Missed(why).word(),
    }
}
