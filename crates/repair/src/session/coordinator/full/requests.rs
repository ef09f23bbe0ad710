//! What a full session asks all nodes for, one step after another.

use super::FullSession;
use super::answers::events_of;
use super::held_back::{BegunStore, Raising};
use crate::session::checkpoint::Checkpoint;
use crate::session::coordinator::comparing::Lost;
use base::Timestamp;
use cluster::NodeId;
use cluster::comparison::KeyBounds;
use cluster::repair::{Session, SessionEvent, SessionId, SessionRequest};
use peer::{RepairAnswer, RepairRequest};
use std::rc::Rc;

impl FullSession {
    /// Asks nodes for something, at the same time. The own store is the last that begins: if others
    /// take part in a session, that may be about to take it in again.
    pub(super) async fn ask(
        &mut self,
        nodes: Vec<NodeId>,
        request: SessionRequest,
    ) -> Vec<SessionEvent> {
        self.all_asked = self.now();
        let session = SessionId::Full(self.token);
        match request {
            SessionRequest::Begin { epoch } => {
                let own = self.worker.peers.own();
                let begin = |_| RepairRequest::Begin { session, epoch };
                let (own, others): (Vec<_>, Vec<_>) =
                    nodes.into_iter().partition(|node| *node == own);
                let mut answers = self.worker.ask_all(others, begin).await;
                let refuses =
                    |(_, answer): &Lost| matches!(answer, Some(RepairAnswer::Refused { .. }));
                if !answers.iter().any(refuses) {
                    answers.extend(self.worker.ask_all(own, begin).await);
                }
                self.begun(answers)
            }
            SessionRequest::Close {
                gc_threshold,
                below,
                are_all,
            } => {
                let start = self.attempt.next.clone().unwrap_or_default();
                let close = |_| RepairRequest::Close {
                    session,
                    gc_threshold,
                    below,
                    are_all,
                    start: start.clone(),
                };
                events_of(self.worker.ask_all(nodes, close).await)
            }
            SessionRequest::Open { .. } => self.open(nodes).await,
            SessionRequest::Sync => {
                let sync = |_| RepairRequest::Sync { session };
                let answers = self.worker.ask_all(nodes, sync).await;
                if self.attempt.raising == Raising::Yes {
                    self.note_voided(&answers);
                }
                events_of(answers)
            }
            SessionRequest::Finish { below } => {
                let finish = |_| RepairRequest::Finish { session, below };
                let answers = self.worker.ask_all(nodes, finish).await;
                if below > Timestamp::ZERO {
                    self.note_voided(&answers);
                }
                events_of(answers)
            }
            // It comes with the end.
            SessionRequest::Outcome { .. } => Vec::new(),
        }
    }

    /// Takes note of the nodes that say that something has come in behind their scan.
    fn note_voided(&mut self, answers: &[Lost]) {
        let voided = RepairAnswer::Synced { may_raise: false };
        let is_void = |(_, answer): &&Lost| answer.as_ref() == Some(&voided);
        let nodes = answers.iter().filter(is_void).map(|(node, _)| *node);
        self.attempt.voided.extend(nodes);
    }

    /// Takes note of the nodes that have begun, unless they name a GC threshold or a closed
    /// timestamp that cannot be: they would have the others leave out what is dead.
    fn begun(&mut self, answers: Vec<(NodeId, Option<RepairAnswer>)>) -> Vec<SessionEvent> {
        let worker = Rc::clone(&self.worker);
        let environment = &worker.sessions.environment;
        let mut seen = Vec::new();
        let answers = answers.into_iter().map(|(node, answer)| {
            let Some(RepairAnswer::Begun {
                greatest_seen,
                gc_threshold,
                closed,
                latest,
                ..
            }) = answer
            else {
                return (node, answer);
            };
            let name = self.layout.members().name(node);
            if !environment.store_side.believes(name, gc_threshold) {
                return (node, None);
            }
            seen.push(greatest_seen);
            self.attempt.stores.push(BegunStore {
                node,
                gc_threshold,
                closed,
                latest,
            });
            (node, answer)
        });
        let events = events_of(answers.collect());
        if !self.token.is_resumed() {
            self.attempt.cut = worker.cut_above(seen.into_iter());
        }
        events
    }

    /// Tells all what they agree on. Then the attempt has a checkpoint, at which it goes on after a
    /// restart: nothing was compared so far that is not in it.
    pub(super) async fn agree(&mut self, machine: &Session) -> Vec<SessionEvent> {
        self.attempt.has_agreed = true;
        let environment = &self.worker.sessions.environment;
        let below = machine.shown().below;
        let wrong_clocks = environment.timestamps.wrong_clocks(self.layout.members());
        let (stores, members) = (&self.attempt.stores, self.layout.members().ids());
        let known = stores.iter().map(|store| store.gc_threshold);
        let gc_threshold = known.fold(Timestamp::ZERO, Timestamp::max);
        self.attempt.raising = Raising::of(stores, members, below, wrong_clocks);
        let (session, cut) = (SessionId::Full(self.token), self.attempt.cut);
        let bounds_with = |node: NodeId| {
            let with = |other| {
                if other != node && machine.takes_part(other) {
                    KeyBounds::everything()
                } else {
                    // Nothing is compared with a node that does not take part.
                    KeyBounds::constant(Timestamp::MAX)
                }
            };
            self.layout.members().places().map(with).collect()
        };
        let request = |node| RepairRequest::Agree {
            session,
            cut,
            gc_threshold,
            // Only incremental sessions offer what is not of full reach.
            reaches: vec![u8::MAX; self.layout.members().places().len()],
            bounds: bounds_with(node),
        };
        let nodes = self.taking_part(machine);
        let answers = self.worker.ask_all(nodes.clone(), request).await;
        let lost = answers.into_iter();
        let lost = lost.filter(|(_, answer)| *answer != Some(RepairAnswer::Done));
        let events = events_of(lost.collect());
        if !self.token.is_resumed() {
            self.checkpoint = Checkpoint {
                cut,
                taking_part: nodes.into_iter().map(|node| (node, 0)).collect(),
                shown: machine.shown(),
                ..Checkpoint::at_begin(self.token, self.layout.epoch())
            };
        }
        self.checkpoint.token = self.token;
        self.checkpoint.stored_unix_ms = environment.clock.unix_ms();
        let checkpoint = Some(self.checkpoint.clone());
        self.worker.sessions.store_checkpoint(checkpoint);
        events
    }
}
