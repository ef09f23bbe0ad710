//! Leads an incremental session.
//!
//! It needs no token, because it moves nothing below the closed timestamps: it compares only what
//! is above the greatest one of those that take part. A version that is older was seen by all
//! incremental sessions since it was written; or a member was away, and nothing was closed then.

use super::comparing::Lost;
use crate::session::orders::SessionReport;
use crate::session::worker::RepairWorker;
use base::Timestamp;
use bytes::Bytes;
use cluster::comparison::{KeyBounds, Pair, differing};
use cluster::repair::{Compared, SessionId};
use cluster::{Layout, NodeId};
use peer::{RepairAnswer, RepairRequest};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

/// A session that this node leads.
pub(super) struct IncrementalSession {
    pub(super) worker: Rc<RepairWorker>,
    /// The layout that it began with.
    layout: Arc<Layout>,
    session: SessionId,
    cut: Timestamp,
    /// The nodes that still take part.
    nodes: BTreeSet<NodeId>,
    /// The pairs of which a range was not made equal.
    unequal: BTreeSet<Pair>,
    report: SessionReport,
}

/// What a node has answered that takes part.
pub(super) struct Begun {
    node: NodeId,
    greatest_seen: Timestamp,
    closed: Timestamp,
    reach: u8,
    bounds: Vec<KeyBounds>,
}

impl RepairWorker {
    /// Leads an incremental session to the last key.
    ///
    /// One that nobody waits for lets writes arrive that are on their way, so that it does not send
    /// them a second time; if meanwhile `is_full_due`, it ends at once.
    pub(in crate::session) async fn coordinate_incremental(
        self: &Rc<Self>,
        is_full_due: Option<&dyn Fn() -> bool>,
    ) -> SessionReport {
        let session = SessionId::Incremental(self.sessions.environment.random.next_u64());
        let mut incremental = IncrementalSession {
            worker: Rc::clone(self),
            layout: self.peers.layout(),
            session,
            cut: Timestamp::ZERO,
            nodes: BTreeSet::new(),
            unequal: BTreeSet::new(),
            report: SessionReport::default(),
        };
        let begun = incremental.ask_to_begin().await;
        incremental.cut = self.cut_above(begun.iter().map(|begun| begun.greatest_seen));
        let begun = match is_full_due {
            Some(is_full_due) => incremental.let_writes_arrive(begun, is_full_due).await,
            None => Some(begun),
        };
        // A full session compares more.
        if let Some(begun) = begun {
            incremental.agree(&begun).await;
            incremental.walk().await;
            incremental.sync().await;
        } else {
            incremental.nodes.clear();
        }
        incremental.end().await
    }

    /// A cut above all that any of these nodes has acknowledged so far, however far the
    /// clocks are apart.
    pub(super) fn cut_above(&self, seen: impl Iterator<Item = Timestamp>) -> Timestamp {
        let clock = &self.sessions.environment.clock;
        seen.fold(Timestamp::from_unix_ms(clock.unix_ms()), Timestamp::max)
    }

    pub(super) fn nodes_up(&self) -> Vec<NodeId> {
        let layout = self.peers.layout();
        let members = layout.members();
        members.ids().filter(|node| self.is_up(*node)).collect()
    }

    /// The pairs of all nodes of the cluster.
    pub(super) fn all_pairs(&self) -> u64 {
        let nodes = u64::from(self.peers.layout().members().count());
        nodes * (nodes - 1) / 2
    }
}

impl IncrementalSession {
    /// Has all nodes that are up begin.
    pub(super) async fn ask_to_begin(&mut self) -> Vec<Begun> {
        let session = self.session;
        let epoch = self.layout.epoch();
        let request = |_| RepairRequest::Begin { session, epoch };
        let nodes = self.worker.nodes_up();
        self.nodes = nodes.iter().copied().collect();
        let answers = self.worker.ask_all(nodes, request).await;
        let environment = &self.worker.sessions.environment;
        let mut all = Vec::new();
        for (node, answer) in answers {
            match answer {
                Some(RepairAnswer::Begun {
                    greatest_seen,
                    closed,
                    reach,
                    bounds,
                    ..
                }) if environment
                    .store_side
                    .believes(self.layout.members().name(node), closed) =>
                {
                    all.push(Begun {
                        node,
                        greatest_seen,
                        closed,
                        reach,
                        bounds,
                    });
                }
                _ => {
                    self.nodes.remove(&node);
                }
            }
        }
        all
    }

    /// Tells all what they agree on: the cut, and what each pair may pass over.
    async fn agree(&mut self, begun: &[Begun]) {
        let (session, cut) = (self.session, self.cut);
        let members = self.layout.members();
        let begun_by = |node: NodeId| begun.iter().find(|begun| begun.node == node);
        let bounds_of = |node: NodeId, with: NodeId| begun_by(node)?.bounds.get(with.index());
        let reach_of = |node: NodeId| begun_by(node).map_or(0, |begun| begun.reach);
        let reaches: Vec<u8> = members.places().map(reach_of).collect();
        let closed = begun.iter().map(|begun| begun.closed);
        let closed = closed.fold(Timestamp::ZERO, Timestamp::max);
        let steps_max = peer::bound_steps_max(members.places().len());
        let agreed: Vec<Vec<KeyBounds>> = members
            .places()
            .map(|node| {
                let with = |other| match (bounds_of(node, other), bounds_of(other, node)) {
                    (Some(own), Some(theirs)) if other != node => {
                        // The same on both, whatever fits a message.
                        let bounds = own.min(theirs).with_steps_at_most(steps_max);
                        bounds.at_least(closed)
                    }
                    // Nothing is compared with a node that does not take part.
                    _ => KeyBounds::constant(Timestamp::MAX),
                };
                members.places().map(with).collect()
            })
            .collect();
        let request = |node: NodeId| RepairRequest::Agree {
            session,
            cut,
            // What is compared is above all GC thresholds.
            gc_threshold: Timestamp::ZERO,
            reaches: reaches.clone(),
            bounds: agreed.get(node.index()).cloned().unwrap_or_default(),
        };
        let nodes: Vec<NodeId> = self.nodes.iter().copied().collect();
        for (node, answer) in self.worker.ask_all(nodes, request).await {
            if answer != Some(RepairAnswer::Done) {
                self.nodes.remove(&node);
            }
        }
    }

    /// Compares range after range.
    async fn walk(&mut self) {
        let mut start = Bytes::new();
        for number in 0..u32::MAX {
            if self.nodes.len() < 2 {
                return;
            }
            let nodes = self.nodes.iter().copied().collect();
            let opened = self.worker.open_range(self.session, number, nodes, start);
            let (range, lost) = opened.await;
            self.lose(lost);
            let announcing = range.announcing();
            let taking_part: Vec<NodeId> = self.nodes.iter().copied().collect();
            let announced =
                self.worker
                    .have_announced(self.session, number, announcing, &taking_part);
            self.unequal.extend(announced.await.not_told);
            for pair in range.in_turn(differing(&range.digests)) {
                self.report.differing += 1;
                let compared = self.worker.have_reconciled(self.session, &range, pair);
                if matches!(compared.await, Compared::Unequal { .. }) {
                    self.unequal.insert(pair);
                }
            }
            self.report.ranges += 1;
            self.report.non_owned += range.non_owned;
            match range.end {
                Some(end) => start = end,
                None => return,
            }
        }
    }

    async fn sync(&mut self) {
        let session = self.session;
        let nodes: Vec<NodeId> = self.nodes.iter().copied().collect();
        let sync = |_| RepairRequest::Sync { session };
        for (node, answer) in self.worker.ask_all(nodes, sync).await {
            if answer != Some(RepairAnswer::Done) {
                self.nodes.remove(&node);
            }
        }
    }

    /// Tells all which pairs are equal.
    async fn end(self) -> SessionReport {
        let nodes: Vec<NodeId> = self.nodes.iter().copied().collect();
        let mut equal: Vec<Pair> = Vec::new();
        for (index, one) in nodes.iter().enumerate() {
            let pairs = nodes[index + 1..]
                .iter()
                .map(|other| Pair::of(*one, *other));
            equal.extend(pairs.filter(|pair| !self.unequal.contains(pair)));
        }
        let session = self.session;
        let outcome = |node| {
            let equal = equal.iter().filter_map(|pair| pair.other_than(node));
            let equal_with: Vec<NodeId> = equal.collect();
            RepairRequest::Outcome {
                session,
                gc_threshold: Timestamp::ZERO,
                single_copies: Vec::new(),
                has_all_of: equal_with.clone(),
                equal_with,
            }
        };
        // One that has left is told, too, lest it show the session as running.
        let _answers = self.worker.ask_all(self.worker.nodes_up(), outcome).await;
        SessionReport {
            equal_pairs: equal.len() as u64,
            pairs: self.worker.all_pairs(),
            ..self.report
        }
    }

    fn lose(&mut self, lost: Vec<Lost>) {
        for (node, _) in lost {
            self.nodes.remove(&node);
        }
    }
}
