//! Why a request failed, and what the caller can do; `refusal`: an answer that is a problem.

pub(crate) mod refusal;

use api::problem_type::{BAD_PARAMETER, TLS_REQUIRED};
use refusal::Refusal;
use std::path::PathBuf;
use std::time::Duration;
use tls::HandshakeFailure;

/// Why a request did not succeed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// There is no connection to the node, so nothing was sent.
    #[error("{}", unreachable_text(node, problem.as_deref()))]
    Unreachable {
        /// The URL of the node.
        node: String,
        /// What the system says; `None` if the node refuses connections.
        problem: Option<String>,
    },
    /// The node and this client could not agree on a TLS connection, so nothing was sent.
    #[error("cannot connect to {node} securely: {problem}")]
    Distrusted {
        /// The URL of the node.
        node: String,
        /// Why.
        failure: HandshakeFailure,
        /// Why, in words, and what to do.
        problem: String,
    },
    /// The file that holds the client's token cannot be read, so nothing was sent.
    #[error("cannot read a token from {}: {problem}", path.display())]
    NoToken {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// The node took the connection, and then nothing moved for some time.
    #[error(
        "{node} takes connections but has not answered within {} s: it is frozen or overloaded",
        waited.as_secs_f64()
    )]
    Silent {
        /// The URL of the node.
        node: String,
        /// How long nothing moved.
        waited: Duration,
    },
    /// The connection ended before the answer was complete.
    #[error("{node} closed the connection before its response was complete: see the node's log")]
    Cut {
        /// The URL of the node.
        node: String,
    },
    /// What came is no answer as a node gives it.
    #[error(
        "{node} does not answer as a Kvorum node does ({problem}): it may not be a Kvorum node"
    )]
    OtherServer {
        /// The URL of the node.
        node: String,
        /// What is wrong.
        problem: String,
    },
    /// The answer is longer than it may be.
    #[error("the answer of {node} is longer than {bytes_max} bytes: it may not be a Kvorum node")]
    TooLong {
        /// The URL of the node.
        node: String,
        /// The bound, in bytes.
        bytes_max: u64,
    },
    /// The node answered with another status than success.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// A stream came to its end and is not what the node says it sent.
    #[error("the answer of {node} arrived damaged: {problem}; try again")]
    Damaged {
        /// The URL of the node.
        node: String,
        /// What does not fit.
        problem: String,
    },
    /// Each node failed, each in its way.
    #[error("no node could serve the request: {}", joined(.0))]
    AllFailed(Vec<Error>),
}

fn unreachable_text(node: &str, problem: Option<&str>) -> String {
    match problem {
        None => format!("{node} refuses connections: start the node, or name another one"),
        Some(problem) => format!("cannot reach {node}: {problem}"),
    }
}

fn joined(errors: &[Error]) -> String {
    let texts: Vec<(&str, String)> = errors
        .iter()
        .map(|error| (error.node(), error.to_string()))
        .collect();
    reasons(texts.iter().map(|(node, text)| (*node, text.as_str())))
}

/// What is said of each of several nodes, as one text. Each node comes with a text that names it;
/// what is the same of several nodes is said once.
pub fn reasons<'a>(texts: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut groups: Vec<(String, &str, Vec<&str>)> = Vec::new();
    for (node, text) in texts {
        let without_node = text.replace(node, "");
        match groups.iter_mut().find(|(same, ..)| *same == without_node) {
            Some((.., others)) if !node.is_empty() => others.push(node),
            _ => groups.push((without_node, text, Vec::new())),
        }
    }
    let said = groups
        .into_iter()
        .map(|(_, text, others)| match others.as_slice() {
            [] => text.to_owned(),
            others => format!("{text}; the same of {}", others.join(", ")),
        });
    said.collect::<Vec<_>>().join("; ")
}

/// What is known of a request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The node did nothing; another one may do it.
    NotDone,
    /// It may have been done, may be still under way, or be cut short.
    Unknown,
    /// It would fail at any node.
    Final,
}

/// What a caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The request itself is wrong: correct it.
    Correct,
    /// Too few nodes, or none, can serve it now: try again later.
    Wait,
    /// The node and the client do not trust each other: give another certificate, authority
    /// or token.
    Identify,
    /// Something else: the text says what.
    Other,
}

impl Error {
    /// The error of an answer that no node gives.
    pub(crate) fn other_server(node: &str, problem: impl Into<String>) -> Self {
        Self::OtherServer {
            node: node.to_owned(),
            problem: problem.into(),
        }
    }

    /// The URL of the node that it is about; empty if it is about several.
    fn node(&self) -> &str {
        match self {
            Self::Unreachable { node, .. }
            | Self::Distrusted { node, .. }
            | Self::Silent { node, .. }
            | Self::Cut { node }
            | Self::OtherServer { node, .. }
            | Self::TooLong { node, .. }
            | Self::Damaged { node, .. } => node,
            Self::Refused(refusal) => &refusal.node,
            Self::NoToken { .. } | Self::AllFailed(_) => "",
        }
    }

    /// What is known of the request.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Unreachable { .. } | Self::Distrusted { .. } => Outcome::NotDone,
            Self::Silent { .. } | Self::Cut { .. } => Outcome::Unknown,
            Self::Refused(refusal) => match refusal.status {
                // A node decides this before it starts.
                503 => Outcome::NotDone,
                504 if refusal.problem.is_not_applied() => Outcome::NotDone,
                500 | 502 | 504 => Outcome::Unknown,
                _ => Outcome::Final,
            },
            Self::NoToken { .. }
            | Self::OtherServer { .. }
            | Self::TooLong { .. }
            | Self::Damaged { .. }
            | Self::AllFailed(_) => Outcome::Final,
        }
    }

    /// What the caller can do.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Unreachable { .. } | Self::Silent { .. } | Self::Cut { .. } => Remedy::Wait,
            Self::Distrusted { .. } | Self::NoToken { .. } => Remedy::Identify,
            Self::Refused(refusal) => match refusal.status {
                401 | 403 => Remedy::Identify,
                // By http to a node that speaks only TLS.
                400 if refusal.problem.is(&TLS_REQUIRED) => Remedy::Identify,
                502..=504 => Remedy::Wait,
                400 if refusal.problem.is(&BAD_PARAMETER) => Remedy::Correct,
                _ => Remedy::Other,
            },
            Self::AllFailed(errors) => {
                let is_remedy = |remedy| errors.iter().any(|error| error.remedy() == remedy);
                let mut known = [Remedy::Wait, Remedy::Identify].into_iter();
                known
                    .find(|remedy| is_remedy(*remedy))
                    .unwrap_or(Remedy::Other)
            }
            Self::OtherServer { .. } | Self::TooLong { .. } | Self::Damaged { .. } => Remedy::Other,
        }
    }

    /// Whether the request may have been done, or may be done later.
    pub fn is_unknown(&self) -> bool {
        match self {
            Self::AllFailed(errors) => errors.iter().any(Self::is_unknown),
            error => error.outcome() == Outcome::Unknown,
        }
    }

    /// Whether the next attempt at the same node fails in the same way.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(self, Self::Distrusted { .. })
    }

    /// The refusal behind the error, the one with a receipt if there are several.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::AllFailed(errors) => {
                let refusals = || errors.iter().filter_map(Self::refusal);
                let with_receipt = refusals().find(|refusal| !refusal.problem.replicas.is_empty());
                with_receipt.or_else(|| refusals().next())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_same_of_several_nodes_is_said_once() {
        let closed = |node: &str| Error::Unreachable {
            node: node.to_owned(),
            problem: None,
        };
        let cut = Error::Cut {
            node: "http://c:1".to_owned(),
        };
        let all = Error::AllFailed(vec![closed("http://a:1"), cut, closed("http://b:1")]);
        assert_eq!(
            all.to_string(),
            "no node could serve the request: http://a:1 refuses connections: start the node, or \
             name another one; the same of http://b:1; http://c:1 closed the connection before its \
             response was complete: see the node's log"
        );
    }
}
