//! How a node asks another one in a repair session: with patience, because a request that fails
//! costs a session of gigabytes a node.

use super::worker::RepairWorker;
use base::{Backoff, NewerVersion};
use cluster::repair::SessionId;
use cluster::{Miss, NodeId};
use peer::{LinkState, PeerAnswer, PeerRequest, RepairAnswer, RepairRequest};
use replica::Completion;
use replica::pending::Wait;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::JoinSet;

/// How long a node waits for the answer to one request of a session. Scanning or
/// exchanging 16 MiB takes milliseconds; it is a busy disk that takes long. A peer that
/// falls silent ends the wait as soon as its link suspects it.
const REQUEST_MAX: Duration = Duration::from_secs(30);

/// How long it waits for a peer that it has never reached.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// How often a request is sent that an overloaded node turns away.
pub(super) const TRIES_MAX: u32 = 5;

/// How long a node waits before the next try.
pub(super) const RETRIES: Backoff =
    Backoff::new(Duration::from_millis(50), Duration::from_millis(200));

/// A request on its way to a peer.
pub(super) enum PeerCall {
    AnswerTime(Wait),
    Missed(Miss),
}

impl PeerCall {
    async fn answer(self) -> PeerAnswer {
        match self {
            Self::AnswerTime(wait) => match wait.only().await {
                Some(Completion::Peer(answer)) => answer,
                Some(_) => PeerAnswer::Missed(Miss::Failed),
                None => PeerAnswer::Missed(Miss::Timeout),
            },
            Self::Missed(why) => PeerAnswer::Missed(why),
        }
    }

    /// Waits until a version is stored, by a voter or not. Returns whether the peer
    /// may hold a newer one.
    pub(super) async fn stored(self) -> Result<bool, Miss> {
        match self.answer().await {
            PeerAnswer::Stored { newer_version } => Ok(newer_version != NewerVersion::None),
            PeerAnswer::Missed(why) => Err(why),
            _ => Err(Miss::Failed),
        }
    }
}

impl RepairWorker {
    /// Asks a peer for something, whatever comes of it. Simulations have requests arrive with it
    /// that were long on their way.
    pub async fn send_late(&self, to: NodeId, request: PeerRequest) {
        let _answer = self.call(to, request).await;
    }

    /// The sessions that this node takes part in.
    pub async fn running_sessions(&self) -> Vec<SessionId> {
        let sessions = self.in_background(|own| own.sessions().collect());
        sessions.await.unwrap_or_default()
    }

    /// Asks nodes at the same time. An answer is missing where a node has not given one.
    pub(super) async fn ask_all(
        self: &Rc<Self>,
        nodes: impl IntoIterator<Item = NodeId>,
        request: impl Fn(NodeId) -> RepairRequest,
    ) -> Vec<(NodeId, Option<RepairAnswer>)> {
        let mut asked = JoinSet::new();
        for node in nodes {
            let (worker, request) = (Rc::clone(self), request(node));
            asked.spawn_local(async move { (node, worker.ask(node, request).await.ok()) });
        }
        let mut answers = Vec::new();
        while let Some(joined) = asked.join_next().await {
            answers.extend(joined);
        }
        answers.sort_unstable_by_key(|(node, _)| *node);
        answers
    }

    /// Asks a node, which may be this one.
    pub(super) async fn ask(
        &self,
        node: NodeId,
        request: RepairRequest,
    ) -> Result<RepairAnswer, Miss> {
        if self.peers.is_own(node) {
            Ok(self.answer(request).await)
        } else {
            self.ask_peer(node, request).await
        }
    }

    pub(super) async fn ask_peer(
        &self,
        node: NodeId,
        request: RepairRequest,
    ) -> Result<RepairAnswer, Miss> {
        match self
            .call_patiently(node, PeerRequest::Session(request))
            .await
        {
            PeerAnswer::Session(answer) => Ok(answer),
            PeerAnswer::Missed(why) => Err(why),
            _ => Err(Miss::Failed),
        }
    }

    /// Asks again if the peer has too much to do. One request that is turned away must
    /// not cost a session of gigabytes a node.
    pub(super) async fn call_patiently(&self, node: NodeId, request: PeerRequest) -> PeerAnswer {
        let mut backoff = RETRIES;
        for _try in 1..TRIES_MAX {
            match self.call(node, request.clone()).await {
                PeerAnswer::Missed(Miss::Overloaded) => {}
                answer => return answer,
            }
            backoff.fail();
            tokio::time::sleep(backoff.wait()).await;
        }
        self.call(node, request).await
    }

    pub(super) async fn call(&self, node: NodeId, request: PeerRequest) -> PeerAnswer {
        self.start_call(node, request).answer().await
    }

    /// Asks a peer, without waiting for its answer.
    pub(super) fn start_call(&self, node: NodeId, request: PeerRequest) -> PeerCall {
        let link = self.peers.link(node);
        let was_reached = link
            .as_ref()
            .is_none_or(|link| link.status().state != LinkState::Connecting);
        let time_max = if was_reached {
            REQUEST_MAX
        } else {
            CONNECT_MAX
        };
        let now = self.sessions.environment.clock.monotonic();
        let deadline = now.saturating_add(time_max);
        let wait = self.pending.wait(deadline);
        let called = match link {
            Some(link) => link.call(request, deadline, wait.address()),
            None => Err(Miss::Failed),
        };
        match called {
            Ok(()) => PeerCall::AnswerTime(wait),
            Err(why) => PeerCall::Missed(why),
        }
    }
}
