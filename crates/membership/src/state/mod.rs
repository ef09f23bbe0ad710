//! What this node knows about its own store and those of its peers, and how a peer's hello changes
//! that.
//!
//! Everything here is a function of the state and of what a peer has said; there
//! is no lock, no clock and no disk. `lists` is the list of members and what is reported of it,
//! `sessions` is what repair sessions change, `losses` what may be lost with the stores that are
//! learners.

mod lists;
mod losses;
mod sessions;

pub(crate) use lists::{Handed, Lists};
pub use losses::LossReport;

use crate::Layouts;
use crate::cluster_file::{ClusterFile, Run, StoredNode};
use crate::file_versions::FileVersions;
use base::Random;
use cluster::layout::MemberList;
use cluster::{
    Confirmation, Judgement, Layout, Member, Members, NodeId, NodeTable, PEER_STARTS_MAX,
    Remembered, ReplicaState, Replicas, StoreClaim, is_bygone, judge,
};
use losses::Losses;
use peer::{Hello, PeerStart, StartWatch, StoreReport};
use sessions::{BegunSession, NotRebuilt};
use std::sync::Arc;

/// This node's store, and the layout in force.
pub(crate) struct OwnStore {
    /// The layout in force.
    pub(crate) layouts: Layouts,
    /// The id of this node's store.
    pub(crate) store_id: u64,
    /// When it was created, in milliseconds since the Unix epoch, if that is known.
    pub(crate) created_unix_ms: Option<u64>,
    /// This run of the node.
    pub(crate) run: Run,
    /// The pair of requests that do not say otherwise, for the first list of a new cluster.
    pub(crate) default_pair: Replicas,
    /// The zone of the only node of a cluster.
    pub(crate) zone: Option<String>,
    /// The number of the cluster that the store was restored for, or 0.
    pub(crate) restored_for: u64,
}

impl OwnStore {
    /// The ID of this node.
    pub(crate) fn id(&self) -> NodeId {
        self.layouts.own()
    }

    /// The layout in force.
    pub(crate) fn layout(&self) -> Arc<Layout> {
        self.layouts.load()
    }
}

/// What changes as peers connect.
pub(crate) struct MembershipState {
    /// How this node's store stands, and which peers have yet to say what they
    /// remember.
    pub(crate) confirmation: Confirmation,
    /// What the durable file says of the store's replica state.
    durable_replica_state: ReplicaState,
    /// The starts that the store includes; the present one is the last.
    pub(crate) starts: Arc<[u64]>,
    /// How many writes the store had ever committed when it was opened, or rebuilt since.
    pub(crate) acknowledged: u64,
    /// What is added to the count of the engine.
    pub(crate) taken_over: u64,
    /// The part of it that is durable.
    pub(crate) durable_taken_over: u64,
    /// See [`cluster::comparison::Incarnation::last_loss`].
    pub(crate) last_loss: u64,
    /// What is known of each node; unused for this node itself.
    pub(crate) peers: NodeTable<PeerRecord>,
    /// The full repair session that this node takes part in.
    pub(crate) session: Option<BegunSession>,
    /// Why the last full session that has ended did not rebuild this node's store.
    pub(crate) not_rebuilt: Option<NotRebuilt>,
    /// What may be lost.
    pub(crate) possible_loss: Losses,
    /// Whether peers have acknowledged more than the file says.
    is_count_stale: bool,
    /// Whether a job is scheduled that has the counts written.
    is_count_write_scheduled: bool,
    /// The list of members.
    pub(crate) lists: Lists,
    /// Which of the changes are durable.
    pub(crate) versions: FileVersions,
}

/// What is known of a peer.
#[derive(Clone, Default)]
pub(crate) struct PeerRecord {
    /// The start of its store that is remembered since its last handshake.
    pub(crate) remembered: Option<Remembered>,
    /// The version of the file since which that is remembered.
    since: u64,
    /// What the durable file remembers, and what this node may tell the peer.
    durable: Option<Remembered>,
    /// The remembered start, shared by all connections with it.
    start: Arc<PeerStart>,
    /// Another start that the peer has connected with, which is not remembered, because
    /// its store lacks what is.
    unremembered: Option<(u64, Arc<PeerStart>)>,
    /// The last starts that the remembered store includes, at most [`PEER_STARTS_MAX`]; the
    /// remembered one is the last.
    starts: Arc<[u64]>,
    /// What the peer remembers of this node's store, as it said last, and the starts that
    /// this one includes.
    pub(crate) says: Option<Remembered>,
    pub(crate) says_starts: Arc<[u64]>,
    /// The id of the store in its last hello, whether that is remembered or not.
    store_id: Option<u64>,
    /// Whether this node has observed the timestamps that the peer has seen.
    pub(crate) is_observed: bool,
    /// What its store has lost, until it is rebuilt.
    pub(crate) lost: Option<Lost>,
    /// What the file holds: see [`StoredNode`].
    pub(crate) at_full_session: Option<u64>,
    pub(crate) single_copies: Option<u64>,
    /// The last start that a warning was logged about.
    warned_about: Option<u64>,
    /// The last start whose memory of this node's store was not believed.
    disbelieved: Option<u64>,
}

/// What the store of a peer has lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// All that it had, or all since a copy was made.
    State,
    /// Something that only the peer itself knows: the last writes before a power cut, or
    /// what another node remembers.
    Unknown,
}

/// How the store was opened.
pub(crate) struct Opening {
    /// How it stands, as far as the file says.
    pub(crate) confirmation: Confirmation,
    /// The starts that the store includes; the present one is the last.
    pub(crate) starts: Vec<u64>,
    /// See [`cluster::comparison::Incarnation::last_loss`].
    pub(crate) last_loss: u64,
    /// What is added to the count of the engine.
    pub(crate) taken_over: u64,
    /// When the store was created, if that is known.
    pub(crate) created_unix_ms: Option<u64>,
    /// The count of the engine.
    pub(crate) acknowledged: u64,
    /// Whether the store may have voted on lists of members, and lost that.
    pub(crate) lacks_votes: bool,
}

/// The number of a loss. It is drawn, not counted: a folder that is restored from a copy
/// brings an earlier count back, and each restored store must be another incarnation.
pub(crate) fn draw_loss(random: &dyn Random) -> u64 {
    // Zero stands for a store that has lost nothing.
    random.next_u64().max(1)
}

/// What became of a peer's hello.
pub(crate) enum Recorded {
    /// It is in the file, in this version.
    InVersion(u64),
    /// This node's own hello is out of date: it does not say what is remembered by
    /// now, so the two sides may judge differently.
    HelloOutOfDate,
}

impl MembershipState {
    /// The state at a start, from what the file says.
    pub(crate) fn new(own: &OwnStore, opening: Opening, loaded: Option<&ClusterFile>) -> Self {
        let layout = own.layout();
        let record = |(id, member): (NodeId, &Member)| {
            let loaded = loaded.filter(|_| id != own.id());
            let list = loaded.and_then(|loaded| loaded.lists.list.as_deref());
            let node = loaded.and_then(|loaded| loaded.nodes.get(member.name()));
            let node = node.filter(|node| node.remembered.is_some());
            let record = match node {
                Some(node) => PeerRecord::new(node.clone()),
                None => PeerRecord::of_joined(list, id),
            };
            (id, record)
        };
        let Opening {
            confirmation,
            starts,
            last_loss,
            taken_over,
            created_unix_ms: _,
            acknowledged,
            lacks_votes,
        } = opening;
        let mut lists = loaded.map_or_else(Default::default, |it| it.lists.clone());
        lists.lacks_votes |= lacks_votes;
        let mut state = Self {
            lists: Lists::new(lists),
            durable_replica_state: confirmation.stored(),
            confirmation,
            starts: starts.into(),
            acknowledged: taken_over.saturating_add(acknowledged),
            taken_over,
            durable_taken_over: taken_over,
            last_loss,
            peers: layout.members().iter().map(record).collect(),
            session: None,
            not_rebuilt: None,
            possible_loss: Losses::default(),
            is_count_stale: false,
            is_count_write_scheduled: false,
            versions: FileVersions::default(),
        };
        state.note_losses(own);
        state
    }

    /// Forgets the nodes that are no members, and knows nothing of those that are new.
    pub(crate) fn follow(&mut self, members: &Members) {
        self.peers.retain(|node, known| {
            let stays = members.contains(node);
            if !stays {
                known.end();
            }
            stays
        });
        for node in members.ids() {
            let list = self.lists.list().map(|list| &**list);
            let make = || PeerRecord::of_joined(list, node);
            self.peers.get_or_insert_with(node, make);
        }
        let peers: Vec<NodeId> = members.peers().collect();
        self.confirmation.settle(&peers);
        self.forget_losses_of_left(members);
        self.versions.change();
    }

    /// What this node's store says of itself.
    pub(crate) fn claim(&self, own: &OwnStore) -> StoreClaim<'_> {
        StoreClaim {
            store_id: own.store_id,
            starts: &self.starts,
            acknowledged: Some(self.acknowledged),
        }
    }

    /// How the store stands. That it is a voter counts only once it is durable.
    pub(crate) fn replica_state(&self) -> ReplicaState {
        match self.confirmation.replica_state() {
            _ if self.lists.is_removed => ReplicaState::Learner,
            replica_state if replica_state.is_voter() && !self.durable_replica_state.is_voter() => {
                ReplicaState::Starting
            }
            replica_state => replica_state,
        }
    }

    /// What this node durably remembers of a peer. The count is the last one that was
    /// heard.
    pub(crate) fn durably_remembered(&self, peer: NodeId) -> Option<Remembered> {
        let known = self.peers.get(peer)?;
        let durable = known.durable?;
        let is_same = |last: &Remembered| last.is_start(durable.store_id, durable.start);
        known.remembered.filter(is_same).or(known.durable)
    }

    /// See [`Membership::starts_of`](super::Membership::starts_of).
    pub(crate) fn starts_of(&self, peer: NodeId) -> Arc<[u64]> {
        let known = self.peers.get(peer);
        known
            .map(|known| Arc::clone(&known.starts))
            .unwrap_or_default()
    }

    /// Whether a hello is from another start of the peer than the remembered one, which
    /// is still connected. If the store in the hello would take the place of the
    /// remembered one, only the links of this node to it tell: the others may be what a
    /// host has left that lost its power. If it lacks what is remembered, it can wait for
    /// those, too, and a session must not take it for the store that they belong to.
    pub(crate) fn is_previous_start_live(&self, peer: NodeId, hello: &Hello) -> bool {
        let (Some(known), Some(present)) = (self.peers.get(peer), present_start(hello)) else {
            return false;
        };
        let judgement = judge(known.remembered, hello.claim());
        let replaces = !judgement.is_against() || hello.is_accepted;
        let is_live = if replaces {
            known.start.has_live_link()
        } else {
            known.start.is_live()
        };
        is_live && !known.remembers(present)
    }

    /// Changes how the store stands, by what `peer` has said; `random` draws the number
    /// of a loss. Returns whether anything has changed.
    pub(crate) fn change_confirmation(
        &mut self,
        own: &OwnStore,
        peer: NodeId,
        random: &dyn Random,
        change: impl FnOnce(&mut Confirmation, &[NodeId]),
    ) -> bool {
        let before = self.confirmation.clone();
        let layout = own.layout();
        let peers: Vec<NodeId> = layout.members().peers().collect();
        change(&mut self.confirmation, &peers);
        if self.confirmation == before {
            return false;
        }
        let in_file = |of: &Confirmation| (of.stored(), of.unaware().cloned(), of.is_outdated());
        if self.confirmation.replica_state() == ReplicaState::Learner {
            self.last_loss = draw_loss(random);
            self.lists.lose_votes(own.id());
        }
        if in_file(&self.confirmation) != in_file(&before)
            || self.confirmation.replica_state() == ReplicaState::Learner
        {
            self.versions.change();
        }
        self.note_losses(own);
        let peer = layout.members().name(peer);
        match self.confirmation {
            Confirmation::Learner { is_outdated: true } => tracing::error!(
                peer,
                "a peer remembers a later start of this node's store, or more acknowledged \
                 writes: the folder was restored from a copy, or a copy of it was started. The \
                 store's reads and acks do not count, and this node accepts no writes of its own, \
                 until a full repair has rebuilt the store; it starts on its own once all nodes \
                 are up. If another process has the other folder, stop one of the two"
            ),
            Confirmation::Learner { is_outdated: false } => tracing::error!(
                peer,
                "a peer remembers another store of this node: the folder was lost. The store's \
                 reads and acks do not count until a full repair has rebuilt it; that starts on \
                 its own once all nodes are up"
            ),
            _ => {}
        }
        true
    }

    /// Makes the store a learner, because it is behind a GC threshold; `random` draws the number
    /// of the loss.
    pub(crate) fn fall_behind(&mut self, own: &OwnStore, random: &dyn Random) {
        self.confirmation = Confirmation::Learner { is_outdated: false };
        self.last_loss = draw_loss(random);
        self.lists.lose_votes(own.id());
        self.versions.change();
        self.note_losses(own);
        tracing::error!(
            "a peer names a GC threshold that this store has not helped to raise, so the store is \
             older than it: the folder was restored from a copy, or the file TOMBSTONE_GC is missing. \
             What it holds below is set aside, and its reads and acks do not count until a full \
             repair has rebuilt it; that starts on its own once all nodes are up"
        );
    }

    /// Remembers the start in a peer's hello, if it is a later start of the same
    /// store, an accepted one, or of a store in whose place this node remembers one from
    /// before. `sent` is what this node's own hello said that it remembers of the peer, and
    /// `own_judgement` what the peer's hello means for this node's own store. `None` if the
    /// hello is of no peer.
    pub(crate) fn record(
        &mut self,
        own: &OwnStore,
        peer: NodeId,
        hello: &Hello,
        (sent, own_judgement): (Option<Remembered>, Judgement),
    ) -> Option<Recorded> {
        let known = self.peers.get_mut(peer)?;
        let present = present_start(hello)?;
        known.store_id = Some(hello.store_id);
        let judgement = judge(known.remembered, hello.claim());
        let is_kept_out = judgement.is_against() && !is_bygone(own_judgement, judgement);
        let is_refused = is_kept_out && !hello.is_accepted;
        known.lost = match hello.replica_state {
            _ if is_refused => Some(Lost::State),
            ReplicaState::Learner => Some(Lost::Unknown),
            _ => None,
        };
        if is_refused {
            if judge(sent, hello.claim()) != judgement {
                return Some(Recorded::HelloOutOfDate);
            }
            if known.warned_about.replace(present.start) != Some(present.start) {
                tracing::warn!(
                    peer = own.layout().members().name(peer),
                    "a peer has connected with another store than the remembered one, with an \
                     older state of it, or with a copy. Its reads and acks do not count until a \
                     full repair has rebuilt it; that starts on its own once all nodes are up"
                );
            }
            let since = known.since;
            known.meet_unremembered(present.start);
            self.note_losses(own);
            return Some(Recorded::InVersion(since));
        }
        if !known.remembers(present) {
            known.replace(present, judgement.is_against());
            known.since = self.versions.change();
        }
        let kept = hello.starts.len().saturating_sub(PEER_STARTS_MAX);
        let starts = hello.starts.get(kept..).unwrap_or_default();
        if *known.starts != *starts {
            known.starts = starts.into();
            self.versions.change();
        }
        let since = known.since;
        self.note_losses(own);
        Some(Recorded::InVersion(since))
    }

    /// Notes that a peer is not believed what it remembers of this node's store. Returns whether
    /// that is new: a store that is kept out may connect for as long as it runs.
    pub(crate) fn disbelieve(&mut self, peer: NodeId, hello: &Hello) -> bool {
        let start = hello.starts.last().copied();
        let known = self.peers.get_mut(peer);
        known.is_some_and(|known| std::mem::replace(&mut known.disbelieved, start) != start)
    }

    /// Takes what a peer says that it remembers of this node's store.
    pub(crate) fn hear_memory(&mut self, peer: NodeId, hello: &Hello) {
        if let Some(known) = self.peers.get_mut(peer) {
            known.says = hello.remembered;
            known.says_starts = Arc::clone(&hello.remembered_starts);
        }
    }

    /// Takes what a peer reports on a connection. Returns whether to schedule a job that
    /// has the counts written.
    pub(crate) fn hear_report(
        &mut self,
        peer: NodeId,
        start: &StartWatch,
        report: StoreReport,
    ) -> bool {
        let known = self.peers.get_mut(peer);
        // A store that is not remembered has a count of its own.
        let known = known.filter(|known| start.is_of(&known.start));
        let Some(remembered) = known.and_then(|known| known.remembered.as_mut()) else {
            return false;
        };
        if remembered.acknowledged >= report.acknowledged {
            return false;
        }
        remembered.acknowledged = report.acknowledged;
        self.is_count_stale = true;
        !std::mem::replace(&mut self.is_count_write_scheduled, true)
    }

    /// See [`Membership::is_whole`](super::Membership::is_whole).
    pub(crate) fn is_whole(&self, peer: NodeId) -> bool {
        let known = self.peers.get(peer);
        known.is_some_and(|known| {
            known.remembered.is_some() && known.unremembered.is_none() && known.lost.is_none()
        })
    }

    /// See [`Membership::store_of`](super::Membership::store_of).
    pub(crate) fn store_of(&self, peer: NodeId) -> Option<u64> {
        self.peers.get(peer)?.store_id
    }

    /// Notes that the timestamps that a peer has seen are observed.
    pub(crate) fn observed(&mut self, peer: NodeId) {
        if let Some(known) = self.peers.get_mut(peer) {
            known.is_observed = true;
        }
    }

    /// Counts as a change what peers have acknowledged since the last write.
    pub(crate) fn change_counts(&mut self) {
        self.is_count_write_scheduled = false;
        if std::mem::take(&mut self.is_count_stale) {
            self.versions.change();
        }
    }

    /// The watch of a connection with the peer that sent this hello.
    pub(crate) fn watch(&self, peer: NodeId, hello: &Hello) -> Option<StartWatch> {
        let known = self.peers.get(peer)?;
        let present = present_start(hello)?;
        let start = if known.remembers(present) {
            Some(&known.start)
        } else {
            known
                .unremembered
                .as_ref()
                .filter(|(start, _)| *start == present.start)
                .map(|(_, start)| start)
        };
        start.map(|start| StartWatch::new(Arc::clone(start)))
    }

    /// The content of the file for this state. `is_closed` says whether the store was
    /// closed.
    pub(crate) fn next_file(&mut self, own: &OwnStore, is_closed: bool) -> ClusterFile {
        self.is_count_stale = false;
        let layout = own.layout();
        let members = layout.members();
        let node = |(id, member): (NodeId, &Member)| {
            let known = self.peers.get(id);
            let stored = StoredNode {
                remembered: known.and_then(|known| known.remembered),
                starts: known.map_or_else(Vec::new, |known| known.starts.to_vec()),
                is_unaware: self.confirmation.is_unaware(id),
                at_full_session: known.and_then(|known| known.at_full_session),
                single_copies: known.and_then(|known| known.single_copies),
            };
            (member.name().to_owned(), stored)
        };
        ClusterFile {
            own_name: members.own_name().to_owned(),
            store_id: own.store_id,
            replica_state: self.confirmation.stored(),
            is_outdated: self.confirmation.is_outdated(),
            last_loss: self.last_loss,
            taken_over: self.taken_over,
            created_unix_ms: own.created_unix_ms,
            run: Run {
                is_closed,
                ..own.run
            },
            starts: self.starts.to_vec(),
            nodes: members.iter().map(node).collect(),
            lists: self.lists.next.clone(),
        }
    }

    /// Notes that the file is durable in this version. Returns whether it has another list of
    /// members.
    pub(crate) fn became_durable(&mut self, version: u64, file: &ClusterFile) -> bool {
        self.durable_replica_state = file.replica_state;
        self.durable_taken_over = file.taken_over;
        for peer in self.peers.values_mut() {
            if peer.since <= version {
                peer.durable = peer.remembered;
            }
        }
        self.lists.became_durable(&file.lists)
    }
}

impl PeerRecord {
    /// Says whether its connections are served only lists.
    pub(crate) fn bar(&self, is_barred: bool) {
        self.start.bar(is_barred);
        if let Some((_, start)) = &self.unremembered {
            start.bar(is_barred);
        }
    }

    /// What is known of a member of which the file says nothing: the store that it joined with.
    pub(crate) fn of_joined(list: Option<&MemberList>, node: NodeId) -> Self {
        let listed = list.and_then(|list| list.get(node)?.store);
        let stored = listed.map(|store| StoredNode {
            remembered: Some(Remembered {
                store_id: store.store_id,
                start: store.start,
                acknowledged: 0,
            }),
            starts: vec![store.start],
            ..StoredNode::default()
        });
        Self::new(stored.unwrap_or_default())
    }

    /// What the file says of a peer.
    fn new(stored: StoredNode) -> Self {
        let start = Arc::<PeerStart>::default();
        start.remember();
        Self {
            remembered: stored.remembered,
            durable: stored.remembered,
            starts: stored.starts.into(),
            at_full_session: stored.at_full_session,
            single_copies: stored.single_copies,
            start,
            ..Self::default()
        }
    }

    /// Ends all connections with the peer, because it has left the cluster.
    fn end(&mut self) {
        self.end_unremembered();
        self.start.supersede();
    }

    /// Whether this start of this store is what is remembered.
    fn remembers(&self, present: Remembered) -> bool {
        self.remembered
            .is_some_and(|known| known.is_start(present.store_id, present.start))
    }

    /// The peer has connected with a start that is not remembered.
    fn meet_unremembered(&mut self, start: u64) {
        if self
            .unremembered
            .as_ref()
            .is_none_or(|(met, _)| *met != start)
        {
            self.end_unremembered();
            self.unremembered = Some((start, Arc::default()));
        }
    }

    fn end_unremembered(&mut self) {
        if let Some((_, start)) = self.unremembered.take() {
            start.supersede();
        }
    }

    /// Remembers the present start of the peer in place of what was remembered.
    /// `is_accepted`: it is a store that lacks what was, and an operator has decided.
    fn replace(&mut self, present: Remembered, is_accepted: bool) {
        let before = self.remembered.replace(present);
        if let (Some(now), Some(before)) = (&mut self.remembered, before)
            && !is_accepted
        {
            // The store includes what was remembered, also if its id is another.
            now.acknowledged = now.acknowledged.max(before.acknowledged);
        }
        if before.is_none_or(|before| before.store_id != present.store_id) || is_accepted {
            self.at_full_session = None;
            self.single_copies = None;
        }
        let is_met = |(start, _): &(u64, Arc<PeerStart>)| *start == present.start;
        let met = self.unremembered.take_if(|met| is_met(met));
        self.end_unremembered();
        // The connections of a store that was rebuilt go on.
        let start = met.map_or_else(Arc::default, |(_, start)| start);
        start.remember();
        std::mem::replace(&mut self.start, start).supersede();
    }
}

/// What to remember of the node that sent a hello; `None` if the hello names no start.
fn present_start(hello: &Hello) -> Option<Remembered> {
    Some(Remembered {
        store_id: hello.store_id,
        start: *hello.starts.last()?,
        acknowledged: hello.acknowledged.unwrap_or(0),
    })
}
