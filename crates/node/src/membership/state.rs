//! What this node knows about its own store and about its peers', and how a
//! peer's hello changes that.
//!
//! Everything here is a function of the state and of what a peer has said; there
//! is no lock, no clock and no disk.

use super::cluster_file::{ClusterFile, StoredNode};
use super::file_versions::FileVersions;
use cluster::{Confirmation, Members, NodeNumber, Remembered, Standing, judge};
use peer::{Hello, PeerStart, StartWatch};
use std::sync::Arc;

/// What does not change between two starts: the cluster, and this node's store.
pub(super) struct OwnStore {
    /// All nodes of the cluster.
    pub(super) members: Members,
    /// The id of this node's store.
    pub(super) store_id: u64,
    /// The last starts of the store; the present one is the last.
    pub(super) starts: Arc<[u64]>,
}

/// What changes as peers connect.
pub(super) struct MembershipState {
    /// How this node's store stands, and which peers have yet to say what they
    /// remember.
    pub(super) confirmation: Confirmation,
    /// What the durable file says of the store's standing.
    durable_standing: Standing,
    /// What is known of each node, by its number; unused for this node itself.
    peers: Vec<PeerRecord>,
    /// Which of the changes are durable.
    pub(super) versions: FileVersions,
}

/// What is known of a peer.
#[derive(Clone, Default)]
struct PeerRecord {
    /// The start of its store that is remembered since its last handshake.
    remembered: Option<Remembered>,
    /// The version of the file since which that is remembered.
    since: u64,
    /// What the durable file remembers, and what this node may tell the peer.
    durable: Option<Remembered>,
    /// The remembered start, shared by all connections with it.
    start: Arc<PeerStart>,
    /// The last start that a warning was logged about.
    warned_about: Option<u64>,
}

/// What became of a peer's hello.
pub(super) enum Recorded {
    /// It is in the file, in this version.
    InVersion(u64),
    /// This node's own hello is out of date: it does not say what is remembered by
    /// now, so the two sides may judge differently.
    HelloOutOfDate,
}

impl MembershipState {
    /// The state at a start, from what the file says.
    pub(super) fn new(
        own: &OwnStore,
        confirmation: Confirmation,
        loaded: Option<&ClusterFile>,
    ) -> Self {
        let record = |name: &str| {
            let is_own = name == own.members.own_name();
            let loaded = loaded.filter(|_| !is_own);
            let remembered = loaded.and_then(|loaded| loaded.nodes.get(name)?.remembered);
            PeerRecord {
                remembered,
                durable: remembered,
                ..PeerRecord::default()
            }
        };
        Self {
            durable_standing: confirmation.stored(),
            confirmation,
            peers: own.members.names().map(record).collect(),
            versions: FileVersions::default(),
        }
    }

    /// How the store stands. That it is a witness counts only once it is durable.
    pub(super) fn standing(&self) -> Standing {
        match self.confirmation.standing() {
            standing if standing.is_witness() && !self.durable_standing.is_witness() => {
                Standing::Unconfirmed
            }
            standing => standing,
        }
    }

    /// What this node durably remembers of a peer.
    pub(super) fn durably_remembered(&self, peer: NodeNumber) -> Option<Remembered> {
        self.peers.get(peer.index())?.durable
    }

    /// Whether a hello would replace a start of the peer that still has a live
    /// link.
    pub(super) fn is_previous_start_live(&self, peer: NodeNumber, hello: &Hello) -> bool {
        let (Some(known), Some(present)) = (self.peers.get(peer.index()), present_start(hello))
        else {
            return false;
        };
        let judgement = judge(known.remembered, hello.store_id, &hello.starts);
        let replaces = !judgement.is_against() || hello.is_accepted;
        replaces && known.remembered != Some(present) && known.start.has_live_link()
    }

    /// Changes how the store stands, by what `peer` has said. Returns whether
    /// anything has changed.
    pub(super) fn change_confirmation(
        &mut self,
        own: &OwnStore,
        peer: NodeNumber,
        change: impl FnOnce(&mut Confirmation, usize),
    ) -> bool {
        let before = self.confirmation.clone();
        let peers = usize::from(own.members.count()) - 1;
        change(&mut self.confirmation, peers);
        if self.confirmation == before {
            return false;
        }
        let in_file = |of: &Confirmation| (of.stored(), of.unaware().cloned(), of.is_outdated());
        if in_file(&self.confirmation) != in_file(&before) {
            self.versions.change();
        }
        let peer = own.members.name(peer);
        match self.confirmation {
            Confirmation::Unfilled { is_outdated: true } => tracing::error!(
                peer,
                "a peer remembers a later start of this node's store: the folder was restored \
                 from a copy, or a copy of it was started. The store's reads and acks do not \
                 count, this node stamps no writes, and the peer does not serve it. If another \
                 process has the other folder, stop this node; if none has, start this node with \
                 --accept-empty"
            ),
            Confirmation::Unfilled { is_outdated: false } => tracing::error!(
                peer,
                "a peer remembers another store of this node: the folder was lost. The store's \
                 reads and acks do not count until a full sweep has filled it, which begins by \
                 itself once all nodes are up"
            ),
            _ => {}
        }
        true
    }

    /// Remembers the start in a peer's hello, if it is a later start of the same
    /// store, or an accepted one. `sent` is what this node's own hello said that
    /// it remembers of the peer. `None` if the hello is of no peer.
    pub(super) fn record(
        &mut self,
        own: &OwnStore,
        peer: NodeNumber,
        hello: &Hello,
        sent: Option<Remembered>,
    ) -> Option<Recorded> {
        let known = self.peers.get_mut(peer.index())?;
        let present = present_start(hello)?;
        let judgement = judge(known.remembered, hello.store_id, &hello.starts);
        if judgement.is_against() && !hello.is_accepted {
            if judge(sent, hello.store_id, &hello.starts) != judgement {
                return Some(Recorded::HelloOutOfDate);
            }
            if known.warned_about.replace(present.start) != Some(present.start) {
                tracing::warn!(
                    peer = own.members.name(peer),
                    "a peer has connected with another store than the remembered one, with an \
                     older state of it, or with a copy. Its reads and acks do not count. A full \
                     sweep fills an empty store by itself once all nodes are up; for an older \
                     state or a copy, its log says what to do"
                );
            }
            return Some(Recorded::InVersion(known.since));
        }
        if known.remembered != Some(present) {
            known.remembered = Some(present);
            known.since = self.versions.change();
            std::mem::take(&mut known.start).supersede();
        }
        Some(Recorded::InVersion(known.since))
    }

    /// The watch of a connection with the peer that sent this hello.
    pub(super) fn watch(&self, peer: NodeNumber, hello: &Hello) -> Option<StartWatch> {
        let known = self.peers.get(peer.index())?;
        let start = Arc::clone(&known.start);
        Some(match known.remembered == present_start(hello) {
            true => StartWatch::new(start),
            false => StartWatch::in_place_of(start),
        })
    }

    /// The content of the file for this state.
    pub(super) fn to_file(&self, own: &OwnStore) -> ClusterFile {
        let node = |number: NodeNumber| StoredNode {
            remembered: self.peers.get(number.index()).and_then(|p| p.remembered),
            is_unaware: self.confirmation.is_unaware(number),
        };
        let names = own.members.names().map(str::to_owned);
        ClusterFile {
            own_name: own.members.own_name().to_owned(),
            store_id: own.store_id,
            standing: self.confirmation.stored(),
            is_outdated: self.confirmation.is_outdated(),
            starts: own.starts.to_vec(),
            nodes: names.zip(own.members.numbers().map(node)).collect(),
        }
    }

    /// Notes that the file is durable in this version, with this standing.
    pub(super) fn became_durable(&mut self, version: u64, standing: Standing) {
        self.durable_standing = standing;
        for peer in &mut self.peers {
            if peer.since <= version {
                peer.durable = peer.remembered;
            }
        }
    }
}

/// What to remember of the node that sent a hello; `None` if the hello names no start.
fn present_start(hello: &Hello) -> Option<Remembered> {
    let start = *hello.starts.last()?;
    let store_id = hello.store_id;
    Some(Remembered { store_id, start })
}
