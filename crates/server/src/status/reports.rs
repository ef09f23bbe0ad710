//! What all nodes of a cluster have reported, with the advice on it.

use super::members::MemberNumbers;
use super::{advice, members as member_list};
use api::cluster::{Cluster, ClusterNode, Quantiles, ReportNumbers};
use api::history::History;
use api::status::Status;
use cluster::{Fate, Members, Miss, NodeId};
use node::{ChangesStatus, ExaminedNode};
use peer::{LatencyQuantiles, NodeReport, REPORT_STATUS_BYTES_MAX, ReportedStatus};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How many samples of what it did lately a node tells the others: those of five minutes.
pub(super) const RECENT_SAMPLES: usize = 30;

/// What a node tells the others of itself beside the numbers of its report.
#[derive(Deserialize, Serialize)]
pub(super) struct Account {
    status: Status,
    /// Left out where both would be too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    recent: Option<History>,
}

impl Account {
    pub(super) fn new(status: Status, recent: History) -> Self {
        Self {
            status,
            recent: Some(recent),
        }
    }

    /// As it travels. In a cluster of very many nodes the status alone is long.
    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        // Strings and numbers always have a JSON form.
        let bytes = serde_json::to_vec(&self).unwrap_or_default();
        if bytes.len() <= REPORT_STATUS_BYTES_MAX {
            return bytes;
        }
        self.recent = None;
        serde_json::to_vec(&self).unwrap_or_default()
    }
}

/// What the nodes have said, and what to do about it.
pub(crate) fn cluster(
    members: &Members,
    examined: &[ExaminedNode],
    changes: &ChangesStatus,
) -> Cluster {
    let node = |ExaminedNode { node, report }: &ExaminedNode| {
        let name = members.name(*node);
        let told = report.as_ref().map(|report| told(report, name));
        let status_missed = told
            .as_ref()
            .ok()
            .and_then(|told| Some(told.as_ref().err()?.to_string()));
        let (status, recent) = told
            .ok()
            .and_then(Result::ok)
            .map_or((None, None), |told| (Some(told.status), told.recent));
        ClusterNode {
            name: name.to_owned(),
            url: members
                .url(*node)
                .map(ToString::to_string)
                .unwrap_or_default(),
            missed: report.as_ref().err().map(|why| word(*why).to_owned()),
            report: report.as_ref().ok().map(numbers),
            status_missed,
            status,
            recent,
        }
    };
    // What is known may be a second old, and a node has left since.
    let members_only = examined
        .iter()
        .filter(|one| members.url(one.node).is_some());
    let nodes: Vec<ClusterNode> = members_only.map(node).collect();
    let list = member_list::list(changes);
    Cluster {
        asked_by: members.own_name().to_owned(),
        advice: advice::of(members.own_name(), &nodes, list.as_ref()),
        nodes,
        members: list,
    }
}

/// The numbers that the plan of a change of the members needs, of the nodes that have said them.
pub(crate) fn numbers_of(examined: &[ExaminedNode]) -> BTreeMap<NodeId, MemberNumbers> {
    let said = examined.iter().filter_map(|examined| {
        let report = examined.report.as_ref().ok()?;
        let numbers = MemberNumbers {
            data_bytes: report.data_bytes,
            free_bytes: report.free_bytes,
            disk_bytes: report.disk_bytes,
            background_share: f64::from(report.background_permille) / 1000.0,
        };
        Some((examined.node, numbers))
    });
    said.collect()
}

/// What a node says of itself, or why that is of no use.
fn told(report: &NodeReport, name: &str) -> Result<Account, &'static str> {
    let bytes = match &report.status {
        ReportedStatus::Told(bytes) => bytes,
        ReportedStatus::TooLong => return Err(ClusterNode::STATUS_TOO_LONG),
        ReportedStatus::Untold => return Err(ClusterNode::STATUS_OF_OTHER_RELEASE),
    };
    // One that cannot be read is that of another release.
    let account: Account = serde_json::from_slice(bytes)
        .map_err(|_unreadable| ClusterNode::STATUS_OF_OTHER_RELEASE)?;
    // A node speaks only for itself.
    if account.status.name != name {
        return Err(ClusterNode::STATUS_OF_OTHER_NAME);
    }
    Ok(account)
}

fn numbers(report: &NodeReport) -> ReportNumbers {
    ReportNumbers {
        data_bytes: report.data_bytes,
        free_bytes: report.free_bytes,
        disk_bytes: report.disk_bytes,
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
        Miss::Full | Miss::Learner | Miss::Undecided | Miss::Obsolete { .. } => word(Miss::Failed),
        why => Fate::Missed(why).word(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::advice::tests::well;
    use bytes::Bytes;
    use cluster::Member;

    fn report(status: ReportedStatus) -> NodeReport {
        NodeReport {
            data_bytes: 0,
            free_bytes: None,
            hints: 0,
            requests_per_1000_s: 0,
            background_permille: 1000,
            reads: None,
            writes: None,
            status,
            disk_bytes: None,
        }
    }

    #[test]
    fn a_node_that_has_left_since_is_not_shown() {
        let own = Member::named("a", "http://a:1".parse().unwrap()).unwrap();
        let members = Members::single_node(own);
        let [a, left] = [0, 7].map(|id| ExaminedNode {
            node: NodeId::new(id),
            report: Ok(report(ReportedStatus::Untold)),
        });
        let changes = ChangesStatus {
            own: NodeId::new(0),
            list: None,
            is_removed: false,
            reported: cluster::NodeTable::default(),
            up: cluster::NodeSet::default(),
            progress: cluster::layout::ChangeProgress::Stable,
            waiting: Vec::new(),
        };
        let shown = cluster(&members, &[a, left], &changes);
        let names: Vec<_> = shown.nodes.iter().map(|node| &*node.name).collect();
        assert_eq!(names, ["a"]);
        assert!(!format!("{:?}", shown.advice).contains(Members::NO_NAME));
    }

    #[test]
    fn a_node_speaks_only_for_itself_and_what_is_missing_has_its_reason() {
        let of_b = {
            let status = well("b", &["a", "b"]);
            ReportedStatus::Told(serde_json::json!({"status": status}).to_string().into())
        };
        let garbage = ReportedStatus::Told(Bytes::from_static(b"{}"));
        for (status, missed) in [
            (of_b.clone(), None),
            (garbage, Some("other release")),
            (ReportedStatus::Untold, Some("other release")),
            (ReportedStatus::TooLong, Some("too long")),
        ] {
            let told = told(&report(status), "b");
            assert_eq!(told.as_ref().err().copied(), missed);
            assert!(told.is_ok_and(|account| account.status.name == "b") == missed.is_none());
        }
        let under_another = told(&report(of_b), "a");
        assert_eq!(under_another.err(), Some("other name"));
    }
}
