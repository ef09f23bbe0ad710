//! The places of connections, and who gets one when there are none.
//!
//! Clients can take as many as the configuration allows. A node of a cluster
//! must hear its peers however many clients it has, and peers enter by the
//! clients' port: so whoever comes when all places are taken is a *stranger*,
//! who is let in to prove that it is a peer and for nothing else.
//!
//! Anybody can be a stranger, and can take long to prove nothing. So strangers
//! are few, are never waited for, and a new one is always let in: for it goes
//! the oldest stranger of the address that has most of them. Whoever floods
//! the door from one address only shows itself out, and from many addresses it
//! has to be faster than a handshake takes while [`STRANGERS_MAX`] others come.
//! A peer that has proved itself is no stranger any more.

use crate::config::ServerConfig;
use crate::door::progress::Admits;
use profile::lock;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How many strangers there may be. Each takes some 12 KiB, of which a head
/// has 8.
const STRANGERS_MAX: usize = 128;

/// How many connections each runtime keeps of each peer beyond the bound on
/// connections: one that is in use, and some whose end was not noticed yet.
const PEER_CONNECTIONS: usize = 4;

/// The bits of an IPv6 address that one owner has for itself.
const IPV6_OWN_BITS: u32 = 64;

/// The places of all connections.
#[derive(Clone)]
pub(crate) struct Places {
    clients: Arc<Semaphore>,
    /// Of peers that came as strangers.
    peers: Arc<Semaphore>,
    strangers: Arc<Strangers>,
    /// A node without peers lets no strangers in: whoever comes too late waits.
    is_alone: bool,
}

/// The place of a connection, until it ends.
pub(crate) struct Place(RefCell<Hold>);

enum Hold {
    Client {
        _permit: OwnedSemaphorePermit,
    },
    Stranger {
        stranger: Stranger,
        peers: Arc<Semaphore>,
    },
    Peer {
        _permit: OwnedSemaphorePermit,
    },
}

impl Places {
    pub(crate) fn new(config: &ServerConfig) -> Self {
        let peers = usize::from(config.node.members.count() - 1);
        Self {
            clients: Arc::new(Semaphore::new(config.connections_max)),
            peers: Arc::new(Semaphore::new(peers * config.threads * PEER_CONNECTIONS)),
            strangers: Arc::new(Strangers::new(STRANGERS_MAX)),
            is_alone: config.node.members.is_alone(),
        }
    }

    /// Waits until a connection may be accepted.
    pub(crate) async fn ready(&self) {
        if self.is_alone {
            // Acquired to wait, and taken by `take`: there is one acceptor thread.
            let _freed = self.clients.acquire().await;
        }
    }

    /// The place of a connection from `address` that was accepted.
    pub(crate) async fn take(&self, address: IpAddr) -> Option<Place> {
        let clients = Arc::clone(&self.clients);
        let hold = match Arc::clone(&self.clients).try_acquire_owned() {
            Ok(permit) => Hold::Client { _permit: permit },
            // Another listener was faster.
            Err(_) if self.is_alone => Hold::Client {
                _permit: clients.acquire_owned().await.ok()?,
            },
            Err(_) => Hold::Stranger {
                stranger: self.strangers.enter(address),
                peers: Arc::clone(&self.peers),
            },
        };
        Some(Place(RefCell::new(hold)))
    }
}

impl Place {
    /// Whom it is for.
    pub(crate) fn admits(&self) -> Admits {
        match &*self.0.borrow() {
            Hold::Client { .. } => Admits::All,
            Hold::Stranger { .. } | Hold::Peer { .. } => Admits::Peers,
        }
    }

    /// Ends when the place is wanted for another, which may be never.
    pub(crate) async fn wanted(&self) {
        let wanted = match &*self.0.borrow() {
            Hold::Stranger { stranger, .. } => Some(Arc::clone(&stranger.wanted)),
            _ => None,
        };
        match wanted {
            Some(wanted) => wanted.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Whoever has it has proved to be a peer. Where peers have more
    /// connections than can be of use, it stays a stranger's.
    pub(crate) fn becomes_a_peers(&self) {
        let mut hold = self.0.borrow_mut();
        if let Hold::Stranger { peers, .. } = &*hold
            && let Ok(permit) = Arc::clone(peers).try_acquire_owned()
        {
            *hold = Hold::Peer { _permit: permit };
        }
    }
}

/// Those who were let in and have proved nothing.
struct Strangers {
    /// In the order in which they came.
    inside: Mutex<Inside>,
    max: usize,
}

#[derive(Default)]
struct Inside {
    line: VecDeque<Entry>,
    /// The number of the next one.
    next: u64,
}

struct Entry {
    number: u64,
    owner: IpAddr,
    wanted: Arc<Notify>,
}

/// One of them, until it is dropped.
struct Stranger {
    number: u64,
    /// Told when it has to go.
    wanted: Arc<Notify>,
    strangers: Arc<Strangers>,
}

impl Strangers {
    fn new(max: usize) -> Self {
        Self {
            inside: Mutex::default(),
            max,
        }
    }

    /// Lets one in, and tells another to go if they are too many.
    fn enter(self: &Arc<Self>, address: IpAddr) -> Stranger {
        let owner = owner_of(address);
        let mut inside = lock(&self.inside);
        if inside.line.len() >= self.max {
            let owners: Vec<IpAddr> = inside.line.iter().map(|entry| entry.owner).collect();
            if let Some(entry) = inside.line.remove(who_goes(&owners, owner)) {
                entry.wanted.notify_one();
            }
        }
        let number = inside.next;
        inside.next += 1;
        let wanted = Arc::new(Notify::new());
        inside.line.push_back(Entry {
            number,
            owner,
            wanted: Arc::clone(&wanted),
        });
        Stranger {
            number,
            wanted,
            strangers: Arc::clone(self),
        }
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut inside = lock(&self.strangers.inside);
        let place = inside
            .line
            .binary_search_by_key(&self.number, |entry| entry.number);
        if let Ok(place) = place {
            inside.line.remove(place);
        }
    }
}

/// Which of those inside goes for one from `newcomer`: the first of the
/// address that has most, the newcomer counted.
fn who_goes(inside: &[IpAddr], newcomer: IpAddr) -> usize {
    let mut counts = BTreeMap::from([(newcomer, 1)]);
    for owner in inside {
        *counts.entry(*owner).or_insert(0) += 1;
    }
    let most = inside.iter().filter_map(|owner| counts.get(owner)).max();
    inside
        .iter()
        .position(|owner| counts.get(owner) == most)
        .unwrap_or_default()
}

/// What stands for all addresses that one owner can choose from.
fn owner_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let kept = u128::MAX << (u128::BITS - IPV6_OWN_BITS);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & kept))
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::{Member, Members, NodeUrl};

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn the_first_of_those_who_are_most_goes() {
        for (inside, newcomer, goes) in [
            (&[1][..], 1, 0),
            (&[1], 2, 0),
            (&[1, 2, 3], 4, 0),
            (&[1, 2, 2, 3, 3], 4, 1),
            (&[1, 2, 3, 3, 2], 2, 1),
            (&[1, 2, 3], 3, 2),
            // A flood from one address leaves one that came before it alone.
            (&[9, 1, 1, 1, 1], 1, 1),
            (&[9, 1, 1, 1, 1], 9, 1),
        ] {
            let inside: Vec<IpAddr> = inside.iter().copied().map(address).collect();
            let found = who_goes(&inside, address(newcomer));
            assert_eq!(found, goes, "{inside:?} {newcomer}");
        }
    }

    #[test]
    fn an_owner_has_an_ipv4_address_or_half_of_an_ipv6_address() {
        let owner = |text: &str| owner_of(text.parse().unwrap());
        assert_eq!(owner("2001:db8::1"), owner("2001:db8::ffff:0:0:2"));
        assert_ne!(owner("2001:db8::1"), owner("2001:db8:0:1::1"));
        assert_eq!(owner("::ffff:10.0.0.1"), owner("10.0.0.1"));
        assert_ne!(owner("10.0.0.1"), owner("10.0.0.2"));
    }

    fn places(nodes: usize, connections_max: usize) -> Places {
        let urls: Vec<NodeUrl> = (0..nodes)
            .map(|node| format!("http://127.0.0.1:{}", 7000 + node).parse().unwrap())
            .collect();
        let members = urls.iter().cloned().map(Member::unnamed).collect();
        let members = Members::new(members, &urls[0]).unwrap();
        let mut config = ServerConfig::new(members, "store");
        config.threads = 1;
        config.connections_max = connections_max;
        Places::new(&config)
    }

    fn is_wanted(place: &Place) -> bool {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::pin!(place.wanted()).poll(&mut context).is_ready()
    }

    #[tokio::test]
    async fn strangers_make_room_for_each_other_and_peers_and_clients_stay() {
        let places = places(2, 1);
        let client = places.take(address(1)).await.unwrap();
        assert_eq!(client.admits(), Admits::All);
        let peer = places.take(address(1)).await.unwrap();
        assert_eq!(peer.admits(), Admits::Peers);
        peer.becomes_a_peers();
        let mut strangers = Vec::new();
        for _ in 0..3 * STRANGERS_MAX {
            strangers.push(places.take(address(1)).await.unwrap());
        }
        for (number, place) in strangers.iter().enumerate() {
            assert_eq!(is_wanted(place), number < 2 * STRANGERS_MAX, "{number}");
        }
        assert!(!is_wanted(&client) && !is_wanted(&peer));
        // One from elsewhere shows out those who are many, and is left alone.
        let other = places.take(address(2)).await.unwrap();
        assert!(is_wanted(&strangers[2 * STRANGERS_MAX]));
        for _ in 0..3 * STRANGERS_MAX {
            strangers.push(places.take(address(1)).await.unwrap());
        }
        assert!(!is_wanted(&other));
        // Those who leave by themselves make room as well.
        drop(strangers);
        assert_eq!(lock(&places.strangers.inside).line.len(), 1);
        drop(client);
        let client = places.take(address(1)).await.unwrap();
        assert_eq!(client.admits(), Admits::All);
    }

    #[tokio::test]
    async fn a_node_without_peers_lets_nobody_in_whom_it_has_no_place_for() {
        let places = places(1, 1);
        let first = places.take(address(1)).await.unwrap();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let mut ready = std::pin::pin!(places.ready());
        assert!(ready.as_mut().poll(&mut context).is_pending());
        drop(first);
        ready.await;
        assert!(places.take(address(1)).await.is_some());
    }
}
