//! Connection slots: how many connections a node serves, and which connections
//! it serves beyond that.
//!
//! Clients can take as many slots as the configuration allows. However many clients a node has, its
//! peers must reach it, and so must health probes, or else a supervisor may kill a healthy node;
//! and all of them connect to the same port. So a connection that arrives when all slots are taken
//! is accepted as an *unauthenticated connection*: it may prove that it is a peer's, or ask for the
//! health of the node, and do nothing else.
//!
//! Any client can open an unauthenticated connection and never prove anything. So
//! their number is bounded, and a new one is always accepted: the oldest unauthenticated
//! connection of the address that has the most of them is shed ([`FairQuota`]). A flood
//! from one address therefore evicts only its own connections. A flood from many
//! addresses would have to open [`UNAUTHENTICATED_MAX`] connections in the time that
//! one handshake takes. A connection that has proved to be a peer's is not evicted.
//!
//! Nothing here answers a request. A slot has a [`ConnectionScope`], and `dispatch` in
//! `http/mod.rs` answers a request for a resource outside that scope with `503`.

use crate::admission::owners::owner_of;
use crate::config::ServerConfig;
use base::{FairQuota, Quota, Reservation};
use cluster::Members;
use profile::lock;
use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// The bound on unauthenticated connections. Each takes some 12 KiB, 8 of which
/// are for the head of its request.
pub(crate) const UNAUTHENTICATED_MAX: usize = 128;

/// How many connections each runtime keeps of each peer beyond the bound on
/// connections: the one in use, and some that ended without the node noticing yet.
pub(crate) const PEER_CONNECTIONS: usize = 4;

/// Which requests a connection may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionScope {
    /// All requests.
    AnyRequest,
    /// Only a peer's upgrade or a request for health, because the slots for all other
    /// connections are taken.
    PeerOrProbe,
}

/// The slots of all connections.
#[derive(Clone)]
pub(crate) struct ConnectionSlots {
    clients: Arc<Quota>,
    /// For peers that were accepted when all other slots were taken.
    peers: Arc<Quota>,
    unauthenticated: Arc<UnauthenticatedConnections>,
}

/// How many slots the peers among these nodes have, at so many runtimes.
pub(crate) fn peer_slots(members: &Members, threads: usize) -> usize {
    members.peers().count() * threads * PEER_CONNECTIONS
}

/// The slot of a connection, held until the connection ends.
pub(crate) struct ConnectionSlot(RefCell<SlotKind>);

enum SlotKind {
    Client {
        _slot: Reservation,
    },
    Unauthenticated {
        connection: UnauthenticatedConnection,
        peers: Arc<Quota>,
    },
    Peer {
        _slot: Reservation,
    },
}

impl ConnectionSlots {
    /// The slots of a server with this configuration, and so many for unauthenticated
    /// connections. `peers` are those of peers, which change with the list of nodes.
    pub(crate) fn new(
        config: &ServerConfig,
        peers: Arc<Quota>,
        unauthenticated_max: usize,
    ) -> Self {
        Self {
            clients: Quota::new(config.connections_max),
            peers,
            unauthenticated: Arc::new(Mutex::new(FairQuota::new(unauthenticated_max))),
        }
    }

    /// Takes a slot for a connection that was accepted from `address`.
    pub(crate) fn take(&self, address: IpAddr) -> ConnectionSlot {
        let kind = match self.clients.try_reserve(1) {
            Ok(slot) => SlotKind::Client { _slot: slot },
            Err(_) => SlotKind::Unauthenticated {
                connection: UnauthenticatedConnection::add(&self.unauthenticated, address),
                peers: Arc::clone(&self.peers),
            },
        };
        ConnectionSlot(RefCell::new(kind))
    }
}

impl ConnectionSlot {
    /// Which requests the connection may send.
    pub(crate) fn scope(&self) -> ConnectionScope {
        match &*self.0.borrow() {
            SlotKind::Client { .. } => ConnectionScope::AnyRequest,
            SlotKind::Unauthenticated { .. } | SlotKind::Peer { .. } => {
                ConnectionScope::PeerOrProbe
            }
        }
    }

    /// Resolves when another connection evicts this one, which may be never.
    pub(crate) async fn evicted(&self) {
        let evicted = match &*self.0.borrow() {
            SlotKind::Unauthenticated { connection, .. } => Some(Arc::clone(&connection.evicted)),
            _ => None,
        };
        match evicted {
            Some(evicted) => evicted.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Turns the slot of an unauthenticated connection that has proved to be a
    /// peer's into a peer's slot. It stays as it is while peers have more
    /// connections than can be of use.
    pub(crate) fn promote_to_peer(&self) {
        let mut kind = self.0.borrow_mut();
        if let SlotKind::Unauthenticated { peers, .. } = &*kind
            && let Ok(slot) = peers.try_reserve(1)
        {
            *kind = SlotKind::Peer { _slot: slot };
        }
    }
}

/// The connections that were accepted without a free slot and have not proved
/// that they are a peer's. Each is notified when it is shed.
type UnauthenticatedConnections = Mutex<FairQuota<IpAddr, Arc<Notify>>>;

/// A connection's entry among them, removed when this is dropped.
struct UnauthenticatedConnection {
    number: u64,
    /// Notified when the connection has to end.
    evicted: Arc<Notify>,
    connections: Arc<UnauthenticatedConnections>,
}

impl UnauthenticatedConnection {
    /// Adds a connection, and sheds another one if there are too many.
    fn add(connections: &Arc<UnauthenticatedConnections>, address: IpAddr) -> Self {
        let evicted = Arc::new(Notify::new());
        let mut list = lock(connections);
        let number = list.add(owner_of(address), 1, Arc::clone(&evicted));
        while let Some((_, evicted)) = list.shed_for(number) {
            evicted.notify_one();
        }
        drop(list);
        Self {
            number,
            evicted,
            connections: Arc::clone(connections),
        }
    }
}

impl Drop for UnauthenticatedConnection {
    fn drop(&mut self) {
        lock(&self.connections).remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::{Member, NodeUrl};

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn slots(nodes: usize, connections_max: usize) -> ConnectionSlots {
        let urls: Vec<NodeUrl> = (0..nodes)
            .map(|node| format!("http://127.0.0.1:{}", 7000 + node).parse().unwrap())
            .collect();
        let members = urls.iter().cloned().map(Member::unnamed).collect();
        let members = Members::new(members, &urls[0]).unwrap();
        let mut config = ServerConfig::new(members, "store");
        config.threads = 1;
        config.connections_max = connections_max;
        let peers = Quota::new(peer_slots(&config.node.members, config.threads));
        ConnectionSlots::new(&config, peers, UNAUTHENTICATED_MAX)
    }

    fn is_evicted(slot: &ConnectionSlot) -> bool {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::pin!(slot.evicted()).poll(&mut context).is_ready()
    }

    #[test]
    fn unauthenticated_connections_evict_each_other_and_never_peers_or_clients() {
        let slots = slots(2, 1);
        let client = slots.take(address(1));
        assert_eq!(client.scope(), ConnectionScope::AnyRequest);
        let peer = slots.take(address(1));
        assert_eq!(peer.scope(), ConnectionScope::PeerOrProbe);
        peer.promote_to_peer();
        let mut unauthenticated = Vec::new();
        for _ in 0..3 * UNAUTHENTICATED_MAX {
            unauthenticated.push(slots.take(address(1)));
        }
        for (number, slot) in unauthenticated.iter().enumerate() {
            assert_eq!(
                is_evicted(slot),
                number < 2 * UNAUTHENTICATED_MAX,
                "{number}"
            );
        }
        assert!(!is_evicted(&client) && !is_evicted(&peer));
        // A connection from another address evicts one of the flood, and the
        // flood does not evict it.
        let other = slots.take(address(2));
        assert!(is_evicted(&unauthenticated[2 * UNAUTHENTICATED_MAX]));
        for _ in 0..3 * UNAUTHENTICATED_MAX {
            unauthenticated.push(slots.take(address(1)));
        }
        assert!(!is_evicted(&other));
        // Connections that end by themselves leave the list, too.
        drop(unauthenticated);
        assert_eq!(lock(&slots.unauthenticated).used(), 1);
        drop(client);
        let client = slots.take(address(1));
        assert_eq!(client.scope(), ConnectionScope::AnyRequest);
    }
}
