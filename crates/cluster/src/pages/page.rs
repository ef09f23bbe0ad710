//! Pages: what a node answers about the next keys of a scan.

use crate::layout::Epoch;
use crate::members::{NodeId, NodeSet};
use crate::placement::{Placement, PreferenceList};
use base::{Entry, EntryRef, Kind};
use xxhash_rust::xxh3::xxh3_64;

/// What a coordinator asks a node for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// The list of members by which the scan goes. A node with another one makes no page.
    pub epoch: Epoch,
    /// The first key.
    pub start: Vec<u8>,
    /// The key before which the scan ends, if it ends before the last key.
    pub end: Option<Vec<u8>>,
    /// How many replicas each key has for this scan.
    pub from: u8,
    /// How many bytes of keys and values to read for the page.
    pub bytes: u32,
    /// The node that asks.
    pub coordinator: NodeId,
    /// Whose values are wanted; empty if only versions are.
    pub senders: NodeSet,
}

impl PageRequest {
    /// Whether a node is one of the replicas that the scan asks for a key, and whether it is
    /// the one that sends the value.
    ///
    /// The coordinator needs no network for what its own store holds, so it is the sender
    /// where it is a replica. The other keys are spread over the nodes as the keys are: the
    /// first sender in the key's preference list.
    #[must_use]
    pub fn part_of(&self, node: NodeId, key: &[u8], placement: &Placement) -> Part {
        let senders = self.senders;
        let is_of_all = usize::from(self.from) >= placement.nodes();
        if is_of_all && senders.contains(self.coordinator) {
            return if node == self.coordinator {
                Part::Sender
            } else {
                Part::Replica
            };
        }
        let preference_list = placement.preference_list(key, self.from);
        if !preference_list.contains(&node) {
            return Part::None;
        }
        let is_sender =
            if senders.contains(self.coordinator) && preference_list.contains(&self.coordinator) {
                node == self.coordinator
            } else {
                first_of(&preference_list, senders) == Some(node)
            };
        if is_sender {
            Part::Sender
        } else {
            Part::Replica
        }
    }
}

fn first_of(preference_list: &PreferenceList, senders: NodeSet) -> Option<NodeId> {
    preference_list
        .iter()
        .copied()
        .find(|node| senders.contains(*node))
}

/// A node's part in what a scan returns of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It is no replica that the scan asks.
    None,
    /// It says which version it has.
    Replica,
    /// It sends the value as well.
    Sender,
}

/// What a node has of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageItem {
    /// The version, without its value unless `has_value`.
    pub entry: Entry,
    /// The length of its value, in bytes.
    pub value_bytes: u32,
    /// A hash of its value; 0 for a tombstone.
    pub value_hash: u64,
    /// Whether the value is here.
    pub has_value: bool,
}

impl PageItem {
    /// A version that a node holds, with or without its value. Copies no more than it keeps.
    #[must_use]
    pub fn of(entry: EntryRef<'_>, has_value: bool) -> Self {
        let value_hash = match entry.kind() {
            Kind::Value => xxh3_64(entry.value_bytes()),
            Kind::Tombstone => 0,
        };
        Self {
            value_bytes: entry.value_bytes().len() as u32,
            value_hash,
            has_value: entry.kind() == Kind::Value && (has_value || entry.value_bytes().is_empty()),
            entry: if has_value {
                entry.to_entry()
            } else {
                entry.without_value().to_entry()
            },
        }
    }

    /// Whether both are one version, with everything that belongs to it.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let (one, two) = (&self.entry, &other.entry);
        one.timestamp() == two.timestamp()
            && one.kind() == two.kind()
            && one.expiry() == two.expiry()
            && one.copies() == two.copies()
            && self.value_bytes == other.value_bytes
            && self.value_hash == other.value_hash
    }

    /// Whether an entry with its value is this version.
    #[must_use]
    pub fn is_version_of(&self, entry: &Entry) -> bool {
        self.is_same(&Self::of(entry.lend(), false))
    }
}

/// A part of a scan, as one node has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanPage {
    /// What the node has of the keys for which it is asked, in the order of the keys.
    pub items: Vec<PageItem>,
    /// Where the next page begins: the node has nothing else before that key. [`None`] at the
    /// end of the scan.
    pub next: Option<Vec<u8>>,
    /// Whether the node's word counts for this part. It does not where a damaged block may have
    /// held keys; such a page has no items.
    pub counts: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Expiry, Timestamp};

    #[test]
    fn each_key_has_one_sender_among_its_replicas() {
        let placement = Placement::new(["a", "b", "c", "d"]);
        let all: Vec<NodeId> = (0..4).map(NodeId::new).collect();
        for (from, senders) in [(1, 4), (2, 4), (3, 4), (4, 4), (2, 3), (4, 3), (4, 1)] {
            let mut sent = [0; 4];
            for number in 0..400 {
                let key = format!("key{number}").into_bytes();
                let request = PageRequest {
                    epoch: Epoch::default(),
                    start: Vec::new(),
                    end: None,
                    from,
                    bytes: 1,
                    coordinator: all[3],
                    senders: all[..senders].iter().copied().collect(),
                };
                let preference_list = placement.preference_list(&key, from);
                let parts = all
                    .iter()
                    .map(|node| request.part_of(*node, &key, &placement));
                let parts: Vec<Part> = parts.collect();
                for (node, part) in all.iter().zip(&parts) {
                    assert_eq!(
                        *part != Part::None,
                        preference_list.contains(node),
                        "{from}"
                    );
                }
                let has_sender = preference_list.iter().any(|node| node.index() < senders);
                let count = parts.iter().filter(|part| **part == Part::Sender).count();
                assert_eq!(count, usize::from(has_sender), "{from} {senders}");
                if let Some(sender) = parts.iter().position(|part| *part == Part::Sender) {
                    sent[sender] += 1;
                    let own = preference_list.contains(&all[3]) && senders == 4;
                    assert!(!own || sender == 3, "the own store comes first");
                }
            }
            if (from, senders) == (4, 3) {
                assert!(sent[..3].iter().all(|count| *count > 80), "{sent:?}");
            }
        }
    }

    #[test]
    fn two_items_are_one_version_only_if_everything_is_the_same() {
        let at = Timestamp::from_u64;
        let entry =
            |at, value: &[u8], expiry, copies| Entry::value(b"k", at, value, expiry, copies);
        let one = entry(at(5), b"v", Expiry::NEVER, 3);
        let item = PageItem::of(one.lend(), false);
        assert!(item.is_same(&PageItem::of(one.lend(), true)));
        assert!(item.is_version_of(&one));
        assert_eq!(item.entry.value_bytes(), b"");
        for other in [
            entry(at(6), b"v", Expiry::NEVER, 3),
            entry(at(5), b"w", Expiry::NEVER, 3),
            entry(at(5), b"", Expiry::NEVER, 3),
            entry(at(5), b"v", Expiry::at_unix_ms(9), 3),
            entry(at(5), b"v", Expiry::NEVER, 2),
            Entry::tombstone(b"k", at(5), 3),
        ] {
            assert!(!item.is_version_of(&other), "{other:?}");
        }
    }
}
