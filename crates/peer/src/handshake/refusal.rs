//! The refusal: why a node does not accept another as a peer, and how it says so.
//!
//! ```text
//! kind  message  payload
//!   34  refuse   the reason, in UTF-8; `call` is 1 if the refusal is temporary
//! ```

use super::hello::Hello;
use crate::protocol::Protocol;
use crate::wire::frame::{Frame, put_frame};
use std::fmt;

/// The kind of the frame that carries a refusal.
pub(super) const REFUSE: u8 = 34;

/// The longest reason, in bytes; the rest is cut off.
const REASON_BYTES_MAX: usize = 512;

/// What is wrong between two nodes that reach each other and have no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkProblem {
    /// Their lists of nodes differ.
    OtherMembers,
    /// Their secrets differ.
    OtherSecret,
    /// They share no version of the protocol.
    OtherProtocol,
    /// One of them has not the name that the other expects.
    OtherName,
}

impl LinkProblem {
    /// The word for it on the status page.
    pub fn word(self) -> &'static str {
        match self {
            Self::OtherMembers => "other members",
            Self::OtherSecret => "other secret",
            Self::OtherProtocol => "other protocol",
            Self::OtherName => "other name",
        }
    }

    /// The problem that a refusal names, by how its reason begins: a node that is refused gets
    /// the reason as text.
    pub(super) fn of_reason(reason: &str) -> Option<Self> {
        let reasons = [
            ("the nodes have different lists", Self::OtherMembers),
            ("the nodes have different secrets", Self::OtherSecret),
            ("the nodes share no version", Self::OtherProtocol),
            ("no node of the cluster is named", Self::OtherName),
            ("both nodes have the same name", Self::OtherName),
            ("the node that was dialled is", Self::OtherName),
        ];
        let mut reasons = reasons.into_iter();
        let found = reasons.find(|(begin, _)| reason.starts_with(begin));
        found.map(|(_, problem)| problem)
    }
}

/// Why a node is refused as a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The two nodes support no common version of the protocol.
    Version {
        /// What this node supports.
        own: Protocol,
        /// What the other node supports.
        other: Protocol,
    },
    /// Its hello is malformed.
    MalformedHello,
    /// It has another list of nodes.
    Members,
    /// Its name is not in the list of nodes.
    UnknownName(String),
    /// It has this node's own name.
    OwnName,
    /// Another node was expected at its address.
    UnexpectedName {
        /// The name that was expected.
        expected: String,
        /// The name in its hello.
        name: String,
    },
    /// It does not know the cluster's secret.
    Secret,
    /// Its previous start is still connected.
    PreviousStartLive,
}

impl Refusal {
    /// Whether the reason goes away by itself within a moment.
    pub(super) fn is_temporary(&self) -> bool {
        matches!(self, Self::PreviousStartLive)
    }

    /// Appends the frame that tells the other side.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let reason = self.to_string();
        let reason = &reason.as_bytes()[..reason.len().min(REASON_BYTES_MAX)];
        let is_temporary = u64::from(self.is_temporary());
        put_frame(out, REFUSE, is_temporary, |out| {
            out.extend_from_slice(reason);
        });
    }
}

/// Both sides log the text, so it says neither "this node" nor "the other".
impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { own, other } => write!(
                formatter,
                "the nodes share no version of the peer protocol: one supports {own}, the other \
                 {other}; update the older one"
            ),
            Self::MalformedHello => formatter.write_str("the hello is malformed"),
            Self::Members => formatter.write_str("the nodes have different lists of members"),
            Self::UnknownName(name) => {
                write!(formatter, "no node of the cluster is named {name:?}")
            }
            Self::OwnName => formatter.write_str("both nodes have the same name"),
            Self::UnexpectedName { expected, name } => write!(
                formatter,
                "the node that was dialled is {name:?}, not {expected:?}"
            ),
            Self::Secret => formatter.write_str("the nodes have different secrets"),
            Self::PreviousStartLive => formatter.write_str(
                "the node has restarted while its previous start is still connected. After a \
                 restart this ends by itself within seconds; if a copy of a running node's folder \
                 was started, stop the copy",
            ),
        }
    }
}

/// The reason in a refusal of the other side. Its bytes can be anything: those
/// that are no UTF-8 are replaced, and the error that reports it quotes it.
pub(super) fn decode_reason(frame: Frame<'_>) -> String {
    let end = frame.payload.len().min(REASON_BYTES_MAX);
    String::from_utf8_lossy(&frame.payload[..end]).into_owned()
}

/// Checks whether the node with the hello `theirs` is a peer of the node with
/// the hello `ours`. `is_member` says whether the list of nodes has its name;
/// `expected` is the name of the node that was dialled, on the dialler's side.
///
/// # Errors
/// Why it is not a peer.
pub(super) fn check_peer(
    ours: &Hello,
    theirs: &Hello,
    is_member: bool,
    expected: Option<&str>,
) -> Result<(), Refusal> {
    // The list comes first: if the lists differ, the names may differ because of that.
    if ours.members_hash != theirs.members_hash {
        return Err(Refusal::Members);
    }
    if ours.name == theirs.name {
        return Err(Refusal::OwnName);
    }
    if !is_member {
        return Err(Refusal::UnknownName(theirs.name.clone()));
    }
    match expected {
        Some(expected) if expected != theirs.name => Err(Refusal::UnexpectedName {
            expected: expected.to_owned(),
            name: theirs.name.clone(),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_its_problem_to_both_sides() {
        let name = || "x".to_owned();
        let (own, other) = (Protocol::OWN, Protocol::OWN);
        for (refusal, problem) in [
            (Refusal::Members, Some(LinkProblem::OtherMembers)),
            (Refusal::Secret, Some(LinkProblem::OtherSecret)),
            (
                Refusal::Version { own, other },
                Some(LinkProblem::OtherProtocol),
            ),
            (Refusal::UnknownName(name()), Some(LinkProblem::OtherName)),
            (Refusal::OwnName, Some(LinkProblem::OtherName)),
            (
                Refusal::UnexpectedName {
                    expected: name(),
                    name: name(),
                },
                Some(LinkProblem::OtherName),
            ),
            (Refusal::MalformedHello, None),
            (Refusal::PreviousStartLive, None),
        ] {
            let reason = refusal.to_string();
            assert_eq!(LinkProblem::of_reason(&reason), problem, "{reason}");
        }
    }
}
