//! The refusal: why a node does not accept another as a peer, and how it says so.
//!
//! ```text
//! kind  message  payload
//!   34  refuse   the reason, in UTF-8, for people; `call` is its code
//!
//! code  the reason
//!    1  goes away by itself within a moment
//!    2  the lists of nodes differ
//!    3  the secrets differ
//!    4  no common version of the protocol
//!    5  a node has not the name that the other expects
//!    6  the nodes are of different clusters
//!    0  any other, as are codes of later releases
//! ```

use super::hello::Hello;
use crate::LinkProblem;
use crate::protocol::{LISTS, Protocol};
use crate::wire::frame::{Frame, put_frame};
use cluster::Epoch;
use std::fmt;

/// The kind of the frame that carries a refusal.
pub(super) const REFUSE: u8 = 34;

/// The longest reason, in bytes; the rest is cut off.
const REASON_BYTES_MAX: usize = 512;

/// The code of a refusal that goes away by itself.
const TEMPORARY: u64 = 1;

/// The code of any other refusal.
const OTHER: u64 = 0;

/// The problems that refusals state, each with its code.
const STATED: [(LinkProblem, u64); 5] = [
    (LinkProblem::OtherMembers, 2),
    (LinkProblem::OtherSecret, 3),
    (LinkProblem::OtherProtocol, 4),
    (LinkProblem::OtherName, 5),
    (LinkProblem::OtherCluster, 6),
];

/// A refusal of the other side, as it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StatedRefusal {
    /// Why, for people. Its bytes can be anything: those that are no UTF-8 are replaced, and the
    /// error that reports it quotes it.
    pub(super) reason: String,
    code: u64,
}

impl StatedRefusal {
    /// What a frame of the other side says.
    pub(super) fn decode(frame: Frame<'_>) -> Self {
        let end = frame.payload.len().min(REASON_BYTES_MAX);
        Self {
            reason: String::from_utf8_lossy(&frame.payload[..end]).into_owned(),
            code: frame.call,
        }
    }

    /// Whether the reason goes away by itself within a moment.
    pub(super) fn is_temporary(&self) -> bool {
        self.code == TEMPORARY
    }

    /// What is wrong between the two nodes, if the code says it.
    pub(super) fn problem(&self) -> Option<LinkProblem> {
        let mut stated = STATED.into_iter();
        let found = stated.find(|(_, code)| *code == self.code);
        found.map(|(problem, _)| problem)
    }
}

/// Why a node is refused as a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
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
    /// The list that it has is of another cluster.
    OtherCluster,
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
    /// One of the two was restored for a cluster that has never met the other.
    Cluster,
    /// Its previous start is still connected.
    PreviousStartLive,
}

impl Refusal {
    /// Whether the reason goes away by itself within a moment.
    pub(super) fn is_temporary(&self) -> bool {
        matches!(self, Self::PreviousStartLive)
    }

    /// What is wrong between the two nodes, as far as an operator can repair it.
    pub(super) fn problem(&self) -> Option<LinkProblem> {
        match self {
            Self::Version { .. } => Some(LinkProblem::OtherProtocol),
            Self::Members => Some(LinkProblem::OtherMembers),
            Self::OtherCluster => Some(LinkProblem::OtherCluster),
            Self::UnknownName(_) | Self::OwnName | Self::UnexpectedName { .. } => {
                Some(LinkProblem::OtherName)
            }
            Self::Secret => Some(LinkProblem::OtherSecret),
            Self::MalformedHello | Self::Cluster | Self::PreviousStartLive => None,
        }
    }

    /// Appends the frame that tells the other side.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let reason = self.to_string();
        let reason = &reason.as_bytes()[..reason.len().min(REASON_BYTES_MAX)];
        let code = if self.is_temporary() {
            TEMPORARY
        } else {
            let problem = self.problem();
            let mut stated = STATED.into_iter();
            let found = stated.find(|(stated, _)| problem.as_ref() == Some(stated));
            found.map_or(OTHER, |(_, code)| code)
        };
        put_frame(out, REFUSE, code, |out| {
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
            Self::OtherCluster => formatter.write_str(
                "the nodes are of different clusters: correct the URL, or give the node the data \
                 folder of this cluster",
            ),
            Self::UnknownName(name) => {
                write!(formatter, "no node of the cluster is named {name:?}")
            }
            Self::OwnName => formatter.write_str("both nodes have the same name"),
            Self::UnexpectedName { expected, name } => write!(
                formatter,
                "the node that was dialled is {name:?}, not {expected:?}"
            ),
            Self::Cluster => formatter.write_str(
                "the nodes belong to different clusters: the store of one was restored from a \
                 backup for a cluster that has never met the other. Restore all nodes of a new \
                 cluster from one backup",
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

/// How two nodes that know the secret deal with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// As members of one list, or of two that follow each other.
    Peers,
    /// One of them is no member to the other, or not yet: they only hand each other lists.
    Outsiders,
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
) -> Result<Standing, Refusal> {
    let know_lists = ours.protocol.features & theirs.protocol.features & LISTS != 0;
    let waits = know_lists && (ours.waits || theirs.waits);
    let clusters = [ours.list.cluster, theirs.list.cluster];
    if know_lists && !clusters.contains(&0) && clusters[0] != clusters[1] {
        return Err(Refusal::OtherCluster);
    }
    let epochs = [ours.list.epoch, theirs.list.epoch];
    let has_changed = know_lists && epochs != [Epoch::default(); 2];
    // The list comes first: if the lists differ, the names may differ because of that.
    if ours.members_hash != theirs.members_hash && !has_changed && !waits {
        return Err(Refusal::Members);
    }
    if ours.name == theirs.name {
        return Err(Refusal::OwnName);
    }
    if let Some(expected) = expected
        && expected != theirs.name
    {
        return Err(Refusal::UnexpectedName {
            expected: expected.to_owned(),
            name: theirs.name.clone(),
        });
    }
    if waits {
        Ok(Standing::Outsiders)
    } else if is_member {
        if !has_changed && are_strangers(ours, theirs) {
            return Err(Refusal::Cluster);
        }
        Ok(Standing::Peers)
    } else if has_changed && epochs[0] != epochs[1] {
        // It has joined or left by a list that one of the two has not heard of yet.
        Ok(Standing::Outsiders)
    } else {
        Err(Refusal::UnknownName(theirs.name.clone()))
    }
}

/// Whether two nodes belong to different clusters. All nodes of a cluster that was restored have
/// its number. A node without one that comes to it is new: it takes the place of a member that the
/// other one remembers, so its store does not count. One that nobody remembers was to be restored,
/// and would count with nothing in its store.
fn are_strangers(ours: &Hello, theirs: &Hello) -> bool {
    match (ours.cluster, theirs.cluster) {
        (own, other) if own == other => false,
        (_, 0) => ours.remembered.is_none(),
        (0, _) => theirs.remembered.is_none(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::{Decoder, PAYLOAD_BYTES_MAX};

    #[test]
    fn both_sides_of_a_refusal_know_its_problem() {
        let name = || "x".to_owned();
        let (own, other) = (Protocol::OWN, Protocol::OWN);
        for (refusal, code, problem) in [
            (Refusal::Members, 2, Some(LinkProblem::OtherMembers)),
            (Refusal::OtherCluster, 6, Some(LinkProblem::OtherCluster)),
            (Refusal::Secret, 3, Some(LinkProblem::OtherSecret)),
            (
                Refusal::Version { own, other },
                4,
                Some(LinkProblem::OtherProtocol),
            ),
            (
                Refusal::UnknownName(name()),
                5,
                Some(LinkProblem::OtherName),
            ),
            (Refusal::OwnName, 5, Some(LinkProblem::OtherName)),
            (
                Refusal::UnexpectedName {
                    expected: name(),
                    name: name(),
                },
                5,
                Some(LinkProblem::OtherName),
            ),
            (Refusal::MalformedHello, 0, None),
            (Refusal::Cluster, 0, None),
            (Refusal::PreviousStartLive, 1, None),
        ] {
            let mut out = Vec::new();
            refusal.encode(&mut out);
            let mut decoder = Decoder::new(&out, PAYLOAD_BYTES_MAX);
            let frame = decoder.next().unwrap().unwrap();
            assert_eq!((frame.kind, frame.call), (REFUSE, code), "{refusal}");
            let stated = StatedRefusal::decode(frame);
            assert_eq!(stated.reason, refusal.to_string());
            assert_eq!(refusal.problem(), problem);
            assert_eq!(stated.problem(), problem);
            assert_eq!(stated.is_temporary(), refusal.is_temporary(), "{refusal}");
        }
    }

    #[test]
    fn a_code_of_a_later_release_is_no_problem_that_is_known() {
        let mut out = Vec::new();
        put_frame(&mut out, REFUSE, 99, |out| {
            out.extend_from_slice(b"too late");
        });
        let mut decoder = Decoder::new(&out, PAYLOAD_BYTES_MAX);
        let stated = StatedRefusal::decode(decoder.next().unwrap().unwrap());
        assert_eq!((stated.problem(), stated.is_temporary()), (None, false));
        assert_eq!(stated.reason, "too late");
    }
}
