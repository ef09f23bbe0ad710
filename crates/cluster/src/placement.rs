//! Which nodes hold a key: rendezvous hashing (Thaler and Ravishankar, "A
//! Name-Based Mapping Scheme for Rendezvous", 1996), also called highest random
//! weight.
//!
//! Every node has a weight for every key, which depends only on the key and the node's name. The
//! replicas of a key are the nodes with the greatest weights. So the order of a list of nodes does
//! not matter, the replicas for a smaller `from` are a prefix of those for a larger one, and a new
//! node takes just the keys for which its weight is among the greatest: nothing else moves.
//!
//! The weight is `mix(xxh3(key) ^ xxh3(name))`, where `mix` is David Stafford's thirteenth variant
//! of MurmurHash3's 64-bit finaliser, known from SplitMix64 (Steele, Lea and Flood, 2014). The key
//! is hashed once, and the names when the placement is made, so a node costs two multiplications. A
//! change of any of it moves the keys of every store. The golden cases in `tests/` guard against
//! that, and so do the vectors in docs/reference/placement.md, from which clients compute
//! preference lists.

use crate::members::{Members, NODES_MAX, NodeId};
use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64;

/// Up to this many replicas a request allocates nothing for its lists of them.
pub(crate) const REPLICAS_INLINE: usize = 8;

/// The replicas of a key, the first choice first.
pub type PreferenceList = SmallVec<[NodeId; REPLICAS_INLINE]>;

/// The nodes that keys are spread over.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The nodes and the hashes of their names, by ascending IDs.
    nodes: Box<[(NodeId, u64)]>,
    /// The number of each node's zone, in the order of `nodes`; `None` if each node is in a zone of
    /// its own.
    zones: Option<Box<[u8]>>,
}

/// A node's score for a key. The derived order decides which node comes first: by
/// the weight, and between names of the same hash by the node's ID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    weight: u64,
    node: NodeId,
}

impl Placement {
    /// A placement over the nodes with these names, whose IDs are their places in the list. There
    /// are at most [`NODES_MAX`]; the rest of a longer list is left out.
    #[must_use]
    pub fn new<'a>(names_in_order: impl IntoIterator<Item = &'a str>) -> Self {
        let names = names_in_order.into_iter().take(NODES_MAX);
        Self::with_ids((0..=u8::MAX).map(NodeId::new).zip(names))
    }

    /// A placement over these nodes.
    #[must_use]
    pub fn of(members: &Members) -> Self {
        Self::with_ids(members.ids().map(|node| (node, members.name(node))))
    }

    /// A placement over the nodes with these IDs, which ascend, and names.
    fn with_ids<'a>(nodes: impl Iterator<Item = (NodeId, &'a str)>) -> Self {
        Self::listed(nodes.map(|(node, name)| (node, name, None)))
    }

    /// A placement over nodes with these IDs, which ascend, names and zones. There are at most
    /// [`NODES_MAX`]; the rest of a longer list is left out.
    #[must_use]
    pub fn listed<'a>(nodes: impl IntoIterator<Item = (NodeId, &'a str, Option<&'a str>)>) -> Self {
        let nodes = nodes.into_iter().take(NODES_MAX);
        let listed: Vec<(NodeId, &str, Option<&str>)> = nodes.collect();
        let zone_of = |index: usize, zone: Option<&str>| {
            // A node without a zone is alone in the one with its own number.
            let first = zone.and_then(|zone| listed.iter().position(|it| it.2 == Some(zone)));
            first.unwrap_or(index) as u8
        };
        let zones = listed.iter().enumerate();
        let zones: Box<[u8]> = zones.map(|(index, it)| zone_of(index, it.2)).collect();
        let is_shared = zones
            .iter()
            .zip(0..)
            .any(|(zone, index): (_, u8)| *zone != index);
        let hashed = listed
            .iter()
            .map(|(node, name, _)| (*node, xxh3_64(name.as_bytes())));
        Self {
            nodes: hashed.collect(),
            zones: is_shared.then_some(zones),
        }
    }

    /// The nodes, by ascending IDs.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = NodeId> {
        self.nodes.iter().map(|(node, _)| *node)
    }

    /// The hash of a node's name; `None` for one that no key lies on.
    fn hash_of(&self, node: NodeId) -> Option<u64> {
        let index = self.nodes.binary_search_by_key(&node, |(id, _)| *id).ok()?;
        Some(self.nodes[index].1)
    }

    /// The number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The replicas of a key, for those who need no order: all nodes, without a hash,
    /// when there are no more than `from`.
    #[must_use]
    pub fn replicas(&self, key: &[u8], from: u8) -> PreferenceList {
        if usize::from(from) < self.nodes() {
            return self.preference_list(key, from);
        }
        self.nodes.iter().map(|(node, _)| *node).collect()
    }

    /// Whether a node is one of the first `from` of the key's preference list. Without a hash when
    /// all nodes are.
    #[must_use]
    pub fn is_replica(&self, node: NodeId, key: &[u8], from: u8) -> bool {
        let Some(own_hash) = self.hash_of(node) else {
            return false;
        };
        if usize::from(from) >= self.nodes() {
            return true;
        }
        if self.zones.is_some() {
            return self.preference_list(key, from).contains(&node);
        }
        let key_hash = xxh3_64(key);
        let score = |(node, name_hash): (NodeId, u64)| Score {
            weight: mix(key_hash ^ name_hash),
            node,
        };
        let own = score((node, own_hash));
        let scores = self.nodes.iter().map(|node| score(*node));
        scores.filter(|other| *other > own).count() < usize::from(from)
    }

    /// Whether two nodes are both among the first `from` of the key's preference list. Without a
    /// hash when all nodes are.
    #[must_use]
    pub fn are_replicas(&self, both: [NodeId; 2], key: &[u8], from: u8) -> bool {
        if usize::from(from) >= self.nodes() {
            return both.iter().all(|node| self.hash_of(*node).is_some());
        }
        let preference_list = self.preference_list(key, from);
        both.iter().all(|node| preference_list.contains(node))
    }

    /// The first `from` nodes of the key's preference list; all nodes when there are fewer.
    #[must_use]
    pub fn preference_list(&self, key: &[u8], from: u8) -> PreferenceList {
        let key_hash = xxh3_64(key);
        if let Some(zones) = &self.zones {
            return self.spread_over(zones, key_hash, from);
        }
        let length = usize::from(from).min(self.nodes());
        let mut leaders: SmallVec<[Score; REPLICAS_INLINE]> = SmallVec::with_capacity(length);
        for (node, name_hash) in &self.nodes {
            let score = Score {
                weight: mix(key_hash ^ name_hash),
                node: *node,
            };
            if leaders.len() < length {
                leaders.push(score);
            } else {
                match leaders.last_mut() {
                    Some(last) if score > *last => *last = score,
                    _ => continue,
                }
            }
            // Few nodes get here, and most of them stay near the end of the list.
            let mut place = leaders.len() - 1;
            while place > 0 && leaders[place] > leaders[place - 1] {
                leaders.swap(place, place - 1);
                place -= 1;
            }
        }
        leaders.iter().map(|score| score.node).collect()
    }

    /// The first `from` nodes of a preference list that spreads over zones: it has the second node
    /// of a zone behind the first ones of all, the third behind all second ones, and so on.
    fn spread_over(&self, zones: &[u8], key_hash: u64, from: u8) -> PreferenceList {
        let scored = self.nodes.iter().zip(zones).map(|((node, hash), zone)| {
            let score = Score {
                weight: mix(key_hash ^ hash),
                node: *node,
            };
            (score, *zone)
        });
        let mut scored: SmallVec<[(Score, u8); 2 * REPLICAS_INLINE]> = scored.collect();
        scored.sort_unstable_by(|one, other| other.cmp(one));
        let mut of_zone = [0_u8; NODES_MAX];
        let turns = scored.iter().map(|(score, zone)| {
            let before = &mut of_zone[usize::from(*zone)];
            *before += 1;
            (*before, score.node)
        });
        let mut turns: SmallVec<[(u8, NodeId); 2 * REPLICAS_INLINE]> = turns.collect();
        turns.sort_by_key(|(turn, _)| *turn);
        turns.truncate(usize::from(from));
        turns.iter().map(|(_, node)| *node).collect()
    }
}

/// A bijection of 64 bits in which every bit of the input reaches every bit of
/// the output.
const fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a key that is written with percent escapes.
    fn decoded(text: &str) -> Vec<u8> {
        let mut parts = text.split('%');
        let mut bytes = parts.next().unwrap().as_bytes().to_vec();
        for part in parts {
            bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
            bytes.extend_from_slice(&part.as_bytes()[2..]);
        }
        bytes
    }

    #[test]
    fn the_replicas_of_a_key_are_the_first_of_its_preference_list() {
        let placement = Placement::new(["a", "b", "c", "d"]);
        for key in (0..50_u8).map(|key| [key]) {
            for from in 0..=5 {
                let replicas = placement.replicas(&key, from);
                for node in (0..5).map(NodeId::new) {
                    let is_replica = placement.is_replica(node, &key, from);
                    assert_eq!(is_replica, replicas.contains(&node), "{node:?} {from}");
                    for other in (0..5).map(NodeId::new) {
                        let are = placement.are_replicas([node, other], &key, from);
                        let expected = is_replica && replicas.contains(&other);
                        assert_eq!(are, expected, "{node:?} {other:?} {from}");
                    }
                }
            }
        }
    }

    #[test]
    fn ids_move_no_key() {
        let dense = Placement::new(["a", "b", "c", "d"]);
        let ids = [3, 7, 8, 254].map(NodeId::new);
        let sparse = Placement::with_ids(ids.into_iter().zip(["a", "b", "c", "d"]));
        assert_eq!(sparse.replicas(b"key", 4).to_vec(), ids);
        for key in (0..50_u8).map(|key| [key]) {
            for from in 0..=5 {
                let expected = dense.preference_list(&key, from);
                let expected: Vec<NodeId> = expected.iter().map(|node| ids[node.index()]).collect();
                assert_eq!(sparse.preference_list(&key, from).to_vec(), expected);
                for node in (0..=u8::MAX).map(NodeId::new) {
                    let is_replica = sparse.is_replica(node, &key, from);
                    assert_eq!(is_replica, expected.contains(&node), "{node:?} {from}");
                    let are = sparse.are_replicas([node, ids[0]], &key, from);
                    assert_eq!(
                        are,
                        is_replica && expected.contains(&ids[0]),
                        "{node:?} {from}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_preference_list_has_no_second_node_of_a_zone_before_the_first_of_another() {
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let zones = [
            Some("x"),
            Some("y"),
            Some("x"),
            None,
            Some("y"),
            Some("x"),
            None,
        ];
        let ids = (0..7).map(NodeId::new);
        let listed = ids.zip(names).zip(zones);
        let zoned = Placement::listed(listed.map(|((id, name), zone)| (id, name, zone)));
        let plain = Placement::new(names);
        for key in (0..100_u8).map(|key| [key]) {
            let whole = zoned.preference_list(&key, 7);
            let places = plain.preference_list(&key, 7);
            let place_of = |node: &NodeId| places.iter().position(|other| other == node);
            // x and y, and the two nodes without a zone, come before any second node of x or y.
            let mut first: Vec<Option<&str>> =
                whole[..4].iter().map(|node| zones[node.index()]).collect();
            first.sort_unstable();
            assert_eq!(first, [None, None, Some("x"), Some("y")]);
            assert_eq!(zones[whole[6].index()], Some("x"), "the third of x");
            // Among those of one turn the weights decide.
            for turn in [&whole[..4], &whole[4..6]] {
                assert!(turn.iter().map(place_of).is_sorted());
            }
            for from in 0..=8 {
                let length = usize::from(from).min(7);
                assert_eq!(zoned.preference_list(&key, from)[..], whole[..length]);
                for node in (0..8).map(NodeId::new) {
                    let is_replica = whole[..length].contains(&node);
                    assert_eq!(zoned.is_replica(node, &key, from), is_replica);
                }
            }
        }
    }

    /// Who joins, takes keys, and no other node does.
    #[test]
    fn a_node_that_joins_a_zone_gives_no_key_to_another_node() {
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        for zones in [
            [
                Some("x"),
                Some("x"),
                Some("y"),
                Some("y"),
                Some("z"),
                None,
                Some("x"),
            ],
            [
                Some("x"),
                Some("x"),
                Some("x"),
                Some("y"),
                Some("y"),
                Some("y"),
                Some("z"),
            ],
            [
                Some("x"),
                Some("x"),
                Some("x"),
                Some("x"),
                Some("y"),
                Some("y"),
                Some("y"),
            ],
        ] {
            let of = |count: u8| {
                let ids = (0..count).map(NodeId::new);
                let listed = ids.zip(names).zip(zones);
                Placement::listed(listed.map(|((id, name), zone)| (id, name, zone)))
            };
            let (before, after) = (of(6), of(7));
            for key in (0..200_u8).map(|key| [key]) {
                for from in 1..=6 {
                    let old = before.preference_list(&key, from);
                    let gained = after.preference_list(&key, from);
                    let mut gained = gained.iter().filter(|node| !old.contains(node));
                    assert!(gained.all(|node| node.index() == 6), "{zones:?} {from}");
                }
            }
        }
    }

    /// Clients compute preference lists by the same page, and the load generator tests its own
    /// function against it.
    #[test]
    fn the_golden_vectors_of_the_documents_hold() {
        let page = include_str!("../../../docs/reference/placement.md");
        let (_, vectors) = page.split_once("```vectors\n").unwrap();
        let (vectors, _) = vectors.split_once("```").unwrap();
        let mut checked = 0;
        for line in vectors.lines() {
            let (what, expected) = line.split_once(" = ").unwrap();
            let words: Vec<&str> = what.split(' ').collect();
            let found = match words[..] {
                ["hash", text] => format!("{:016x}", xxh3_64(&decoded(text))),
                ["weight", key, name] => {
                    let hashes = xxh3_64(&decoded(key)) ^ xxh3_64(name.as_bytes());
                    format!("{:016x}", mix(hashes))
                }
                ["replicas", key, "of", ref names @ ..] => {
                    let placement = Placement::new(names.iter().copied());
                    let preference_list = placement.preference_list(&decoded(key), u8::MAX);
                    let preference_list: Vec<&str> = preference_list
                        .iter()
                        .map(|node| names[node.index()])
                        .collect();
                    preference_list.join(" ")
                }
                _ => panic!("{what} is no vector"),
            };
            assert_eq!(found, expected, "{what}");
            checked += 1;
        }
        assert!(checked > 20, "{checked} vectors");
    }
}
