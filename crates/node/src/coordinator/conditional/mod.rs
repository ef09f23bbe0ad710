//! Conditional writes: carries out what [`cluster::ConditionalWrite`] and [`cluster::Settle`]
//! decide. What a replica does is in [`replica`].
//!
//! `writing` is one conditional write, `settling` ends what crashed coordinators have left behind
//! for a key, and `stale` finds that where nobody meets it. `answers` collects what the replicas
//! answer to the ballots of either.

mod answers;
mod settling;
mod stale;
mod writing;

pub(crate) use stale::settle_stale_forever;

use super::{Change, Coordinator, Expires, Failure, Receipt, Terms, Written};
use base::{Entry, Expiry, Reservation, Timestamp};
use bytes::Bytes;
use cluster::{Condition, Newest, NodeId, PreferenceList};
use peer::{PROMISES, PromiseRequest};
use replica::{AnswerTime, Completion, ReplicaRequest};
use std::rc::Rc;
use tokio::sync::oneshot;
use writing::{Asked, Writing};

/// What a conditional write does to a key.
pub enum ConditionalChange {
    /// What a plain write does.
    Write(Change),
    /// The key keeps its value, which expires at another time.
    Touch(Expires),
}

/// How a conditional write has ended.
#[derive(Debug)]
pub enum ConditionalReply {
    /// The condition held, and the version is written.
    Applied(Written),
    /// The same of a touch, and the version, with any timestamp.
    Touched(Written, Entry),
    /// The condition does not hold, or there is no value to touch. Nothing has happened or will.
    NotMatched {
        /// The version of the current value; [`None`] where there is no value.
        current: Option<Timestamp>,
    },
    /// Too few replicas have promised in time, or this node could not try. Nothing has happened or
    /// will.
    NotApplied(Failure),
    /// Too few replicas have accepted the version in time. It may have happened, or may yet. The
    /// receipt has the version that was tried.
    Unknown(Receipt),
    /// Two requests of the pair need not have a replica in common, so no condition can hold for
    /// all: see [`Replicas::overlap`](cluster::Replicas::overlap). Nothing has happened.
    NoOverlap,
    /// This replica of the key is of an older release, which knows no conditional writes. Nothing
    /// has happened.
    Unsupported {
        /// The URL of the node.
        url: String,
    },
}

impl Coordinator {
    /// Writes a key if a condition holds for its current version, linearizably for each key: see
    /// [`cluster::ConditionalWrite`]. `reservation` is memory for a long value, which is kept as
    /// long as the value. If this is dropped after the write has begun, it goes on without its client.
    pub async fn write_if(
        self: &Rc<Self>,
        key: &[u8],
        change: ConditionalChange,
        condition: Condition,
        reservation: Option<Reservation>,
        terms: Terms,
    ) -> ConditionalReply {
        let replicas = terms.replicas;
        if !replicas.overlap() {
            return ConditionalReply::NoOverlap;
        }
        // With peers that is a line of the receipt.
        if self.peers.is_single_node()
            && let Some(why) = self.replicas.own().refuses_writes()
        {
            return ConditionalReply::NotApplied(Failure::StoreFailed(why));
        }
        self.settled(key, replicas.from, terms.deadline).await;
        let (preference_list, _) = self.peers.for_request(key, replicas);
        if let Some(url) = self.without_promises(&preference_list) {
            return ConditionalReply::Unsupported { url };
        }
        match change {
            ConditionalChange::Touch(expires) => {
                let expiry = self.expiry_of(expires);
                self.touch(key, expiry, condition, terms).await
            }
            ConditionalChange::Write(change) => {
                let content = match &change {
                    Change::Put { value, expires } => {
                        let expiry = self.expiry_of(*expires);
                        content_of(key, Some((value, expiry)), replicas.from)
                    }
                    Change::Delete => content_of(key, None, replicas.from),
                };
                drop(change);
                self.write_content(content, condition, reservation, terms)
                    .await
            }
        }
    }

    /// Has a key's value expire at another time. The value is read, and written again if it is
    /// still the same version: so the replicas need nothing but conditional writes, and the value
    /// travels between nodes but not to the client.
    async fn touch(
        self: &Rc<Self>,
        key: &[u8],
        expiry: Expiry,
        condition: Condition,
        terms: Terms,
    ) -> ConditionalReply {
        loop {
            let found = match self.read(key, terms.clone()).await {
                Ok(found) => found,
                Err(failure) => return ConditionalReply::NotApplied(failure),
            };
            let current = self.newest_of(found.entry.as_ref()).value();
            let (Some(version), Some(entry)) = (current, found.entry) else {
                return ConditionalReply::NotMatched { current };
            };
            if !condition.holds(current) {
                return ConditionalReply::NotMatched { current };
            }
            let value = Some((entry.value_bytes(), expiry));
            let content = content_of(key, value, terms.replicas.from);
            drop(entry);
            let unchanged = Condition::version(version);
            let written =
                self.write_content(content.clone(), unchanged, found.reservation, terms.clone());
            match written.await {
                ConditionalReply::Applied(written) => {
                    return ConditionalReply::Touched(written, content);
                }
                // It has changed since; what it is now may be touched as well.
                ConditionalReply::NotMatched { .. } => {}
                reply => return reply,
            }
        }
    }

    /// Writes this content, whose timestamp is yet to be issued.
    async fn write_content(
        self: &Rc<Self>,
        content: Entry,
        condition: Condition,
        reservation: Option<Reservation>,
        terms: Terms,
    ) -> ConditionalReply {
        let key = Bytes::copy_from_slice(content.key());
        let permit = self.conditional.permits.try_take();
        let (Some(place), Some(permit)) = (self.conditional.turns.queue(&key), permit) else {
            return ConditionalReply::NotApplied(Failure::Overloaded);
        };
        // The rest of the time is for the write.
        let longest = terms.deadline.saturating_sub(self.clock.monotonic()) / 2;
        let (reply, replied) = oneshot::channel();
        let coordinator = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let Ok(Some(turn)) = tokio::time::timeout(longest, place.turn()).await else {
                let failure = Failure::Overloaded;
                let _gone = reply.send(ConditionalReply::NotApplied(failure));
                return;
            };
            if reply.is_closed() {
                // Its client has gone before it began.
                return;
            }
            if let Some(newest) = turn.refutes(&condition) {
                coordinator.metrics.conditional.not_matched.add(1);
                let current = newest.value();
                let _gone = reply.send(ConditionalReply::NotMatched { current });
                return;
            }
            let asked = Asked {
                content,
                condition,
                terms,
                reservation,
                turn,
                reply,
            };
            let (writing, actions) = Writing::new(&coordinator, asked, Rc::new(permit));
            writing.run(actions).await;
        });
        let ended = replied.await;
        // It ended without a word, and may have begun.
        ended.unwrap_or(ConditionalReply::Unknown(Receipt {
            acks: 0,
            timestamp: None,
            replicas: Vec::new(),
        }))
    }

    /// A replica of an older release.
    fn without_promises(&self, preference_list: &PreferenceList) -> Option<String> {
        let knows_none = |node: &&NodeId| {
            let link = self.peers.link(**node);
            link.is_some_and(|link| link.lacks(PROMISES))
        };
        let node = preference_list.iter().find(knows_none)?;
        Some(self.peers.url_of(*node))
    }

    /// What a read has found.
    fn newest_of(&self, entry: Option<&Entry>) -> Newest {
        entry.map_or(Newest::NOTHING, |entry| Newest {
            timestamp: Some(entry.timestamp()),
            is_value: !self.is_dead(entry),
        })
    }

    /// Tells a replica that a promise is needed no more. Should that be lost, the promise becomes
    /// stale and is settled.
    fn release(&self, node: NodeId, key: &[u8], ballot: Timestamp) {
        let deadline = self.clock.monotonic().saturating_add(self.timeout);
        let address = self.pending.handle(deadline, |_released| {});
        let request = PromiseRequest::Release {
            key: Bytes::copy_from_slice(key),
            ballot,
        };
        let request = ReplicaRequest::Promise(&request);
        if let AnswerTime::Now(answer) = self.replicas.ask(node, request, deadline, address, None) {
            self.pending.complete(address, Completion::Peer(answer));
        }
    }
}

/// What a conditional write or a touch writes.
fn content_of(key: &[u8], value: Option<(&[u8], Expiry)>, copies: u8) -> Entry {
    match value {
        Some((value, expiry)) => Entry::value(key, Timestamp::ZERO, value, expiry, copies),
        None => Entry::tombstone(key, Timestamp::ZERO, copies),
    }
}
