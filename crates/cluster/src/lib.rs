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
//! - [`repair`] says how repair sessions go and when tombstones may go, as two machines.
//! - [`backup`] says which moment of the cluster a backup holds.
//! - [`HintLimits`] says which hints to drop.
//! - [`Members`] is the list of all nodes, a [`NodeId`] the number of one of them, a
//!   [`NodeUrl`] the address of a node, and [`NodeTable`] a table by node ID. [`Layout`] is what is
//!   in force: members and placement.
//! - [`layout`] changes the list of members while the cluster serves: which list may follow which,
//!   how nodes agree on one, and what requests need meanwhile ([`Quorum`]).

pub mod backup;
mod clock;
pub mod comparison;
pub mod coordinator;
mod hint_limits;
pub mod layout;
mod members;
pub mod pages;
mod placement;
pub mod repair;
mod replica_state;
mod replicas;

pub use clock::{ClockBound, HybridClock, MedianAhead, TimestampReservation};
pub use coordinator::{
    Base, Condition, ConditionalAction, ConditionalActions, ConditionalEvent, ConditionalOutcome,
    ConditionalWrite, Decision, Matches, Met, Newest, ROUNDS_MAX, Read, ReadAction, ReadActions,
    ReadEvent, Rewrite, Round, Settle, SettleAction, SettleActions, SettleEvent, TIMES_ANEW_MAX,
    Write, WriteAction, WriteActions, WriteEvent,
};
pub use hint_limits::{HintLimits, HintSegment};
pub use layout::{Epoch, Layout, Quorum, WhichList};
pub use members::{
    Member, MemberError, Members, MembersError, NODES_MAX, NodeId, NodeSet, NodeTable, NodeUrl,
    NodeUrlError,
};
pub use placement::{Placement, PreferenceList};
pub use replica_state::{
    Confirmation, Judgement, LostStore, PEER_STARTS_MAX, PossibleLoss, Remembered, ReplicaState,
    STARTS_MAX, StoreClaim, is_bygone, judge,
};
pub use replicas::{Fate, Miss, ReplicaIndex, Replicas, ReplicasError};
