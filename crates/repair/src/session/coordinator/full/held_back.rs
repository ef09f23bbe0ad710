//! Why a full session has not raised the GC threshold.

use crate::store::HeldBack;
use base::Timestamp;
use cluster::NodeId;
use cluster::comparison::Pair;

/// What a node has answered that takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BegunStore {
    pub(super) node: NodeId,
    pub(super) gc_threshold: Timestamp,
    pub(super) closed: Timestamp,
    /// How far its clock allows its closed timestamp to rise; [`Timestamp::ZERO`] while that is
    /// not trusted.
    pub(super) latest: Timestamp,
}

/// Whether a session that has begun may raise the GC threshold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Raising {
    /// It may.
    Yes,
    /// It is as high as the GC grace allows.
    #[default]
    Idle,
    /// It may not.
    HeldBack(HeldBack),
}

impl Raising {
    /// Of a session in which these stores take part, and have closed what is `below`, or nothing.
    /// These clocks of members are known to be wrong.
    pub(super) fn of(
        stores: &[BegunStore],
        members: impl Iterator<Item = NodeId>,
        below: Timestamp,
        wrong_clocks: Vec<NodeId>,
    ) -> Self {
        if below > Timestamp::ZERO {
            return Self::Yes;
        }
        let nodes_that = |is_it: &dyn Fn(&BegunStore) -> bool| -> Vec<NodeId> {
            let those = stores.iter().filter(|store| is_it(store));
            those.map(|store| store.node).collect()
        };
        let has_begun = |node: &NodeId| stores.iter().any(|store| store.node == *node);
        let away: Vec<NodeId> = members.filter(|node| !has_begun(node)).collect();
        if !away.is_empty() {
            return Self::HeldBack(HeldBack::Away(away));
        }
        let untrusted = nodes_that(&|store| store.latest == Timestamp::ZERO);
        if !untrusted.is_empty() {
            // Beside one wrong clock, right ones are not trusted either, for which all have to
            // agree. The wrong one is to blame.
            let to_blame = if wrong_clocks.is_empty() {
                untrusted
            } else {
                wrong_clocks
            };
            return Self::HeldBack(HeldBack::Clocks(to_blame));
        }
        let latest = stores.iter().map(|store| store.latest).min();
        let latest = latest.unwrap_or(Timestamp::ZERO);
        let known = stores.iter().map(|store| store.gc_threshold).max();
        if Some(latest) <= known {
            // The GC grace has become longer, and the threshold is high enough for now.
            return Self::Idle;
        }
        let ahead = nodes_that(&|store| store.closed >= latest);
        Self::HeldBack(if ahead.is_empty() {
            HeldBack::Interrupted
        } else {
            HeldBack::ClosedAhead(ahead)
        })
    }

    /// Why the session has not raised it in the end: these members took no part to the end, these
    /// pairs are not equal, these stores have taken something in behind the scan, or something was
    /// moved until the last round of a range. [`None`] if there was nothing to raise.
    pub(super) fn held_back(
        self,
        away: Vec<NodeId>,
        unequal: Vec<Pair>,
        has_moved: bool,
        voided: Vec<NodeId>,
    ) -> Option<HeldBack> {
        match self {
            Self::Idle => None,
            Self::HeldBack(why) => Some(why),
            Self::Yes if !away.is_empty() => Some(HeldBack::Away(away)),
            Self::Yes if !unequal.is_empty() => {
                let pairs = unequal.into_iter().map(|pair| (pair.lower, pair.upper));
                Some(HeldBack::Unequal(pairs.collect()))
            }
            Self::Yes if !voided.is_empty() => Some(HeldBack::CameBehind(voided)),
            Self::Yes if has_moved => Some(HeldBack::Moved),
            Self::Yes => Some(HeldBack::Interrupted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u64) -> Timestamp {
        Timestamp::from_u64(number)
    }

    fn node(number: u8) -> NodeId {
        NodeId::new(number)
    }

    fn store(number: u8, [gc_threshold, closed, latest]: [u64; 3]) -> BegunStore {
        BegunStore {
            node: node(number),
            gc_threshold: at(gc_threshold),
            closed: at(closed),
            latest: at(latest),
        }
    }

    fn of(stores: &[BegunStore], below: u64, wrong_clocks: &[NodeId]) -> Raising {
        let members = (0..2).map(NodeId::new);
        Raising::of(stores, members, at(below), wrong_clocks.to_vec())
    }

    #[test]
    fn what_keeps_a_session_from_raising_is_known_before_its_scan() {
        let [usual, other] = [store(0, [5, 7, 9]), store(1, [4, 6, 10])];
        let both = [usual, other];
        assert_eq!(of(&both, 9, &[]), Raising::Yes);
        let held_back = Raising::HeldBack;
        assert_eq!(
            of(&both[..1], 0, &[]),
            held_back(HeldBack::Away(vec![node(1)]))
        );
        let untrusted = [usual, store(1, [4, 6, 0])];
        let clocks = |of| held_back(HeldBack::Clocks(vec![node(of)]));
        assert_eq!(of(&untrusted, 0, &[]), clocks(1));
        assert_eq!(of(&untrusted, 0, &[node(0)]), clocks(0));
        assert_eq!(of(&[usual, store(1, [9, 9, 10])], 0, &[]), Raising::Idle);
        assert_eq!(
            of(&[usual, store(1, [4, 11, 10])], 0, &[]),
            held_back(HeldBack::ClosedAhead(vec![node(1)]))
        );
        // A session goes on in which a store may not raise any more.
        assert_eq!(of(&both, 0, &[]), held_back(HeldBack::Interrupted));
    }

    #[test]
    fn what_has_kept_a_session_from_raising_is_named_in_the_order_of_its_weight() {
        let pair = Pair::of(node(0), node(1));
        let why = |away: &[NodeId], unequal: &[Pair], has_moved, voided: &[NodeId]| {
            let (away, unequal, voided) = (away.to_vec(), unequal.to_vec(), voided.to_vec());
            Raising::Yes.held_back(away, unequal, has_moved, voided)
        };
        let one = [node(1)];
        let away = Some(HeldBack::Away(one.to_vec()));
        assert_eq!(why(&one, &[pair], true, &one), away);
        let unequal = Some(HeldBack::Unequal(vec![(node(0), node(1))]));
        assert_eq!(why(&[], &[pair], true, &one), unequal);
        let came_behind = Some(HeldBack::CameBehind(one.to_vec()));
        assert_eq!(why(&[], &[], true, &one), came_behind);
        assert_eq!(why(&[], &[], true, &[]), Some(HeldBack::Moved));
        assert_eq!(why(&[], &[], false, &[]), Some(HeldBack::Interrupted));
        let nothing = Raising::Idle.held_back(Vec::new(), vec![pair], false, Vec::new());
        assert_eq!(nothing, None);
    }
}
