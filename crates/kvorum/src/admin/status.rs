//! `kvorum admin status`.

use super::overview::{Asked, Member, NoStatus, NodeStatus, Overview};
use super::table;
use super::target::{ANSWER_BYTES_MAX, Target, print_json, print_lines};
use crate::access::Access;
use crate::failure::Failure;
use crate::node_client::{NodeRequest, refusal};
use clap::Args;
use cluster::NodeUrl;
use std::thread;
use std::time::Duration;

/// The most nodes of a cluster.
const MEMBERS_MAX: usize = u8::MAX as usize;

/// How long a node may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The options of `admin status`.
#[derive(Args, Clone, Debug)]
pub(super) struct StatusOptions {
    /// Print JSON for programs instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// Prints how the nodes of a cluster are.
///
/// # Errors
/// The node of the options cannot be reached, or is no node; something needs attention.
pub(super) fn run(options: &StatusOptions) -> Result<(), Failure> {
    let (node, access) = options.target.choose()?;
    let first = fetch_target(&node, &access)?;
    let overview = Overview::of(&ask_all(&first, &access));
    if options.json {
        print_json(&overview)?;
    } else {
        print_lines(table::lines(&overview))?;
    }
    verdict(&overview.advice, options.json)
}

/// Fails if there is any advice, so that a script need not read it.
fn verdict(advice: &[String], is_json: bool) -> Result<(), Failure> {
    let what = match advice.len() {
        0 => return Ok(()),
        1 => "something needs attention".to_owned(),
        number => format!("{number} things need attention"),
    };
    Err(Failure::failed(if is_json {
        format!("{what}: see `advice`")
    } else {
        format!("{what}: see each line with !")
    }))
}

/// Asks all nodes of a cluster at the same time.
fn ask_all(first: &NodeStatus, access: &Access) -> Vec<Asked> {
    let status_of = |member: &Member| {
        if member.name == first.name {
            Ok(first.clone())
        } else {
            ask(member, access)
        }
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
    fetch(node, Some("--url"), access)
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
    .map_err(|failure| {
        if failure.is_denied() {
            NoStatus::NotGiven(failure)
        } else {
            NoStatus::Unreachable(failure)
        }
    })?;
    if answer.status != 200 {
        let refusal = refusal(node, answer.status, &answer.body);
        return Err(NoStatus::NotGiven(refusal));
    }
    let other = |problem: &dyn std::fmt::Display| {
        not_given(format!(
            "{node} does not answer as a Kvorum node of this version ({problem}): ask it with the \
             program that it runs"
        ))
    };
    let status: NodeStatus = serde_json::from_slice(&answer.body).map_err(|error| other(&error))?;
    match status.cluster.len() {
        ..=MEMBERS_MAX => Ok(status),
        // Each is asked by a thread of its own.
        members => Err(other(&format!("it names {members} nodes"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_with_advice_is_a_failure() {
        assert_eq!(verdict(&[], false), Ok(()));
        let lines = ["b: start it".to_owned(), "c: start it".to_owned()];
        let one = verdict(&lines[..1], true).unwrap_err();
        assert_eq!(
            one,
            Failure::failed("something needs attention: see `advice`")
        );
        let two = verdict(&lines, false).unwrap_err();
        assert_eq!(two.code(), 1);
        assert_eq!(two.line(), "2 things need attention: see each line with !");
    }
}
