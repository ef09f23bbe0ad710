//! Why full repair sessions do not raise the GC threshold.

use cluster::NodeId;

/// Why a full repair session did not raise the GC threshold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldBack {
    /// These nodes took no part, or not to the end: they are down, or run an older release.
    Away(Vec<NodeId>),
    /// The clocks of these nodes are not trusted, so that they say nothing about the past.
    Clocks(Vec<NodeId>),
    /// The closed timestamps of these nodes are later than the clocks of all nodes allow: they
    /// were closed while a clock was ahead.
    ClosedAhead(Vec<NodeId>),
    /// These nodes were not made equal.
    Unequal(Vec<(NodeId, NodeId)>),
    /// Old versions were moved, and the nodes did not come to rest: copies go round. The next
    /// session shows whether that was all.
    Moved,
    /// Reads brought old versions to these nodes behind the scan of the session, which has not met
    /// them. The next one does.
    CameBehind(Vec<NodeId>),
    /// A node was restarted or replaced meanwhile, or has found damage in its store. The next
    /// session begins anew.
    Interrupted,
}
