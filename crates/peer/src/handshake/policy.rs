//! What a handshake needs from its node, and what it reports to the node.

use super::hello::Hello;
use super::start_watch::StartWatch;
use crate::protocol::Protocol;
use crate::wire::store_report::StoreReport;
use base::{Clock, Random, Timestamp};
use cluster::ReplicaState;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// The node's side of a handshake: it fills hellos, decides what only the node
/// can decide, and records what a peer's hello says.
pub trait HandshakePolicy {
    /// The versions and features that this node supports.
    fn protocol(&self) -> Protocol;

    /// The secrets that the nodes of the cluster share: this node proves that it knows the
    /// first, and accepts the proof of any. None if the nodes share no secret.
    fn secrets(&self) -> Vec<Arc<[u8]>>;

    /// Whether the list of nodes has this name.
    fn is_member(&self, name: &str) -> bool;

    /// This node's hello to the peer `name`, or to an unknown node if there is no
    /// name. The caller reads the wall clock.
    fn hello_to(&self, name: Option<&str>, unix_ms: u64) -> Hello;

    /// How this node's store stands now.
    fn replica_state(&self) -> ReplicaState;

    /// What this node reports with its heartbeats.
    fn report(&self) -> StoreReport;

    /// The peer `name` has reported this, on a connection with this start.
    fn heard_report(&self, name: &str, start: &StartWatch, report: StoreReport);

    /// Whether to believe a GC threshold that the peer `name` names with its answers. One from
    /// the future is not passed on.
    fn believes_threshold(&self, name: &str, gc_threshold: Timestamp) -> bool;

    /// Whether a peer's hello is from another start than the remembered one while
    /// that one is still connected. After a restart the previous connections close, or
    /// fall silent, and the peer dials again. If somebody starts a copy of a running
    /// node's folder, they do not.
    fn is_previous_start_live(&self, theirs: &Hello) -> bool;

    /// Records the hello of a node that has proved that it belongs to the
    /// cluster; `ours` is the hello that this node sent it. The future ends once
    /// the connection may carry calls: then it returns the watch that ends the
    /// connection, or `None` if the connection must not be used.
    fn record_peer(
        &self,
        theirs: &Hello,
        ours: &Hello,
    ) -> Pin<Box<dyn Future<Output = Option<StartWatch>>>>;

    /// The peer `name` has proved itself on a connection that it dialled, and this node
    /// serves it, so it can be reached now.
    fn has_dialled(&self, name: &str);

    /// The peer `name` has served a call, so it durably remembers this node.
    fn remembered_by(&self, name: &str);

    /// The peer `name` cannot be reached.
    fn unreachable(&self, name: &str);
}

/// What a handshake works with.
#[derive(Clone, Copy)]
pub(crate) struct HandshakeEnvironment<'a> {
    /// The node.
    pub(crate) policy: &'a dyn HandshakePolicy,
    /// The time.
    pub(crate) clock: &'a dyn Clock,
    /// The source of nonces.
    pub(crate) random: &'a dyn Random,
    /// See [`PeerEnvironment::only_lists`](crate::PeerEnvironment::only_lists).
    pub(crate) only_lists: bool,
    /// Whether this node only asks about lists, so that it may be of another cluster by now.
    pub(crate) introduces: bool,
}
