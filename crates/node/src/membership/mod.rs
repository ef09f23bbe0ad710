//! Which node of which cluster this is, and who its peers are.
//!
//! The data folder remembers it in the file `CLUSTER` ([`mod@file`]): the node's
//! own name and the list of all names, which place its keys, so that a folder
//! is not started as another node's by mistake; the starts of its store, and
//! how that stands with the peers ([`standing`]); the last start of each peer
//! that it has met.
//!
//! # What is durable before what
//!
//! - What the node is started as, its new start number, and that an operator
//!   has accepted the store: before a peer is told.
//! - The start of a peer: before the first call that goes over a connection
//!   with it; [`Membership::met`] says when. So of any two stores whose acks
//!   count for one write, each was known to the other's node, and a crash of
//!   all nodes together does not make a lost disk look like a first start.
//! - That the store has become a witness: before its reads and acks count.
//!   Otherwise a crash would have it wait for all peers once more.
//! - That it is unfilled: afterwards. What a crash forgets, peers tell again.
//!
//! # One judgement on both sides
//!
//! A node judges itself by what the other has told it, and the other by what it
//! remembers when hands are shaken. The second may have changed since it was
//! told; where that changes the judgement the connection is not used, and the
//! next hello tells what is so.
//!
//! What is remembered of a peer goes on to a later start only where that is a
//! start of the same store, or an accepted one. Otherwise a store that was
//! rolled back would be known as sound once it is started a second time.
//!
//! The file is written by a job of [`Lane::Owner`]; all else takes a lock for
//! moments, and whether the store is a witness is one atomic load.

mod file;

#[cfg(test)]
mod tests;

use base::Random;
use cluster::{Confirmation, Members, NodeNumber, Remembered, STARTS_MAX, Standing, judge};
use file::{ClusterFile, StoredNode};
use lsm::{Disk, Error, Executor, Lane};
use peer::{PeerStart, StartWatch};
use profile::lock;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// After how long a file that could not be written is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Told once, from any thread, whether what a peer said of itself is durable.
/// If not, the connection must not be used.
pub(crate) type Noted = Box<dyn FnOnce(bool) + Send>;

/// Why a node does not start as what it was told to be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MembershipError {
    /// The folder is another node's.
    #[error(
        "the data folder is that of node {was}, and this node is {is}; start it as {was}, or \
         give it another --data"
    )]
    OtherNode {
        /// The name in the folder.
        was: String,
        /// The name that was given.
        is: String,
    },
    /// The folder is one of a cluster of other nodes.
    #[error(
        "the data folder is of a cluster of {was}, and the list is now {is}; nodes cannot join \
         or leave yet, so start it with the list that it had, or with an empty --data folder \
         (a node may change its URL, but not its name)"
    )]
    OtherNodes {
        /// The names in the folder.
        was: String,
        /// The names that were given.
        is: String,
    },
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] Error),
}

/// What membership works with.
pub(crate) struct MembershipEnvironment {
    /// The data folder, which exists and is locked.
    pub(crate) folder: PathBuf,
    /// The disk.
    pub(crate) disk: Arc<dyn Disk>,
    /// Draws the number of this start.
    pub(crate) random: Arc<dyn Random>,
    /// Runs the jobs.
    pub(crate) executor: Arc<dyn Executor>,
}

/// What two nodes say in their hellos, as far as it concerns their stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Introduced {
    /// The id of the peer's store.
    pub(crate) store_id: u64,
    /// The last starts of that store, the present one at the end.
    pub(crate) starts: Arc<[u64]>,
    /// Whether an operator has accepted that store as it is.
    pub(crate) is_accepted: bool,
    /// What the peer remembers of this node.
    pub(crate) remembered: Option<Remembered>,
    /// What it was told that this node remembers of it.
    pub(crate) told: Option<Remembered>,
}

/// The node's place in its cluster. Cheap to clone; the clones are one.
#[derive(Clone)]
pub(crate) struct Membership {
    shared: Arc<Shared>,
}

struct Shared {
    environment: MembershipEnvironment,
    members: Members,
    store_id: u64,
    /// The store's starts, this one at the end.
    starts: Arc<[u64]>,
    /// The code of the standing, for those who ask on the way of a request.
    standing: AtomicU8,
    /// Told when the peers have said what there is to say.
    settled: Notify,
    /// Whether a peer takes the store for an older state of one, or a copy.
    is_outdated: AtomicBool,
    state: Mutex<State>,
    /// Held while the file is written; true once it must not be any more.
    file: Mutex<bool>,
}

struct State {
    confirmation: Confirmation,
    /// What the file says of it.
    written_standing: Standing,
    /// By number; nothing of this node itself.
    peers: Vec<Peer>,
    /// Counts the changes of what the file holds.
    version: u64,
    /// The last version that is durable: all before it are too.
    written: u64,
    is_write_scheduled: bool,
    /// Those who wait for a version to become durable.
    waiting: Vec<(u64, Noted)>,
}

/// What is remembered of a peer.
#[derive(Clone, Default)]
struct Peer {
    /// As of its last handshake.
    remembered: Option<Remembered>,
    /// The start that is remembered, for those who are connected with it.
    start: Arc<PeerStart>,
    /// The version since which it is.
    since: u64,
    /// As of the file: what it may be told.
    durable: Option<Remembered>,
    /// The start that a complaint was logged of.
    complained_of: Option<u64>,
}

impl Membership {
    /// Opens the record in a data folder whose store has `store_id`, or begins
    /// one, and draws the number of this start. `accept_empty`: an operator
    /// accepts the store as it is. Blocks.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub(crate) fn open(
        environment: MembershipEnvironment,
        members: Members,
        store_id: u64,
        accept_empty: bool,
    ) -> Result<Self, MembershipError> {
        let loaded = ClusterFile::load(&*environment.disk, &environment.folder)?;
        if let Some(loaded) = &loaded {
            check_unchanged(loaded, &members)?;
        }
        let mut confirmation = initial_confirmation(loaded.as_ref(), &members, store_id);
        if accept_empty && !members.is_alone() {
            tracing::warn!("the store is accepted as it is; what it may lack is not looked for");
            confirmation = Confirmation::accepted(members.peers().collect());
        }
        match confirmation.standing() {
            Standing::Witness | Standing::Accepted => {}
            Standing::Unconfirmed => {
                tracing::info!("the store counts once its peers have said what they know of it");
            }
            Standing::Unfilled => tracing::error!(
                "the store lost data that it had acknowledged: its reads and acks do not count \
                 until --accept-empty"
            ),
        }
        let starts = starts_with_another(loaded.as_ref(), store_id, &*environment.random);
        let peer = |name: &str| {
            let is_own = name == members.own_name();
            let loaded = loaded.as_ref().filter(|_| !is_own);
            let remembered = loaded.and_then(|loaded| loaded.nodes.get(name)?.remembered);
            Peer {
                remembered,
                durable: remembered,
                ..Peer::default()
            }
        };
        let peers: Vec<Peer> = members.names().map(peer).collect();
        let shared = Shared {
            is_outdated: AtomicBool::new(false),
            standing: AtomicU8::new(Standing::Unconfirmed as u8),
            settled: Notify::new(),
            state: Mutex::new(State {
                written_standing: confirmation.stored(),
                confirmation,
                peers,
                version: 0,
                written: 0,
                is_write_scheduled: false,
                waiting: Vec::new(),
            }),
            environment,
            members,
            store_id,
            starts: starts.into(),
            file: Mutex::new(false),
        };
        {
            let state = lock(&shared.state);
            let file = shared.to_file(&state);
            file.store(&*shared.environment.disk, &shared.environment.folder)?;
            shared.publish(&state);
        }
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Whether this node's store is a witness: whether its reads and its acks
    /// count, for its own coordinator too. What it is sent it keeps in any case.
    pub(crate) fn is_witness(&self) -> bool {
        self.standing().is_witness()
    }

    /// How this node's store stands with its peers.
    pub(crate) fn standing(&self) -> Standing {
        Standing::of_code(self.shared.standing.load(Ordering::Acquire))
    }

    /// Whether a peer takes the store for an older state of one that it knows,
    /// or for a copy: then it must give no stamp.
    pub(crate) fn is_outdated(&self) -> bool {
        self.shared.is_outdated.load(Ordering::Acquire)
    }

    /// Whether the peers have said what there is to say: who waits for that
    /// may wait in vain, since a peer may be away.
    pub(crate) fn is_settled(&self) -> bool {
        self.standing() != Standing::Unconfirmed
    }

    /// Waits until [`Membership::is_settled`].
    pub(crate) async fn settled(&self) {
        loop {
            let mut settled = pin!(self.shared.settled.notified());
            // From here on it hears of it, so nothing slips between.
            settled.as_mut().enable();
            if self.is_settled() {
                return;
            }
            settled.await;
        }
    }

    /// The last starts of the store, the present one at the end.
    pub(crate) fn starts(&self) -> Arc<[u64]> {
        Arc::clone(&self.shared.starts)
    }

    /// Whether to tell a peer that an operator has accepted the store.
    pub(crate) fn is_accepted_towards(&self, peer: NodeNumber) -> bool {
        lock(&self.shared.state).confirmation.is_unaware(peer)
    }

    /// What this node durably remembers of a peer, to tell it.
    pub(crate) fn remembered(&self, peer: NodeNumber) -> Option<Remembered> {
        let state = lock(&self.shared.state);
        state.peers.get(peer.index())?.durable
    }

    /// Whether a start of a peer would take the place of one that is still
    /// heard from. Then it must wait: a restart has ended the one before, or
    /// that falls silent; a copy of a running node's folder has not.
    pub(crate) fn is_early(
        &self,
        peer: NodeNumber,
        store_id: u64,
        starts: &[u64],
        is_accepted: bool,
    ) -> bool {
        let state = lock(&self.shared.state);
        let (Some(known), Some(&start)) = (state.peers.get(peer.index()), starts.last()) else {
            return false;
        };
        let replaces = !judge(known.remembered, store_id, starts).is_against() || is_accepted;
        replaces
            && known.remembered != Some(Remembered { store_id, start })
            && known.start.has_live_link()
    }

    /// Takes note of a peer that has proved who it is. The connection may carry
    /// calls once `noted` is told so: at once, from within this call, unless
    /// there is something new to remember. It may until another start of the
    /// peer is known, which the watch tells.
    pub(crate) fn met(
        &self,
        peer: NodeNumber,
        introduced: &Introduced,
        noted: impl FnOnce(bool) + Send + 'static,
    ) -> Option<StartWatch> {
        let shared = &self.shared;
        let mut noted: Option<Noted> = Some(Box::new(noted));
        let (told, watch, schedule) = {
            let mut state = lock(&shared.state);
            let own = judge(introduced.remembered, shared.store_id, &shared.starts);
            shared.change(&mut state, peer, |confirmation, peers| {
                confirmation.hear(peer, own, peers);
            });
            let told = match shared.remember(&mut state, peer, introduced) {
                None => Some(false),
                Some(since) if since <= state.written => Some(true),
                Some(since) => {
                    state
                        .waiting
                        .extend(noted.take().map(|noted| (since, noted)));
                    None
                }
            };
            // Under the lock: another start that comes right after is another.
            let start = introduced.starts.last();
            let store_id = introduced.store_id;
            let of_it = start.map(|&start| Remembered { store_id, start });
            let watch = state.peers.get(peer.index()).map(|known| {
                let start = Arc::clone(&known.start);
                match known.remembered == of_it {
                    true => StartWatch::new(start),
                    false => StartWatch::in_place_of(start),
                }
            });
            (told, watch, state.schedules_write())
        };
        if let (Some(may_be_used), Some(noted)) = (told, noted) {
            noted(may_be_used);
        }
        if schedule {
            shared.spawn_write(Duration::ZERO);
        }
        watch
    }

    /// A peer durably remembers this start: it serves calls.
    pub(crate) fn remembered_by(&self, peer: NodeNumber) {
        self.change(peer, |confirmation, peers| {
            confirmation.remembered(peer, peers);
        });
    }

    /// A peer cannot be reached, so its word is not waited for.
    pub(crate) fn unreachable(&self, peer: NodeNumber) {
        self.change(peer, |confirmation, peers| confirmation.asked(peer, peers));
    }

    fn change(&self, peer: NodeNumber, change: impl FnOnce(&mut Confirmation, usize)) {
        let schedule = {
            let mut state = lock(&self.shared.state);
            self.shared.change(&mut state, peer, change);
            state.schedules_write()
        };
        if schedule {
            self.shared.spawn_write(Duration::ZERO);
        }
    }

    /// Ends all writing to the folder. Blocks while a write is on its way.
    pub(crate) fn close(&self) {
        *lock(&self.shared.file) = true;
    }
}

impl State {
    /// How the store stands: that it is a witness counts once it is durable.
    fn standing(&self) -> Standing {
        match self.confirmation.standing() {
            standing if standing.is_witness() && !self.written_standing.is_witness() => {
                Standing::Unconfirmed
            }
            standing => standing,
        }
    }

    /// Whether a write is wanted that nobody has asked for yet.
    fn schedules_write(&mut self) -> bool {
        self.written < self.version && !std::mem::replace(&mut self.is_write_scheduled, true)
    }
}

impl Shared {
    /// Changes how the store stands, after a word of a peer.
    fn change(
        &self,
        state: &mut State,
        peer: NodeNumber,
        change: impl FnOnce(&mut Confirmation, usize),
    ) {
        let before = state.confirmation.clone();
        change(
            &mut state.confirmation,
            usize::from(self.members.count()) - 1,
        );
        if state.confirmation == before {
            return;
        }
        let of_file = |of: &Confirmation| (of.stored(), of.unaware().cloned(), of.is_outdated());
        if of_file(&state.confirmation) != of_file(&before) {
            state.version += 1;
        }
        let peer = self.members.name(peer);
        match state.confirmation {
            Confirmation::Unfilled { is_outdated: true } => tracing::error!(
                peer,
                "a peer remembers a later start of this node's store: the folder was restored \
                 from a copy, or a copy of it was started. Its reads and acks do not count, it \
                 stamps no writes and that peer does not serve it. If another process has the \
                 other folder, stop this one; if there is none, start it with --accept-empty"
            ),
            Confirmation::Unfilled { is_outdated: false } => tracing::error!(
                peer,
                "a peer remembers another store of this node: the folder was lost; its reads and \
                 acks do not count until --accept-empty"
            ),
            _ => {}
        }
        self.publish(state);
    }

    /// Tells everybody how the store stands.
    fn publish(&self, state: &State) {
        let standing = state.standing();
        self.is_outdated
            .store(state.confirmation.is_outdated(), Ordering::Release);
        let before = self.standing.swap(standing as u8, Ordering::AcqRel);
        if standing == Standing::Witness && before == Standing::Unconfirmed as u8 {
            tracing::info!("the store is a witness: its reads and acks count");
        }
        if standing != Standing::Unconfirmed {
            self.settled.notify_waiters();
        }
    }

    /// Remembers a peer's start. Gives the version since which that is so, or
    /// nothing where the peer was told something else than what is so by now.
    fn remember(
        &self,
        state: &mut State,
        peer: NodeNumber,
        introduced: &Introduced,
    ) -> Option<u64> {
        let Introduced {
            store_id,
            ref starts,
            is_accepted,
            told,
            ..
        } = *introduced;
        let version = state.version + 1;
        let known = state.peers.get_mut(peer.index())?;
        let start = *starts.last()?;
        let judgement = judge(known.remembered, store_id, starts);
        if judgement.is_against() && !is_accepted {
            if judge(told, store_id, starts) != judgement {
                return None;
            }
            if known.complained_of.replace(start) != Some(start) {
                tracing::warn!(
                    peer = self.members.name(peer),
                    "a peer came with another store than it had, or an older state of it, or a \
                     copy: its reads and acks do not count until it is started with --accept-empty"
                );
            }
            return Some(known.since);
        }
        let remembered = Some(Remembered { store_id, start });
        if known.remembered == remembered {
            return Some(known.since);
        }
        known.remembered = remembered;
        known.since = version;
        std::mem::take(&mut known.start).end();
        state.version = version;
        Some(version)
    }

    fn to_file(&self, state: &State) -> ClusterFile {
        let node = |number: NodeNumber| StoredNode {
            remembered: state.peers.get(number.index()).and_then(|p| p.remembered),
            is_unaware: state.confirmation.is_unaware(number),
        };
        let names = self.members.names().map(str::to_owned);
        ClusterFile {
            own_name: self.members.own_name().to_owned(),
            store_id: self.store_id,
            standing: state.confirmation.stored(),
            is_outdated: state.confirmation.is_outdated(),
            starts: self.starts.to_vec(),
            nodes: names.zip(self.members.numbers().map(node)).collect(),
        }
    }

    fn spawn_write(self: &Arc<Self>, delay: Duration) {
        let shared = Arc::downgrade(self);
        let job = Box::new(move || {
            if let Some(shared) = shared.upgrade() {
                shared.write();
            }
        });
        self.environment.executor.spawn(Lane::Owner, delay, job);
    }

    /// The write job: makes all changes durable, and tells those who wait.
    fn write(self: &Arc<Self>) {
        let is_closed = lock(&self.file);
        let (file, version) = {
            let mut state = lock(&self.state);
            state.is_write_scheduled = false;
            (self.to_file(&state), state.version)
        };
        let result = if *is_closed {
            Err(Error::Closed)
        } else {
            file.store(&*self.environment.disk, &self.environment.folder)
        };
        let retry = !*is_closed && result.is_err();
        drop(is_closed);
        if let Err(error) = &result {
            tracing::error!(%error, "cannot write what peers told; new starts of theirs wait");
        }
        let (told, schedule) = {
            let mut state = lock(&self.state);
            if result.is_ok() {
                state.written = version;
                state.written_standing = file.standing;
                for peer in &mut state.peers {
                    if peer.since <= version {
                        peer.durable = peer.remembered;
                    }
                }
                self.publish(&state);
            }
            let (told, waiting) = std::mem::take(&mut state.waiting)
                .into_iter()
                .partition(|(wanted, _)| *wanted <= version);
            state.waiting = waiting;
            let schedule = retry && !std::mem::replace(&mut state.is_write_scheduled, true);
            (told, schedule)
        };
        if schedule {
            self.spawn_write(RETRY_DELAY);
        }
        let told: Vec<(u64, Noted)> = told;
        for (_, noted) in told {
            noted(result.is_ok());
        }
    }
}

/// How the store stands as far as the folder tells.
fn initial_confirmation(
    loaded: Option<&ClusterFile>,
    members: &Members,
    store_id: u64,
) -> Confirmation {
    let nodes = members.count();
    let Some(loaded) = loaded.filter(|_| !members.is_alone()) else {
        return Confirmation::new(nodes);
    };
    if loaded.store_id != store_id {
        return Confirmation::Unfilled { is_outdated: false };
    }
    let is_unaware = |peer: &NodeNumber| {
        let node = loaded.nodes.get(members.name(*peer));
        node.is_some_and(|node| node.is_unaware)
    };
    match loaded.standing {
        Standing::Unconfirmed => Confirmation::new(nodes),
        Standing::Witness => Confirmation::returning(nodes),
        Standing::Accepted => Confirmation::accepted(members.peers().filter(is_unaware).collect()),
        Standing::Unfilled => Confirmation::Unfilled {
            is_outdated: loaded.is_outdated,
        },
    }
}

/// The starts of the store with this one, which gets a number that none has.
fn starts_with_another(
    loaded: Option<&ClusterFile>,
    store_id: u64,
    random: &dyn Random,
) -> Vec<u64> {
    let loaded = loaded.filter(|loaded| loaded.store_id == store_id);
    let mut starts = loaded.map_or_else(Vec::new, |loaded| loaded.starts.clone());
    let mut start = random.next_u64();
    while starts.contains(&start) {
        start = start.wrapping_add(1);
    }
    starts.push(start);
    starts.drain(..starts.len().saturating_sub(STARTS_MAX));
    starts
}

/// Whether the folder is this node's, in this cluster. A node that was alone
/// and still is may change its name: it places no key.
fn check_unchanged(loaded: &ClusterFile, members: &Members) -> Result<(), MembershipError> {
    if members.is_alone() && loaded.nodes.len() == 1 {
        return Ok(());
    }
    if !loaded.nodes.keys().map(String::as_str).eq(members.names()) {
        let was: Vec<&str> = loaded.nodes.keys().map(String::as_str).collect();
        let is: Vec<&str> = members.names().collect();
        return Err(MembershipError::OtherNodes {
            was: was.join(", "),
            is: is.join(", "),
        });
    }
    if loaded.own_name != members.own_name() {
        return Err(MembershipError::OtherNode {
            was: loaded.own_name.clone(),
            is: members.own_name().to_owned(),
        });
    }
    Ok(())
}
