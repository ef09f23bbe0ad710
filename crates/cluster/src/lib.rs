//! What the nodes of a cluster decide together: pure functions and state machines,
//! without I/O and without a clock of their own.
//!
//! - [`Placement`] chooses the replicas of a key.
//! - [`coordinator`] decides the next steps of a write or a read after each answer.
//! - [`pages`] merge a scan of the whole cluster.
//! - [`HybridClock`] allocates the timestamps that order versions, [`ClockBound`] says
//!   which clocks to trust, [`TimestampReservation`] how far ahead to reserve timestamps.
//! - [`Confirmation`] says whether a store is a voter, [`PossibleLoss`] which writes a lost one may
//!   have taken with it.
//! - [`forgetting`] says when tombstones may go.
//! - [`HintLimits`] says which hints to drop.
//! - [`Members`] is the list of all nodes, a [`NodeNumber`] an index into it, and a
//!   [`NodeUrl`] the address of a node.

mod clock_bound;
pub mod coordinator;
pub mod forgetting;
mod hint_limits;
mod hybrid_clock;
mod members;
mod node_number;
mod node_url;
pub mod pages;
mod placement;
mod possible_loss;
mod replica_state;
mod replicas;
pub mod sweep;
mod timestamp_reservation;

pub use clock_bound::{ClockBound, MedianAhead};
pub use coordinator::{
    Decision, Read, ReadAction, ReadActions, ReadEvent, Round, TIMES_ANEW_MAX, Write, WriteAction,
    WriteActions, WriteEvent,
};
pub use hint_limits::{HintLimits, HintSegment};
pub use hybrid_clock::HybridClock;
pub use members::{Member, MemberError, Members, MembersError};
pub use node_number::{NODES_MAX, NodeNumber};
pub use node_url::{NodeUrl, NodeUrlError};
pub use placement::{Placement, Ranking};
pub use possible_loss::{LostStore, PossibleLoss};
pub use replica_state::{
    Confirmation, Judgement, PEER_STARTS_MAX, Remembered, ReplicaState, STARTS_MAX, StoreClaim,
    is_bygone, judge,
};
pub use replicas::{Fate, Miss, ReplicaIndex, Replicas};
pub use timestamp_reservation::TimestampReservation;
