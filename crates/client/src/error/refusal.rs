//! Refusals: answers that are problems.

use api::Problem;
use std::fmt;
use std::time::Duration;

/// The longest problem that is read, in bytes: far above any receipt.
pub(crate) const PROBLEM_BYTES_MAX: u64 = 1 << 20;

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
    /// The entity tag in the head: on `412` that of the value that the key has.
    pub etag: Option<String>,
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
        // What it has begun, it does not refuse: it may still be done.
        let says = match status {
            500 | 502 | 504 => "answers",
            _ => "refuses",
        };
        write!(f, "{node} {says}: {}", problem.detail)?;
        if !problem.replicas.is_empty() {
            write!(f, " ({})", problem.receipt(node))?;
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
            etag: None,
            retry_after: None,
        }
    }

    #[test]
    fn a_refusal_is_one_line_with_its_receipt() {
        let body = br#"{"type":"urn:kvorum:problem:not-enough-replicas","status":504,
            "detail":"too few","timestamp":"7","replicas":[{"url":"http://h:1","outcome":"stored"},
            {"url":"http://h:2","outcome":"timeout"}]}"#;
        let refused = refusal(504, body);
        assert_eq!(
            refused.to_string(),
            "http://h:1 answers: too few (http://h:1 stored, http://h:2 timeout)"
        );
        let busy = refusal(503, br#"{"detail":"busy"}"#);
        assert_eq!(busy.to_string(), "http://h:1 refuses: busy");
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
