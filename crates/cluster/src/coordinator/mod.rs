//! The coordination of one request: what a write or a read does next, answer
//! by answer.
//!
//! [`Write`] and [`Read`] are state machines. Whoever carries them out feeds
//! them with events and does the actions that they give, in order. They know
//! a replica by its index in the key's ranking ([`ReplicaIndex`](crate::ReplicaIndex));
//! the addresses, the time and the connections are the carrier's.
//!
//! Of each replica they remember one state, and all that is decided follows
//! from those states and the stage of the request: nothing is counted twice,
//! whatever comes late, twice or in another order. So:
//!
//! - there is exactly one `Reply`, at the `Deadline` at the latest, and one
//!   `Done` after it; between them the machine sees to what the request left
//!   behind: hints for writes, repairs for reads;
//! - every action that asks for something (`Send`, `Hint`, `Ask`, `Repair`) is
//!   to be followed by one event that tells how it went. After the `Deadline`
//!   answers no longer count, only `HintKept`;
//! - events of replicas from which nothing of the kind is awaited are ignored;
//! - for up to eight replicas nothing is allocated.
//!
//! What a client may rely on rests on two rules. A **write** is acknowledged by
//! replicas that held nothing newer, or else stamped once more. A **read** whose
//! answers differ mends the stale ones before it replies; a mend counts only at a
//! replica that holds nothing newer.

mod read;
mod write;

pub use read::{Read, ReadAction, ReadActions, ReadEvent};
pub use write::{Round, Write, WriteAction, WriteActions, WriteEvent};

/// What a request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Enough replicas have answered.
    Enough {
        /// The answers in hand.
        acks: u8,
    },
    /// Too few replicas have answered in time, or enough can no longer be reached.
    NotEnough {
        /// The answers in hand.
        acks: u8,
    },
}
