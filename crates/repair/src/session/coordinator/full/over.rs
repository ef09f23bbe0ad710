//! Has stores leave full sessions that are over.

use crate::session::checkpoint::Checkpoint;
use crate::session::coordinator::comparing::Lost;
use crate::session::worker::RepairWorker;
use base::Timestamp;
use cluster::NodeId;
use cluster::repair::{SessionId, Token};
use peer::{RepairAnswer, RepairRequest};
use std::rc::Rc;

impl RepairWorker {
    /// Ends a session that was cut short, so that another one may begin.
    pub(super) async fn abandon(self: &Rc<Self>, checkpoint: &Checkpoint) {
        let own = self.sessions.environment.store_side.record().token;
        let is_known = own.session == checkpoint.token.session;
        let known = if is_known { own } else { checkpoint.token };
        self.release(checkpoint.token.max(known)).await;
    }

    /// Has stores leave a session of this node that is over, of which this is the last attempt that
    /// they know. Whether that has raised the GC threshold may not be known any more; that a further
    /// one has not is.
    pub(super) async fn release(self: &Rc<Self>, last: Token) {
        let epoch = self.peers.layout().epoch();
        let token = last.next_attempt();
        let begin = |_| RepairRequest::Begin {
            session: SessionId::Full(token),
            epoch,
        };
        // Whoever takes no part in it refuses.
        let _answers = self.ask_all(self.nodes_up(), begin).await;
        self.tell_over(token, self.nodes_up()).await;
    }

    /// Tells nodes that come back how the sessions of this node have ended. Until they hear it
    /// they begin no other one.
    pub(in crate::session) async fn tell_untold(self: &Rc<Self>) {
        let untold = &self.sessions.untold;
        let Some((over, nodes)) = untold.last() else {
            return;
        };
        let up = nodes.into_iter().filter(|node| self.is_up(*node));
        let answers = self.tell_outcome(over.token, over.gc_threshold, up);
        for (node, answer) in answers.await {
            match answer {
                None | Some(RepairAnswer::Failed) => continue,
                Some(RepairAnswer::Refused { greatest }) => {
                    // It has begun another one.
                    if let Some(gc_threshold) = untold.outcome_of(greatest) {
                        self.tell_outcome(greatest, gc_threshold, [node]).await;
                    }
                }
                Some(_) => {}
            }
            untold.told(node);
        }
    }

    /// Tells nodes that a session is over, and has shown nothing.
    pub(super) async fn tell_over(self: &Rc<Self>, token: Token, nodes: Vec<NodeId>) {
        // Whoever does not hear it waits until the session is idle.
        let _answers = self.tell_outcome(token, Timestamp::ZERO, nodes).await;
    }

    async fn tell_outcome(
        self: &Rc<Self>,
        token: Token,
        gc_threshold: Timestamp,
        nodes: impl IntoIterator<Item = NodeId>,
    ) -> Vec<Lost> {
        let outcome = |_| RepairRequest::Outcome {
            session: SessionId::Full(token),
            gc_threshold,
            single_copies: Vec::new(),
            equal_with: Vec::new(),
            has_all_of: Vec::new(),
        };
        self.ask_all(nodes, outcome).await
    }
}
