//! Why a node allocates no timestamp, in words for clients and operators.

use std::time::Duration;

/// Why no timestamp is issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTimestamp {
    /// The store is not open yet, or is closed already.
    #[error("the node is starting or stopping: use another node")]
    Closed,
    /// The node's clock is too far from the clocks of most peers.
    #[error(
        "this node's clock differs by more than --clock-drift-max from the clocks of most other \
         nodes: correct it; until then use another node"
    )]
    Far,
    /// No peer was met since the start, so this clock was compared with none.
    #[error(
        "this node has met no other node since it started, and takes no writes before another clock \
         confirms its own. Start another node, or see in this node's log why they do not connect"
    )]
    Unmet,
    /// No peer has confirmed the node's clock since the start, or since the clock was set,
    /// although it was compared.
    #[error(
        "this node's clock may be wrong: the clocks of the nodes that it has met differ from it by \
         more than --clock-drift-max. Correct the clock that is wrong, or start another node, \
         whose clock decides; until then use another node"
    )]
    NoneNear,
    /// The store has issued no timestamp yet, so an earlier one under this node's name may have, and
    /// peers that may have seen those timestamps are not heard yet.
    #[error(
        "this node's store is new, and a lost store may have issued the timestamps that it would \
         issue: start all nodes, so that each reports what it has seen, or use another node. The \
         node takes writes {} s after its start at the latest", all_after.as_secs()
    )]
    Unheard {
        /// How long after the start no such timestamp can be given again.
        all_after: Duration,
    },
    /// Earlier timestamps are too far ahead of the node's clock.
    #[error(
        "this node's next timestamp would be {} s ahead of its clock, and other nodes would \
         refuse it, because it issued or received timestamps of a wrong clock: use another node \
         until this node's clock has caught up, or start it with --drop-future-versions",
        ahead_ms / 1000
    )]
    Ahead {
        /// By how many milliseconds.
        ahead_ms: u64,
    },
    /// The next timestamp would be above the durable timestamp bound.
    #[error(
        "this node's disk cannot store the timestamp bound, or is too slow: try again, or use \
         another node, and look for disk errors in this node's log"
    )]
    Bound,
    /// The store is an older state of a store that peers know, or a copy of it.
    #[error(
        "this node's store was restored from a copy, or a copy of it was started, so another \
         process may have issued the same timestamps: use another node until a full repair has \
         rebuilt this node's store; it starts on its own once all nodes are up"
    )]
    Outdated,
    /// The node's clock shows a time that timestamps cannot have.
    #[error(
        "this node's clock shows a time centuries from now: correct it; until then use another node"
    )]
    NoTime,
    /// There is no greater timestamp.
    #[error(
        "this node has seen the last possible timestamp, which came from a wrong clock: use \
         another node. If this node's clock is right now, start it once with \
         --drop-future-versions"
    )]
    End,
}
