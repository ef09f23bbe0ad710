//! Records when the replicas of a request were asked and when they answered, for the log of slow
//! requests and for traces.

use cluster::NodeId;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::time::Duration;

/// A replica that a request has asked. Times are on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedReplica {
    /// The replica's node.
    pub node: NodeId,
    /// When it was asked.
    pub asked: Duration,
    /// When it answered; `None` if it had not by the reply to the client.
    pub answered: Option<Duration>,
    /// Whether it answered that it did not do what it was asked.
    pub is_failed: bool,
}

/// The replicas that a request has asked, until its client had its reply.
#[derive(Debug, Default)]
pub struct ReplicaTimes(RefCell<SmallVec<[AskedReplica; 4]>>);

/// How many are kept: a write may be sent twice.
const ASKED_MAX: usize = 2 * u8::MAX as usize;

impl ReplicaTimes {
    /// Notes that a replica is asked.
    pub(super) fn asked(&self, node: NodeId, at: Duration) {
        let mut replicas = self.0.borrow_mut();
        if replicas.len() < ASKED_MAX {
            replicas.push(AskedReplica {
                node,
                asked: at,
                answered: None,
                is_failed: false,
            });
        }
    }

    /// Notes an answer. If the replica was asked several times, it is that to the first question
    /// without one.
    pub(super) fn answered(&self, node: NodeId, at: Duration, is_failed: bool) {
        let mut replicas = self.0.borrow_mut();
        let waits =
            |replica: &&mut AskedReplica| replica.node == node && replica.answered.is_none();
        if let Some(replica) = replicas.iter_mut().find(waits) {
            replica.answered = Some(at);
            replica.is_failed = is_failed;
        }
    }

    /// The replicas in the order in which they were asked.
    pub fn replicas(&self) -> Vec<AskedReplica> {
        self.0.borrow().to_vec()
    }

    /// Who answered, and when on the monotonic clock, in the order of the answers.
    pub fn answers(&self) -> Vec<(NodeId, Duration)> {
        let replicas = self.0.borrow();
        let answer = |replica: &AskedReplica| Some((replica.node, replica.answered?));
        let mut answers: Vec<_> = replicas.iter().filter_map(answer).collect();
        answers.sort_by_key(|(_, at)| *at);
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn answers_belong_to_questions_and_come_in_their_own_order() {
        let times = ReplicaTimes::default();
        let (a, b) = (NodeId::new(1), NodeId::new(2));
        times.asked(a, SECOND);
        times.asked(b, SECOND);
        times.answered(b, 2 * SECOND, true);
        times.answered(b, 3 * SECOND, false);
        times.asked(b, 3 * SECOND);
        times.answered(a, 4 * SECOND, false);
        let replicas = times.replicas();
        let expected = [(a, Some(4), false), (b, Some(2), true), (b, None, false)];
        for (replica, (node, answered, is_failed)) in replicas.iter().zip(expected) {
            let answered = answered.map(|seconds| seconds * SECOND);
            let found = (replica.node, replica.answered, replica.is_failed);
            assert_eq!(found, (node, answered, is_failed));
        }
        assert_eq!(replicas.len(), expected.len());
        assert_eq!(times.answers(), [(b, 2 * SECOND), (a, 4 * SECOND)]);
    }
}
