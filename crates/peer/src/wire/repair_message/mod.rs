//! What nodes say to each other in repair sessions.
//!
//! A coordinator leads a session with [`RepairRequest`]s to all nodes; two nodes whose
//! digests of a range differ talk to each other. Versions themselves travel as
//! repair writes, which are writes of their own kind ([`super::PeerRequest::RepairWrite`]).
//!
//! ```text
//! request = session | tag u8 | fields           answer = tag u8 | fields
//!  1 begin      epoch u64                        1 begun     greatest seen u64 | GC threshold u64
//!  2 agree      cut u64 | GC threshold u64                   | closed u64 | latest u64
//!               | n u8 | n * reach u8                        | may raise u8 | reach u8
//!               | bounds of each node                        | bounds of each node
//!  3 advance    start key                        2 done
//!  4 digest     range u32 | end option key       3 advanced  end of what is scanned: option key
//!  5 reconcile  range u32 | with u8              4 digests   non-owned u32 | announces u32
//!  6 symbols    range u32 | for u8 | first u32               | single copies u32 | n * digest
//!               | count u32                      5 reconciled both have all u8 | sent u32 | received u32
//!  7 send       range u32 | to u8 | n * hash u64             | below closed u32
//!  8 announce   range u32                        6 symbols   n * symbol
//!  9 sync                                        7 sent      all u8 | sent u32 | below closed u32
//! 10 outcome    GC threshold u64 | n u8          8 refused   greatest token: u64 | u32
//!               | n * single copies u64          9 announced below closed u32 | n * u8: not told
//!               | n * u8: equal with these      10 wanted    all u8 | sent u32
//! 11 stream     range u32 | for u8                           | below closed u32 | n * index u16
//!               | after option key              the answer to `stream` is a `run`, or 8 refused
//!               | until option key              11 recounted digest
//!               | n * u32: short hashes
//! 12 offer      range u32 | from u8 | n * offer 12 closed    closed u64
//! 13 recount    range u32 | for u8              13 finished  may raise u8
//! 14 close      GC threshold u64 | below u64    14 failed
//!               | are all u8 | start key
//! 15 finish     below u64                       15 other epoch: u64
//! 16 outcome    as 10, with n u8 before the     16 reconciled as 5, but one has all: asker u8
//!               equal ones | n * u8: has all of
//!
//! session    = is full u8 | u64 | u32: a token, or a random number and 0
//! offer      = key | timestamp u64 | content hash u32 | copies u8
//! digest     = items u64 | sum u128
//! symbol     = key hashes u64 | timestamps u64 | content hashes u32 | checks u32 | items i32
//! bounds     = n u8 | n * (key | bound u64)
//! key        = bytes u16 | bytes               option key = 0 u8, or 1 u8 | key
//! ```
//!
//! All numbers are little-endian. Nodes are named by their IDs.

mod codec;
mod fields;
mod session_id;

#[cfg(test)]
mod tests;

pub(crate) use session_id::{put_session_id, take_session_id};

use crate::wire::frame::PAYLOAD_BYTES_MAX;
use base::Timestamp;
use bytes::Bytes;
use cluster::comparison::symbols::Symbol;
use cluster::comparison::{Digest, KeyBounds, STEPS_MAX};
use cluster::repair::{SessionId, Token};
use cluster::{Epoch, NodeId};

/// The most symbols that one answer carries.
pub const SYMBOLS_MAX: usize = 2048;
/// The most key hashes that one request carries.
pub const KEY_HASHES_MAX: usize = 4096;
/// The most short hashes that one request carries.
pub const HELD_MAX: usize = 8192;
/// The most versions that one request offers.
pub const OFFERS_MAX: usize = 1024;
/// The most bytes that the offers of one request take, by [`Offer::bytes`], unless it
/// has a single one.
pub const OFFER_BYTES_MAX: usize = PAYLOAD_BYTES_MAX / 2;
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

/// What one node asks of another in a repair session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepairRequest {
    /// Take part in a session: [`cluster::repair::SessionRequest::Begin`].
    Begin {
        /// The session.
        session: SessionId,
        /// The epoch of the list of members by which it places keys.
        epoch: Epoch,
    },
    /// Raise the closed timestamp: [`cluster::repair::SessionRequest::Close`].
    Close {
        /// The session.
        session: SessionId,
        /// The greatest GC threshold that one of those that have begun knows.
        gc_threshold: Timestamp,
        /// What the session is to raise the GC threshold to.
        below: Timestamp,
        /// Whether all members have begun.
        are_all: bool,
        /// Where this attempt begins to scan.
        start: Bytes,
    },
    /// What all agree on: the cut, and what each pair may pass over, for the node
    /// that is asked, by node ID.
    Agree {
        /// The session.
        session: SessionId,
        /// An incremental session leaves out a key whose newest version is later.
        cut: Timestamp,
        /// The greatest GC threshold that one of the nodes has named. All leave out what
        /// is dead below it.
        gc_threshold: Timestamp,
        /// The reach of each node, by node ID: 0 for those that do not take part.
        reaches: Vec<u8>,
        /// The bounds with each node.
        bounds: Vec<KeyBounds>,
    },
    /// Scan on, from this key at least.
    Advance {
        /// The session.
        session: SessionId,
        /// Where the next range begins.
        start: Bytes,
    },
    /// Make the digests of a range; it begins where the one before ended.
    Digest {
        /// The session.
        session: SessionId,
        /// The number of the range.
        range: u32,
        /// Where it ends; [`None`] for the end of the key space.
        end: Option<Bytes>,
    },
    /// Make a range equal with another node.
    Reconcile {
        /// The session.
        session: SessionId,
        /// The number of the range.
        range: u32,
        /// The other node.
        with: NodeId,
    },
    /// Make the digest of what is shared with the node that asks once more: other nodes
    /// may have sent something since.
    Recount {
        /// The session.
        session: SessionId,
        /// The number of the range.
        range: u32,
        /// The node that asks.
        asker: NodeId,
    },
    /// Give symbols over the items that are shared with the node that asks.
    Symbols {
        /// The session.
        session: SessionId,
        /// The number of the range.
        range: u32,
        /// The node that asks.
        asker: NodeId,
        /// The number of the first symbol.
        first: u32,
        /// How many.
        count: u32,
    },
    /// Send the newest versions of these keys to the node that asks, as repair writes.
    Send {
        /// The session.
        session: SessionId,
        /// The number of the range.
        range: u32,
        /// The node that asks.
        asker: NodeId,
        /// The hashes of the keys.
        key_hashes: Vec<u64>,
    },
    /// Give a run of what is shared with the node that asks, in the order of the keys.
    Stream {
        /// The session.
        session: SessionId,
        /// The number of the range.
        range: u32,
        /// The node that asks.
        asker: NodeId,
        /// The keys after this one; [`None`] from the beginning of the range on.
        after: Option<Bytes>,
        /// The keys up to this one, which is included; [`None`] up to the end of the range.
        until: Option<Bytes>,
        /// Short hashes of the items that the node that asks has among these keys. They are left
        /// out.
        held: Vec<u32>,
    },
    /// Offer the non-owned copies of a range to their replicas, and versions to nodes
    /// that may keep older ones though they are no replicas.
    Announce {
        /// The session.
        session: SessionId,
        /// The number of the range.
        range: u32,
    },
    /// Say which of these versions you want, and send the newer ones that you have.
    Offer {
        /// The session.
        session: SessionId,
        /// The number of the range.
        range: u32,
        /// The node that offers.
        asker: NodeId,
        /// The versions.
        offers: Vec<Offer>,
    },
    /// Make durable what the session has brought.
    Sync {
        /// The session.
        session: SessionId,
    },
    /// The last question: [`cluster::repair::SessionRequest::Finish`].
    Finish {
        /// The session.
        session: SessionId,
        /// What the session is to raise the GC threshold to.
        below: Timestamp,
    },
    /// The session is over: [`cluster::repair::SessionRequest::Outcome`].
    Outcome {
        /// The session.
        session: SessionId,
        /// What the GC threshold has risen to; [`Timestamp::ZERO`] if it has not.
        gc_threshold: Timestamp,
        /// How many versions of a single copy each node has, by node ID;
        /// [`u64::MAX`] where that is not known.
        single_copies: Vec<u64>,
        /// The nodes with which the one that is asked was found, or made, equal.
        equal_with: Vec<NodeId>,
        /// Those, and the nodes that lack something of it, but of which it has all that they have.
        has_all_of: Vec<NodeId>,
    },
}

/// A version that a node offers: all but its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The key.
    pub key: Bytes,
    /// The timestamp.
    pub timestamp: Timestamp,
    /// The hash of what the version says, as in [`cluster::comparison::Item`].
    pub content_hash: u32,
    /// The number of copies.
    pub copies: u8,
}

impl Offer {
    /// The bytes of the offer in a message.
    #[must_use]
    pub fn bytes(&self) -> usize {
        2 + self.key.len() + 8 + 4 + 1
    }
}

/// What the other answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepairAnswer {
    /// It takes part.
    Begun {
        /// The greatest timestamp that it has issued or seen.
        greatest_seen: Timestamp,
        /// Its GC threshold.
        gc_threshold: Timestamp,
        /// Its closed timestamp.
        closed: Timestamp,
        /// How far its clock allows its closed timestamp to rise; [`Timestamp::ZERO`] while that
        /// is not trusted.
        latest: Timestamp,
        /// Whether a session that goes on may still raise the GC threshold.
        may_raise: bool,
        /// How far down the preference lists of its keys it keeps copies: all of its copies are
        /// of keys of which it is among so many first nodes.
        reach: u8,
        /// What it could pass over with each node, by node ID.
        bounds: Vec<KeyBounds>,
    },
    /// It is done.
    Done,
    /// It has scanned up to this key; [`None`] for the end of the key space.
    Advanced(Option<Bytes>),
    /// What it keeps of the range.
    Digests {
        /// The number of keys of which it is no replica.
        non_owned: u32,
        /// The number of keys that it has to announce.
        announces: u32,
        /// The number of versions of which it has the only copy.
        single_copies: u32,
        /// What it shares with each node, by node ID.
        digests: Vec<Digest>,
    },
    /// The difference was exchanged.
    Reconciled {
        /// Whether the node has all now that the other one has.
        asker_has_all: bool,
        /// Whether the other one has all that the node has.
        other_has_all: bool,
        /// The repair writes that the node sent.
        sent: u32,
        /// The repair writes that it received.
        received: u32,
        /// How many of these were not above the cut of the session.
        below_cut: u32,
    },
    /// What it shares with the node that asked.
    Recounted(Digest),
    /// The symbols.
    Symbols(Vec<Symbol>),
    /// The versions were sent.
    Sent {
        /// Whether all were stored.
        all: bool,
        /// How many were.
        sent: u32,
        /// How many of them, stored or not, were not above the cut of the session.
        below_cut: u32,
    },
    /// It cannot do as asked: its store does not take it.
    Failed,
    /// It takes no part in the session, or does not know the range any more.
    Refused {
        /// The greatest token that it has seen.
        greatest: Token,
    },
    /// It takes no part in the session, because its list of members has another epoch, or it still
    /// answers requests of an earlier list.
    OtherEpoch {
        /// The epoch of its list.
        epoch: Epoch,
    },
    /// Its versions were offered.
    Announced {
        /// How many of those that were not yet everywhere were not above the cut of the session.
        below_cut: u32,
        /// The nodes that may still lack some.
        not_told: Vec<NodeId>,
    },
    /// It wants some of the versions.
    Wanted {
        /// Whether all of the newer versions that it has were sent and stored.
        all: bool,
        /// How many of them were.
        sent: u32,
        /// As in `Announced`.
        below_cut: u32,
        /// The offers that it wants, by their place in the request.
        wanted: Vec<u16>,
    },
    /// Its closed timestamp.
    Closed(Timestamp),
    /// What a full session has brought is durable in this store: the answer to `Sync` and to
    /// `Finish`.
    Synced {
        /// Whether the session may still raise the GC threshold, as far as this store knows.
        may_raise: bool,
    },
}

impl RepairRequest {
    /// The session.
    #[must_use]
    pub fn session(&self) -> SessionId {
        match self {
            Self::Begin { session, .. }
            | Self::Close { session, .. }
            | Self::Agree { session, .. }
            | Self::Advance { session, .. }
            | Self::Digest { session, .. }
            | Self::Reconcile { session, .. }
            | Self::Recount { session, .. }
            | Self::Symbols { session, .. }
            | Self::Send { session, .. }
            | Self::Stream { session, .. }
            | Self::Announce { session, .. }
            | Self::Offer { session, .. }
            | Self::Sync { session }
            | Self::Finish { session, .. }
            | Self::Outcome { session, .. } => *session,
        }
    }
}
