//! Which node of which cluster this is, and what it and its peers know about each other's stores.
//!
//! The data folder remembers this in the file `CLUSTER` (`cluster_file`):
//! - the node's own name and the names of all nodes, which place the keys, so that no folder is
//!   started as another node's by mistake;
//! - the starts of the node's store, its replica state ([`Confirmation`]), and how its last run
//!   ended;
//! - for each peer that this node has met: its last start, the starts that its store includes, and
//!   how many writes that store has acknowledged.
//!
//! The files of this folder:
//! - `lists`: the interface to the list of members, votes on the next one, and reports of it;
//!   `list_events`: how they change. Pure.
//! - `layouts`: the layout in force: who the nodes are, and which of them keep a key.
//! - `startup`: what a start reads from the file, and when it refuses the folder.
//! - `state`: what this node knows, and how hellos of peers and repairs change it. Pure.
//! - `cluster_file`, `file_versions`, `writer`: how that becomes durable.
//! - This file: the interface for the rest of the node, whose handshakes fill hellos from here and
//!   report here what peers say.
//!
//! # What is durable before what
//!
//! - **This start** (the node's name, its new start number, and whether an
//!   operator has accepted the store) is durable before a peer hears of it.
//! - **A peer's start** is durable before the first call over a connection with
//!   it; [`Membership::record_peer`] reports when. If the acks of two stores count
//!   for one write, each of their nodes durably remembers the other's store. So
//!   even if all nodes crash together, a lost disk does not look like a new one.
//! - **That the store is a voter** is durable before its reads and acks count. Otherwise the store
//!   would wait for all peers again after a crash.
//! - **That the store is a learner** becomes durable afterwards. If a crash loses it, the peers say
//!   it again.
//! - **What the store has acknowledged** is durable before a peer hears of it. What a
//!   peer has acknowledged is remembered at once, and is durable some seconds later.
//! - **That the store is closed** is durable after it is, and no longer before it takes
//!   the next write.
//!
//! # Both sides come to one judgement
//!
//! In a handshake this node tells a peer what it remembers of the peer's store,
//! and the peer judges its own store by that. This node judges the peer's store
//! by what it remembers at the end of the handshake, which may have changed in
//! the meantime. If the change leads to another judgement, the connection is not
//! used; the next hello tells the peer the present state.
//!
//! A remembered start is replaced only by a later start of the same store, by a store that was
//! rebuilt and has taken the start over, by one that an operator has accepted, or by another store
//! of a peer that this node finds to be in an older state itself ([`is_bygone`]). Otherwise a
//! rolled-back store would count as sound after its second start.
//!
//! # To remember more of a peer
//!
//! 1. `state.rs`: add it to `PeerRecord`, and set it in `MembershipState::record`.
//! 2. `cluster_file.rs`: add it to the drawing, to `StoredNode` and to the codec.
//! 3. If it is something that the peer says, or that the peer must be told, it is
//!    a field of the hello too: see `peer/src/handshake/mod.rs`.
//!
//! # Locks
//!
//! The state has a lock, which is held for moments and never while the disk is
//! used. Whether the store is a voter is one atomic load. The file is written
//! by a job of [`JobClass::Owner`](lsm::JobClass::Owner).

mod cluster_file;
mod file_versions;
mod layouts;
mod list_events;
mod lists;
mod startup;
mod state;
mod writer;

#[cfg(test)]
mod tests;

use base::{BootId, Random};
use cluster::comparison::Incarnation;
use cluster::repair::Token;
use cluster::{
    Confirmation, Judgement, Layout, NodeId, Remembered, ReplicaState, Replicas, is_bygone, judge,
};
pub use cluster_file::{CLUSTER_VERSIONS, fuzz_cluster};
use cluster_file::{ClusterFile, Run};
use file_versions::OnDurable;
use lsm::{Disk, Executor};
use peer::{Hello, StartWatch, StoreReport};
use profile::lock;
use startup::{check_unchanged, log_replica_state, opening};
use state::{MembershipState, OwnStore, Recorded};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

pub use layouts::{LayoutChanges, Layouts};
pub use lists::{Exchanged, stored_list};
pub use startup::MembershipError;
pub use state::LossReport;

/// What membership works with.
pub struct MembershipEnvironment {
    /// The data folder, which exists and is locked.
    pub folder: PathBuf,
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// Draws the numbers of this start and of losses.
    pub random: Arc<dyn Random>,
    /// Runs the jobs.
    pub executor: Arc<dyn Executor>,
    /// Which boot of the machine this is; `None` where that cannot be read.
    pub boot_id: Option<BootId>,
    /// Whether each commit is synced before it is acknowledged.
    pub syncs_commits: bool,
    /// The wall clock, in milliseconds since the Unix epoch.
    pub now_unix_ms: u64,
    /// What the store has acknowledged.
    pub acknowledged: StoreCount,
    /// The pair of requests that do not say otherwise, for the first list of a new cluster.
    pub default_pair: Replicas,
    /// The number of the cluster that the store was restored for, or 0.
    pub restored_for: u64,
    /// Whether this node waits to join a cluster, unless the folder knows its list already.
    pub waits: bool,
    /// Whether this node is the only one of a cluster, which others may join.
    pub is_cluster_of_one: bool,
    /// The zone of the only node of a cluster. A node that joins says its zone when it waits.
    pub zone: Option<String>,
    /// Set while a peer takes the store for an older state of a store, or a copy.
    pub is_outdated: Arc<AtomicBool>,
    /// Set while the store is a voter, and no other one is known to lack something.
    pub are_all_whole: Arc<AtomicBool>,
}

/// The count of the writes that the store has acknowledged.
pub struct StoreCount {
    /// When it was opened.
    pub at_open: u64,
    /// The durable part of it now.
    pub now: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl StoreCount {
    fn durable(&self) -> u64 {
        (self.now)()
    }
}

/// The node's membership in its cluster. It is cheap to clone, and all clones
/// share one state.
#[derive(Clone)]
pub struct Membership {
    inner: Arc<MembershipInner>,
}

struct MembershipInner {
    environment: MembershipEnvironment,
    own: OwnStore,
    state: Mutex<MembershipState>,
    /// The code of the replica state, for requests.
    replica_state: AtomicU8,
    /// Notified when the peers have confirmed or rejected the store.
    settled: Notify,
    /// Notified when another list of members is durable.
    list_changed: Notify,
    /// Held while the file is written; true once it must not be written any more.
    is_file_closed: Mutex<bool>,
}

impl Membership {
    /// Opens the file in a data folder whose store has `store_id`, or begins one,
    /// and draws the number of this start. With `accept_data_loss`, an operator accepts
    /// the store as it is. Blocks.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub fn open(
        environment: MembershipEnvironment,
        layouts: Layouts,
        store_id: u64,
        accept_data_loss: bool,
    ) -> Result<Self, MembershipError> {
        let layout = layouts.load();
        let members = layout.members();
        let loaded = ClusterFile::load(&*environment.disk, &environment.folder)?;
        if let Some(loaded) = &loaded {
            check_unchanged(loaded, members)?;
        }
        let run = Run {
            boot_id: environment.boot_id,
            syncs_commits: environment.syncs_commits,
            is_closed: false,
        };
        if run.boot_id.is_none() && !run.syncs_commits && !members.is_single_node() {
            tracing::warn!(
                "cannot identify this boot of the machine: if this node crashes, a full repair \
                 must rebuild its store"
            );
        }
        let opening = opening(
            loaded.as_ref(),
            members,
            run,
            (
                store_id,
                environment.acknowledged.at_open,
                environment.now_unix_ms,
            ),
            accept_data_loss,
            &*environment.random,
        );
        log_replica_state(&opening.confirmation);
        let own = OwnStore {
            layouts,
            store_id,
            created_unix_ms: opening.created_unix_ms,
            run,
            default_pair: environment.default_pair,
            zone: environment.zone.clone(),
            restored_for: environment.restored_for,
        };
        let mut state = MembershipState::new(&own, opening, loaded.as_ref());
        let is_cluster_of_one = environment.is_cluster_of_one;
        state.renew_founding(&own, is_cluster_of_one, &*environment.random);
        let inner = MembershipInner {
            state: Mutex::new(state),
            environment,
            own,
            replica_state: AtomicU8::new(ReplicaState::Starting as u8),
            settled: Notify::new(),
            list_changed: Notify::new(),
            is_file_closed: Mutex::new(false),
        };
        {
            // This takes away the mark that the store was closed, before it takes a write.
            let mut state = lock(&inner.state);
            let file = state.next_file(&inner.own, false);
            file.store(&*inner.environment.disk, &inner.environment.folder)?;
            state.became_durable(0, &file);
            inner.publish(&state);
        }
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The layout in force.
    #[must_use]
    pub fn layout(&self) -> Arc<Layout> {
        self.inner.own.layout()
    }

    /// Takes note of a layout before it is in force: nothing is known of the nodes that have
    /// joined, and what is known of those that have left is forgotten.
    pub fn follow(&self, layout: &Layout) {
        let schedule = {
            let mut state = lock(&self.inner.state);
            state.follow(layout.members());
            self.inner.publish(&state);
            state.versions.schedule_write()
        };
        if schedule {
            self.inner.spawn_write(Duration::ZERO);
        }
    }

    /// The id of this node's store.
    #[must_use]
    pub fn store_id(&self) -> u64 {
        self.inner.own.store_id
    }

    /// When this node's store was created, in milliseconds since the Unix epoch; `None` if an
    /// earlier release created it.
    pub fn created_unix_ms(&self) -> Option<u64> {
        self.inner.own.created_unix_ms
    }

    /// Whether this node's store is a voter, so that its reads and acks count,
    /// for this node's own coordinator too. The store keeps what it is sent in
    /// any case.
    pub fn is_voter(&self) -> bool {
        self.replica_state().is_voter()
    }

    /// Whether this node has no peers.
    pub fn is_alone(&self) -> bool {
        self.layout().members().is_single_node()
    }

    /// How this node's store stands with its peers.
    pub fn replica_state(&self) -> ReplicaState {
        ReplicaState::from_code(self.inner.replica_state.load(Ordering::Acquire))
    }

    /// Whether a peer takes the store for an older state of a store that it
    /// remembers, or for a copy. Then this node must allocate no timestamps.
    #[cfg(test)]
    fn is_outdated(&self) -> bool {
        self.inner.environment.is_outdated.load(Ordering::Acquire)
    }

    /// Whether the peers have confirmed or rejected the store. While a peer is
    /// unavailable that can take arbitrarily long, so wait with a deadline.
    pub fn is_settled(&self) -> bool {
        self.replica_state() != ReplicaState::Starting
    }

    /// Waits until [`Membership::is_settled`].
    pub async fn settled(&self) {
        loop {
            let mut settled = pin!(self.inner.settled.notified());
            // Enabled before the check, so that no notification is missed.
            settled.as_mut().enable();
            if self.is_settled() {
                return;
            }
            settled.await;
        }
    }

    /// Whether a peer's hello comes from a new start while its previous start
    /// still has a live link; see
    /// [`HandshakePolicy::is_previous_start_live`](peer::HandshakePolicy::is_previous_start_live).
    pub fn is_previous_start_live(&self, peer: NodeId, hello: &Hello) -> bool {
        lock(&self.inner.state).is_previous_start_live(peer, hello)
    }

    /// Whether to tell a peer that an operator has accepted the store.
    pub fn is_forced_towards(&self, peer: NodeId) -> bool {
        lock(&self.inner.state).confirmation.is_unaware(peer)
    }

    /// The starts that the store includes; the present one is the last.
    pub fn starts(&self) -> Arc<[u64]> {
        Arc::clone(&lock(&self.inner.state).starts)
    }

    /// The writes that the store had acknowledged when it was opened, or rebuilt since.
    pub fn acknowledged(&self) -> u64 {
        lock(&self.inner.state).acknowledged
    }

    /// The id of a node's store, as of its last hello; [`None`] if none has come since this
    /// node was started.
    pub fn store_of(&self, node: NodeId) -> Option<u64> {
        if node == self.inner.own.id() {
            Some(self.inner.own.store_id)
        } else {
            lock(&self.inner.state).store_of(node)
        }
    }

    /// What this node durably remembers of a peer.
    pub fn durably_remembered(&self, peer: NodeId) -> Option<Remembered> {
        lock(&self.inner.state).durably_remembered(peer)
    }

    /// The starts that the remembered store of a peer includes.
    pub fn starts_of(&self, peer: NodeId) -> Arc<[u64]> {
        lock(&self.inner.state).starts_of(peer)
    }

    /// Records the hello of a peer that has proved itself. `sent` is what this
    /// node's own hello said that it remembers of the peer.
    ///
    /// The connection may carry calls once `on_durable` is called with `true`. If
    /// there is nothing new to remember, that happens before this method returns.
    /// The connection must end when its watch says that the peer has restarted.
    pub fn record_peer(
        &self,
        peer: NodeId,
        hello: &Hello,
        sent: Option<Remembered>,
        on_durable: impl FnOnce(bool) + Send + 'static,
    ) -> Option<StartWatch> {
        let inner = &self.inner;
        let mut on_durable: Option<OnDurable> = Some(Box::new(on_durable));
        let (is_durable, watch, schedule) = {
            let mut state = lock(&inner.state);
            let judgement = judge(hello.remembered, state.claim(&inner.own));
            let believed = if is_bygone(judge(sent, hello.claim()), judgement) {
                if state.disbelieve(peer, hello) {
                    tracing::warn!(
                        peer = inner.own.layout().members().name(peer),
                        "ignoring a peer's doubt about this node's store: the peer's own store is \
                         older than this node remembers"
                    );
                }
                Judgement::New
            } else {
                judgement
            };
            state.hear_memory(peer, hello);
            inner.change_confirmation(&mut state, peer, |confirmation, peers| {
                confirmation.hear(peer, believed, peers);
            });
            let is_durable = match state.record(&inner.own, peer, hello, (sent, judgement)) {
                None | Some(Recorded::HelloOutOfDate) => Some(false),
                Some(Recorded::InVersion(version)) if state.versions.is_durable(version) => {
                    Some(true)
                }
                Some(Recorded::InVersion(version)) => {
                    if let Some(on_durable) = on_durable.take() {
                        state.versions.wait_for(version, on_durable);
                    }
                    None
                }
            };
            // Under the same lock, so that no later start comes in between.
            let watch = state.watch(peer, hello);
            if watch.is_some() {
                state.hear_list(
                    &inner.own,
                    peer,
                    hello.list,
                    true,
                    &*inner.environment.random,
                );
            }
            inner.publish(&state);
            (is_durable, watch, state.versions.schedule_write())
        };
        if let (Some(is_durable), Some(on_durable)) = (is_durable, on_durable) {
            on_durable(is_durable);
        }
        if schedule {
            inner.spawn_write(Duration::ZERO);
        }
        watch
    }

    /// Notes that a peer durably remembers this start, because it serves calls.
    pub fn remembered_by(&self, peer: NodeId) {
        self.change_confirmation(peer, |confirmation, peers| {
            confirmation.remembered_by(peer, peers);
        });
    }

    /// Notes that a peer cannot be reached, so the store does not wait for what
    /// the peer remembers.
    pub fn unreachable(&self, peer: NodeId) {
        self.change_confirmation(peer, |confirmation, peers| {
            confirmation.consulted(peer, peers);
        });
    }

    /// Notes that this node has observed the timestamps that a peer has seen.
    pub fn observed(&self, peer: NodeId) {
        lock(&self.inner.state).observed(peer);
    }

    /// The writes that the store has durably acknowledged. What is not durable is not told:
    /// a peer that remembered it would speak against the store after a crash.
    pub fn durable_acknowledged(&self) -> u64 {
        let inner = &self.inner;
        let taken_over = lock(&inner.state).durable_taken_over;
        taken_over.saturating_add(inner.environment.acknowledged.durable())
    }

    /// Whether a peer is known to lack nothing.
    pub fn is_whole(&self, peer: NodeId) -> bool {
        lock(&self.inner.state).is_whole(peer)
    }

    /// Takes what a peer reports on a connection with this start.
    pub fn heard_report(&self, peer: NodeId, start: &StartWatch, report: StoreReport) {
        let inner = &self.inner;
        let (schedule_count, schedule) = {
            let mut state = lock(&inner.state);
            let random = &*inner.environment.random;
            // That of a store that has replaced a lost one counts, too: its process is the only one.
            if !start.is_superseded() {
                state.hear_list(&inner.own, peer, report.list, false, random);
            }
            let schedule_count = state.hear_report(peer, start, report);
            (schedule_count, state.versions.schedule_write())
        };
        if schedule_count {
            inner.spawn_count_write();
        }
        if schedule {
            inner.spawn_write(Duration::ZERO);
        }
    }

    /// Why the last full session has not rebuilt this node's store, if one has ended and the store is
    /// still a learner.
    pub fn learner_because(&self) -> Option<String> {
        let state = lock(&self.inner.state);
        let is_learner = state.confirmation.replica_state() == ReplicaState::Learner;
        let why = state.not_rebuilt.as_ref().filter(|_| is_learner);
        why.map(|why| why.text(&self.inner.own))
    }

    /// The present incarnation of this node's store. What a session has found holds only
    /// for the incarnation with which it began.
    pub fn incarnation(&self) -> Incarnation {
        lock(&self.inner.state).incarnation(&self.inner.own)
    }

    /// Notes that this node begins to take part in a full session, or goes on with one.
    pub fn session_began(&self, token: Token) {
        lock(&self.inner.state).session_began(&self.inner.own, token);
    }

    /// Notes that a full session has ended, which has brought this node's store all that the present
    /// stores of the nodes in `has_all_of` have. If those are all peers, and the store has lost
    /// nothing since the session began, a learner counts from now on, once that is durable.
    /// `single_copies`, by node ID, are the versions of which a store is to keep the
    /// only copy.
    pub fn session_ended(&self, token: Token, has_all_of: &[NodeId], single_copies: &[u64]) {
        let durable = self.inner.environment.acknowledged.durable();
        let schedule = {
            let mut state = lock(&self.inner.state);
            let shown = (has_all_of, single_copies);
            state.session_ended(&self.inner.own, token, shown, durable);
            self.inner.publish(&state);
            state.versions.schedule_write()
        };
        if schedule {
            self.inner.spawn_write(Duration::ZERO);
        }
    }

    /// The store is behind a GC threshold: it lacks what came since, and may hold what was deleted.
    /// It is a learner once this returns, durably. Gives the number of the loss. Blocks.
    ///
    /// # Errors
    /// Those of writing the file.
    pub fn fall_behind(&self) -> Result<u64, lsm::Error> {
        let loss = {
            let mut state = lock(&self.inner.state);
            state.fall_behind(&self.inner.own, &*self.inner.environment.random);
            self.inner.publish(&state);
            state.last_loss
        };
        self.inner.write()?;
        Ok(loss)
    }

    /// What may be lost, if stores were learners since this node was started.
    pub fn loss_report(&self) -> Option<LossReport> {
        lock(&self.inner.state).possible_loss.report.clone()
    }

    fn change_confirmation(&self, peer: NodeId, change: impl FnOnce(&mut Confirmation, &[NodeId])) {
        let schedule = {
            let mut state = lock(&self.inner.state);
            self.inner.change_confirmation(&mut state, peer, change);
            state.versions.schedule_write()
        };
        if schedule {
            self.inner.spawn_write(Duration::ZERO);
        }
    }

    /// Ends the writing of changes. Blocks while a write is running. Returns whether it
    /// had not ended before.
    pub fn close(&self) -> bool {
        self.inner.close_file()
    }

    /// Marks durably that the store is closed, so that all of it is durable. Blocks.
    ///
    /// # Errors
    /// As `ClusterFile::store`.
    pub fn mark_closed(&self) -> Result<(), lsm::Error> {
        self.inner.write_closed()
    }
}

impl MembershipInner {
    fn change_confirmation(
        &self,
        state: &mut MembershipState,
        peer: NodeId,
        change: impl FnOnce(&mut Confirmation, &[NodeId]),
    ) {
        let random = &*self.environment.random;
        if state.change_confirmation(&self.own, peer, random, change) {
            self.publish(state);
        }
    }

    /// Publishes how the store stands to those who ask without the lock.
    fn publish(&self, state: &MembershipState) {
        let replica_state = state.replica_state();
        let is_outdated = state.confirmation.is_outdated();
        let flag = &self.environment.is_outdated;
        flag.store(is_outdated, Ordering::Release);
        let are_all_whole = state.are_all_whole();
        let flag = &self.environment.are_all_whole;
        flag.store(are_all_whole, Ordering::Release);
        let before = self
            .replica_state
            .swap(replica_state as u8, Ordering::AcqRel);
        if replica_state == ReplicaState::Voter && before == ReplicaState::Starting as u8 {
            tracing::info!("the store is a voter: its reads and acks count");
        }
        if replica_state != ReplicaState::Starting {
            self.settled.notify_waiters();
        }
    }
}
