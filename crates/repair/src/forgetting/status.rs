//! What an operator hears about forgetting.

use base::Timestamp;
use cluster::NodeId;

/// What a node knows of forgetting, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgettingStatus {
    /// Below it this node takes no ordinary writes.
    pub fence: Timestamp,
    /// F: what is dead below it is dropped. [`Timestamp::ZERO`] before the first one.
    pub forgotten: Timestamp,
    /// Surplus copies below it are dropped: it follows `forgotten`, for passes in which this
    /// store took part.
    pub surplus_below: Timestamp,
    /// The greatest F that this node has heard of. It is greater than `forgotten` while the
    /// store may lack something.
    pub greatest: Timestamp,
    /// What kept F from rising in the last full pass that this node has driven.
    pub held_back: Option<HeldBack>,
}

/// Why a full pass did not raise F.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldBack {
    /// These nodes took no part, or not to the end: they are down, or run an older release.
    Away(Vec<NodeId>),
    /// The clocks of these nodes are not trusted, so that they say nothing about the past.
    Clocks(Vec<NodeId>),
    /// These nodes did not raise their fences: they cannot write to their disks, or were
    /// replaced meanwhile.
    Unfenced(Vec<NodeId>),
    /// These nodes were not made equal.
    Unequal(Vec<(NodeId, NodeId)>),
    /// Old versions were moved, and the nodes did not come to rest: a store was being filled,
    /// or copies go round. The next full pass shows whether that was all.
    Moved,
    /// A node was restarted or replaced meanwhile, or has found damage in its store. The next
    /// full pass begins anew.
    Interrupted,
}
