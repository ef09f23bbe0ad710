//! How a full session ends.

use super::held_back::Raising;
use super::{AttemptEnd, FullSession};
use crate::session::untold::Over;
use base::Timestamp;
use cluster::NodeId;
use cluster::comparison::Pair;
use cluster::repair::{Session, SessionId, Shown};
use peer::RepairRequest;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

impl FullSession {
    /// Tells all nodes what the session has shown, and what the GC threshold has risen to.
    pub(super) async fn end(&mut self, machine: &Session, gc_threshold: Timestamp) {
        let worker = Rc::clone(&self.worker);
        let environment = &worker.sessions.environment;
        let layout = Arc::clone(&self.layout);
        let members = layout.members();
        let session = SessionId::Full(self.token);
        let equal = machine.equal();
        let away: Vec<NodeId> = members
            .ids()
            .filter(|node| !machine.takes_part(*node))
            .collect();
        let Shown { below, unequal } = machine.shown();
        let is_between_present =
            |pair: &Pair| machine.takes_part(pair.lower) && machine.takes_part(pair.upper);
        let unequal = unequal.into_iter().filter(is_between_present).collect();
        let voided = self.attempt.voided.iter().copied().collect();
        let raising = std::mem::take(&mut self.attempt.raising);
        let has_moved = below == Timestamp::ZERO;
        let is_idle = raising == Raising::Idle;
        let held_back = if gc_threshold > Timestamp::ZERO {
            None
        } else {
            raising.held_back(away.clone(), unequal, has_moved, voided)
        };
        self.report.equal_pairs = equal.len() as u64;
        self.report.is_held_back = held_back.is_some();
        if self.report.is_held_back || !self.report.are_all_equal() {
            worker.sessions.record.not_done(session);
        }
        if !is_idle {
            environment.store_side.set_held_back(held_back);
        }
        let counted = |node: NodeId| {
            if machine.takes_part(node) {
                self.attempt.single_copies.get(&node).copied().unwrap_or(0)
            } else {
                u64::MAX
            }
        };
        let single_copies: Vec<u64> = members.places().map(counted).collect();
        let outcome = |node| RepairRequest::Outcome {
            session,
            gc_threshold,
            single_copies: single_copies.clone(),
            equal_with: equal
                .iter()
                .filter_map(|pair| pair.other_than(node))
                .collect(),
            has_all_of: machine.has_all_of(node),
        };
        let answers = worker.ask_all(self.taking_part(machine), outcome).await;
        let untold = answers.into_iter().filter(|(_, answer)| answer.is_none());
        let untold = untold.map(|(node, _)| node).chain(away);
        self.over(gc_threshold, untold.collect());
        worker.tell_untold().await;
        worker.sessions.store_checkpoint(None);
    }

    /// Whether another list of members is in force than the one that the session began with. A
    /// session is of one epoch: nodes that have adopted the other list have left it.
    pub(super) fn has_other_members(&self) -> bool {
        let present = self.worker.sessions.environment.layouts.peek();
        present.epoch() != self.layout.epoch()
    }

    /// Ends the session without result. What it has moved stays, and another one finds the rest.
    pub(super) async fn give_up(&mut self, machine: &Session) -> AttemptEnd {
        let session = SessionId::Full(self.token);
        tracing::info!(token = %self.token, "a repair session ends early: the list of members has changed");
        self.report.is_held_back = true;
        self.worker.sessions.record.not_done(session);
        let nodes = self.taking_part(machine);
        self.worker.tell_over(self.token, nodes).await;
        self.over(Timestamp::ZERO, self.members());
        self.worker.sessions.store_checkpoint(None);
        AttemptEnd::Over
    }

    /// The session is over, and these nodes have yet to hear it.
    pub(super) fn over(&self, gc_threshold: Timestamp, nodes: BTreeSet<NodeId>) {
        let over = Over {
            token: self.token,
            tried: self.tried.clone(),
            gc_threshold,
        };
        self.worker.sessions.untold.end(over, nodes);
    }
}
