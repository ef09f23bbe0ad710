//! Requests between nodes.

mod link;
mod server;
mod transport;

use bytes::Bytes;
use cluster::Miss;
use lsm::{Entry, Timestamp};
use std::sync::Arc;

pub(crate) use link::{Answers, Link, LinkState, LinkStatus};
pub(crate) use server::{Replica, Reply, serve};
pub use transport::{Dialing, PeerAddress, Stream, Transport};

/// What a node asks a replica of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PeerRequest {
    /// Store this version.
    Write(Entry),
    /// What is the freshest version of this key?
    Read(Bytes),
}

/// What a replica answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PeerAnswer {
    /// The write is stored; the greatest timestamp that the key held before.
    Stored {
        /// `None`: there was no version of the key.
        newest_held: Option<Timestamp>,
    },
    /// The freshest version that the replica has, be it a tombstone or expired.
    Found(Option<Entry>),
    /// The replica did not do as asked.
    Missed(Miss),
}

/// Who a node is, as it tells its peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Its name in the list of nodes.
    pub(crate) name: String,
    /// The hash of the names of all nodes.
    pub(crate) members_hash: u64,
    /// Its store's id.
    pub(crate) store_id: u64,
    /// Whether an operator has accepted that its store began empty.
    pub(crate) is_accepted: bool,
}

/// What another node says of itself and of this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Introduction {
    /// Who it is.
    pub(crate) identity: Identity,
    /// The store id that it remembers of this node.
    pub(crate) remembered: Option<u64>,
    /// Its wall clock, in milliseconds since the Unix epoch.
    pub(crate) unix_ms: u64,
}

/// What the handshake needs to know of the node, and tells it.
pub(crate) trait Introductions {
    /// Who this node is.
    fn own(&self) -> Identity;
    /// The secret that the nodes of the cluster share; empty for none.
    fn secret(&self) -> &[u8];
    /// Whether the list of nodes has this name.
    fn is_member(&self, name: &str) -> bool;
    /// The store id that this node remembers of another one.
    fn remembered(&self, name: &str) -> Option<u64>;
    /// Another node has proved to be one of the cluster.
    fn met(&self, other: &Introduction);
}

/// What peer connections take from the node.
#[derive(Clone)]
pub(crate) struct PeerEnvironment {
    /// The time.
    pub(crate) clock: Arc<dyn lsm::Clock>,
    /// Random numbers.
    pub(crate) random: Arc<dyn lsm::Random>,
    /// Who is who.
    pub(crate) introductions: std::rc::Rc<dyn Introductions>,
    /// The longest value, in bytes.
    pub(crate) value_bytes_max: usize,
}
