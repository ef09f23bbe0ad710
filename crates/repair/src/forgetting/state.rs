//! What a node knows of forgetting at one moment.

use super::{ForgetFile, HeldBack};
use base::Timestamp;
use cluster::ReplicaState;
use cluster::sweep::{PassId, PassKind};
use tokio::sync::oneshot;

/// What a node knows of forgetting, beside what requests ask without a lock.
pub(super) struct State {
    /// What is durable.
    pub(super) stored: ForgetFile,
    /// Below which timestamp the store refuses ordinary writes by now.
    pub(super) refused_below: Timestamp,
    /// The greatest F that this node has heard of.
    pub(super) greatest: Timestamp,
    /// The greatest fence of a peer that this node has heard of.
    pub(super) greatest_fence: Timestamp,
    /// How the store stood when something was last heard.
    pub(super) replica_state: ReplicaState,
    /// Whether a job will write what was heard.
    pub(super) is_write_due: bool,
    /// The last full pass that has ended in this node, which took part in it from its begin.
    pub(super) ended_pass: Option<PassId>,
    /// The greatest F that such a pass has shown.
    pub(super) shown: Timestamp,
    /// Those that wait until what was heard is durable.
    pub(super) waiting: Vec<oneshot::Sender<()>>,
    /// The passes that it took part in when the store was last sealed.
    pub(super) sealed_passes: Vec<PassId>,
    /// The passes that this node takes part in.
    pub(super) passes: Vec<(PassId, PassKind)>,
    /// Those of them that have gone back to a checkpoint.
    pub(super) passes_gone_back: Vec<PassId>,
    pub(super) held_back: Option<HeldBack>,
}

impl State {
    /// Whether the store was fenced below the greatest F.
    pub(super) fn is_from_before_fence(&self) -> bool {
        self.stored.is_from_before_fence(self.greatest)
    }
}
