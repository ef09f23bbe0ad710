//! `kvorum admin status`.

use super::overview::{Asked, Member, NoStatus, NodeStatus, Overview};
use super::{ANSWER_BYTES_MAX, StatusOptions, print, print_json, table};
use crate::access::Access;
use crate::failure::Failure;
use crate::node_client::{NodeRequest, refusal};
use cluster::NodeUrl;
use std::thread;
use std::time::Duration;

/// How long a node may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Prints how the nodes of a cluster are.
///
/// # Errors
/// The node of the options cannot be reached, or is no node.
pub(super) fn run(options: &StatusOptions) -> Result<(), Failure> {
    let access = options.target.access()?;
    let first = fetch_target(&options.target.url, &access)?;
    let overview = Overview::of(&ask_all(&first, &access));
    if options.json {
        return print_json(&overview);
    }
    print(&table::text(&overview))
}

/// Asks all nodes of a cluster at the same time.
fn ask_all(first: &NodeStatus, access: &Access) -> Vec<Asked> {
    let status_of = |member: &Member| match member.name == first.name {
        true => Ok(first.clone()),
        false => ask(member, access),
    };
    thread::scope(|scope| {
        let asked: Vec<_> = first
            .cluster
            .iter()
            .map(|member| (member, scope.spawn(|| status_of(member))))
            .collect();
        let asked = asked.into_iter().map(|(member, answer)| Asked {
            name: member.name.clone(),
            url: member.url.clone(),
            status: answer
                .join()
                .unwrap_or_else(|_| Err(not_given("asking it ended in a panic"))),
        });
        asked.collect()
    })
}

fn ask(member: &Member, access: &Access) -> Result<NodeStatus, NoStatus> {
    let url: NodeUrl = member
        .url
        .parse()
        .map_err(|error| not_given(format!("its URL {} is wrong: {error}", member.url)))?;
    fetch(&url, None, access)
}

fn not_given(problem: impl Into<String>) -> NoStatus {
    NoStatus::NotGiven(Failure::failed(problem))
}

/// The status of the node that the user has named.
///
/// # Errors
/// The node cannot be reached, or is no node.
pub(super) fn fetch_target(node: &NodeUrl, access: &Access) -> Result<NodeStatus, NoStatus> {
    fetch(node, Some("--target"), access)
}

fn fetch(node: &NodeUrl, option: Option<&str>, access: &Access) -> Result<NodeStatus, NoStatus> {
    let answer = NodeRequest {
        node,
        access,
        option,
        method: "GET",
        target: "/v0/status",
        headers: &[],
        time_max: ANSWER_MAX,
        answer_bytes_max: ANSWER_BYTES_MAX,
    }
    .send()
    .map_err(|failure| match failure.is_denied() {
        true => NoStatus::NotGiven(failure),
        false => NoStatus::Unreachable(failure),
    })?;
    if answer.status != 200 {
        let refusal = refusal(node, answer.status, &answer.body);
        return Err(NoStatus::NotGiven(refusal));
    }
    serde_json::from_slice(&answer.body).map_err(|error| {
        not_given(format!(
            "{node} does not answer as a Kvorum node of this version ({error}): ask it with the \
             program that it runs"
        ))
    })
}
