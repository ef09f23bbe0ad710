//! Problems (RFC 9457): what a node says when it refuses or fails, and the receipt in it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The longest problem that is read, in bytes: far above any receipt.
pub(crate) const PROBLEM_BYTES_MAX: u64 = 1 << 20;

/// A problem, as far as it helps a client.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct Problem {
    /// A URN that ends in the problem's name.
    pub r#type: String,
    /// The status.
    pub status: u16,
    /// What happened, with which values, and what to do.
    pub detail: String,
    /// The query parameter that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// The line of a batch that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The version that a write would have had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// What became of the request at each replica.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<ReplicaOutcome>,
}

/// What became of a request at a replica.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct ReplicaOutcome {
    /// The URL of the replica.
    pub url: String,
    /// One word: `stored`, `timeout`, `suspected`, …
    pub outcome: String,
}

impl Problem {
    /// The problem in a body; nothing in it is known if the body is none.
    pub(crate) fn parse(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }

    /// The last part of the type: `bad-parameter`.
    pub fn name(&self) -> &str {
        self.r#type.rsplit(':').next().unwrap_or_default()
    }

    /// The detail of a line of a batch, whose number there means nothing to the caller.
    pub(crate) fn detail_of_line(&self) -> String {
        let number = self.line.map(|line| format!("line {line} "));
        let rest = number.and_then(|number| self.detail.strip_prefix(&number));
        rest.map_or_else(|| self.detail.clone(), |rest| format!("it {rest}"))
    }

    /// The receipt as words: `http://a:1 stored, http://b:1 timeout`. Empty without one.
    pub fn receipt(&self) -> String {
        let lines = self.replicas.iter();
        let lines = lines.map(|line| format!("{} {}", line.url, line.outcome));
        lines.collect::<Vec<_>>().join(", ")
    }
}

/// An answer with another status than success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The URL of the node.
    pub node: String,
    /// The status.
    pub status: u16,
    /// What the body says.
    pub problem: Problem,
    /// The version in the head: on `404` that of the version that deleted the key.
    pub version: Option<String>,
    /// After how long the node asks to try again.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            node,
            status,
            problem,
            ..
        } = self;
        // No success is a refusal, whatever its body says.
        if *status < 400 || problem.detail.is_empty() {
            return write!(f, "{node} answers {status}: it may not be a Kvorum node");
        }
        write!(f, "{node} refuses: {}", problem.detail)?;
        if !problem.replicas.is_empty() {
            write!(f, " ({})", problem.receipt())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, body: &[u8]) -> Refusal {
        Refusal {
            node: "http://h:1".to_owned(),
            status,
            problem: Problem::parse(body),
            version: None,
            retry_after: None,
        }
    }

    #[test]
    fn a_refusal_is_one_line_with_its_receipt() {
        let body = br#"{"type":"urn:kvorum:problem:not-enough-replicas","status":504,
            "detail":"too few","timestamp":"7","replicas":[{"url":"http://h:1","outcome":"stored"},
            {"url":"http://h:2","outcome":"timeout"}]}"#;
        let refused = refusal(504, body);
        assert_eq!(refused.problem.name(), "not-enough-replicas");
        assert_eq!(refused.problem.timestamp.as_deref(), Some("7"));
        assert_eq!(
            refused.to_string(),
            "http://h:1 refuses: too few (http://h:1 stored, http://h:2 timeout)"
        );
        let mut line = refusal(400, br#"{"line":3,"detail":"line 3 is wrong: line 3"}"#).problem;
        assert_eq!(line.detail_of_line(), "it is wrong: line 3");
        line.line = Some(4);
        assert_eq!(line.detail_of_line(), "line 3 is wrong: line 3");
        for (status, body) in [
            (404, &b"<html>"[..]),
            (302, b""),
            (200, br#"{"detail":"done"}"#),
        ] {
            assert_eq!(
                refusal(status, body).to_string(),
                format!("http://h:1 answers {status}: it may not be a Kvorum node")
            );
        }
    }
}
