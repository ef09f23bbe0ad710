//! The node that an operator's command asks, and what it writes to stdout.

use crate::access::{Access, AccessOptions};
use crate::failure::Failure;
use crate::node_client::{NodeRequest, refusal};
use crate::stdout::print;
use crate::values::url;
use clap::Args;
use cluster::NodeUrl;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use std::io::{self, BufRead};
use std::time::Duration;

/// What has a meaning in a query.
const NOT_PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Text or bytes as a value in a query.
pub(super) fn query_form(value: &(impl AsRef<[u8]> + ?Sized)) -> String {
    percent_encode(value.as_ref(), NOT_PLAIN).to_string()
}

/// The longest response that is read, in bytes: far above any status.
pub(super) const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// How long one of several nodes may take to say that it is there.
const LIVE_MAX: Duration = Duration::from_secs(5);

/// The nodes that may be asked.
#[derive(Args, Clone, Debug)]
pub(super) struct Target {
    /// A node of the cluster. Of several, with commas or with the option repeated, the first that answers is asked [default: KVORUM_URL, or http://127.0.0.1:8080]
    #[arg(long = "url", value_parser = url, value_name = "URL", value_delimiter = ',', help_heading = "Nodes")]
    urls: Vec<NodeUrl>,
    #[command(flatten)]
    access: AccessOptions,
}

impl Target {
    /// The node to ask, and how to ask nodes: the only one that is named, or the first that answers.
    ///
    /// # Errors
    /// Those of [`AccessOptions::reach`]; several nodes are named, and none of them answers.
    pub(super) fn choose(&self) -> Result<(NodeUrl, Access), Failure> {
        let (mut nodes, access) = self.access.reach(&self.urls)?;
        if nodes.len() == 1 {
            return Ok((nodes.swap_remove(0), access));
        }
        let mut failures = Vec::new();
        for node in &nodes {
            match check_live(node, &access) {
                Ok(()) => return Ok((node.clone(), access)),
                Err(failure) => failures.push((node.to_string(), failure)),
            }
        }
        Err(none_answers(&failures))
    }
}

/// Checks that a node answers.
fn check_live(node: &NodeUrl, access: &Access) -> Result<(), Failure> {
    let asked = NodeRequest {
        node,
        access,
        is_named: false,
        method: "GET",
        target: "/health/live",
        headers: &[],
        time_max: LIVE_MAX,
        answer_bytes_max: ANSWER_BYTES_MAX,
    };
    let answer = asked.send()?;
    match answer.status {
        200 => Ok(()),
        status => Err(refusal(node, status, &answer.body)),
    }
}

/// The failure of all nodes as one, which says of each why.
fn none_answers(failures: &[(String, Failure)]) -> Failure {
    let lines = failures
        .iter()
        .map(|(node, failure)| (&**node, failure.line()));
    let line = format!(
        "none of {} nodes answers: {}; start one, or name others with --url, KVORUM_URL or a context",
        failures.len(),
        client::reasons(lines)
    );
    // What is wrong with all of them is not that they are down.
    if failures.iter().all(|(_, failure)| failure.is_denied()) {
        Failure::denied(line)
    } else {
        Failure::failed(line)
    }
}

/// Asks on the terminal. The answer has to be `yes`.
pub(super) fn is_confirmed(question: &str) -> Result<bool, Failure> {
    is_written(question, "yes")
}

/// Asks a question, and whether the answer is this text, which stands for what is left or lost.
///
/// # Errors
/// As [`is_confirmed`].
pub(super) fn is_written(question: &str, text: &str) -> Result<bool, Failure> {
    print(&format!("{question} Write {text} to go on: "))?;
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::failed(format!("cannot read the answer: {error}")))?;
    Ok(answer.trim() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_that_does_not_answer_is_named_with_its_reason() {
        let of = |node: &str, failure| (node.to_owned(), failure);
        let down = |node: &str| of(node, Failure::failed(format!("{node} refuses connections")));
        let distrusted = |node: &str| of(node, Failure::denied(format!("{node} has expired")));
        let one = none_answers(&[
            down("http://a:1"),
            distrusted("https://b:1"),
            down("http://c:1"),
        ]);
        assert_eq!(one.code(), 1);
        let text = "none of 3 nodes answers: http://a:1 refuses connections; the same of \
                    http://c:1; https://b:1 has expired; start one, or name others with --url, \
                    KVORUM_URL or a context";
        assert_eq!(one.line(), text);
        let all = none_answers(&[distrusted("https://a:1"), distrusted("https://b:1")]);
        assert!(all.is_denied(), "{all:?}");
    }
}
