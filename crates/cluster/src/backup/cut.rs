//! The coordinator of a cut: pure. It says whom to tell what, and takes what they answer.

use crate::layout::Epoch;
use crate::members::NodeId;
use base::Timestamp;
use std::collections::BTreeMap;

/// What a store reports that holds its commits off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeldStore {
    /// The number of its hold, which is new for each.
    pub hold: u64,
    /// The greatest timestamp that it was ever written.
    pub greatest_timestamp: Timestamp,
    /// Its GC threshold.
    pub gc_threshold: Timestamp,
    /// The list of members by which it keeps its keys.
    pub epoch: Epoch,
}

/// What the coordinator does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CutStep {
    /// Tell a store that it may go on. It keeps what it froze if that is part of the cut.
    GoOn {
        /// The node of the store.
        node: NodeId,
        /// The number of its hold.
        hold: u64,
        /// Whether it keeps what it froze.
        keeps: bool,
    },
}

/// How a node stands to the cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CutNode {
    /// It was asked to hold.
    Asked,
    /// It holds.
    Holds(HeldStore),
    /// It was told to go on, and has yet to say whether its hold has lasted.
    ToldToGoOn(HeldStore),
    /// What it froze is part of the cut.
    Frozen(HeldStore),
    /// It is not part of the cut.
    Missing,
}

/// A cut that counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CutResult {
    /// The nodes whose stores are part of it, each with what it has reported.
    pub frozen: Vec<(NodeId, HeldStore)>,
    /// The others.
    pub missing: Vec<NodeId>,
    /// The greatest timestamp in any of the stores.
    pub greatest_timestamp: Timestamp,
    /// The GC threshold of all of the stores.
    pub gc_threshold: Timestamp,
}

/// Why a cut does not count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CutFailure {
    /// The nodes that are missing: too many.
    pub missing: Vec<NodeId>,
}

/// A cut under way. It begins with a request to each node to hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cut {
    nodes: BTreeMap<NodeId, CutNode>,
    epoch: Epoch,
    missing_max: usize,
}

impl Cut {
    /// Begins a cut of the stores of the nodes of this list, of which at most `missing_max` may be
    /// missing.
    #[must_use]
    pub fn begin(
        nodes: impl IntoIterator<Item = NodeId>,
        epoch: Epoch,
        missing_max: usize,
    ) -> Self {
        let nodes = nodes.into_iter().map(|node| (node, CutNode::Asked));
        Self {
            nodes: nodes.collect(),
            epoch,
            missing_max,
        }
    }

    /// How each node stands to the cut.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, CutNode)> {
        self.nodes.iter().map(|(node, stands)| (*node, *stands))
    }

    /// A store holds its commits off. Returns what to do next.
    pub fn held(&mut self, node: NodeId, store: HeldStore) -> Vec<CutStep> {
        match self.nodes.get_mut(&node) {
            Some(stands @ CutNode::Asked) => {
                *stands = CutNode::Holds(store);
                self.next()
            }
            Some(CutNode::Holds(known)) if *known == store => Vec::new(),
            // It comes too late, or from none of the nodes.
            _ => vec![CutStep::GoOn {
                node,
                hold: store.hold,
                keeps: false,
            }],
        }
    }

    /// A node does not answer, refuses, or its store does not count. Returns what to do next.
    pub fn missed(&mut self, node: NodeId) -> Vec<CutStep> {
        match self.nodes.get_mut(&node) {
            Some(stands @ (CutNode::Asked | CutNode::ToldToGoOn(_))) => {
                *stands = CutNode::Missing;
                self.next()
            }
            _ => Vec::new(),
        }
    }

    /// The time for stores to report is over. Returns what to do next.
    pub fn time_is_over(&mut self) -> Vec<CutStep> {
        let mut is_any = false;
        for stands in self.nodes.values_mut() {
            if *stands == CutNode::Asked {
                *stands = CutNode::Missing;
                is_any = true;
            }
        }
        if is_any { self.next() } else { Vec::new() }
    }

    /// A store goes on, and says whether its hold has lasted until then.
    pub fn went_on(&mut self, node: NodeId, has_lasted: bool) {
        if let Some(stands) = self.nodes.get_mut(&node)
            && let CutNode::ToldToGoOn(store) = *stands
        {
            *stands = if has_lasted {
                CutNode::Frozen(store)
            } else {
                CutNode::Missing
            };
        }
    }

    /// How the cut has ended; `None` while it is under way.
    #[must_use]
    pub fn end(&self) -> Option<Result<CutResult, CutFailure>> {
        let is_over = |stands: &CutNode| matches!(stands, CutNode::Frozen(_) | CutNode::Missing);
        if !self.nodes.values().all(is_over) {
            return None;
        }
        let missing = self.missing();
        if missing.len() > self.missing_max || missing.len() == self.nodes.len() {
            return Some(Err(CutFailure { missing }));
        }
        let frozen = self.nodes().filter_map(|(node, stands)| match stands {
            CutNode::Frozen(store) => Some((node, store)),
            _ => None,
        });
        let frozen: Vec<_> = frozen.collect();
        let of = |what: fn(&HeldStore) -> Timestamp| {
            let all = frozen.iter().map(|(_, store)| what(store));
            all.max().unwrap_or_default()
        };
        Some(Ok(CutResult {
            greatest_timestamp: of(|store| store.greatest_timestamp),
            gc_threshold: of(|store| store.gc_threshold),
            missing,
            frozen,
        }))
    }

    fn missing(&self) -> Vec<NodeId> {
        let missing = self
            .nodes()
            .filter(|(_, stands)| *stands == CutNode::Missing);
        missing.map(|(node, _)| node).collect()
    }

    /// Once all nodes hold or are missing, tells those that hold to go on.
    fn next(&mut self) -> Vec<CutStep> {
        if self.nodes.values().any(|stands| *stands == CutNode::Asked) {
            return Vec::new();
        }
        let holding = self.nodes().filter_map(|(node, stands)| match stands {
            CutNode::Holds(store) => Some((node, store)),
            _ => None,
        });
        let holding: Vec<_> = holding.collect();
        // A store by another list of members keeps other keys. One with a lower threshold may hold
        // what the others have dropped the tombstones of.
        let own_epoch = self.epoch;
        let is_of_list = |store: &HeldStore| store.epoch == own_epoch;
        let of_list = holding.iter().filter(|(_, store)| is_of_list(store));
        let thresholds = of_list.map(|(_, store)| store.gc_threshold);
        let threshold = thresholds.max().unwrap_or_default();
        let knows = |store: &HeldStore| is_of_list(store) && store.gc_threshold == threshold;
        let counted = holding.iter().filter(|(_, store)| knows(store)).count();
        let is_enough = self.nodes.len() - counted <= self.missing_max && counted > 0;
        let mut steps = Vec::new();
        for (node, store) in holding {
            let keeps = is_enough && knows(&store);
            let stands = if keeps {
                CutNode::ToldToGoOn(store)
            } else {
                CutNode::Missing
            };
            self.nodes.insert(node, stands);
            steps.push(CutStep::GoOn {
                node,
                hold: store.hold,
                keeps,
            });
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: u64 = 4;

    fn begin<const N: usize>(nodes: [u8; N], missing_max: usize) -> Cut {
        Cut::begin(nodes.map(node), Epoch::new(EPOCH), missing_max)
    }

    fn node(number: u8) -> NodeId {
        NodeId::new(number)
    }

    fn store(hold: u64, greatest: u64, threshold: u64) -> HeldStore {
        HeldStore {
            hold,
            greatest_timestamp: Timestamp::from_u64(greatest),
            gc_threshold: Timestamp::from_u64(threshold),
            epoch: Epoch::new(EPOCH),
        }
    }

    fn go_on(number: u8, hold: u64, keeps: bool) -> CutStep {
        let node = node(number);
        CutStep::GoOn { node, hold, keeps }
    }

    #[test]
    fn all_go_on_once_all_hold() {
        let mut cut = begin([0, 1], 0);
        assert_eq!(cut.held(node(1), store(7, 40, 3)), []);
        let steps = cut.held(node(0), store(8, 50, 3));
        assert_eq!(steps, [go_on(0, 8, true), go_on(1, 7, true)]);
        cut.went_on(node(0), true);
        assert_eq!(cut.end(), None);
        cut.went_on(node(1), true);
        let result = cut.end().unwrap().unwrap();
        assert_eq!(result.greatest_timestamp.as_u64(), 50);
        assert_eq!(result.gc_threshold.as_u64(), 3);
        assert_eq!(result.missing, []);
        assert_eq!(result.frozen.len(), 2);
    }

    #[test]
    fn a_hold_that_has_not_lasted_does_not_count() {
        let mut cut = begin([0, 1], 0);
        cut.held(node(0), store(1, 1, 0));
        cut.held(node(1), store(2, 1, 0));
        cut.went_on(node(0), true);
        cut.went_on(node(1), false);
        let missing = vec![node(1)];
        assert_eq!(cut.end(), Some(Err(CutFailure { missing })));
    }

    #[test]
    fn too_many_that_are_missing_let_the_others_go_on_at_once() {
        let mut cut = begin([0, 1, 2], 1);
        cut.held(node(0), store(1, 1, 0));
        cut.missed(node(1));
        assert_eq!(cut.time_is_over(), [go_on(0, 1, false)]);
        assert!(cut.end().unwrap().is_err());
        let late = cut.held(node(2), store(5, 1, 0));
        assert_eq!(late, [go_on(2, 5, false)], "it goes on, too");
    }

    #[test]
    fn a_store_that_knows_a_lower_threshold_is_missing() {
        for (missing_max, is_enough) in [(0, false), (1, true)] {
            let mut cut = begin([0, 1], missing_max);
            cut.held(node(0), store(1, 1, 3));
            let steps = cut.held(node(1), store(2, 1, 4));
            assert_eq!(steps, [go_on(0, 1, false), go_on(1, 2, is_enough)]);
            cut.went_on(node(1), true);
            assert_eq!(cut.end().unwrap().is_ok(), is_enough);
        }
    }

    #[test]
    fn a_store_by_another_list_of_members_is_missing() {
        let mut cut = begin([0, 1], 1);
        let other = HeldStore {
            epoch: Epoch::new(EPOCH + 1),
            ..store(1, 1, 9)
        };
        cut.held(node(0), other);
        let steps = cut.held(node(1), store(2, 1, 4));
        assert_eq!(steps, [go_on(0, 1, false), go_on(1, 2, true)]);
        cut.went_on(node(1), true);
        let result = cut.end().unwrap().unwrap();
        assert_eq!(result.missing, [node(0)]);
        assert_eq!(result.gc_threshold.as_u64(), 4);
    }

    #[test]
    fn a_cut_without_any_store_does_not_count() {
        let mut cut = begin([0], 1);
        cut.missed(node(0));
        let end = cut.end().unwrap();
        assert!(end.is_err(), "{end:?}");
    }
}
