//! Which replicas a request needs: enough of one list of members, or of each of two.
//!
//! While the list of members changes, a key may have other replicas in the new list than in the
//! old one. Then a request needs `ack` replicas in *either* list: it goes to the union of both, and
//! a replica that is in both counts in both. One of the lists **judges**: only its replicas say
//! whether a write's first timestamp is above all acknowledged ones.
//!
//! For a key that does not move there is one group, as in a cluster whose members do not change.

use crate::members::NodeId;
use crate::placement::{PreferenceList, REPLICAS_INLINE};
use crate::replicas::{ReplicaIndex, Replicas};
use smallvec::SmallVec;

/// The rank of a node that is no replica in a list. There are at most 255 nodes, so none has it.
const NO_RANK: u8 = u8::MAX;

/// One of the two lists of members in a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WhichList {
    /// The members before the change.
    Old,
    /// The members after the change.
    New,
}

/// How many replicas of which groups must answer a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quorum {
    replicas: Replicas,
    /// The two groups of a key that moves.
    two: Option<Box<TwoGroups>>,
}

/// The replicas of a key in the old and in the new list.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TwoGroups {
    judge: WhichList,
    /// By [`ReplicaIndex`]: the rank in the old and in the new list.
    ranks: SmallVec<[[u8; 2]; REPLICAS_INLINE]>,
}

impl From<Replicas> for Quorum {
    fn from(replicas: Replicas) -> Self {
        Self {
            replicas,
            two: None,
        }
    }
}

impl Quorum {
    /// What a request of these replicas needs for a key that has the preference list `old` in the
    /// old list and `new` in the new one, each of at most `from` nodes. Returns the nodes to ask as
    /// well, by [`ReplicaIndex`]: those of the old list, and behind them the others of the new one.
    #[must_use]
    pub fn of_two(
        replicas: Replicas,
        old: PreferenceList,
        new: &[NodeId],
        judge: WhichList,
    ) -> (PreferenceList, Self) {
        if old[..] == *new {
            return (old, Self::from(replicas));
        }
        let rank_in = |list: &[NodeId], node| {
            let rank = list.iter().position(|other| *other == node);
            rank.and_then(|rank| u8::try_from(rank).ok())
                .unwrap_or(NO_RANK)
        };
        let mut union = old;
        let old_nodes = union.len();
        for node in new {
            if !union.contains(node) {
                union.push(*node);
            }
        }
        let ranks = union.iter().enumerate().map(|(index, node)| {
            let old_rank = rank_in(&union[..old_nodes], *node);
            debug_assert!(old_rank == NO_RANK || usize::from(old_rank) == index);
            [old_rank, rank_in(new, *node)]
        });
        let two = TwoGroups {
            judge,
            ranks: ranks.collect(),
        };
        let quorum = Self {
            replicas,
            two: Some(Box::new(two)),
        };
        (union, quorum)
    }

    /// How many must answer in each group, and how many each group has.
    #[must_use]
    pub fn replicas(&self) -> Replicas {
        self.replicas
    }

    /// How many replicas there are in all groups together.
    #[must_use]
    pub fn nodes(&self) -> u8 {
        match &self.two {
            None => self.replicas.from,
            // A cluster has at most 255 nodes.
            Some(two) => two.ranks.len() as u8,
        }
    }

    /// All replicas, in the order of the preference list, the new ones last.
    pub fn indexes(&self) -> impl Iterator<Item = ReplicaIndex> + use<> {
        (0..self.nodes()).map(ReplicaIndex::new)
    }

    /// Whether the key has other replicas in the new list than in the old one.
    #[must_use]
    pub fn is_of_two(&self) -> bool {
        self.two.is_some()
    }

    /// Whether an answer of this replica counts in each group. Such replicas are worth asking
    /// first.
    #[must_use]
    pub fn counts_in_all(&self, replica: ReplicaIndex) -> bool {
        self.groups().all(|group| group.contains(replica))
    }

    /// The groups, the old list's first.
    pub(crate) fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        let (first, second) = match &self.two {
            None => (Group(None), None),
            Some(two) => (two.group(WhichList::Old), Some(two.group(WhichList::New))),
        };
        std::iter::once(first).chain(second)
    }

    /// The group that judges the first timestamp of a write.
    pub(crate) fn judge(&self) -> Group<'_> {
        self.two
            .as_ref()
            .map_or(Group(None), |two| two.group(two.judge))
    }

    /// Whether a replica is one of the first `copies` of either list.
    pub(crate) fn is_own(&self, replica: ReplicaIndex, copies: u8) -> bool {
        self.groups()
            .any(|group| group.rank(replica).is_some_and(|rank| rank < copies))
    }

    /// The least number in a group of replicas for which `is` holds. `all` is by [`ReplicaIndex`].
    pub(crate) fn least<T>(&self, all: &[T], is: impl Fn(&T) -> bool) -> u8 {
        match &self.two {
            None => Group(None).count(all, is),
            Some(two) => {
                let old = two.group(WhichList::Old).count(all, &is);
                old.min(two.group(WhichList::New).count(all, is))
            }
        }
    }
}

impl TwoGroups {
    fn group(&self, list: WhichList) -> Group<'_> {
        Group(Some((&self.ranks, list)))
    }
}

/// The replicas of a key in one list; `None` where there is only one list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group<'a>(Option<(&'a [[u8; 2]], WhichList)>);

impl PartialEq for Group<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.map(|(_, list)| list) == other.0.map(|(_, list)| list)
    }
}

impl Group<'_> {
    /// The rank of a replica in the list; `None` if the list has others.
    pub(crate) fn rank(self, replica: ReplicaIndex) -> Option<u8> {
        match self.0 {
            None => Some(replica.as_u8()),
            Some((ranks, list)) => {
                let rank = ranks.get(replica.as_usize())?[list as usize];
                (rank != NO_RANK).then_some(rank)
            }
        }
    }

    pub(crate) fn contains(self, replica: ReplicaIndex) -> bool {
        self.rank(replica).is_some()
    }

    /// For how many replicas of the group `is` holds. `all` is by [`ReplicaIndex`].
    pub(crate) fn count<T>(self, all: &[T], is: impl Fn(&T) -> bool) -> u8 {
        // There are at most 255 replicas.
        match self.0 {
            None => all.iter().filter(|each| is(each)).count() as u8,
            Some((ranks, list)) => {
                let in_group = ranks.iter().zip(all);
                let counted =
                    in_group.filter(|(ranks, each)| ranks[list as usize] != NO_RANK && is(each));
                counted.count() as u8
            }
        }
    }

    /// The entries of `all`, by [`ReplicaIndex`], of the replicas of the group.
    pub(crate) fn of<T>(self, all: &[T]) -> impl Iterator<Item = (ReplicaIndex, &T)> {
        let indexed = (0..=u8::MAX).map(ReplicaIndex::new).zip(all);
        indexed.filter(move |(replica, _)| self.contains(*replica))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(ids: &[u8]) -> PreferenceList {
        ids.iter().copied().map(NodeId::new).collect()
    }

    #[test]
    fn a_key_that_does_not_move_has_one_group() {
        let replicas = Replicas::quorum(3);
        let (asked, quorum) = Quorum::of_two(
            replicas,
            nodes(&[4, 2, 7]),
            &nodes(&[4, 2, 7]),
            WhichList::Old,
        );
        assert_eq!((asked, &quorum), (nodes(&[4, 2, 7]), &replicas.into()));
        assert!(!quorum.is_of_two());
        assert_eq!(quorum.nodes(), 3);
        let replica = ReplicaIndex::new(2);
        assert!(quorum.counts_in_all(replica));
        assert!(quorum.is_own(replica, 3) && !quorum.is_own(replica, 2));
        assert_eq!(quorum.least(&[1, 2, 3], |each| *each > 1), 2);
    }

    #[test]
    fn a_key_that_moves_counts_in_each_group() {
        let replicas = Replicas::quorum(3);
        let old = nodes(&[4, 2, 7]);
        let (asked, quorum) = Quorum::of_two(replicas, old, &nodes(&[9, 4, 2]), WhichList::New);
        assert_eq!(asked, nodes(&[4, 2, 7, 9]));
        assert_eq!(quorum.nodes(), 4);
        let in_all = quorum.indexes().filter(|each| quorum.counts_in_all(*each));
        assert_eq!(in_all.count(), 2);
        let ranks = quorum.groups().map(|group| {
            let ranks = quorum.indexes().map(|replica| group.rank(replica));
            ranks.collect::<Vec<_>>()
        });
        assert_eq!(
            ranks.collect::<Vec<_>>(),
            [
                [Some(0), Some(1), Some(2), None],
                [Some(1), Some(2), None, Some(0)]
            ]
        );
        // The two that are in both lists count in both.
        assert_eq!(quorum.least(&[1, 1, 0, 0], |each| *each == 1), 2);
        assert_eq!(quorum.least(&[1, 0, 1, 0], |each| *each == 1), 1);
        assert_eq!(quorum.least(&[0, 0, 1, 1], |each| *each == 1), 1);
        assert_eq!(quorum.judge().count(&[1, 0, 0, 1], |each| *each == 1), 2);
        // With one copy: the first of either list.
        let own = quorum.indexes().filter(|each| quorum.is_own(*each, 1));
        assert_eq!(
            own.collect::<Vec<_>>(),
            [0, 3].map(ReplicaIndex::new).to_vec()
        );
    }
}
