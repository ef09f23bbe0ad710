//! What an operator hears about forgetting.

use base::Timestamp;
use cluster::NodeNumber;

/// What a node knows of forgetting, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgettingStatus {
    /// Below it this node takes no ordinary writes.
    pub fence: Timestamp,
    /// F: what is dead below it is dropped. [`Timestamp::ZERO`] before the first one.
    pub forgotten: Timestamp,
    /// The greatest F that this node has heard of. It is greater than `forgotten` while the
    /// store may lack something.
    pub greatest: Timestamp,
    /// What kept F from rising in the last full pass that this node has driven.
    pub held_back: Option<HeldBack>,
}

/// Why a full pass did not raise F.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldBack {
    /// These nodes were away, had no trusted clock, or run an older release.
    By(Vec<NodeNumber>),
    /// These nodes were not made equal.
    Unequal(Vec<(NodeNumber, NodeNumber)>),
    /// A node was restarted or replaced meanwhile, or versions were found where they do
    /// not belong. The next full pass begins anew.
    Inconclusive,
}
