//! What a replica asks about forgetting.

use crate::forgetting::Forgetting;
use base::Timestamp;
use cluster::forgetting::Bounds;

/// What this node's store has forgotten. Asked with each read, so it must be quick.
pub(crate) trait ForgetView: Send + Sync {
    /// The fence and the forget bound of the store.
    fn bounds(&self) -> Bounds;

    /// The greatest forget bound that the node has heard of.
    fn greatest(&self) -> Timestamp;
}

impl ForgetView for Forgetting {
    fn bounds(&self) -> Bounds {
        self.bounds_now()
    }

    fn greatest(&self) -> Timestamp {
        self.greatest()
    }
}

#[cfg(test)]
/// A store that has no fence.
pub(crate) struct NothingForgotten;

#[cfg(test)]
impl ForgetView for NothingForgotten {
    fn bounds(&self) -> Bounds {
        Bounds::default()
    }

    fn greatest(&self) -> Timestamp {
        Timestamp::ZERO
    }
}
