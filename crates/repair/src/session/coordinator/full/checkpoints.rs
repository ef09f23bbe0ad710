//! How a full session goes on after a restart, or when a node comes back.

use super::FullSession;
use crate::session::checkpoint::Checkpoint;
use cluster::NodeId;
use cluster::repair::{Session, SessionId};
use peer::{RepairAnswer, RepairRequest};
use std::time::Duration;

/// How long a session that has lost a node takes no checkpoint, so that the node can join
/// again from the last one. Until then the others compare on.
pub(super) const AWAY_MAX: Duration = Duration::from_secs(120);

/// How often a session tries to take nodes in again that it has lost, at most.
const RETURNS_MAX: u32 = 8;
/// How long after that it tries again.
const RETURN_PAUSE: Duration = Duration::from_secs(1);
/// How long a session that has compared everything waits for nodes that it has lost, which are
/// being restarted: without them it raises no GC threshold and rebuilds no store.
const RETURN_MAX: Duration = Duration::from_secs(30);
/// How often it looks whether they are back.
const RETURN_LOOK: Duration = Duration::from_millis(200);

impl FullSession {
    /// Whether nodes are back that took part up to the checkpoint and were lost: another attempt
    /// takes them in, if they begin one. What a store has shown that refuses counts no more.
    pub(super) async fn goes_back(&mut self, machine: &Session) -> bool {
        let paused_until = self.last_return.map(|last| last + RETURN_PAUSE);
        let is_paused = paused_until.is_some_and(|until| self.now() < until);
        let back = self.lost(machine).filter(|node| self.worker.is_up(*node));
        let back: Vec<NodeId> = back.collect();
        if self.returns == RETURNS_MAX || is_paused || back.is_empty() {
            return false;
        }
        self.returns += 1;
        let token = self.next_token();
        let epoch = self.layout.epoch();
        let begin = |_| RepairRequest::Begin {
            session: SessionId::Full(token),
            epoch,
        };
        let mut is_any_back = false;
        for (node, answer) in self.worker.ask_all(back, begin).await {
            match answer {
                Some(RepairAnswer::Begun { .. }) => is_any_back = true,
                Some(RepairAnswer::Refused { .. }) => {
                    self.checkpoint.taking_part.remove(&node);
                }
                _ => {}
            }
        }
        self.last_return = Some(self.now());
        is_any_back
    }

    /// All ranges were compared. Waits for nodes that are lost; returns whether one is back.
    pub(super) async fn waits_for_lost(&mut self, machine: &Session) -> bool {
        let until = self.now() + RETURN_MAX;
        while self.lost(machine).next().is_some() {
            if self.goes_back(machine).await {
                return true;
            }
            if self.returns == RETURNS_MAX || self.now() >= until {
                return false;
            }
            tokio::time::sleep(RETURN_LOOK).await;
        }
        false
    }

    /// The nodes that took part up to the checkpoint, and do not any more.
    pub(super) fn lost(&self, machine: &Session) -> impl Iterator<Item = NodeId> {
        let took_part = self.checkpoint.taking_part.keys().copied();
        took_part.filter(|node| !machine.takes_part(*node))
    }

    /// Stores how far the session has come: all nodes have made durable what it has brought. A node
    /// that was lost meanwhile can take part again from the checkpoint before; from this one it
    /// could not.
    pub(super) fn store_checkpoint(&mut self, machine: &Session) {
        let since = self.now().saturating_sub(self.checkpoint_time);
        if self.lost(machine).next().is_some() && since < AWAY_MAX {
            return;
        }
        let Some(next) = self.attempt.next.clone() else {
            return;
        };
        self.ranges_since = 0;
        self.checkpoint_time = self.now();
        let single_copies = &self.attempt.single_copies;
        let taking_part = self.taking_part(machine).into_iter();
        self.checkpoint = Checkpoint {
            token: self.token,
            epoch: self.layout.epoch(),
            cut: self.attempt.cut,
            stored_unix_ms: self.worker.sessions.environment.clock.unix_ms(),
            next,
            taking_part: taking_part
                .map(|node| (node, single_copies.get(&node).copied().unwrap_or(0)))
                .collect(),
            shown: machine.shown(),
        };
        let checkpoint = Some(self.checkpoint.clone());
        self.worker.sessions.store_checkpoint(checkpoint);
    }
}
