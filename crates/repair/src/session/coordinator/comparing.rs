//! Has the nodes of a session compare a range, and exchange what differs.

use crate::session::worker::RepairWorker;
use bytes::Bytes;
use cluster::NodeId;
use cluster::comparison::{Digest, NodeDigests, Pair};
use cluster::repair::{Compared, Lacking, SessionId};
use peer::{RepairAnswer, RepairRequest};
use std::collections::BTreeSet;
use std::rc::Rc;

/// A node that does not do as asked: its refusal, or no answer.
pub(super) type Lost = (NodeId, Option<RepairAnswer>);

/// A range that all nodes have scanned.
#[derive(Default)]
pub(super) struct ComparedRange {
    pub(super) number: u32,
    /// Its first key, or one before.
    pub(super) start: Bytes,
    /// Where it ends; [`None`] for the end of the key space.
    pub(super) end: Option<Bytes>,
    pub(super) digests: Vec<NodeDigests>,
    /// The nodes that have versions to offer to others.
    announcing: Vec<NodeId>,
    pub(super) non_owned: u64,
    /// How many versions each node has of which there is no other copy.
    pub(super) single_copies: Vec<(NodeId, u64)>,
    /// The pairs that have differed in it.
    differing: BTreeSet<Pair>,
}

/// What came of offering versions to nodes that do not compare them.
#[derive(Default)]
pub(super) struct Announced {
    /// The pairs of which one may still lack what the other has.
    pub(super) not_told: Vec<Pair>,
    /// Whether something that is not above the cut was not yet where it belongs.
    pub(super) has_moved: bool,
}

impl RepairWorker {
    /// Has nodes scan on from a key; gives where the range ends that all have scanned.
    pub(super) async fn scan_on(
        self: &Rc<Self>,
        session: SessionId,
        nodes: Vec<NodeId>,
        start: &Bytes,
    ) -> (Option<Bytes>, Vec<Lost>) {
        let advance = |_| RepairRequest::Advance {
            session,
            start: start.clone(),
        };
        let (mut least, mut lost): (Option<Bytes>, _) = (None, Vec::new());
        for (node, answer) in self.ask_all(nodes, advance).await {
            match answer {
                Some(RepairAnswer::Advanced(None)) => {}
                Some(RepairAnswer::Advanced(Some(reached))) if reached > *start => {
                    least = Some(least.map_or(reached.clone(), |least| least.min(reached)));
                }
                answer => lost.push((node, answer)),
            }
        }
        (least, lost)
    }

    /// Has nodes scan the next range, and make their digests of it.
    pub(super) async fn open_range(
        self: &Rc<Self>,
        session: SessionId,
        number: u32,
        nodes: Vec<NodeId>,
        start: Bytes,
    ) -> (ComparedRange, Vec<Lost>) {
        let (end, mut lost) = self.scan_on(session, nodes.clone(), &start).await;
        let have_scanned = nodes.into_iter();
        let have_scanned = have_scanned.filter(|node| lost.iter().all(|(of, _)| of != node));
        let have_scanned: Vec<NodeId> = have_scanned.collect();
        let mut range = ComparedRange {
            number,
            start,
            end: end.clone(),
            ..ComparedRange::default()
        };
        let digest = |_| RepairRequest::Digest {
            session,
            range: number,
            end: end.clone(),
        };
        for (node, answer) in self.ask_all(have_scanned, digest).await {
            match answer {
                Some(RepairAnswer::Digests {
                    non_owned,
                    announces,
                    single_copies,
                    digests: with,
                }) => {
                    range.non_owned += u64::from(non_owned);
                    if announces > 0 {
                        range.announcing.push(node);
                    }
                    range.single_copies.push((node, single_copies.into()));
                    range.digests.push(NodeDigests { node, with });
                }
                answer => lost.push((node, answer)),
            }
        }
        (range, lost)
    }

    /// Has versions of a range offered by some nodes to others that do not compare them. A holder
    /// and a node that may still lack one of them are not equal; of a holder that does not answer
    /// that is any that takes part.
    pub(super) async fn have_announced(
        self: &Rc<Self>,
        session: SessionId,
        range: u32,
        nodes: Vec<NodeId>,
        taking_part: &[NodeId],
    ) -> Announced {
        let mut announced = Announced::default();
        let request = |_| RepairRequest::Announce { session, range };
        for (node, answer) in self.ask_all(nodes, request).await {
            let not_told = match answer {
                Some(RepairAnswer::Announced {
                    below_cut,
                    not_told,
                }) => {
                    announced.has_moved |= below_cut > 0;
                    not_told
                }
                _ => taking_part.to_vec(),
            };
            let others = not_told.into_iter().filter(|other| *other != node);
            let not_told = others.map(|other| Pair::of(node, other));
            announced.not_told.extend(not_told);
        }
        announced
    }

    /// Has two nodes made equal in a range.
    pub(super) async fn have_reconciled(
        &self,
        session: SessionId,
        range: &ComparedRange,
        pair: Pair,
    ) -> Compared {
        let items = |node, with| range.digest_of(node, with).items;
        // The one that has less asks the other one.
        let is_lower_fuller = items(pair.lower, pair.upper) > items(pair.upper, pair.lower);
        let (emptier, fuller) = if is_lower_fuller {
            (pair.upper, pair.lower)
        } else {
            (pair.lower, pair.upper)
        };
        let request = RepairRequest::Reconcile {
            session,
            range: range.number,
            with: fuller,
        };
        match self.ask(emptier, request).await {
            Ok(answer) => compared(&answer, emptier == pair.lower),
            Err(_) => Compared::UNKNOWN,
        }
    }
}

impl ComparedRange {
    fn digest_of(&self, node: NodeId, with: NodeId) -> Digest {
        let digests = self.digests.iter().find(|digests| digests.node == node);
        let digest = digests.and_then(|digests| digests.with.get(with.index()));
        digest.copied().unwrap_or_default()
    }

    /// Takes note that two nodes differ. Returns whether that is new: they may compare the range
    /// more than once.
    pub(super) fn differs(&mut self, pair: Pair) -> bool {
        self.differing.insert(pair)
    }

    /// Whether the scans have shown that two nodes keep the same.
    pub(super) fn is_same(&self, pair: Pair) -> bool {
        self.digest_of(pair.lower, pair.upper) == self.digest_of(pair.upper, pair.lower)
    }

    /// The nodes that have versions to offer to others, as their scans have shown.
    pub(super) fn announcing(&self) -> Vec<NodeId> {
        self.announcing.clone()
    }

    /// The pairs in the order in which they are compared: those that differ come first. A node that
    /// lacks most of the range has it streamed by the first of its peers, so they take turns.
    pub(super) fn in_turn(&self, pairs: Vec<Pair>) -> Vec<Pair> {
        let (same, mut differing): (Vec<Pair>, Vec<Pair>) =
            pairs.into_iter().partition(|pair| self.is_same(*pair));
        let first = self.number as usize % differing.len().max(1);
        differing.rotate_left(first);
        differing.extend(same);
        differing
    }
}

/// How two nodes came out of a comparison for which one of them, the lower or the upper one, has
/// asked the other one.
fn compared(answer: &RepairAnswer, lower_has_asked: bool) -> Compared {
    let RepairAnswer::Reconciled {
        asker_has_all,
        other_has_all,
        below_cut,
        ..
    } = *answer
    else {
        return Compared::UNKNOWN;
    };
    let (lower_has_all, upper_has_all) = if lower_has_asked {
        (asker_has_all, other_has_all)
    } else {
        (other_has_all, asker_has_all)
    };
    let has_moved = below_cut > 0;
    let lacking = match (lower_has_all, upper_has_all) {
        (true, true) if has_moved => return Compared::Moved,
        (true, true) => return Compared::Equal,
        (false, true) => Lacking::Lower,
        (true, false) => Lacking::Upper,
        (false, false) => Lacking::Both,
    };
    Compared::Unequal { lacking, has_moved }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Timestamp;
    use cluster::comparison::Item;

    #[test]
    fn the_peers_of_a_node_that_lacks_everything_take_equal_turns() {
        let [one, other, lost] = [0, 1, 2].map(NodeId::new);
        let item = Item {
            key_hash: 1,
            timestamp: Timestamp::from_u64(1),
            content_hash: 1,
        };
        let full: Digest = [item].into_iter().collect();
        let empty = Digest::default();
        let digests = [(one, [full; 3]), (other, [full; 3]), (lost, [empty; 3])];
        let same = Pair::of(one, other);
        let [first, second] = [Pair::of(one, lost), Pair::of(other, lost)];
        for (number, expected) in [
            (0, [first, second, same]),
            (1, [second, first, same]),
            (2, [first, second, same]),
            (3, [second, first, same]),
        ] {
            let range = ComparedRange {
                number,
                digests: digests
                    .map(|(node, with)| NodeDigests {
                        node,
                        with: with.to_vec(),
                    })
                    .to_vec(),
                ..ComparedRange::default()
            };
            assert_eq!(range.in_turn(vec![same, first, second]), expected);
        }
    }

    #[test]
    fn who_lacks_something_is_told_by_who_has_asked() {
        let answer = |asker_has_all, other_has_all, below_cut| RepairAnswer::Reconciled {
            asker_has_all,
            other_has_all,
            sent: 1,
            received: 1,
            below_cut,
        };
        let unequal = |lacking, has_moved| Compared::Unequal { lacking, has_moved };
        for (answer, by_lower, by_upper) in [
            (answer(true, true, 0), Compared::Equal, Compared::Equal),
            (answer(true, true, 1), Compared::Moved, Compared::Moved),
            (
                answer(true, false, 1),
                unequal(Lacking::Upper, true),
                unequal(Lacking::Lower, true),
            ),
            (
                answer(false, true, 0),
                unequal(Lacking::Lower, false),
                unequal(Lacking::Upper, false),
            ),
            (RepairAnswer::Failed, Compared::UNKNOWN, Compared::UNKNOWN),
        ] {
            assert_eq!(compared(&answer, true), by_lower, "{answer:?}");
            assert_eq!(compared(&answer, false), by_upper, "{answer:?}");
        }
    }
}
