//! The replicas of keys, as one runtime sees them.
//!
//! [`ReplicaSet`] hides whether a replica is this node's own store (`local`) or a peer's behind a
//! link. Coordinators, read repair and the delivery of hints (`hint_receiver`) use it; peers'
//! requests (`peer_requests`) and pages of scans (`pages`) go to the own store only. `repairs` says
//! how the own store takes read repairs, `promises` how it promises ballots of conditional writes.
//!
//! Two checks protect what is acknowledged, each in one place of `local`: this node's own store
//! refuses every version from beyond the clock bound, and its acks and reads count only while it is
//! a voter, and not for keys that a damaged block may have held.

mod hint_receiver;
mod local;
mod pages;
mod peer_requests;
mod promises;
mod repairs;

pub use hint_receiver::ReplicaHints;
pub use local::{LocalReplica, VoidSession};
pub use pages::PageTelling;

use crate::peers::Peers;
use crate::pending::Completion;
use crate::timestamps::AllocatedTimestamp;
use base::{Entry, Reservation, Timestamp, TraceId};
use bytes::Bytes;
use cluster::{Miss, NodeId};
use peer::{Link, PeerAnswer, PeerRequest, PromiseRequest};
use std::rc::Rc;
use std::time::Duration;

/// What a replica is asked.
pub enum ReplicaRequest<'a> {
    /// To store a version.
    Write {
        /// The version.
        entry: &'a Entry,
        /// Its timestamp, if this node allocated it: this node's own store takes it.
        allocated: &'a mut Option<AllocatedTimestamp>,
    },
    /// To store a version, with which a store has answered a read.
    Repair {
        /// The version.
        entry: &'a Entry,
        /// The GC threshold that the store has named.
        named: Option<Timestamp>,
    },
    /// To promise a ballot of a conditional write, or that the promise is needed no more.
    Promise(&'a PromiseRequest),
    /// To store the version of a conditional write, if the promise of its ballot is kept.
    Accept {
        /// The ballot.
        ballot: Timestamp,
        /// The version.
        entry: &'a Entry,
        /// Its timestamp, if this node allocated it: this node's own store takes it.
        allocated: &'a mut Option<AllocatedTimestamp>,
    },
    /// For its newest version of a key.
    Read(&'a Bytes),
    /// For its newest version of the key of this one, which the read holds: a peer need not
    /// send the same again.
    ReadUnlessSame(&'a Bytes, &'a Entry),
}

/// How a replica took a request.
#[derive(Debug)]
pub enum AnswerTime {
    /// The answer is here; nothing comes later.
    Now(PeerAnswer),
    /// The answer comes to the address that was named.
    Later,
}

/// Every node of the cluster, as a replica.
pub struct ReplicaSet {
    own: Rc<LocalReplica>,
    peers: Rc<Peers>,
}

/// Where a replica is.
enum Location<'a> {
    OwnStore(&'a Rc<LocalReplica>),
    Peer(Rc<Link>),
}

impl ReplicaSet {
    /// This node's own store, and those of the peers.
    pub fn new(own: Rc<LocalReplica>, peers: Rc<Peers>) -> Self {
        Self { own, peers }
    }

    /// This node's own store.
    pub fn own(&self) -> &Rc<LocalReplica> {
        &self.own
    }

    /// Asks a node. An answer that is not here at once comes to `address`. A peer gets to
    /// know the `trace`.
    pub fn ask(
        &self,
        node: NodeId,
        request: ReplicaRequest<'_>,
        deadline: Duration,
        address: u64,
        trace: Option<TraceId>,
    ) -> AnswerTime {
        let link = match self.locate(node) {
            Some(Location::OwnStore(own)) => return own.ask(request, deadline, address),
            Some(Location::Peer(link)) => link,
            None => return AnswerTime::Now(PeerAnswer::Missed(Miss::Refused)),
        };
        let request = match request {
            ReplicaRequest::Write { entry, .. } => PeerRequest::Write(entry.clone()),
            ReplicaRequest::Repair {
                entry,
                named: Some(gc_threshold),
            } => PeerRequest::Repair {
                gc_threshold,
                entry: entry.clone(),
            },
            ReplicaRequest::Repair { entry, named: None } => PeerRequest::Write(entry.clone()),
            ReplicaRequest::Promise(request) => PeerRequest::Promise(request.clone()),
            ReplicaRequest::Accept { ballot, entry, .. } => PeerRequest::Accept {
                ballot,
                entry: entry.clone(),
            },
            ReplicaRequest::Read(key) => PeerRequest::Read(key.clone()),
            ReplicaRequest::ReadUnlessSame(key, held) => PeerRequest::ReadUnlessSame {
                key: key.clone(),
                held: held.clone(),
            },
        };
        match link.call_in_trace(request, deadline, address, trace) {
            Ok(()) => AnswerTime::Later,
            Err(why) => AnswerTime::Now(PeerAnswer::Missed(why)),
        }
    }

    /// What a completion is as the answer of the replica that was asked for `key`, and the
    /// reservation of memory that a long value came with; `None` is the deadline.
    pub fn answer_of(
        &self,
        key: &[u8],
        completion: Option<Completion>,
    ) -> (PeerAnswer, Option<Reservation>) {
        self.own.answer_of(key, completion)
    }

    /// Why a node is known not to answer, if it is.
    pub fn down_reason(&self, node: NodeId) -> Option<Miss> {
        match self.locate(node) {
            Some(Location::OwnStore(_)) => None,
            Some(Location::Peer(link)) => link.down_reason(),
            // It is declared dead, or has left.
            None => Some(Miss::Refused),
        }
    }

    /// After how long a read of a node is slow; `None` for this node's own store,
    /// whose reads wait only for its disk.
    pub fn slow_after(&self, node: NodeId) -> Option<Duration> {
        match self.locate(node)? {
            Location::OwnStore(_) => None,
            Location::Peer(link) => Some(link.hedge_delay()),
        }
    }

    /// Whether a hint for a node may be delivered now.
    pub fn takes_hints(&self, node: NodeId) -> bool {
        match self.locate(node) {
            Some(Location::OwnStore(own)) => own.takes_puts(),
            Some(Location::Peer(link)) => !link.is_down(),
            None => false,
        }
    }

    /// Whether a hint for a node may be kept. On a full disk a hint for the own
    /// store would take the room that the store needs, and a store whose sync has
    /// failed keeps nothing. A node that is declared dead gets none.
    pub fn may_keep_hint_for(&self, node: NodeId) -> bool {
        match self.locate(node) {
            Some(Location::OwnStore(own)) => own.takes_puts(),
            Some(Location::Peer(_)) => true,
            None => false,
        }
    }

    /// The order in which to ask replicas: those that are up first, and the own
    /// store first among them; before that, in a change of the members, those whose answers count in
    /// both lists.
    pub fn preference(&self, node: NodeId, counts_in_all: bool) -> impl Ord + use<> {
        match self.locate(node) {
            Some(Location::OwnStore(_)) => (false, !counts_in_all, false),
            Some(Location::Peer(link)) => (link.is_down(), !counts_in_all, true),
            None => (true, !counts_in_all, true),
        }
    }

    fn locate(&self, node: NodeId) -> Option<Location<'_>> {
        if self.peers.is_own(node) {
            return Some(Location::OwnStore(&self.own));
        }
        self.peers.link(node).map(Location::Peer)
    }
}
