//! Coordinates one request: decides after each answer what a write or a read does next.
//!
//! [`Write`] and [`Read`] are state machines. A shell feeds them events and carries out the actions
//! that they return, in order. They know a replica by its index in the key's preference list
//! ([`ReplicaIndex`](crate::ReplicaIndex)); the shell knows the addresses, the time and the
//! connections.
//!
//! A machine keeps one state for each replica. Every decision follows from those states and from
//! the stage of the request, so no answer is counted twice, even if it arrives late, twice or out
//! of order. Invariants:
//!
//! - There is exactly one `Reply`, at the `Deadline` at the latest, and one `Done` after
//!   it. Between them the machine finishes what the request left open: hints for writes,
//!   repairs for reads.
//! - One event follows every action that asks for something (`Send`, `Hint`, `Ask`,
//!   `Repair`, `Pause`). After the `Deadline` only `HintKept` still counts.
//! - The machine ignores an event of a replica from which it awaits nothing of the kind.
//! - For up to eight replicas nothing is allocated.
//!
//! Two rules carry the promises to clients. A **write** is acknowledged by replicas that held
//! nothing newer; otherwise it gets a second timestamp. A **read** whose answers differ repairs the
//! stale replicas before it replies, and a repair counts only at a replica that holds nothing
//! newer.

mod conditional;
mod read;
mod read_progress;
mod read_steps;
mod write;
mod write_steps;

pub use conditional::{
    Base, Condition, ConditionalAction, ConditionalActions, ConditionalEvent, ConditionalOutcome,
    ConditionalWrite, Matches, Met, Newest, Rewrite, Settle, SettleAction, SettleActions,
    SettleEvent,
};
pub use read::{Read, TIMES_ANEW_MAX};
pub use read_steps::{ReadAction, ReadActions, ReadEvent};
pub use write::Write;
pub use write_steps::{ROUNDS_MAX, Round, WriteAction, WriteActions, WriteEvent};

/// Whether a request has enough replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Enough replicas have answered.
    Enough {
        /// How many have.
        acks: u8,
    },
    /// Too few replicas have answered in time, or enough can no longer be reached.
    NotEnough {
        /// How many have.
        acks: u8,
    },
}
