//! What all nodes of a cluster have reported, with the advice on it.

use super::advice;
use api::cluster::{Cluster, ClusterNode, Quantiles, ReportNumbers};
use api::status::Status;
use cluster::{Fate, Members, Miss};
use node::ExaminedNode;
use peer::{LatencyQuantiles, NodeReport};

/// What the nodes have said, and what to do about it.
pub(crate) fn cluster(members: &Members, examined: &[ExaminedNode]) -> Cluster {
    let node = |ExaminedNode { node, report }: &ExaminedNode| ClusterNode {
        name: members.name(*node).to_owned(),
        url: members.url(*node).to_string(),
        missed: report.as_ref().err().map(|why| word(*why).to_owned()),
        report: report.as_ref().ok().map(numbers),
        // One that cannot be read is that of another release. A node speaks only for itself.
        status: report
            .as_ref()
            .ok()
            .and_then(|report| serde_json::from_slice::<Status>(&report.status).ok())
            .filter(|status| status.name == members.name(*node)),
    };
    let nodes: Vec<ClusterNode> = examined.iter().map(node).collect();
    Cluster {
        asked_by: members.name(members.own()).to_owned(),
        advice: advice::of(members.name(members.own()), &nodes),
        nodes,
    }
}

fn numbers(report: &NodeReport) -> ReportNumbers {
    ReportNumbers {
        data_bytes: report.data_bytes,
        free_bytes: report.free_bytes,
        hints: report.hints,
        background_share: f64::from(report.background_permille) / 1000.0,
        requests_a_second: report.requests_per_1000_s as f64 / 1000.0,
        reads: report.reads.map(quantiles),
        writes: report.writes.map(quantiles),
    }
}

fn quantiles(quantiles: LatencyQuantiles) -> Quantiles {
    let LatencyQuantiles {
        p50_us,
        p99_us,
        p999_us,
    } = quantiles;
    Quantiles {
        p50_us,
        p99_us,
        p999_us,
    }
}

/// Why a node says nothing. Some reasons are those of requests for keys only.
fn word(why: Miss) -> &'static str {
    match why {
        Miss::Full | Miss::Learner | Miss::Obsolete { .. } => word(Miss::Failed),
        why => Fate::Missed(why).word(),
    }
}
