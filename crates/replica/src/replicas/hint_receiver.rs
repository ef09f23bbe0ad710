//! A replica that receives hints. This node's own store is one as well: it misses writes while it
//! is overloaded.

use super::{AnswerTime, ReplicaRequest, ReplicaSet};
use crate::hints::HintReceiver;
use crate::pending::PendingRequests;
use base::{Clock, Entry};
use cluster::{Miss, NodeId};
use peer::PeerAnswer;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The replica that a node's hints are for.
pub struct ReplicaHints {
    /// The node.
    pub node: NodeId,
    /// The way to it.
    pub replicas: Rc<ReplicaSet>,
    /// Where its answers come to.
    pub pending: Rc<PendingRequests>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// How long a hint may take.
    pub timeout: Duration,
}

impl HintReceiver for ReplicaHints {
    fn is_up(&self) -> bool {
        self.replicas.takes_hints(self.node)
    }

    async fn store(&self, hint: Entry) -> Result<(), Miss> {
        // All stores were equal below the GC threshold, so the hint brings nothing. A store
        // that has lost its folder since may not have its closed timestamp back yet, and would
        // take it.
        let below = self.replicas.own().bounds.greatest();
        if hint.timestamp() < below {
            return Err(Miss::Obsolete { below });
        }
        let deadline = self.clock.monotonic().saturating_add(self.timeout);
        let wait = self.pending.wait(deadline);
        let request = ReplicaRequest::Write {
            entry: &hint,
            allocated: &mut None,
        };
        let asked = self
            .replicas
            .ask(self.node, request, deadline, wait.address(), None);
        let answer = match asked {
            AnswerTime::Now(answer) => answer,
            AnswerTime::Later => self.replicas.answer_of(hint.key(), wait.only().await).0,
        };
        match answer {
            // A store that is no voter has stored it nevertheless.
            PeerAnswer::Stored { .. } | PeerAnswer::Missed(Miss::Learner) => Ok(()),
            PeerAnswer::Missed(why) => Err(why),
            PeerAnswer::Found(_)
            | PeerAnswer::FoundBehind { .. }
            | PeerAnswer::Session(_)
            | PeerAnswer::Streamed(_)
            | PeerAnswer::Paged(_)
            | PeerAnswer::Examined(_)
            | PeerAnswer::List(_)
            | PeerAnswer::Backup(_)
            | PeerAnswer::Promise(_) => Err(Miss::Failed),
        }
    }
}
