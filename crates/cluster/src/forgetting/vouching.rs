//! Whose word counts about a version below F that some stores hold and others do not:
//! it was written and one lacks it, or it was deleted and one has missed that.

use crate::NodeId;
use base::Timestamp;
use std::collections::BTreeSet;

/// What the store of a member can say about versions below F. Those that can say more
/// come later in the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vouching {
    /// Nothing: it lacks something, which may be the tombstones that are forgotten.
    #[default]
    Nothing = 0,
    /// It lacks something, but has F itself. So what it lost was above, but for what damaged
    /// blocks have held: there it takes what another store still has.
    Remembers = 1,
    /// All: it lacks nothing.
    All = 2,
}

impl Vouching {
    /// What a store can say that lacks nothing, or has the forget bound `forgotten`, while
    /// the greatest F is `greatest`.
    #[must_use]
    pub fn of(lacks_nothing: bool, forgotten: Timestamp, greatest: Timestamp) -> Self {
        match (lacks_nothing, forgotten >= greatest) {
            (true, _) => Self::All,
            (false, true) => Self::Remembers,
            (false, false) => Self::Nothing,
        }
    }

    /// From the number of one.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Nothing),
            1 => Some(Self::Remembers),
            2 => Some(Self::All),
            _ => None,
        }
    }
}

/// Those of a version's replicas whose word counts: the ones that can say most, by `says`.
/// If a power cut of the whole cluster leaves none that lacks nothing, those that remember F vouch
/// for each other; if none does, all count, because a version that returns does less harm
/// than one that is lost.
#[must_use]
pub fn vouchers(replicas: &[NodeId], says: impl Fn(NodeId) -> Vouching) -> BTreeSet<NodeId> {
    let most = most_said(replicas, &says);
    let can_say_most = |node: &NodeId| says(*node) == most;
    replicas.iter().copied().filter(can_say_most).collect()
}

/// Whether a store does not send a version of its own to those that lack it: a replica of
/// the version can say more about it.
#[must_use]
pub fn withholds(own: NodeId, replicas: &[NodeId], says: impl Fn(NodeId) -> Vouching) -> bool {
    says(own) < most_said(replicas, &says)
}

fn most_said(replicas: &[NodeId], says: impl Fn(NodeId) -> Vouching) -> Vouching {
    let said = replicas.iter().map(|node| says(*node));
    said.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Vouching::{All, Nothing, Remembers};

    #[test]
    fn those_count_that_can_say_most() {
        let replicas = [2, 0, 1].map(NodeId::new);
        for (vouching, expected) in [
            ([All, All, All], vec![0, 1, 2]),
            ([Nothing, All, Remembers], vec![1]),
            ([Remembers, Nothing, Remembers], vec![0, 2]),
            ([Nothing, Nothing, Nothing], vec![0, 1, 2]),
        ] {
            let says = |node: NodeId| vouching[node.index()];
            let expected = BTreeSet::from_iter(expected.into_iter().map(NodeId::new));
            assert_eq!(vouchers(&replicas, says), expected, "{vouching:?}");
            for own in replicas {
                let is_voucher = expected.contains(&own);
                assert_eq!(withholds(own, &replicas, says), !is_voucher);
            }
        }
        // What is not a replica of the version says nothing about it.
        let vouching = [Nothing, Nothing, All];
        let says = |node: NodeId| vouching[node.index()];
        assert_eq!(vouchers(&replicas[1..], says).len(), 2);
    }

    #[test]
    fn what_a_store_can_say_follows_from_what_it_lacks() {
        let at = Timestamp::from_u64;
        assert_eq!(Vouching::of(true, at(0), at(5)), All);
        assert_eq!(Vouching::of(false, at(5), at(5)), Remembers);
        assert_eq!(Vouching::of(false, at(4), at(5)), Nothing);
        for vouching in [Nothing, Remembers, All] {
            assert_eq!(Vouching::from_code(vouching as u8), Some(vouching));
        }
        assert_eq!(Vouching::from_code(3), None);
    }
}
