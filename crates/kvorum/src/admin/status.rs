//! `kvorum admin status`.

use super::overview::Overview;
use super::table;
use super::target::{ANSWER_BYTES_MAX, Target, print_json, print_lines};
use crate::access::Access;
use crate::failure::Failure;
use crate::node_client::{NodeRequest, refusal};
use api::cluster::{Advice, Cluster, Severity};
use clap::Args;
use cluster::NodeUrl;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// The most nodes of a cluster.
const MEMBERS_MAX: usize = u8::MAX as usize;

/// How long a node may take to answer: it asks the others.
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
    let cluster: Cluster = fetch(&node, "/v0/cluster", &access)?;
    let overview = Overview::of(&cluster);
    if options.json {
        print_json(&overview)?;
    } else {
        print_lines(table::lines(&overview))?;
    }
    verdict(&overview.advice, options.json)
}

/// Fails if there is anything to do, so that a script need not read it.
fn verdict(advice: &[Advice], is_json: bool) -> Result<(), Failure> {
    let to_do = advice
        .iter()
        .filter(|advice| advice.severity != Severity::Note);
    let what = match to_do.count() {
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

/// A node of a cluster, as far as one has to know it to ask it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) url: String,
}

/// What is used of a status.
#[derive(Deserialize)]
struct MembersPage {
    cluster: Vec<Member>,
}

/// All nodes of the cluster of the node that the user has named.
///
/// # Errors
/// The node cannot be reached, or is no node.
pub(super) fn members(node: &NodeUrl, access: &Access) -> Result<Vec<Member>, Failure> {
    let MembersPage { cluster } = fetch(node, "/v0/status", access)?;
    match cluster.len() {
        ..=MEMBERS_MAX => Ok(cluster),
        // Each is asked by a thread of its own.
        members => Err(is_other(node, &format!("it names {members} nodes"))),
    }
}

fn fetch<T: DeserializeOwned>(node: &NodeUrl, path: &str, access: &Access) -> Result<T, Failure> {
    let answer = NodeRequest {
        node,
        access,
        option: Some("--url"),
        method: "GET",
        target: path,
        headers: &[],
        time_max: ANSWER_MAX,
        answer_bytes_max: ANSWER_BYTES_MAX,
    }
    .send()?;
    if answer.status != 200 {
        return Err(refusal(node, answer.status, &answer.body));
    }
    serde_json::from_slice(&answer.body).map_err(|error| is_other(node, &error))
}

fn is_other(node: &NodeUrl, problem: &dyn std::fmt::Display) -> Failure {
    Failure::failed(format!(
        "{node} does not answer as a Kvorum node of this version ({problem}): ask it with the \
         program that it runs"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_with_advice_is_a_failure() {
        assert_eq!(verdict(&[], false), Ok(()));
        let advice = [Severity::Note, Severity::Bad, Severity::Warn].map(|severity| Advice {
            severity,
            node: None,
            what: String::new(),
            remedy: String::new(),
            runbook: String::new(),
        });
        assert_eq!(
            verdict(&advice[..1], false),
            Ok(()),
            "nothing is to be done"
        );
        let one = verdict(&advice[..2], true).unwrap_err();
        assert_eq!(
            one,
            Failure::failed("something needs attention: see `advice`")
        );
        let two = verdict(&advice, false).unwrap_err();
        assert_eq!(two.code(), 1);
        assert_eq!(two.line(), "2 things need attention: see each line with !");
    }
}
