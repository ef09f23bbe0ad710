//! Performing the requests of clients inside the process of a node.

use super::identity::{key_bytes, key_of};
use crate::clock::SimClock;
use crate::value;
use base::{Clock, Entry, Timestamp};
use bytes::Bytes;
use checker::{Action, Content, Outcome, Request};
use cluster::Replicas;
use node::simulation::{Refusal, SimulatedNode};

/// Performs a request as the HTTP layer would.
pub(super) async fn perform(
    node: &SimulatedNode,
    clock: &SimClock,
    request: Request,
    value: Option<Bytes>,
) -> Outcome {
    let key = key_bytes(request.key);
    let replicas = Replicas {
        ack: request.ack,
        from: request.from,
    };
    let written = match request.action {
        Action::Get => {
            return match node.get(&key, replicas).await {
                Ok(found) => Outcome::Found {
                    version: found.entry.as_ref().map(Entry::timestamp),
                    content: found
                        .entry
                        .filter(|entry| entry.is_live(clock.unix_ms()))
                        .map_or(Content::Absent, |entry| value::read(entry.value_bytes())),
                    acks: found.acks,
                },
                Err(refusal) => failed(&refusal),
            };
        }
        Action::Put { ttl_seconds } => {
            node.put(&key, value.unwrap_or_default(), ttl_seconds, replicas)
                .await
        }
        Action::Delete => node.delete(&key, replicas).await,
        // Ranges are asked for as a whole.
        Action::Range => return Outcome::Refused,
    };
    match written {
        Ok(written) => Outcome::Written {
            version: written.timestamp,
            acks: written.acks,
        },
        Err(refusal) => failed(&refusal),
    }
}

/// What a client was told of a range.
pub(crate) struct RangeTold {
    /// The keys in the order in which they came, with the version and the content of each.
    pub(crate) entities: Vec<(u64, Timestamp, Content)>,
    /// Whether the range ended as a whole one does.
    pub(crate) is_whole: bool,
}

/// Tells a range of the whole cluster, as the HTTP layer would.
pub(super) async fn tell(node: &SimulatedNode, start: u64, replicas: Replicas) -> RangeTold {
    let (entries, is_whole) = node.range(&key_bytes(start), replicas).await;
    let entities = entries.iter().map(|entry| {
        let content = value::read(entry.value_bytes());
        (key_of(entry.key()), entry.timestamp(), content)
    });
    RangeTold {
        entities: entities.collect(),
        is_whole,
    }
}

fn failed(refusal: &Refusal) -> Outcome {
    match *refusal {
        Refusal::NotEnoughReplicas { timestamp } => Outcome::NotEnough { stamp: timestamp },
        Refusal::Overloaded | Refusal::NoStamp | Refusal::DiskFull => Outcome::Refused,
    }
}
