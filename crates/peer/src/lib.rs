//! The protocol between nodes: multiplexed, binary, over the node's own port.
//!
//! A connection begins as HTTP and is upgraded (`transport`, on the side that
//! dials). Then both sides check that they belong to one cluster (`handshake`).
//! After that the dialler sends requests and the acceptor answers them: many
//! requests are in flight, and answers come in any order.
//!
//! - [`Link`] (`link`) is the connection of one runtime to one peer. It connects
//!   again whenever the connection is lost (`base::Backoff`). `link/calls` holds the requests
//!   that wait for an answer, `link/failure_detector` says whether the peer is alive,
//!   and `link/latency` how fast it answers.
//! - [`serve`] (`server`) is the other end, where a [`RequestHandler`] handles
//!   the requests and replies to them ([`Reply`]).
//! - [`introduce`] (`introduction`) asks a node that is no member, or from one, about the list.
//! - `connection` is the task that both ends run: it reads, acts and writes.
//!   `connection/outgoing` holds what is to be sent, `connection/assembly` reassembles long values.
//! - `wire` is the bytes: frames, messages, runs, pages and reports.
//! - `protocol` negotiates versions and features between releases.
//! - `transport` opens streams; `transport/faults` is what `kvorum dev` does to them.
//! - [`LinkProblem`] (`link_problem`) is what keeps two nodes apart that reach each other.
//! - `log_limiter` bounds the warnings about peers in the log; `fuzz` is for fuzzers.
//!
//! The crate may not know the storage engine, files, threads, HTTP beyond the upgrade,
//! nor clocks and randomness except through the seams. The node stands behind three
//! traits: [`HandshakePolicy`], [`RequestHandler`] and [`AnswerHandler`].
//!
//! Everything is local to a runtime, and no request takes a lock here. Invariants:
//! - A call that was accepted gets exactly one answer. It gets it at once when
//!   the peer cannot answer any more.
//! - Calls, bytes to be sent, and bytes of incoming long values are bounded.
//! - Malformed input from a peer closes its connection, and has no other effect.

mod connection;
mod fuzz;
mod handshake;
mod introduction;
mod link;
mod link_problem;
mod log_limiter;
mod protocol;
mod server;
mod transport;
mod wire;

#[cfg(test)]
mod tests;

use base::Quota;
use base::{Clock, Entry, NewerVersion, Random, Timestamp};
use bytes::Bytes;
use cluster::Miss;
use cluster::pages::PageRequest;
use cluster::repair::SessionId;
use handshake::HandshakeEnvironment;
use std::rc::Rc;
use std::sync::Arc;

pub use fuzz::fuzz_frames;
pub use handshake::{HandshakePolicy, Hello, LiveLink, PeerStart, StartWatch};
pub use introduction::{Introduced, introduce};
pub use link::{AnswerHandler, Link, LinkState, LinkStatus};
pub use link_problem::LinkProblem;
pub use log_limiter::PeerLog;
pub use protocol::Protocol;
pub use protocol::{
    BACKUPS, CONTACT, EXAMINATION, FEATURES, GC_THRESHOLD, LISTS, MANY, NegotiatedProtocol, PAGES,
    PROMISES, REBUILDS_OUTDATED, REPLICA_STATE, REPORT, SAME, SESSIONS, TRACES,
};
pub use server::{Reply, RequestHandler, serve};
pub use transport::{
    Dialing, FOR_LISTS, LinkFaults, PEER_PROTOCOL, SeeReached, Stream, TcpTransport, Transport,
};
pub use wire::{
    BOUND_KEY_BYTES_MAX, BackupAnswer, BackupRequest, Contact, EncodedPage, HELD_MAX, JoinerDisk,
    KEY_HASHES_MAX, KnownJoiner, LatencyQuantiles, ListAnswer, ListReport, ListRequest, NodeReport,
    OFFER_BYTES_MAX, OFFERS_MAX, Offer, PAGE_BYTES_MAX, PAGE_ITEM_BYTES, Prepare, PromiseAnswer,
    PromiseRequest, REPORT_STATUS_BYTES_MAX, RUN_BYTES_MAX, RUN_ENTRY_BYTES_MAX, RepairAnswer,
    RepairRequest, ReportedStatus, Run, RunWriter, SAME_BYTES_MIN, SYMBOLS_MAX, StoreReport,
    bound_steps_max,
};

/// The most calls in flight on one connection: as many as its runtime may have
/// requests. It also bounds what a misbehaving peer can ask for.
pub const CALLS_MAX: usize = 4096;

/// What a node asks a replica of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerRequest {
    /// Store this version.
    Write(Entry),
    /// What is the freshest version of this key?
    Read(Bytes),
    /// What is the freshest version of this key, of which the read holds one? The answer is
    /// that of a read, but if it is what is held, the value does not travel. A peer of an
    /// older release is sent a read, and a handler gets a read.
    ReadUnlessSame {
        /// The key.
        key: Bytes,
        /// The version that the read holds.
        held: Entry,
    },
    /// Store this version, which a repair session brings.
    RepairWrite {
        /// The session.
        session: SessionId,
        /// The version.
        entry: Entry,
    },
    /// Store this version, with which a store has answered a read: a read-repair write. A peer
    /// of an older release is sent a write.
    Repair {
        /// The GC threshold that the store has named.
        gc_threshold: Timestamp,
        /// The version.
        entry: Entry,
    },
    /// Do this for a repair session.
    Session(RepairRequest),
    /// What do you have of the next keys of a scan?
    Page(PageRequest),
    /// How are you?
    Examine,
    /// Do this for a backup.
    Backup(BackupRequest),
    /// Do this for the list of members.
    List(ListRequest),
    /// Do this for a conditional write.
    Promise(PromiseRequest),
    /// Store this version of a conditional write, if you keep the promise of its ballot. The answer
    /// is that to a write, or [`PromiseAnswer::NotKept`].
    Accept {
        /// The ballot.
        ballot: Timestamp,
        /// The version.
        entry: Entry,
    },
}

impl PeerRequest {
    /// The features without which the peer does not know the request. A repair is sent
    /// as a write then, and a peek as a read.
    fn features(&self) -> u64 {
        match self {
            Self::Write(_) | Self::Repair { .. } | Self::Read(_) | Self::ReadUnlessSame { .. } => 0,
            Self::RepairWrite { .. } | Self::Session(_) => SESSIONS,
            Self::Page(_) => PAGES,
            Self::Examine => EXAMINATION,
            Self::Backup(_) => BACKUPS,
            Self::List(_) => LISTS,
            Self::Promise(_) | Self::Accept { .. } => PROMISES,
        }
    }

    /// Whether it has a value that travels in pieces.
    fn is_long(&self) -> bool {
        match self {
            Self::Write(entry)
            | Self::RepairWrite { entry, .. }
            | Self::Repair { entry, .. }
            | Self::Accept { entry, .. } => wire::message::is_long(entry),
            Self::Read(_)
            | Self::ReadUnlessSame { .. }
            | Self::Session(_)
            | Self::Page(_)
            | Self::Examine
            | Self::Backup(_)
            | Self::List(_)
            | Self::Promise(_) => false,
        }
    }

    /// Whether it belongs to a repair, which rebuilds stores.
    pub(crate) fn is_of_repair(&self) -> bool {
        matches!(self, Self::RepairWrite { .. } | Self::Session(_))
    }
}

/// What a replica answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerAnswer {
    /// The write is stored.
    Stored {
        /// What newer versions the replica held when this version first arrived.
        newer_version: NewerVersion,
    },
    /// The freshest version that the replica has, even if it is a tombstone or
    /// has expired.
    Found(Option<Entry>),
    /// As `Found`, by a replica that names its GC threshold.
    FoundBehind {
        /// The freshest version.
        entry: Option<Entry>,
        /// What is dead below it may be gone from the replica.
        gc_threshold: Timestamp,
    },
    /// The replica did not handle the request.
    Missed(Miss),
    /// The answer to a request of a repair session.
    Session(RepairAnswer),
    /// The answer to [`RepairRequest::Stream`].
    Streamed(Run),
    /// A page of a scan.
    Paged(EncodedPage),
    /// How the node is.
    Examined(Box<NodeReport>),
    /// The answer to a request for a backup.
    Backup(BackupAnswer),
    /// The answer to a request about the list of members.
    List(ListAnswer),
    /// The answer to a request of a conditional write.
    Promise(PromiseAnswer),
}

/// What peer connections take from the node.
#[derive(Clone)]
pub struct PeerEnvironment {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Random numbers.
    pub random: Arc<dyn Random>,
    /// The node's side of handshakes.
    pub policy: Rc<dyn HandshakePolicy>,
    /// Bounds the warnings about peers in the log.
    pub log: Arc<PeerLog>,
    /// The quota for long values that peers are sending.
    pub incoming: Arc<Quota>,
    /// How many runtimes this node has: each has a link to each peer.
    pub runtimes: usize,
    /// Whether a connection is for lists of members only, because the peer has not shown that it is
    /// at the host of a member.
    pub only_lists: bool,
}

impl PeerEnvironment {
    /// The part that handshakes need.
    fn handshake(&self) -> HandshakeEnvironment<'_> {
        HandshakeEnvironment {
            policy: &*self.policy,
            clock: &*self.clock,
            random: &*self.random,
            only_lists: self.only_lists,
            introduces: false,
        }
    }
}
