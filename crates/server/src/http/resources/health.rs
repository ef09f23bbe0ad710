//! `/health/live` and `/health/ready`: for supervisors and load balancers. Outside
//! admission, because an overloaded node is neither dead nor broken.
//!
//! A node is ready when it can do its part for requests that name no pair of `ack` and
//! `from`: its store is open, can write and counts, and as many nodes as must answer such a request
//! can be reached. A full disk is a warning only, because deletes must reach the node.

use crate::door::Door;
use crate::http::exchange::{Answer, Exchange};
use crate::http::page;
use crate::http::problem::Problem;
use crate::http::query;
use crate::http::query::replicas::replicas_of;
use cluster::Standing;
use peer::LinkState;
use schemars::JsonSchema;
use serde::Serialize;

/// What a node says that serves.
#[derive(Serialize, JsonSchema)]
pub(super) struct Live {
    #[schemars(extend("const" = "live"))]
    state: &'static str,
}

/// What a node says that can take requests.
#[derive(Serialize, JsonSchema)]
pub(super) struct Ready {
    #[schemars(extend("const" = "ready"))]
    state: &'static str,
    /// What an operator should look at, although the node can take requests.
    warnings: Vec<String>,
}

/// What decides whether a node is ready.
#[derive(Clone, Debug)]
struct NodeHealth {
    is_stopping: bool,
    /// Why the store is read-only.
    poisoned: Option<String>,
    /// Why the store cannot write files.
    failing: Option<String>,
    standing: Standing,
    /// The nodes with a store that counts and that this node can reach, itself included.
    witnesses: usize,
    /// How many nodes must answer a request that names no pair.
    ack: u8,
    is_disk_full: bool,
    /// Why the node issues no timestamps.
    refuses_writes: Option<String>,
}

/// `GET` and `HEAD` of `/health/live`.
pub(super) fn live(exchange: &Exchange<'_>) -> Answer {
    query::none(exchange.query())?;
    exchange.check_body_limit()?;
    Ok(page::json(&Live { state: "live" }))
}

/// `GET` and `HEAD` of `/health/ready`.
pub(super) fn ready(exchange: &Exchange<'_>) -> Answer {
    query::none(exchange.query())?;
    exchange.check_body_limit()?;
    let pair = replicas_of(None, None, exchange.replica_rules())?;
    let health = NodeHealth::of(exchange.door, pair.ack);
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
    fn of(door: &Door, ack: u8) -> Self {
        let node = door.worker.node();
        let members = &door.shared().config().node.members;
        let counts = |standing: Option<Standing>| standing.is_some_and(Standing::is_witness);
        let witnesses = members
            .numbers()
            .filter(|number| match door.worker.link_status(*number) {
                None => counts(Some(node.standing())),
                Some(link) => link.state == LinkState::Up && counts(link.standing),
            })
            .count();
        let statistics = node.statistics();
        Self {
            is_stopping: door.is_stopping(),
            poisoned: statistics.poisoned,
            failing: statistics.failing,
            standing: node.standing(),
            witnesses,
            ack,
            is_disk_full: statistics.disk_full,
            refuses_writes: node.stamping_status().refusal.map(|why| why.to_string()),
        }
    }

    /// Why the node is not ready; none if it is.
    fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.is_stopping {
            reasons.push("the node is stopping".to_owned());
        }
        if let Some(why) = &self.poisoned {
            reasons.push(format!(
                "the store is read-only until the node is restarted: {why}"
            ));
        }
        if let Some(why) = &self.failing {
            reasons.push(format!(
                "the store cannot write files, and tries again each second: {why}"
            ));
        }
        if !self.standing.is_witness() {
            reasons.push(format!(
                "the store is {} and does not count: /v0/status says more",
                self.standing.word()
            ));
        }
        if self.witnesses < usize::from(self.ack) {
            reasons.push(format!(
                "{} of the nodes with a store that counts can be reached, and {} must answer a \
                 request: start the others, or look at the network",
                self.witnesses, self.ack
            ));
        }
        reasons
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
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy() -> NodeHealth {
        NodeHealth {
            is_stopping: false,
            poisoned: None,
            failing: None,
            standing: Standing::Witness,
            witnesses: 2,
            ack: 2,
            is_disk_full: false,
            refuses_writes: None,
        }
    }

    #[test]
    fn each_reason_alone_makes_a_node_unready() {
        assert_eq!(healthy().reasons(), [""; 0]);
        let accepted = NodeHealth {
            standing: Standing::Accepted,
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
                    standing: Standing::Unfilled,
                    ..healthy()
                },
                "unfilled",
            ),
            (
                NodeHealth {
                    standing: Standing::Unconfirmed,
                    ..healthy()
                },
                "unconfirmed",
            ),
            (
                NodeHealth {
                    witnesses: 1,
                    ..healthy()
                },
                "1 of the nodes",
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
            ..healthy()
        };
        assert_eq!(health.reasons(), [""; 0]);
        let warnings = health.warnings();
        assert!(warnings[0].contains("disk is full"), "{warnings:?}");
        assert!(warnings[1].contains("clock is far off"), "{warnings:?}");
    }
}
