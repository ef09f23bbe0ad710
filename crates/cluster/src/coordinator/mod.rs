//! The coordination of one request, as state machines: events in, actions out.

mod read;
mod write;

pub use read::{Read, ReadAction, ReadActions, ReadEvent};
pub use write::{Round, Write, WriteAction, WriteActions, WriteEvent};

/// What a request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Enough replicas have answered: this many.
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
