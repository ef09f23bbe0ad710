//! Performing the requests of clients inside the process of a node.

use super::identity::{key_bytes, key_of};
use crate::clock::SimClock;
use crate::value;
use base::{Clock, Entry, Timestamp};
use bytes::Bytes;
use checker::{Action, Content, Outcome, Request};
use cluster::Replicas;
use node::simulation::{
    BatchAction, BatchAnswer, BatchObserver, BatchOperation, Found, Refusal, SimulatedNode, Written,
};
use std::time::Duration;

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
    match request.action {
        Action::Get => found(node.get(&key, replicas).await, clock),
        Action::Put { ttl_seconds } => {
            let value = value.unwrap_or_default();
            written(node.put(&key, value, ttl_seconds, replicas).await)
        }
        Action::Delete => written(node.delete(&key, replicas).await),
        // Scans are asked for as a whole, and no client of the simulation writes conditionally.
        Action::Scan | Action::PutIf(_) | Action::DeleteIf(_) => Outcome::Refused,
    }
}

/// The outcome of a write.
fn written(written: Result<Written, Refusal>) -> Outcome {
    match written {
        Ok(written) => Outcome::Written {
            version: written.timestamp,
            acks: written.acks,
        },
        Err(refusal) => failed(&refusal),
    }
}

/// The outcome of a read.
fn found(found: Result<Found, Refusal>, clock: &SimClock) -> Outcome {
    match found {
        Ok(found) => Outcome::Found {
            version: found.entry.as_ref().map(Entry::timestamp),
            content: found
                .entry
                .filter(|entry| entry.is_live(clock.unix_ms()))
                .map_or(Content::Absent, |entry| value::read(entry.value_bytes())),
            acks: found.acks,
        },
        Err(refusal) => failed(&refusal),
    }
}

/// Sees what becomes of the requests of a batch, by their numbers.
pub(crate) trait BatchClient {
    /// A request begins. Returns the value of a put.
    fn begins(&self, number: usize) -> Bytes;

    /// It was answered.
    fn answered(&self, number: usize, outcome: Outcome);
}

/// Passes what a node tells of a batch on to the client.
struct Observed<'a> {
    client: &'a dyn BatchClient,
    clock: &'a SimClock,
}

impl BatchObserver for Observed<'_> {
    fn begins(&self, number: usize) -> Bytes {
        self.client.begins(number)
    }

    fn ended(&self, number: usize, answer: BatchAnswer) {
        let outcome = match answer {
            BatchAnswer::Written(answer) => written(answer),
            BatchAnswer::Found(answer) => found(answer, self.clock),
        };
        self.client.answered(number, outcome);
    }
}

/// Performs the requests of a batch, which have one pair, as the HTTP layer would.
pub(super) async fn perform_batch(
    node: &SimulatedNode,
    clock: &SimClock,
    requests: &[Request],
    client: &dyn BatchClient,
) {
    let Some(first) = requests.first() else {
        return;
    };
    let replicas = Replicas {
        ack: first.ack,
        from: first.from,
    };
    let operations = requests.iter().map(|request| BatchOperation {
        key: key_bytes(request.key),
        action: match request.action {
            Action::Put { ttl_seconds } => BatchAction::Put { ttl_seconds },
            Action::Delete => BatchAction::Delete,
            Action::Get | Action::Scan | Action::PutIf(_) | Action::DeleteIf(_) => BatchAction::Get,
        },
    });
    let operations: Vec<BatchOperation> = operations.collect();
    let observed = Observed { client, clock };
    node.batch(&operations, replicas, &observed).await;
}

/// What a client was told of a scan.
pub(crate) struct ScanTold {
    /// The keys in the order in which they came, with the version and the content of each.
    pub(crate) entities: Vec<(u64, Timestamp, Content)>,
    /// Whether the scan ended as a whole one does.
    pub(crate) is_whole: bool,
}

/// Tells a scan of the whole cluster, as the HTTP layer would.
pub(super) async fn tell(
    node: &SimulatedNode,
    start: u64,
    replicas: Replicas,
    pause: Duration,
) -> ScanTold {
    let (entries, is_whole) = node.scan(&key_bytes(start), replicas, pause).await;
    let entities = entries.iter().map(|entry| {
        let content = value::read(entry.value_bytes());
        (key_of(entry.key()), entry.timestamp(), content)
    });
    ScanTold {
        entities: entities.collect(),
        is_whole,
    }
}

fn failed(refusal: &Refusal) -> Outcome {
    match *refusal {
        Refusal::NotEnoughReplicas { timestamp } => Outcome::NotEnough { timestamp },
        Refusal::Overloaded | Refusal::NoTimestamp | Refusal::DiskFull | Refusal::StoreFailed => {
            Outcome::Refused
        }
    }
}
