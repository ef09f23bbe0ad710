//! How nodes ask each other: a multiplexed binary protocol over the node's own port.
//!
//! A connection begins as HTTP and is upgraded (`transport` on the side that
//! dials), then both sides make sure that they belong together (`handshake`).
//! From then on the side that dialled asks and the other answers: many
//! requests in flight, answers in any order.
//!
//! - [`Link`] (`link`) is the connection of one runtime to one
//!   peer, which it sets up again whenever it is lost (`backoff`); `calls` are
//!   those that wait, `health` tells whether the peer is alive.
//! - [`serve`] (`server`) is the other end: a [`RequestHandler`] does as asked.
//! - `connection` is what both ends share: a task that reads, acts and writes.
//! - `protocol` says what two releases speak with each other.
//! - `frame`, `message`: the bytes. `outgoing` gathers what is to be sent;
//!   `assembly` puts long values together again.
//! - `log_limiter` keeps the log readable; `fuzz` is for fuzzers.
//!
//! Everything is local to a runtime; nothing here takes a lock on the way of a
//! request. Invariants:
//! - A call that was accepted gets exactly one answer, at once when there is no
//!   hope for one of the peer.
//! - Calls, bytes to be sent, and bytes of long values on their way in are bounded.
//! - Whatever a peer sends, the worst that happens is that its connection is closed.

mod assembly;
mod backoff;
mod calls;
mod connection;
mod frame;
mod fuzz;
mod handshake;
mod health;
mod link;
mod log_limiter;
mod message;
mod outgoing;
mod protocol;
mod server;
mod start_watch;
mod transport;
mod wait_sites;

#[cfg(test)]
mod tests;

use base::Budget;
use base::{Clock, Entry, Random, Timestamp, Verdict};
use bytes::Bytes;
use cluster::Miss;
use cluster::{Remembered, Standing};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

pub use fuzz::fuzz_frames;
pub use link::{AnswerHandler, Link, LinkState, LinkStatus};
pub use log_limiter::LogLimiter;
pub use protocol::Protocol;
pub use protocol::{NegotiatedProtocol, STANDING};
pub use server::{Reply, RequestHandler, serve};
pub use start_watch::{LiveLink, PeerStart, StartWatch};
pub use transport::PEER_PROTOCOL;
pub use transport::{Dialing, Stream, TcpTransport, Transport};

/// Calls in flight on one connection: as many as its runtime may have
/// requests, and a bound for a peer that knows none.
pub const CALLS_MAX: usize = 4096;

/// What a node asks a replica of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerRequest {
    /// Store this version.
    Write(Entry),
    /// What is the freshest version of this key?
    Read(Bytes),
}

/// What a replica answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerAnswer {
    /// The write is stored.
    Stored {
        /// What newer the key held when this version first arrived.
        verdict: Verdict,
    },
    /// The freshest version that the replica has, be it a tombstone or expired.
    Found(Option<Entry>),
    /// The replica did not do as asked.
    Missed(Miss),
}

/// Who a node is, as it tells its peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its name in the list of nodes.
    pub name: String,
    /// The hash of the names of all nodes.
    pub members_hash: u64,
    /// Its store's id.
    pub store_id: u64,
    /// The last starts of its store, the present one at the end.
    pub starts: Arc<[u64]>,
}

/// What a node says of itself and of the one that it talks to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Who it is.
    pub identity: Identity,
    /// Whether an operator has accepted its store as it is, and the other has
    /// yet to hear of that.
    pub is_accepted: bool,
    /// How its store stands.
    pub standing: Standing,
    /// What it remembers of the other.
    pub remembered: Option<Remembered>,
    /// The greatest timestamp that it has given or seen.
    pub greatest_seen: Timestamp,
    /// Its wall clock, in milliseconds since the Unix epoch.
    pub unix_ms: u64,
}

/// What the handshake needs to know of the node, and tells it.
pub trait HandshakePolicy {
    /// Who this node is.
    fn own(&self) -> Identity;
    /// What this node speaks.
    fn protocol(&self) -> Protocol;
    /// The secret that the nodes of the cluster share; empty for none.
    fn secret(&self) -> &[u8];
    /// Whether the list of nodes has this name.
    fn is_member(&self, name: &str) -> bool;
    /// What this node says to the one of this name; to somebody unknown where
    /// there is none. The wall clock is the replies's to read.
    fn hello_to(&self, name: Option<&str>, unix_ms: u64) -> Hello;
    /// How this node's store stands at present.
    fn standing(&self) -> Standing;
    /// Whether this start of another node comes too early: the one before is
    /// still heard from. A restart has ended that or soon falls silent, and
    /// dials again; a copy of a running node's folder does not.
    fn is_early(&self, other: &Hello) -> bool;
    /// Another node has proved to be one of the cluster; `told` is what it was
    /// told that this one remembers of it. Ends once the connection may carry
    /// calls, and for how long; `None` if it may not.
    fn met(
        &self,
        other: &Hello,
        told: Option<Remembered>,
    ) -> Pin<Box<dyn Future<Output = Option<StartWatch>>>>;
    /// The node of this name has served a call, so it durably remembers this one.
    fn remembered_by(&self, name: &str);
    /// The node of this name cannot be reached.
    fn unreachable(&self, name: &str);
}

/// What two nodes agreed on for a connection.
#[derive(Debug)]
pub struct Session {
    /// What the other side says of itself.
    pub other: Hello,
    /// What the two speak.
    pub negotiated: NegotiatedProtocol,
    /// Whether the other side has started anew since.
    pub start: StartWatch,
}

/// What peer connections take from the node.
#[derive(Clone)]
pub struct PeerEnvironment {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Random numbers.
    pub random: Arc<dyn Random>,
    /// Who is who.
    pub policy: Rc<dyn HandshakePolicy>,
    /// What was last said of each peer.
    pub log_limiter: Arc<LogLimiter>,
    /// Bytes of long values on their way in from peers.
    pub incoming: Arc<Budget>,
    /// The longest value, in bytes.
    pub value_bytes_max: usize,
}
