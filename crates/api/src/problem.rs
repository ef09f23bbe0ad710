//! Problems (RFC 9457): what a node answers when it refuses or fails, and the receipt in it.

use crate::problem_type::ProblemType;
use serde::{Deserialize, Serialize};

/// After how many seconds a client may repeat a request that was answered with `503`
/// (`Retry-After`).
pub const RETRY_AFTER_SECONDS: u16 = 1;

/// The outcome of a conditional write that has not happened and never will.
pub const NOT_APPLIED: &str = "not-applied";

/// The outcome of a conditional write that may have happened, or may happen later.
pub const UNKNOWN: &str = "unknown";

/// A problem. What is unknown or does not apply is empty.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct Problem {
    /// A URN that ends in the name of the [`ProblemType`].
    pub r#type: String,
    /// What problems of this type are called.
    pub title: String,
    /// The status.
    pub status: u16,
    /// What happened, with which values, and what to do.
    pub detail: String,
    /// The query parameter, or the field of the body, to correct.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// The methods of the resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<String>,
    /// The trace that the request is part of (`traceparent`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The number of the line in a batch, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// What is known of a conditional write: [`NOT_APPLIED`] or [`UNKNOWN`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The version that a write was given: a decimal number as a string, because many JSON
    /// readers round long numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// What became of the request at each replica of the key, in their order.
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
    /// A problem of a type, and what happened.
    #[must_use]
    pub fn new(problem_type: &ProblemType, detail: &str) -> Self {
        Self {
            r#type: problem_type.urn(),
            title: problem_type.title.to_owned(),
            status: problem_type.status,
            detail: detail.to_owned(),
            ..Self::default()
        }
    }

    /// Whether it says that a conditional write has not happened and never will.
    #[must_use]
    pub fn is_not_applied(&self) -> bool {
        self.outcome.as_deref() == Some(NOT_APPLIED)
    }

    /// The problem in a body. If the body is not a problem document, all fields are empty.
    #[must_use]
    pub fn parse(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }

    /// The problem as JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        // Strings and numbers always have a JSON form.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The last part of the type: `bad-parameter`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.r#type.rsplit(':').next().unwrap_or_default()
    }

    /// Whether the problem is of a type.
    #[must_use]
    pub fn is(&self, problem_type: &ProblemType) -> bool {
        self.name() == problem_type.name
    }

    /// The detail of a line of a batch, whose number there means nothing to the caller.
    #[must_use]
    pub fn detail_of_line(&self) -> String {
        let number = self.line.map(|line| format!("line {line} "));
        let rest = number.and_then(|number| self.detail.strip_prefix(&number));
        rest.map_or_else(|| self.detail.clone(), |rest| format!("it {rest}"))
    }

    /// The receipt as words: `http://a:1 stored, http://b:1 timeout`. Empty without one. `asked` is
    /// the URL of the node that gave it.
    #[must_use]
    pub fn receipt(&self, asked: &str) -> String {
        let lines = self.replicas.iter().map(|line| {
            let ReplicaOutcome { url, outcome } = line;
            let own = if url == asked && outcome == "unanswered" {
                " (the node that was asked, whose own part was still under way)"
            } else {
                ""
            };
            format!("{url} {outcome}{own}")
        });
        lines.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem_type::{BAD_LINE, NOT_ENOUGH_REPLICAS};

    #[test]
    fn a_problem_is_read_as_it_was_written() {
        let mut written = Problem::new(&NOT_ENOUGH_REPLICAS, "too few");
        written.timestamp = Some("7".to_owned());
        for (url, outcome) in [("http://h:1", "stored"), ("http://h:2", "timeout")] {
            written.replicas.push(ReplicaOutcome {
                url: url.to_owned(),
                outcome: outcome.to_owned(),
            });
        }
        let read = Problem::parse(&written.to_json());
        assert_eq!(read, written);
        assert!(read.is(&NOT_ENOUGH_REPLICAS) && !read.is(&BAD_LINE));
        let receipt = "http://h:1 stored, http://h:2 timeout";
        assert_eq!(read.receipt("http://h:1"), receipt);
        written.replicas[0].outcome = "unanswered".to_owned();
        assert_eq!(
            written.receipt("http://h:2"),
            "http://h:1 unanswered, http://h:2 timeout"
        );
        let own = written.receipt("http://h:1");
        assert!(own.contains("unanswered (the node that was asked"), "{own}");
        assert_eq!(Problem::parse(b"<html>"), Problem::default());
    }

    #[test]
    fn the_detail_of_a_line_leaves_its_number_out() {
        let mut problem = Problem::new(&BAD_LINE, "line 3 is wrong: line 3");
        problem.line = Some(3);
        assert_eq!(problem.detail_of_line(), "it is wrong: line 3");
        problem.line = Some(4);
        assert_eq!(problem.detail_of_line(), "line 3 is wrong: line 3");
    }
}
