//! `/health/live` and `/health/ready`: for supervisors and load balancers. Outside
//! admission, because an overloaded node is neither dead nor broken.
//!
//! A node is ready when it can serve requests with the default `ack` and `from`: its store is open,
//! writable and counts, enough nodes for such a request can be reached, and the peers that are up
//! accept its answers. A rolling restart waits for this before the next node, so the others must
//! have their links to this one by then. A full disk is a warning only, because deletes must reach
//! the node.

use crate::http::exchange::{Answer, HttpExchange};
use crate::http::problem::Problem;
use crate::http::query::replicas::replicas_of;
use crate::http::response::page;
use crate::net::Listener;
use cluster::ReplicaState;
use node::NodeSnapshot;
use peer::{LinkState, LinkStatus};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;

/// How long after its connection to a peer a node waits for the peer's links to it. Later
/// they are missing for another reason than the start of one of the two, and a fault of the
/// peer, or of the way from it, must not take this node out of service.
const CONTACT_MAX: Duration = Duration::from_secs(10);

/// What a node says that serves.
#[derive(Serialize, JsonSchema)]
pub(in crate::http::resources) struct Live {
    #[schemars(extend("const" = "live"))]
    state: &'static str,
}

/// What a node says that can take requests.
#[derive(Serialize, JsonSchema)]
pub(in crate::http::resources) struct Ready {
    #[schemars(extend("const" = "ready"))]
    state: &'static str,
    /// What an operator should look at, although the node can take requests.
    warnings: Vec<String>,
}

/// What decides whether a node is ready.
#[derive(Clone, Debug)]
struct NodeHealth {
    is_stopping: bool,
    /// Why it waits to join a cluster.
    waits_to_join: Option<String>,
    /// Why the store is read-only.
    poisoned: Option<String>,
    /// Why the store cannot write files.
    failing: Option<String>,
    replica_state: ReplicaState,
    /// The nodes with a store that counts and that this node can reach, itself included.
    voters: usize,
    /// The peers that are up, or may be, and do not take the answers of this node yet.
    awaited: Vec<String>,
    /// The peers that are up and have not come to do so.
    unreaching: Vec<String>,
    /// The peers that are up and have not come to serve this node, which they do once they have
    /// durably recorded its store.
    unserving: Vec<String>,
    /// How many nodes must answer a request that names no pair.
    ack: u8,
    is_disk_full: bool,
    /// Why the node allocates no timestamps.
    refuses_writes: Option<String>,
}

/// Whether a peer takes the answers of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PeerContact {
    /// It does.
    Takes,
    /// It is not up.
    Away,
    /// It may within a moment.
    Awaited,
    /// It is up, and not all of its links come through.
    OneWay,
    /// It is up, and does not serve this node.
    Unserving,
}

impl PeerContact {
    /// Given for how long the store of this node has counted.
    fn of(link: &LinkStatus, counted_for: Duration) -> Self {
        let contact = link.contact.unwrap_or_default();
        let is_recent = |duration: Option<Duration>| duration.is_some_and(|it| it < CONTACT_MAX);
        match link.state {
            LinkState::Connecting if is_recent(link.down_for) => Self::Awaited,
            LinkState::Connecting | LinkState::Suspected | LinkState::Down => Self::Away,
            LinkState::Up if contact.serves && contact.reaches => Self::Takes,
            LinkState::Up if is_recent(link.up_for) => Self::Awaited,
            LinkState::Up if contact.serves => Self::OneWay,
            // It may have been up all the time that the store was being rebuilt.
            LinkState::Up if counted_for < CONTACT_MAX => Self::Awaited,
            LinkState::Up => Self::Unserving,
        }
    }
}

/// `GET` and `HEAD` of `/health/live`.
pub(in crate::http::resources) fn live(exchange: &HttpExchange<'_>) -> Answer {
    exchange.check_body_limit()?;
    Ok(page::json(&Live { state: "live" }))
}

/// `GET` and `HEAD` of `/health/ready`.
pub(in crate::http::resources) fn ready(exchange: &HttpExchange<'_>) -> Answer {
    exchange.check_body_limit()?;
    let pair = replicas_of(None, None, exchange.replica_rules())?;
    let (listener, node) = (exchange.listener, exchange.listener.worker.node());
    let health = NodeHealth::of(listener, node.snapshot(), pair.ack);
    let reasons = health.reasons();
    if !reasons.is_empty() {
        return Err(Problem::not_ready(&reasons));
    }
    Ok(page::json(&Ready {
        state: "ready",
        warnings: health.warnings(),
    }))
}

impl NodeHealth {
    fn of(listener: &Listener, snapshot: NodeSnapshot, ack: u8) -> Self {
        let layout = listener.worker.layout();
        let members = layout.members();
        let counts =
            |replica_state: Option<ReplicaState>| replica_state.is_some_and(ReplicaState::is_voter);
        let is_voter = counts(Some(snapshot.replica_state));
        let counted_since = &listener.shared().counted_since;
        let counted_for = counted_since.duration(is_voter, listener.clock().monotonic());
        let mut voters = usize::from(is_voter);
        let (mut awaited, mut unreaching) = (Vec::new(), Vec::new());
        let mut unserving = Vec::new();
        for peer in members.peers() {
            let Some(link) = listener.worker.link_status(peer) else {
                continue;
            };
            let serves = link.contact.is_some_and(|contact| contact.serves);
            voters +=
                usize::from(link.state == LinkState::Up && serves && counts(link.replica_state));
            match PeerContact::of(&link, counted_for) {
                PeerContact::Takes | PeerContact::Away => {}
                PeerContact::Awaited => awaited.push(members.name(peer).to_owned()),
                PeerContact::OneWay => unreaching.push(members.name(peer).to_owned()),
                PeerContact::Unserving => unserving.push(members.name(peer).to_owned()),
            }
        }
        Self {
            is_stopping: listener.is_stopping(),
            waits_to_join: listener.worker.node().waits_to_join(),
            poisoned: snapshot.store.poisoned,
            failing: snapshot.store.failing,
            replica_state: snapshot.replica_state,
            voters,
            awaited,
            unreaching,
            unserving,
            ack,
            is_disk_full: snapshot.store.disk_full,
            refuses_writes: snapshot.timestamps.refusal.map(|why| why.to_string()),
        }
    }

    /// Why the node is not ready; none if it is.
    fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.is_stopping {
            reasons.push("the node is stopping".to_owned());
        }
        reasons.extend(self.waits_to_join.clone());
        if let Some(why) = &self.poisoned {
            reasons.push(format!(
                "the store is read-only until the node is restarted: {why}"
            ));
        }
        if let Some(why) = &self.failing {
            reasons.push(format!(
                "the store cannot write files, and tries again every second: {why}"
            ));
        }
        if !self.replica_state.is_voter() {
            reasons.push(format!(
                "the store is {} and does not count: see /v0/status",
                self.replica_state.word()
            ));
        }
        let is_short = self.voters < usize::from(self.ack);
        if is_short {
            reasons.push(format!(
                "{} of the nodes whose stores count can be reached, and a request needs {}: start \
                 the others, or check the network",
                self.voters, self.ack
            ));
        }
        reasons.extend(self.unserved().filter(|_| is_short));
        if !self.awaited.is_empty() {
            reasons.push(format!(
                "{} may be up but do not accept this node's answers yet: this takes a few seconds",
                self.awaited.join(", ")
            ));
        }
        reasons
    }

    /// What to do about the peers that do not serve this node.
    fn unserved(&self) -> Option<String> {
        let peers = self.unserving.join(", ");
        (!peers.is_empty()).then(|| {
            format!(
                "{peers} can be reached but does not serve this node, because it cannot record \
                 this node's store: check the log and the data folder of {peers}"
            )
        })
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.is_disk_full {
            let text = "the disk is full: puts are refused until entities are deleted or the \
                        node gets more space";
            warnings.push(text.to_owned());
        }
        if let Some(why) = &self.refuses_writes {
            warnings.push(format!("the node refuses writes: {why}"));
        }
        // Too few voters are a reason, and this is one of theirs.
        warnings.extend(self.unserved());
        if !self.unreaching.is_empty() {
            warnings.push(format!(
                "{} can be reached but cannot reach this node: check the network and their logs",
                self.unreaching.join(", ")
            ));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peer::Contact;

    fn healthy() -> NodeHealth {
        NodeHealth {
            is_stopping: false,
            waits_to_join: None,
            poisoned: None,
            failing: None,
            replica_state: ReplicaState::Voter,
            voters: 2,
            awaited: Vec::new(),
            unreaching: Vec::new(),
            unserving: Vec::new(),
            ack: 2,
            is_disk_full: false,
            refuses_writes: None,
        }
    }

    #[test]
    fn each_reason_alone_makes_a_node_unready() {
        assert_eq!(healthy().reasons(), [""; 0]);
        let accepted = NodeHealth {
            replica_state: ReplicaState::ForcedVoter,
            ..healthy()
        };
        assert_eq!(accepted.reasons(), [""; 0]);
        for (health, part) in [
            (
                NodeHealth {
                    is_stopping: true,
                    ..healthy()
                },
                "stopping",
            ),
            (
                NodeHealth {
                    poisoned: Some("a sync failed".to_owned()),
                    ..healthy()
                },
                "a sync failed",
            ),
            (
                NodeHealth {
                    failing: Some("no such folder".to_owned()),
                    ..healthy()
                },
                "no such folder",
            ),
            (
                NodeHealth {
                    replica_state: ReplicaState::Learner,
                    ..healthy()
                },
                "learner",
            ),
            (
                NodeHealth {
                    replica_state: ReplicaState::Starting,
                    ..healthy()
                },
                "starting",
            ),
            (
                NodeHealth {
                    voters: 1,
                    ..healthy()
                },
                "1 of the nodes",
            ),
            (
                NodeHealth {
                    awaited: vec!["b".to_owned(), "c".to_owned()],
                    ..healthy()
                },
                "b, c may be up",
            ),
        ] {
            let reasons = health.reasons();
            assert_eq!(reasons.len(), 1, "{reasons:?}");
            assert!(reasons[0].contains(part), "{reasons:?}");
        }
    }

    #[test]
    fn what_still_serves_some_requests_is_a_warning() {
        assert_eq!(healthy().warnings(), [""; 0]);
        let health = NodeHealth {
            is_disk_full: true,
            refuses_writes: Some("its clock is far off".to_owned()),
            unreaching: vec!["b".to_owned()],
            unserving: vec!["c".to_owned()],
            ..healthy()
        };
        assert_eq!(health.reasons(), [""; 0]);
        let warnings = health.warnings();
        assert!(warnings[0].contains("disk is full"), "{warnings:?}");
        assert!(warnings[1].contains("clock is far off"), "{warnings:?}");
        let says = |warning: usize, words: &str| {
            assert!(warnings[warning].contains(words), "{warnings:?}");
        };
        says(2, "the log and the data folder of c");
        says(3, "b can be reached");
    }

    #[test]
    fn a_peer_that_does_not_serve_the_node_is_named_where_it_would_have_to_answer() {
        let health = NodeHealth {
            voters: 1,
            unserving: vec!["c".to_owned()],
            ..healthy()
        };
        let reasons = health.reasons();
        assert_eq!(reasons.len(), 2, "{reasons:?}");
        assert!(reasons[1].contains("data folder of c"), "{reasons:?}");
    }

    #[test]
    fn a_peer_that_is_up_is_awaited_until_it_takes_the_answers_of_the_node() {
        use LinkState::{Connecting, Down, Suspected, Up};
        use PeerContact::{Awaited, Away, OneWay, Takes, Unserving};
        let [soon, late] = [CONTACT_MAX / 2, CONTACT_MAX];
        let [full, none] = [Contact::FULL, Contact::default()];
        let one_way = Contact {
            reaches: false,
            ..full
        };
        for (state, since, counted_for, contact, expected) in [
            (Connecting, soon, late, none, Awaited),
            (Connecting, late, late, none, Away),
            (Down, soon, late, none, Away),
            (Suspected, soon, late, full, Away),
            (Up, soon, late, none, Awaited),
            (Up, soon, late, one_way, Awaited),
            (Up, late, late, one_way, OneWay),
            // The store was rebuilt just now.
            (Up, late, soon, none, Awaited),
            (Up, late, soon, one_way, OneWay),
            (Up, late, late, none, Unserving),
            (Up, soon, soon, full, Takes),
            (Up, late, late, full, Takes),
        ] {
            let has_connection = matches!(state, Up | Suspected);
            let link = LinkStatus {
                state,
                up_for: has_connection.then_some(since),
                down_for: (!has_connection).then_some(since),
                contact: has_connection.then_some(contact),
                ..LinkStatus::default()
            };
            assert_eq!(PeerContact::of(&link, counted_for), expected, "{link:?}");
        }
    }
}
