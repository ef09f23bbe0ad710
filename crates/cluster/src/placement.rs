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

use crate::members::{NODES_MAX, NodeId};
use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64;

/// Up to this many replicas a request allocates nothing for its lists of them.
pub(crate) const REPLICAS_INLINE: usize = 8;

/// The replicas of a key, the first choice first.
pub type PreferenceList = SmallVec<[NodeId; REPLICAS_INLINE]>;

/// The nodes that keys are spread over.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The hash of each node's name, by [`NodeId`].
    name_hashes: Box<[u64]>,
}

/// A node's score for a key. The derived order decides which node comes first: by
/// the weight, and between names of the same hash by the node's ID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    weight: u64,
    node: NodeId,
}

impl Placement {
    /// A placement over the nodes with these names, given in the order of
    /// their [`NodeId`]s. There are at most [`NODES_MAX`]; the rest of a
    /// longer list is left out.
    #[must_use]
    pub fn new<'a>(names_in_order: impl IntoIterator<Item = &'a str>) -> Self {
        let names = names_in_order.into_iter().take(NODES_MAX);
        Self {
            name_hashes: names.map(|name| xxh3_64(name.as_bytes())).collect(),
        }
    }

    /// The number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.name_hashes.len()
    }

    /// The replicas of a key, for those who need no order: all nodes, without a hash,
    /// when there are no more than `from`.
    #[must_use]
    pub fn replicas(&self, key: &[u8], from: u8) -> PreferenceList {
        if usize::from(from) < self.nodes() {
            return self.preference_list(key, from);
        }
        let ids = (0..=u8::MAX).zip(&self.name_hashes);
        ids.map(|(id, _)| NodeId::new(id)).collect()
    }

    /// Whether a node is one of the first `from` of the key's preference list. Without a hash when
    /// all nodes are.
    #[must_use]
    pub fn is_replica(&self, node: NodeId, key: &[u8], from: u8) -> bool {
        let Some(name_hash) = self.name_hashes.get(node.index()) else {
            return false;
        };
        if usize::from(from) >= self.nodes() {
            return true;
        }
        let key_hash = xxh3_64(key);
        let score = |node, name_hash: &u64| Score {
            weight: mix(key_hash ^ name_hash),
            node,
        };
        let own = score(node, name_hash);
        let ids = (0..=u8::MAX).zip(&self.name_hashes);
        let scores = ids.map(|(id, hash)| score(NodeId::new(id), hash));
        scores.filter(|other| *other > own).count() < usize::from(from)
    }

    /// Whether two nodes are both among the first `from` of the key's preference list. Without a
    /// hash when all nodes are.
    #[must_use]
    pub fn are_replicas(&self, both: [NodeId; 2], key: &[u8], from: u8) -> bool {
        if usize::from(from) >= self.nodes() {
            return both.iter().all(|node| node.index() < self.nodes());
        }
        let preference_list = self.preference_list(key, from);
        both.iter().all(|node| preference_list.contains(node))
    }

    /// The first `from` nodes of the key's preference list; all nodes when there are fewer.
    #[must_use]
    pub fn preference_list(&self, key: &[u8], from: u8) -> PreferenceList {
        let key_hash = xxh3_64(key);
        let length = usize::from(from).min(self.nodes());
        let mut leaders: SmallVec<[Score; REPLICAS_INLINE]> = SmallVec::with_capacity(length);
        for (id, name_hash) in (0..=u8::MAX).zip(&self.name_hashes) {
            let score = Score {
                weight: mix(key_hash ^ name_hash),
                node: NodeId::new(id),
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
