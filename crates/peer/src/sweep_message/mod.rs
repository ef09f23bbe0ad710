//! What nodes say to each other during a sweep.
//!
//! A driver leads a pass with [`SweepRequest`]s to all nodes; two nodes whose
//! digests of a range differ talk to each other. Versions themselves travel as
//! mends, which are writes of their own kind ([`super::PeerRequest::Mend`]).
//!
//! ```text
//! request = pass u64 | tag u8 | fields          answer = tag u8 | fields
//!  1 begin      is full u8                       1 begun     greatest seen u64
//!  2 agree      cut u64 | bounds of each node                | bounds of each node
//!                                                2 done
//!  3 advance    start key                        3 advanced  end of what is scanned: option key
//!  4 digest     range u32 | end option key       4 digests   surplus u32 | n * digest
//!  5 reconcile  range u32 | with u8 | digest              5 reconciled is equal u8 | sent u32 | received u32
//!  6 symbols    range u32 | for u8 | first u32   6 symbols   n * symbol
//!               | count u32
//!  7 send       range u32 | to u8 | n * hash u64 7 sent      all u8 | sent u32
//!  8 announce   range u32                        8 unknown   the pass or range is not known (any more)
//!  9 sync
//! 10 end        n * u8: clean with these nodes
//! 11 pull       range u32 | for u8 | after option key | n * u32: short hashes
//!                                                 the answer is a `run` or 8 unknown
//!
//! digest     = items u64 | sum u128
//! symbol     = key hashes u64 | timestamps u64 | content hashes u32 | checks u32 | items i32
//! bounds     = n u8 | n * (key | bound u64)
//! key        = bytes u16 | bytes               option key = 0 u8, or 1 u8 | key
//! ```
//!
//! All numbers are little-endian. Nodes are numbered by the list of names that
//! both sides have, which the handshake has made sure of.

mod codec;

#[cfg(test)]
mod tests;

use crate::frame::PAYLOAD_BYTES_MAX;
use base::Timestamp;
use bytes::Bytes;
use cluster::NodeNumber;
use cluster::sweep::symbols::Symbol;
use cluster::sweep::{Digest, KeyBounds, PassId, PassKind, STEPS_MAX};

/// The most symbols that one answer carries.
pub const SYMBOLS_MAX: usize = 2048;
/// The most key hashes that one request carries.
pub const KEY_HASHES_MAX: usize = 4096;
/// The most short hashes that one request carries.
pub const HELD_MAX: usize = 8192;
/// The most bytes of a key that begins a step of bounds.
pub const BOUND_KEY_BYTES_MAX: usize = 32;

/// The most bytes of a step of bounds: key, its length, bound.
const BOUND_STEP_BYTES_MAX: usize = 2 + BOUND_KEY_BYTES_MAX + 8;

/// The most steps that bounds have in a cluster of so many nodes. The bounds with
/// all of them fit half a frame.
#[must_use]
pub fn bound_steps_max(nodes: usize) -> usize {
    let steps = PAYLOAD_BYTES_MAX / 2 / BOUND_STEP_BYTES_MAX;
    (steps / nodes.max(1)).clamp(1, STEPS_MAX)
}

/// What one node asks of another in a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SweepRequest {
    /// Take part in a pass.
    Begin {
        /// The pass.
        pass: PassId,
        /// What it compares.
        kind: PassKind,
    },
    /// What all agree on: the cut, and what each pair may pass over, for the node
    /// that is asked, by node number.
    Agree {
        /// The pass.
        pass: PassId,
        /// A key whose newest version is later is left out.
        cut: Timestamp,
        /// The bounds with each node.
        bounds: Vec<KeyBounds>,
    },
    /// Scan on, from this key at least.
    Advance {
        /// The pass.
        pass: PassId,
        /// Where the next range begins.
        start: Bytes,
    },
    /// Make the digests of a range; it begins where the one before ended.
    Digest {
        /// The pass.
        pass: PassId,
        /// The number of the range.
        range: u32,
        /// Where it ends; [`None`] for the end of the key space.
        end: Option<Bytes>,
    },
    /// Make a range equal with another node.
    Reconcile {
        /// The pass.
        pass: PassId,
        /// The number of the range.
        range: u32,
        /// The other node.
        with: NodeNumber,
        /// What that one has.
        theirs: Digest,
    },
    /// Give symbols over the items that are shared with the node that asks.
    Symbols {
        /// The pass.
        pass: PassId,
        /// The number of the range.
        range: u32,
        /// The node that asks.
        asker: NodeNumber,
        /// The number of the first symbol.
        first: u32,
        /// How many.
        count: u32,
    },
    /// Send the newest versions of these keys to the node that asks, as mends.
    Send {
        /// The pass.
        pass: PassId,
        /// The number of the range.
        range: u32,
        /// The node that asks.
        asker: NodeNumber,
        /// The hashes of the keys.
        key_hashes: Vec<u64>,
    },
    /// Give a run of what is shared with the node that asks, in the order of the keys.
    Pull {
        /// The pass.
        pass: PassId,
        /// The number of the range.
        range: u32,
        /// The node that asks.
        asker: NodeNumber,
        /// The keys after this one; [`None`] from the beginning of the range on.
        after: Option<Bytes>,
        /// Short hashes of the items that the node that asks has. They are left out.
        held: Vec<u32>,
    },
    /// Send the surplus copies of a range to their replicas.
    Announce {
        /// The pass.
        pass: PassId,
        /// The number of the range.
        range: u32,
    },
    /// Make durable what the pass has brought.
    Sync {
        /// The pass.
        pass: PassId,
    },
    /// The pass is over.
    End {
        /// The pass.
        pass: PassId,
        /// The nodes with which the one that is asked was found, or made, equal.
        clean_with: Vec<NodeNumber>,
    },
}

/// What the other answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SweepAnswer {
    /// It takes part.
    Begun {
        /// The greatest timestamp that it has issued or seen.
        greatest_seen: Timestamp,
        /// What it could pass over with each node, by node number.
        bounds: Vec<KeyBounds>,
    },
    /// It is done.
    Done,
    /// It has scanned up to this key; [`None`] for the end of the key space.
    Advanced(Option<Bytes>),
    /// What it keeps of the range.
    Digests {
        /// The number of keys of which it is no replica.
        surplus: u32,
        /// What it shares with each node, by node number.
        digests: Vec<Digest>,
    },
    /// The difference was exchanged.
    Reconciled {
        /// Whether all of it was.
        is_equal: bool,
        /// The mends that the node sent.
        sent: u32,
        /// The mends that it received.
        received: u32,
    },
    /// The symbols.
    Symbols(Vec<Symbol>),
    /// The mends were sent.
    Sent {
        /// Whether all were stored.
        all: bool,
        /// How many were.
        sent: u32,
    },
    /// It does not know the pass, or the range any more.
    Unknown,
}
impl SweepRequest {
    /// The pass.
    #[must_use]
    pub fn pass(&self) -> PassId {
        match self {
            Self::Begin { pass, .. }
            | Self::Agree { pass, .. }
            | Self::Advance { pass, .. }
            | Self::Digest { pass, .. }
            | Self::Reconcile { pass, .. }
            | Self::Symbols { pass, .. }
            | Self::Send { pass, .. }
            | Self::Pull { pass, .. }
            | Self::Announce { pass, .. }
            | Self::Sync { pass }
            | Self::End { pass, .. } => *pass,
        }
    }
}
