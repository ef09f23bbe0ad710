//! Performing the requests of clients inside the process of a node.

use super::identity::key_bytes;
use crate::clock::SimClock;
use crate::value;
use base::{Clock, Entry};
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
    };
    match written {
        Ok(written) => Outcome::Written {
            version: written.timestamp,
            acks: written.acks,
        },
        Err(refusal) => failed(&refusal),
    }
}

fn failed(refusal: &Refusal) -> Outcome {
    match *refusal {
        Refusal::NotEnoughReplicas { timestamp } => Outcome::NotEnough { stamp: timestamp },
        Refusal::Overloaded | Refusal::NoStamp | Refusal::DiskFull => Outcome::Refused,
    }
}
