//! Shows which version of a key each node holds, so that an operator can explain the answer of a
//! read. Asks every node of the preference list, a few at a time, and repairs nothing.

use super::Coordinator;
use super::request_life::{Request, Trigger};
use base::{Entry, Expiry, Kind, Timestamp};
use bytes::Bytes;
use cluster::{Miss, NodeNumber, Ranking, ReplicaIndex};
use peer::PeerAnswer;
use replica::Completion;
use replica::pending::{AnswerKind, AnswerTag, Ticket};
use replica::{AnswerTime, ReplicaRequest};
use std::rc::Rc;
use std::time::Duration;

/// How many nodes are asked at a time, which bounds the values that are on their way.
const ASKED_MAX: usize = 3;

/// A version without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionHead {
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// Whether it is a value or a tombstone.
    pub kind: Kind,
    /// When it expires.
    pub expiry: Expiry,
    /// For how many replicas it was written.
    pub copies: u8,
    /// The length of its value, in bytes.
    pub value_bytes: usize,
}

/// What a node holds of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldByNode {
    /// Its newest version.
    Version(VersionHead),
    /// Nothing.
    Nothing,
    /// It is not known, because the node did not answer as asked.
    Unknown(Miss),
}

/// What all nodes hold of a key, in the order of its ranking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyVersions {
    /// A line for each node.
    pub nodes: Vec<(NodeNumber, HeldByNode)>,
    /// Below it a node may have dropped what is dead.
    pub forgotten: Timestamp,
}

impl KeyVersions {
    /// The newest version that any node holds.
    pub fn newest(&self) -> Option<VersionHead> {
        let heads = self.nodes.iter().filter_map(|(_, held)| match held {
            HeldByNode::Version(head) => Some(*head),
            HeldByNode::Nothing | HeldByNode::Unknown(_) => None,
        });
        heads.max_by_key(|head| head.timestamp)
    }

    /// Whether the node in a place of the ranking should hold the newest version and does
    /// not. `None` if what it holds is not known. What is dead below the forget bound may be
    /// dropped at any time, so no node is stale without it.
    pub fn is_stale(&self, place: usize, now_unix_ms: u64) -> Option<bool> {
        let (_, held) = self.nodes.get(place)?;
        let own = match held {
            HeldByNode::Version(head) => Some(head.timestamp),
            HeldByNode::Nothing => None,
            HeldByNode::Unknown(_) => return None,
        };
        let Some(newest) = self.newest() else {
            return Some(false);
        };
        let is_dead = newest.kind == Kind::Tombstone || newest.expiry.has_passed(now_unix_ms);
        let is_replica = place < usize::from(newest.copies);
        let may_lack_it = own.is_none() && is_dead && newest.timestamp < self.forgotten;
        Some(is_replica && own < Some(newest.timestamp) && !may_lack_it)
    }
}

/// A look at all nodes.
pub(super) struct Look {
    coordinator: Rc<Coordinator>,
    ranking: Ranking,
    key: Bytes,
    ticket: Ticket,
    deadline: Duration,
    /// What is known so far, by the place in the ranking.
    held: Vec<Option<HeldByNode>>,
    /// How many of the ranking were asked.
    asked: usize,
    forgotten: Timestamp,
    is_done: bool,
}

impl Coordinator {
    /// What each of all nodes, whose number is `nodes`, holds of a key. A node that does not
    /// answer before the deadline is [`HeldByNode::Unknown`].
    pub async fn versions(
        self: &Rc<Self>,
        key: &[u8],
        nodes: u8,
        deadline: Duration,
    ) -> KeyVersions {
        self.settled(key, nodes, deadline).await;
        let registration = self.pending.reserve(deadline);
        let ranking = self.peers.ranking(key, nodes);
        let mut look = Look {
            coordinator: Rc::clone(self),
            held: vec![None; ranking.len()],
            ranking,
            key: Bytes::copy_from_slice(key),
            ticket: registration.ticket(),
            deadline,
            asked: 0,
            forgotten: Timestamp::ZERO,
            is_done: false,
        };
        let reply = look.go_on_asking();
        match self.requests.looks.enter(look, reply, registration) {
            Ok(reply) => reply,
            Err(pending) => pending.decided(&self.timestamps).await,
        }
    }
}

impl Request for Look {
    type Reply = KeyVersions;

    fn receive(&mut self, answer: Option<(AnswerTag, Completion)>) -> Option<Self::Reply> {
        match answer {
            None => Some(self.reply()),
            Some((tag, completion)) => {
                let replicas = &self.coordinator.replicas;
                let (answer, _share) = replicas.answer_of(&self.key, Some(completion));
                self.note(tag.replica.as_usize(), answer);
                self.go_on_asking()
            }
        }
    }

    fn trigger(&self) -> Option<Trigger> {
        None
    }

    fn fire(&mut self) -> Option<Self::Reply> {
        None
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn go_on(&mut self, _has_room: bool) -> bool {
        false
    }
}

impl Look {
    /// Asks as many nodes as may be asked. Gives the reply once all are known.
    fn go_on_asking(&mut self) -> Option<KeyVersions> {
        loop {
            let known = self.held.iter().filter(|held| held.is_some()).count();
            if known == self.ranking.len() {
                return Some(self.reply());
            }
            if self.asked == self.ranking.len() || self.asked - known >= ASKED_MAX {
                return None;
            }
            let place = self.asked;
            self.asked += 1;
            self.ask(place);
        }
    }

    fn ask(&mut self, place: usize) {
        // A cluster has at most 255 nodes.
        let replica = ReplicaIndex::new(place as u8);
        let kind = AnswerKind::Read;
        let address = self.ticket.with(AnswerTag { kind, replica });
        let (node, request) = (self.ranking[place], ReplicaRequest::Read(&self.key));
        let replicas = &self.coordinator.replicas;
        if let AnswerTime::Now(answer) = replicas.ask(node, request, self.deadline, address, None) {
            self.note(place, answer);
        }
    }

    /// Takes what a node has answered. Its value goes at once.
    fn note(&mut self, place: usize, answer: PeerAnswer) {
        let entry = match answer {
            PeerAnswer::Found(entry) => Ok(entry),
            PeerAnswer::FoundBehind { entry, named } => {
                self.forgotten = self.forgotten.max(named.forgotten);
                Ok(entry)
            }
            PeerAnswer::Missed(why) => Err(why),
            _ => Err(Miss::Failed),
        };
        let held = match entry {
            Ok(Some(entry)) => HeldByNode::Version(VersionHead::of(&entry)),
            Ok(None) => HeldByNode::Nothing,
            Err(why) => HeldByNode::Unknown(why),
        };
        if let Some(known) = self.held.get_mut(place) {
            *known = Some(held);
        }
    }

    fn reply(&mut self) -> KeyVersions {
        self.is_done = true;
        let held = self.held.iter();
        let held = held.map(|held| held.unwrap_or(HeldByNode::Unknown(Miss::Timeout)));
        KeyVersions {
            nodes: self.ranking.iter().copied().zip(held).collect(),
            forgotten: self.forgotten,
        }
    }
}

impl VersionHead {
    fn of(entry: &Entry) -> Self {
        Self {
            timestamp: entry.timestamp(),
            kind: entry.kind(),
            expiry: entry.expiry(),
            copies: entry.copies(),
            value_bytes: entry.value_bytes().len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(timestamp: u64, kind: Kind, copies: u8) -> HeldByNode {
        HeldByNode::Version(VersionHead {
            timestamp: Timestamp::from_u64(timestamp),
            kind,
            expiry: Expiry::NEVER,
            copies,
            value_bytes: 1,
        })
    }

    /// Which of the nodes are stale: `s`, `-`, or `?`.
    fn stale(held: &[HeldByNode], forgotten: u64, now_unix_ms: u64) -> String {
        let nodes = (0..).map(NodeNumber::new).zip(held.iter().copied());
        let versions = KeyVersions {
            nodes: nodes.collect(),
            forgotten: Timestamp::from_u64(forgotten),
        };
        let places = (0..held.len()).map(|place| match versions.is_stale(place, now_unix_ms) {
            Some(true) => 's',
            Some(false) => '-',
            None => '?',
        });
        places.collect()
    }

    #[test]
    fn a_replica_of_the_newest_version_that_lacks_it_is_stale() {
        use HeldByNode::{Nothing, Unknown};
        use Kind::{Tombstone, Value};
        let (new, old) = (version(9, Value, 2), version(5, Value, 3));
        let buried = version(9, Tombstone, 3);
        let expiring = HeldByNode::Version(VersionHead {
            timestamp: Timestamp::from_u64(9),
            kind: Value,
            expiry: Expiry::at_unix_ms(100),
            copies: 3,
            value_bytes: 1,
        });
        for (held, forgotten, expected) in [
            (&[new, new, Nothing][..], 0, "---"),
            (&[new, old, Nothing], 0, "-s-"),
            (&[Nothing, new, old], 0, "s--"),
            (&[new, Unknown(Miss::Timeout), old], 0, "-?-"),
            (&[Nothing, Nothing], 0, "--"),
            // A tombstone below the forget bound may be gone; what it hides may not be there.
            (&[buried, Nothing, old], 0, "-ss"),
            (&[buried, Nothing, old], 10, "--s"),
            (&[expiring, Nothing, old], 10, "--s"),
        ] {
            assert_eq!(
                stale(held, forgotten, 100),
                expected,
                "{held:?} {forgotten}"
            );
        }
        assert_eq!(stale(&[expiring, Nothing], 10, 99), "-s");
    }
}
