//! Where keys lie by a list of members: in a change, by the old and by the new one.

use super::{MemberList, Quorum, WhichList};
use crate::members::{Members, NodeId};
use crate::placement::{Placement, PreferenceList};
use crate::replicas::Replicas;

/// The placements of one list of members, of which a change has two.
#[derive(Clone, Debug)]
pub struct Placements {
    old: Placement,
    change: Option<Box<NewPlacement>>,
}

#[derive(Clone, Debug)]
struct NewPlacement {
    new: Placement,
    judge: WhichList,
}

impl From<&Members> for Placements {
    /// That of nodes without zones and without a change.
    fn from(members: &Members) -> Self {
        Self {
            old: Placement::of(members),
            change: None,
        }
    }
}

impl From<&MemberList> for Placements {
    fn from(list: &MemberList) -> Self {
        let placement = |which| {
            let members = list.members_of(which);
            Placement::listed(members.map(|it| (it.id, it.member.name(), it.zone.as_deref())))
        };
        let is_stable = list.phase() == super::Phase::Stable;
        let new = || NewPlacement {
            new: placement(WhichList::New),
            judge: list.phase().judge(),
        };
        Self {
            old: placement(WhichList::Old),
            change: (!is_stable).then(|| Box::new(new())),
        }
    }
}

impl Placements {
    /// The nodes to ask for a request of a key, and how many of them must answer. Of the list that
    /// is not in a change, those are the first `from` of the preference list.
    #[must_use]
    pub fn for_request(&self, key: &[u8], replicas: Replicas) -> (PreferenceList, Quorum) {
        let old = self.old.preference_list(key, replicas.from);
        match &self.change {
            None => (old, Quorum::from(replicas)),
            Some(change) => {
                let new = change.new.preference_list(key, replicas.from);
                Quorum::of_two(replicas, old, &new, change.judge)
            }
        }
    }

    /// The placement by which scans of the whole cluster go: that of the list that judges, where
    /// every acknowledged write is.
    #[must_use]
    pub fn for_scans(&self) -> &Placement {
        match &self.change {
            Some(change) if change.judge == WhichList::New => &change.new,
            _ => &self.old,
        }
    }

    /// The first `from` nodes of the key's preference list; in a change those of the old list, and
    /// behind them the others of the new one.
    #[must_use]
    pub fn preference_list(&self, key: &[u8], from: u8) -> PreferenceList {
        let old = self.old.preference_list(key, from);
        self.with_new(old, |new| new.preference_list(key, from))
    }

    /// The first `from` nodes of the key's preference lists before and after the change that is under
    /// way; `None` without one.
    #[must_use]
    pub fn before_and_after(&self, key: &[u8], from: u8) -> Option<[PreferenceList; 2]> {
        let change = self.change.as_ref()?;
        let both = [&self.old, &change.new];
        Some(both.map(|placement| placement.preference_list(key, from)))
    }

    /// The same nodes, for those who need no order. Without a hash if all are.
    #[must_use]
    pub fn replicas(&self, key: &[u8], from: u8) -> PreferenceList {
        let old = self.old.replicas(key, from);
        self.with_new(old, |new| new.replicas(key, from))
    }

    fn with_new(
        &self,
        old: PreferenceList,
        of_new: impl FnOnce(&Placement) -> PreferenceList,
    ) -> PreferenceList {
        let mut union = old;
        if let Some(change) = &self.change {
            for node in of_new(&change.new) {
                if !union.contains(&node) {
                    union.push(node);
                }
            }
        }
        union
    }

    /// Whether keys are placed on a node, in the old or in the new list.
    #[must_use]
    pub fn contains(&self, node: NodeId) -> bool {
        let mut placements = self.all();
        placements.any(|placement| placement.ids().any(|id| id == node))
    }

    /// Whether a node is one of them.
    #[must_use]
    pub fn is_replica(&self, node: NodeId, key: &[u8], from: u8) -> bool {
        let mut placements = self.all();
        placements.any(|placement| placement.is_replica(node, key, from))
    }

    /// Whether the change that is under way gives a node a key, which it may still lack: it is one of
    /// the first `from` by the new list, and not by the old one.
    #[must_use]
    pub fn gains(&self, node: NodeId, key: &[u8], from: u8) -> bool {
        self.change.as_ref().is_some_and(|change| {
            change.new.is_replica(node, key, from) && !self.old.is_replica(node, key, from)
        })
    }

    /// Whether a node is the first of a key's preference list; in a change, in both lists.
    #[must_use]
    pub fn is_first(&self, node: NodeId, key: &[u8]) -> bool {
        let mut placements = self.all();
        placements.all(|placement| placement.is_replica(node, key, 1))
    }

    /// Whether two nodes both are.
    #[must_use]
    pub fn are_replicas(&self, both: [NodeId; 2], key: &[u8], from: u8) -> bool {
        match &self.change {
            None => self.old.are_replicas(both, key, from),
            Some(_) => both.iter().all(|node| self.is_replica(*node, key, from)),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Placement> {
        let new = self.change.iter().map(|change| &change.new);
        std::iter::once(&self.old).chain(new)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Change, JoinedStore, Joiner, Phase};
    use super::*;
    use crate::layout::ClusterId;
    use crate::members::{Member, NodeSet};

    fn member(name: &str) -> Member {
        format!("{name}=http://{name}:80").parse().unwrap()
    }

    /// Three nodes that keep two replicas, and a fourth that joins.
    fn copying() -> MemberList {
        let members = ["a", "b", "c"].map(member).to_vec();
        let pair = Replicas::quorum(2);
        let list = MemberList::founding(ClusterId::new(1), members, pair).unwrap();
        let joiner = Joiner {
            member: member("d"),
            zone: None,
            store: JoinedStore {
                store_id: 1,
                start: 2,
            },
        };
        let change = Change::Members {
            join: vec![joiner],
            leave: Vec::new(),
            are_dead: false,
        };
        list.plan(&change, NodeSet::default()).unwrap()
    }

    #[test]
    fn a_key_lies_on_the_replicas_of_both_lists() {
        let copying = copying();
        let settling = copying.in_phase(Phase::Settling);
        let [of_copying, of_settling] = [&copying, &settling].map(Placements::from);
        let [old, new] =
            [WhichList::Old, WhichList::New].map(|which| Placements::from(&copying.stable(which)));
        let joined = NodeId::new(3);
        let replicas = Replicas::quorum(2);
        let mut moved = 0;
        for number in 0..200_u8 {
            let key = [number];
            let [in_old, in_new] = [&old, &new].map(|it| it.preference_list(&key, 2));
            let (asked, quorum) = of_copying.for_request(&key, replicas);
            moved += u32::from(in_new.contains(&joined));
            assert_eq!(quorum.is_of_two(), in_new.contains(&joined));
            assert_eq!(asked[..2], in_old[..]);
            assert!(in_new.iter().all(|node| asked.contains(node)));
            assert_eq!(of_copying.preference_list(&key, 2), asked);
            let both = [in_old.clone(), in_new.clone()];
            assert_eq!(of_copying.before_and_after(&key, 2), Some(both));
            let mut unordered = of_copying.replicas(&key, 2);
            let mut sorted = asked.clone();
            unordered.sort();
            sorted.sort();
            assert_eq!(unordered, sorted);
            for node in (0..5).map(NodeId::new) {
                let is_replica = asked.contains(&node);
                let gains = in_new.contains(&node) && !in_old.contains(&node);
                assert_eq!(of_copying.gains(node, &key, 2), gains);
                assert!(!new.gains(node, &key, 2));
                assert_eq!(of_copying.is_replica(node, &key, 2), is_replica);
                let are = of_settling.are_replicas([node, joined], &key, 2);
                assert_eq!(are, is_replica && asked.contains(&joined));
            }
            for (placements, expected) in [(&of_copying, in_old), (&of_settling, in_new)] {
                assert_eq!(placements.for_scans().preference_list(&key, 2), expected);
            }
        }
        // A half of all keys have a replica on each of four nodes.
        assert!((70..130).contains(&moved), "{moved} of 200");
    }
}
