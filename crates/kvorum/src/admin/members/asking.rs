//! Asks a node about the list of members.

use crate::access::Access;
use crate::admin::target::ANSWER_BYTES_MAX;
use crate::failure::Failure;
use crate::node_client::{NodeRequest, refusal};
use api::members::MemberList;
use client::SingleResponse;
use cluster::NodeUrl;
use serde::Deserialize;
use std::time::Duration;

/// How long a node may take to plan a change, or to have its first list decided.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// What of `/v0/cluster` is shown.
#[derive(Debug, Deserialize)]
struct ClusterPage {
    members: Option<MemberList>,
}

/// What a node has said of its list.
pub(super) enum ListAnswer {
    /// The list.
    List(Box<MemberList>),
    /// It refuses the question, and will do so when it is asked again.
    Refused(Failure),
    /// It has said nothing, or that it cannot say it now.
    Silent(Failure),
}

/// Asks a node for its list.
pub(super) fn ask_list(node: &NodeUrl, access: &Access) -> ListAnswer {
    let answer = match ask(node, access, "GET", "/v0/cluster") {
        Ok(answer) => answer,
        Err(failure) if failure.is_denied() => return ListAnswer::Refused(failure),
        Err(failure) => return ListAnswer::Silent(failure),
    };
    let refused = |status| refusal(node, status, &answer.body);
    match answer.status {
        200 => {}
        status @ 400..=499 => return ListAnswer::Refused(refused(status)),
        status => return ListAnswer::Silent(refused(status)),
    }
    match parse::<ClusterPage>(node, &answer.body) {
        Ok(ClusterPage {
            members: Some(list),
        }) => ListAnswer::List(Box::new(list)),
        Ok(ClusterPage { members: None }) => ListAnswer::Silent(Failure::failed(format!(
            "{node} has no list of members: it is a node alone, or the nodes of its cluster have \
             not all met yet. Start all of them, and try again"
        ))),
        Err(failure) => ListAnswer::Refused(failure),
    }
}

/// The list of a node.
///
/// # Errors
/// The node does not answer, refuses, or has no list.
pub(super) fn fetch_list(node: &NodeUrl, access: &Access) -> Result<MemberList, Failure> {
    match ask_list(node, access) {
        ListAnswer::List(list) => Ok(*list),
        ListAnswer::Refused(failure) | ListAnswer::Silent(failure) => Err(failure),
    }
}

/// Sends a request without a body.
///
/// # Errors
/// The node cannot be reached.
pub(super) fn ask(
    node: &NodeUrl,
    access: &Access,
    method: &str,
    target: &str,
) -> Result<SingleResponse, Failure> {
    let request = NodeRequest {
        node,
        access,
        is_named: true,
        method,
        target,
        headers: &[("Content-Type", "application/json")],
        time_max: ANSWER_MAX,
        answer_bytes_max: ANSWER_BYTES_MAX,
    };
    request.send()
}

/// The JSON of an answer.
///
/// # Errors
/// It is none.
pub(super) fn parse<T: for<'de> Deserialize<'de>>(
    node: &NodeUrl,
    body: &[u8],
) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|error| {
        Failure::failed(format!("{node} does not answer as a Kvorum node: {error}"))
    })
}
