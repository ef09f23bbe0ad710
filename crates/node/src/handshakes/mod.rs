//! This node's side of handshakes: fills its hellos, and evaluates those of peers. `dialled_peers`
//! tells all workers which peers have dialled this node.

mod dialled_peers;

pub(crate) use dialled_peers::DialledPeers;

use crate::config::{Secret, Secrets};
use base::Timestamp;
use cluster::{NodeId, ReplicaState};
use membership::Membership;
use peer::{HandshakePolicy, Hello, Protocol, StartWatch, StoreReport};
use repair::store::StoreSide;
use replica::timestamps::TimestampAllocator;
use std::future::{Future, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The handshakes of one runtime.
pub(crate) struct NodeHandshakes {
    membership: Membership,
    timestamps: Arc<TimestampAllocator>,
    store_side: Arc<StoreSide>,
    protocol: Protocol,
    secrets: Option<Secrets>,
    cluster: u64,
    dialled: Arc<DialledPeers>,
}

impl NodeHandshakes {
    /// The handshakes of a node that supports `protocol`, whose store was restored for the cluster of
    /// this number, or was not restored: 0.
    pub(crate) fn new(
        membership: Membership,
        timestamps: Arc<TimestampAllocator>,
        store_side: Arc<StoreSide>,
        dialled: Arc<DialledPeers>,
        protocol: Protocol,
        secrets: Option<Secrets>,
        cluster: u64,
    ) -> Rc<Self> {
        Rc::new(Self {
            membership,
            timestamps,
            store_side,
            dialled,
            protocol,
            secrets,
            cluster,
        })
    }

    fn id_of(&self, name: &str) -> Option<NodeId> {
        self.membership.layout().members().id_of(name)
    }
}

impl HandshakePolicy for NodeHandshakes {
    fn protocol(&self) -> Protocol {
        self.protocol
    }

    fn secrets(&self) -> Vec<Arc<[u8]>> {
        let secrets = self.secrets.as_ref().map(Secrets::list).unwrap_or_default();
        secrets.iter().map(Secret::shared_bytes).collect()
    }

    fn is_member(&self, name: &str) -> bool {
        self.id_of(name).is_some()
    }

    fn hello_to(&self, name: Option<&str>, unix_ms: u64) -> Hello {
        let membership = &self.membership;
        let layout = membership.layout();
        let members = layout.members();
        let peer = name.and_then(|name| self.id_of(name));
        Hello {
            protocol: self.protocol,
            name: members.own_name().to_owned(),
            members_hash: members.names_hash(),
            store_id: membership.store_id(),
            starts: membership.starts(),
            is_accepted: peer.is_some_and(|peer| membership.is_forced_towards(peer)),
            replica_state: membership.replica_state(),
            remembered: peer.and_then(|peer| membership.durably_remembered(peer)),
            remembered_starts: peer
                .map(|peer| membership.starts_of(peer))
                .unwrap_or_default(),
            acknowledged: Some(membership.acknowledged()),
            greatest_seen: self.timestamps.greatest(),
            unix_ms,
            gc_threshold: self.store_side.shared().gc_threshold(),
            cluster: self.cluster,
            list: membership.list_report(),
            waits: membership.waits(),
        }
    }

    fn replica_state(&self) -> ReplicaState {
        self.membership.replica_state()
    }

    fn report(&self) -> StoreReport {
        StoreReport {
            acknowledged: self.membership.durable_acknowledged(),
            gc_threshold: self.store_side.shared().gc_threshold(),
            list: self.membership.list_report(),
        }
    }

    fn heard_report(&self, name: &str, start: &StartWatch, report: StoreReport) {
        if let Some(peer) = self.id_of(name) {
            self.membership.heard_report(peer, start, report);
            let is_whole = self.membership.is_whole(peer);
            self.store_side.heard(name, report.gc_threshold, is_whole);
        }
    }

    fn believes_threshold(&self, name: &str, gc_threshold: Timestamp) -> bool {
        self.store_side.believes(name, gc_threshold)
    }

    fn is_previous_start_live(&self, theirs: &Hello) -> bool {
        self.id_of(&theirs.name)
            .is_some_and(|peer| self.membership.is_previous_start_live(peer, theirs))
    }

    fn record_peer(
        &self,
        theirs: &Hello,
        ours: &Hello,
    ) -> Pin<Box<dyn Future<Output = Option<StartWatch>>>> {
        let Some(peer) = self.id_of(&theirs.name) else {
            return Box::pin(ready(None));
        };
        let (sender, recorded) = oneshot::channel();
        let on_durable = move |is_durable| {
            // The handshake may have timed out: then nothing waits for this.
            let _is_awaited = sender.send(is_durable).is_ok();
        };
        let watch = self
            .membership
            .record_peer(peer, theirs, ours.remembered, on_durable);
        // After that, because the first timestamp may be waiting for this peer's clock, and
        // an outdated store issues none.
        self.timestamps
            .record_hello(peer, theirs.unix_ms, theirs.greatest_seen);
        if self.timestamps.has_observed(peer) {
            self.membership.observed(peer);
        }
        // By now the store knows whether it lacks something, as far as this peer can tell.
        let is_whole = self.membership.is_whole(peer) && theirs.replica_state.is_voter();
        self.store_side
            .heard(&theirs.name, theirs.gc_threshold, is_whole);
        Box::pin(async { recorded.await.unwrap_or(false).then_some(watch).flatten() })
    }

    fn has_dialled(&self, name: &str) {
        if let Some(peer) = self.id_of(name) {
            self.dialled.announce(peer);
        }
    }

    fn remembered_by(&self, name: &str) {
        if let Some(peer) = self.id_of(name) {
            self.membership.remembered_by(peer);
        }
    }

    fn unreachable(&self, name: &str) {
        if let Some(peer) = self.id_of(name) {
            self.membership.unreachable(peer);
        }
    }
}

#[cfg(test)]
mod tests;
