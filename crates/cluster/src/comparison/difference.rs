//! What two sets of items do not share, and what follows from that.

use super::digest::{Digest, Item};
use base::Timestamp;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// What two sets do not share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// The items that only this node's set has.
    pub only_mine: Vec<Item>,
    /// The items that only the other set has.
    pub only_theirs: Vec<Item>,
}

impl Difference {
    /// The number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.only_mine.len() + self.only_theirs.len()
    }

    /// Whether the sets are equal.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Which versions two nodes send each other because their items differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// The hashes of the keys that this node sends to the other.
    pub send: Vec<u64>,
    /// The hashes of the keys that this node asks the other for.
    pub fetch: Vec<u64>,
}

impl Difference {
    /// A digest of this node with the difference applied: what the other must have.
    #[must_use]
    pub fn applied_to(&self, mut mine: Digest) -> Digest {
        self.only_mine.iter().for_each(|item| mine.remove(*item));
        self.only_theirs.iter().for_each(|item| mine.add(*item));
        mine
    }

    /// What the two send each other: the newest version of each key goes to the
    /// node that lacks it. Two contents of one timestamp go both ways, and both
    /// nodes choose the same. `kept` gives the item that this node keeps of a key
    /// if it compares that with the other or not: the newest version may have
    /// fewer copies than the one that the other keeps.
    #[must_use]
    pub fn exchange(&self, kept: impl Fn(u64) -> Option<Item>) -> Exchange {
        let theirs: BTreeMap<u64, Timestamp> = self
            .only_theirs
            .iter()
            .map(|item| (item.key_hash, item.timestamp))
            .collect();
        let mut exchange = Exchange::default();
        for mine in &self.only_mine {
            let is_older = theirs
                .get(&mine.key_hash)
                .is_some_and(|theirs| mine.timestamp < *theirs);
            if !is_older {
                exchange.send.push(mine.key_hash);
            }
        }
        let sent: BTreeSet<u64> = exchange.send.iter().copied().collect();
        for theirs in &self.only_theirs {
            match kept(theirs.key_hash).map(|kept| kept.timestamp.cmp(&theirs.timestamp)) {
                Some(Ordering::Greater) if sent.contains(&theirs.key_hash) => {}
                Some(Ordering::Greater) => exchange.send.push(theirs.key_hash),
                Some(Ordering::Less | Ordering::Equal) | None => {
                    exchange.fetch.push(theirs.key_hash);
                }
            }
        }
        exchange
    }
}
