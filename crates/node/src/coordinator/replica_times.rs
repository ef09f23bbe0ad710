//! Records when the replicas of a request answered, for the log of slow requests.

use cluster::NodeId;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::time::Duration;

/// The answers that a request got, until its client had its reply.
///
/// An answer that is there at once, as that of this node's memory to a read, is not among
/// them.
#[derive(Debug, Default)]
pub struct ReplicaTimes(RefCell<SmallVec<[(NodeId, Duration); 4]>>);

/// How many answers are kept: a write may be sent twice, and have hints.
const ANSWERS_MAX: usize = 3 * u8::MAX as usize;

impl ReplicaTimes {
    /// Notes an answer.
    pub(super) fn answered(&self, node: NodeId, at: Duration) {
        let mut answers = self.0.borrow_mut();
        if answers.len() < ANSWERS_MAX {
            answers.push((node, at));
        }
    }

    /// Who answered, and when on the monotonic clock, in the order of the answers.
    pub fn answers(&self) -> Vec<(NodeId, Duration)> {
        self.0.borrow().to_vec()
    }
}
