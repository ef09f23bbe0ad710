//! What nodes say to each other during a sweep.
//!
//! A driver leads a pass with [`SweepRequest`]s to all nodes; two nodes whose
//! digests of a range differ talk to each other. Versions themselves travel as
//! mends, which are writes of their own kind ([`super::PeerRequest::Mend`]).
//!
//! ```text
//! request = pass u64 | tag u8 | fields          answer = tag u8 | fields
//!  1 begin      is full u8 | is resumed u8       1 begun     incarnation | start u64
//!  2 agree      cut u64 | forgotten u64 | n u8               | greatest seen u64 | forgotten u64
//!               | n * (reach u8 | store)                     | latest fence u64 | reach u8
//!               | bounds of each node                        | bounds of each node
//!                                                2 done
//!  3 advance    start key                        3 advanced  end of what is scanned: option key
//!  4 digest     range u32 | end option key       4 digests   surplus u32 | announces u32
//!                                                            | single copies u32 | n * digest
//!  5 reconcile  range u32 | with u8              5 reconciled is equal u8 | sent u32 | received u32
//!                                                            | below fence u32
//!  6 symbols    range u32 | for u8 | first u32   6 symbols   n * symbol
//!               | count u32
//!  7 send       range u32 | to u8 | n * hash u64 7 sent      all u8 | sent u32 | below fence u32
//!  8 announce   range u32                        8 unknown   the pass or range is not known (any more)
//!  9 sync                                        9 announced sent u32 | unsettled u32 | below fence u32
//! 10 end        is conclusive u8 | n u8                      | n * u8: not told
//!               | n * single copies u64         10 wanted    all u8 | sent u32 | unsettled u32
//!               | n * u8: clean with these                   | below fence u32 | n * index u16
//! 11 pull       range u32 | for u8              11 synced    incarnation
//!               | after option key              the answer to `pull` is a `run`, or 8 unknown
//!               | n * u32: short hashes
//! 12 offer      range u32 | from u8 | n * offer 12 recounted digest
//! 13 recount    range u32 | for u8              13 fenced     incarnation | before u64 | fence u64
//! 14 fence      fence u64                                     | forgotten u64 | greatest u64
//! 15 forget     forgotten u64                                 | lacks nothing u8
//! 16 disregard  below u64 | n * vouching u8     (13 fenced and 14 to 16 only with the feature
//!                                                `FORGETTING`)
//!
//! incarnation = store id u64 | last loss u64
//! store      = store id u64 | start u64
//! offer      = key | timestamp u64 | content hash u32 | copies u8
//! digest     = items u64 | sum u128
//! symbol     = key hashes u64 | timestamps u64 | content hashes u32 | checks u32 | items i32
//! bounds     = n u8 | n * (key | bound u64)
//! key        = bytes u16 | bytes               option key = 0 u8, or 1 u8 | key
//! ```
//!
//! All numbers are little-endian. Nodes are numbered by the list of names that
//! both sides have, which the handshake has made sure of.

mod codec;
mod fields;

#[cfg(test)]
mod tests;

use crate::wire::frame::PAYLOAD_BYTES_MAX;
use base::Timestamp;
use bytes::Bytes;
use cluster::NodeId;
use cluster::forgetting::{StoreStart, Vouching};
use cluster::sweep::symbols::Symbol;
use cluster::sweep::{Digest, Incarnation, KeyBounds, PassId, PassKind, STEPS_MAX};

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

/// What one node asks of another in a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SweepRequest {
    /// Take part in a pass.
    Begin {
        /// The pass.
        pass: PassId,
        /// What it compares.
        kind: PassKind,
        /// Whether it goes on from a checkpoint, so that only a part of the key space
        /// is left to compare.
        is_resumed: bool,
    },
    /// Raise your fence as far as your clock allows, up to this one, before the first scan.
    Fence {
        /// The pass.
        pass: PassId,
        /// The fence.
        fence: Timestamp,
    },
    /// All nodes were fenced before the pass, and it has found them equal: what is dead
    /// below the forget bound may go.
    Forget {
        /// The pass.
        pass: PassId,
        /// The forget bound.
        forgotten: Timestamp,
    },
    /// Leave out what is dead below a forget bound, and send nothing below it for which
    /// others vouch.
    Disregard {
        /// The pass.
        pass: PassId,
        /// The greatest forget bound that one of the nodes knows.
        below: Timestamp,
        /// By node ID: what each can say about versions below.
        vouching: Vec<Vouching>,
    },
    /// What all agree on: the cut, and what each pair may pass over, for the node
    /// that is asked, by node ID.
    Agree {
        /// The pass.
        pass: PassId,
        /// A key whose newest version is later is left out.
        cut: Timestamp,
        /// The greatest forget bound that one of the nodes has heard of. All leave out what
        /// is dead below it.
        forgotten: Timestamp,
        /// The reach of each node, by node ID: 0 for those that do not take part.
        reaches: Vec<u8>,
        /// The start of the store of each node, by node ID; all zeros for those that do
        /// not take part.
        stores: Vec<StoreStart>,
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
        with: NodeId,
    },
    /// Make the digest of what is shared with the node that asks once more: other nodes
    /// may have sent something since.
    Recount {
        /// The pass.
        pass: PassId,
        /// The number of the range.
        range: u32,
        /// The node that asks.
        asker: NodeId,
    },
    /// Give symbols over the items that are shared with the node that asks.
    Symbols {
        /// The pass.
        pass: PassId,
        /// The number of the range.
        range: u32,
        /// The node that asks.
        asker: NodeId,
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
        asker: NodeId,
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
        asker: NodeId,
        /// The keys after this one; [`None`] from the beginning of the range on.
        after: Option<Bytes>,
        /// Short hashes of the items that the node that asks has. They are left out.
        held: Vec<u32>,
    },
    /// Offer the surplus copies of a range to their replicas, and versions to nodes
    /// that may keep older ones though they are no replicas.
    Announce {
        /// The pass.
        pass: PassId,
        /// The number of the range.
        range: u32,
    },
    /// Say which of these versions you want, and send the newer ones that you have.
    Offer {
        /// The pass.
        pass: PassId,
        /// The number of the range.
        range: u32,
        /// The node that offers.
        asker: NodeId,
        /// The versions.
        offers: Vec<Offer>,
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
        /// Whether the pass is conclusive; see [`cluster::sweep::PassProgress`].
        is_conclusive: bool,
        /// How many versions of a single copy each node has, by node ID;
        /// [`u64::MAX`] where that is not known.
        single_copies: Vec<u64>,
        /// The nodes with which the one that is asked was found, or made, equal.
        clean_with: Vec<NodeId>,
    },
}

/// A version that a node offers: all but its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The key.
    pub key: Bytes,
    /// The timestamp.
    pub timestamp: Timestamp,
    /// The hash of what the version says, as in [`cluster::sweep::Item`].
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
pub enum SweepAnswer {
    /// It takes part.
    Begun {
        /// The store that takes part.
        incarnation: Incarnation,
        /// The number of the start of the store.
        start: u64,
        /// The greatest timestamp that it has issued or seen.
        greatest_seen: Timestamp,
        /// The greatest forget bound that it has heard of.
        forgotten: Timestamp,
        /// The fence that its clock allows; [`Timestamp::ZERO`] while that is not trusted.
        latest_fence: Timestamp,
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
        surplus: u32,
        /// The number of keys that it has to announce.
        announces: u32,
        /// The number of versions of which it has the only copy.
        single_copies: u32,
        /// What it shares with each node, by node ID.
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
        /// How many of these mends were below the fence of their sender.
        below_fence: u32,
    },
    /// What it shares with the node that asked.
    Recounted(Digest),
    /// The symbols.
    Symbols(Vec<Symbol>),
    /// The mends were sent.
    Sent {
        /// Whether all were stored.
        all: bool,
        /// How many were.
        sent: u32,
        /// How many of them, stored or not, were below the fence of this node.
        below_fence: u32,
    },
    /// It does not know the pass, or the range any more.
    Unknown,
    /// Its versions were offered.
    Announced {
        /// How many it sent, because they were wanted.
        sent: u32,
        /// For how many a replica had not yet shown in this pass that it has the
        /// version, or has a newer one.
        unsettled: u32,
        /// How many of these were below the fence of a node that sent them, or that had not
        /// shown them.
        below_fence: u32,
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
        unsettled: u32,
        /// As in `Announced`.
        below_fence: u32,
        /// The offers that it wants, by their place in the request.
        wanted: Vec<u16>,
    },
    /// What the pass has brought is durable in this store.
    Synced(Incarnation),
    /// How far it is fenced.
    Fenced(FencedStore),
}

/// The store of a node that was asked to raise its fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FencedStore {
    /// Which one it is.
    pub incarnation: Incarnation,
    /// Its durable fence before it was asked; [`Timestamp::ZERO`] if the pass, which goes on
    /// after a restart of the node, must not raise the forget bound to the fence.
    pub before: Timestamp,
    /// Its durable fence now. It is lower than the one that was asked for while the clock of the
    /// node is behind, or is not trusted.
    pub fence: Timestamp,
    /// Its own forget bound; [`Timestamp::ZERO`] if it can say nothing about versions below.
    pub forgotten: Timestamp,
    /// The greatest forget bound that its node has heard of.
    pub greatest: Timestamp,
    /// Whether it lacks nothing, so that it is no receiver.
    pub lacks_nothing: bool,
}

impl SweepRequest {
    /// The pass.
    #[must_use]
    pub fn pass(&self) -> PassId {
        match self {
            Self::Begin { pass, .. }
            | Self::Fence { pass, .. }
            | Self::Forget { pass, .. }
            | Self::Disregard { pass, .. }
            | Self::Agree { pass, .. }
            | Self::Advance { pass, .. }
            | Self::Digest { pass, .. }
            | Self::Reconcile { pass, .. }
            | Self::Recount { pass, .. }
            | Self::Symbols { pass, .. }
            | Self::Send { pass, .. }
            | Self::Pull { pass, .. }
            | Self::Announce { pass, .. }
            | Self::Offer { pass, .. }
            | Self::Sync { pass }
            | Self::End { pass, .. } => *pass,
        }
    }
}
