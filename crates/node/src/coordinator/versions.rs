//! Shows which version of a key each node holds, so that an operator can explain the answer of a
//! read. Asks every node of the preference list, a few at a time, and repairs nothing.

use super::Coordinator;
use base::{Entry, Expiry, Kind, Timestamp};
use bytes::Bytes;
use cluster::{Miss, NodeId};
use peer::PeerAnswer;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::JoinSet;

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

/// What all nodes hold of a key, in the order of its preference list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyVersions {
    /// A line for each node.
    pub nodes: Vec<(NodeId, HeldByNode)>,
    /// Below it a node may have dropped what is dead.
    pub gc_threshold: Timestamp,
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

    /// Whether the node in a place of the preference list should hold the newest version and does
    /// not. `None` if what it holds is not known. What is dead below the GC threshold may be
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
        let may_lack_it = own.is_none() && is_dead && newest.timestamp < self.gc_threshold;
        Some(is_replica && own < Some(newest.timestamp) && !may_lack_it)
    }
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
        let preference_list = self.peers.preference_list(key, nodes);
        let key = Bytes::copy_from_slice(key);
        let unknown = HeldByNode::Unknown(Miss::Timeout);
        let mut versions = KeyVersions {
            nodes: preference_list
                .iter()
                .map(|node| (*node, unknown))
                .collect(),
            gc_threshold: Timestamp::ZERO,
        };
        let mut to_ask = preference_list.iter().copied().enumerate();
        let mut asked = JoinSet::new();
        loop {
            while asked.len() < ASKED_MAX
                && self.clock.monotonic() < deadline
                && let Some((place, node)) = to_ask.next()
            {
                let (coordinator, key) = (Rc::clone(self), key.clone());
                asked.spawn_local(async move {
                    let (held, gc_threshold) = coordinator.held_by(node, &key, deadline).await;
                    (place, held, gc_threshold)
                });
            }
            let Some(answered) = asked.join_next().await else {
                return versions;
            };
            if let Ok((place, held, gc_threshold)) = answered {
                versions.gc_threshold = versions.gc_threshold.max(gc_threshold);
                if let Some((_, known)) = versions.nodes.get_mut(place) {
                    *known = held;
                }
            }
        }
    }

    /// What a node holds of a key, and below which bound it may have dropped what is dead. The
    /// value goes at once.
    async fn held_by(
        &self,
        node: NodeId,
        key: &Bytes,
        deadline: Duration,
    ) -> (HeldByNode, Timestamp) {
        let (answer, _reservation) = self.read_one(node, key, deadline).await;
        let (entry, gc_threshold) = match answer {
            PeerAnswer::Found(entry) => (entry, Timestamp::ZERO),
            PeerAnswer::FoundBehind {
                entry,
                gc_threshold,
            } => (entry, gc_threshold),
            PeerAnswer::Missed(why) => return (HeldByNode::Unknown(why), Timestamp::ZERO),
            _ => return (HeldByNode::Unknown(Miss::Failed), Timestamp::ZERO),
        };
        let head = entry.as_ref().map(VersionHead::of);
        (
            head.map_or(HeldByNode::Nothing, HeldByNode::Version),
            gc_threshold,
        )
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
    fn stale(held: &[HeldByNode], gc_threshold: u64, now_unix_ms: u64) -> String {
        let nodes = (0..=u8::MAX).map(NodeId::new).zip(held.iter().copied());
        let versions = KeyVersions {
            nodes: nodes.collect(),
            gc_threshold: Timestamp::from_u64(gc_threshold),
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
        let deleted = version(9, Tombstone, 3);
        let expiring = HeldByNode::Version(VersionHead {
            timestamp: Timestamp::from_u64(9),
            kind: Value,
            expiry: Expiry::at_unix_ms(100),
            copies: 3,
            value_bytes: 1,
        });
        for (held, gc_threshold, expected) in [
            (&[new, new, Nothing][..], 0, "---"),
            (&[new, old, Nothing], 0, "-s-"),
            (&[Nothing, new, old], 0, "s--"),
            (&[new, Unknown(Miss::Timeout), old], 0, "-?-"),
            (&[Nothing, Nothing], 0, "--"),
            // A tombstone below the GC threshold may be gone; what it hides may not be there.
            (&[deleted, Nothing, old], 0, "-ss"),
            (&[deleted, Nothing, old], 10, "--s"),
            (&[expiring, Nothing, old], 10, "--s"),
        ] {
            assert_eq!(
                stale(held, gc_threshold, 100),
                expected,
                "{held:?} {gc_threshold}"
            );
        }
        assert_eq!(stale(&[expiring, Nothing], 10, 99), "-s");
    }
}
