//! Which node of which cluster this is, and who its peers are.
//!
//! The data folder remembers it in the file `CLUSTER` ([`mod@file`]): the node's
//! own name and the list of all names, which place its keys, so that a folder
//! is not started as another node's by mistake; the store id of each peer; and
//! how this node's own store stands with them ([`standing`]).
//!
//! # What is durable before what
//!
//! - What the node is started as, before anything else: a start that is not
//!   refused has written it.
//! - That an operator has accepted an empty store, before a peer is told.
//! - The store id of a peer, before the first call that goes over a connection
//!   with it: [`Membership::met`] says when. So of any quorum at least one
//!   other node durably remembers each of the stores in it, and a crash of all
//!   nodes together does not make a lost disk look like a cluster's first start.
//! - That this node's own store is confirmed or replaced, after it counts: what
//!   a crash forgets, peers tell again. It only spares the next start the wait.
//!
//! The file is written by a job of [`Lane::Owner`]; all else takes a lock for
//! moments, and whether reads are served is one atomic load.

mod file;
mod standing;

#[cfg(test)]
mod tests;

pub(crate) use standing::Standing;

use crate::executor::lock;
use cluster::{Members, NodeNumber};
use file::{ClusterFile, StoredStanding};
use lsm::{Disk, Error, Executor, Lane};
use standing::{Remembered, to_remember};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// After how long a file that could not be written is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Told once, from any thread, whether what a peer said of itself is durable.
/// If not, the connection must not be used.
pub(crate) type Noted = Box<dyn FnOnce(bool) + Send>;

/// What an operator accepts with a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Acceptance {
    /// That the folder was another node's, or of a cluster of other nodes.
    pub(crate) cluster_change: bool,
    /// That the store began empty in the place of one that was lost.
    pub(crate) empty_store: bool,
}

/// Why a node does not start as what it was told to be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MembershipError {
    /// The folder is another node's.
    #[error(
        "the data folder is that of node {was}, and this node is {is}; to go on with it \
         all the same, start with --accept-cluster-change"
    )]
    OtherNode {
        /// The name in the folder.
        was: String,
        /// The name that was given.
        is: String,
    },
    /// The folder is one of a cluster of other nodes.
    #[error(
        "the data folder is of a cluster with other nodes: it had {was}, and the list is now \
         {is}; keys lie elsewhere then, so if that is meant, start with --accept-cluster-change"
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
    /// Runs the jobs.
    pub(crate) executor: Arc<dyn Executor>,
}

/// What a peer says in its introduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Introduced {
    /// The id of its store.
    pub(crate) store_id: u64,
    /// Whether an operator has accepted that this store began empty.
    pub(crate) is_accepted: bool,
    /// The id that it remembers of this node's store.
    pub(crate) remembered: Option<u64>,
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
    is_witness: AtomicBool,
    state: Mutex<State>,
    /// Held while the file is written; true once it must not be any more.
    file: Mutex<bool>,
}

struct State {
    standing: Standing,
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
#[derive(Clone, Copy)]
struct Peer {
    store_id: Option<u64>,
    /// The version since which it is.
    since: u64,
}

impl Membership {
    /// Opens the record in a data folder whose store has `store_id`, or begins
    /// one. Blocks.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub(crate) fn open(
        environment: MembershipEnvironment,
        members: Members,
        store_id: u64,
        accepted: Acceptance,
    ) -> Result<Self, MembershipError> {
        let loaded = ClusterFile::load(&*environment.disk, &environment.folder)?;
        if let Some(loaded) = &loaded
            && !accepted.cluster_change
        {
            check_unchanged(loaded, &members)?;
        }
        let mut standing = initial_standing(loaded.as_ref(), &members, store_id);
        if accepted.empty_store {
            let before = standing.clone();
            standing.accept();
            if standing != before {
                tracing::warn!(
                    "the store is accepted as it is; what it may lack is not looked for"
                );
            }
        }
        match standing {
            Standing::Confirmed | Standing::Accepted { .. } => {}
            Standing::Unconfirmed { .. } => {
                tracing::info!("the store serves reads once a majority of the nodes has been met");
            }
            Standing::Replaced => tracing::error!(
                "the store began empty in the place of another: its reads do not count until \
                 --accept-empty"
            ),
        }
        let remembered_of = |name: &str| {
            let is_own = name == members.own_name();
            let loaded = loaded.as_ref().filter(|_| !is_own)?;
            loaded.nodes.get(name).copied().flatten()
        };
        let peer = |name: &str| Peer {
            store_id: remembered_of(name),
            since: 0,
        };
        let state = State {
            peers: members.names().map(peer).collect(),
            standing,
            version: 0,
            written: 0,
            is_write_scheduled: false,
            waiting: Vec::new(),
        };
        let shared = Shared {
            environment,
            members,
            store_id,
            is_witness: AtomicBool::new(state.standing.is_witness()),
            state: Mutex::new(state),
            file: Mutex::new(false),
        };
        let file = shared.to_file(&lock(&shared.state));
        if loaded.as_ref() != Some(&file) {
            file.store(&*shared.environment.disk, &shared.environment.folder)?;
        }
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Whether this node's store is a witness: whether its reads and its acks
    /// count, for its own coordinator too. What it is sent it keeps in any case.
    pub(crate) fn is_witness(&self) -> bool {
        self.shared.is_witness.load(Ordering::Relaxed)
    }

    /// How this node's store stands with its peers.
    pub(crate) fn standing(&self) -> Standing {
        lock(&self.shared.state).standing.clone()
    }

    /// Whether to tell peers that an operator has accepted that the store began empty.
    pub(crate) fn is_accepted(&self) -> bool {
        matches!(lock(&self.shared.state).standing, Standing::Accepted { .. })
    }

    /// The store id that this node remembers of a peer, to tell it.
    pub(crate) fn remembered(&self, peer: NodeNumber) -> Option<u64> {
        let state = lock(&self.shared.state);
        state.peers.get(peer.index())?.store_id
    }

    /// Takes note of a peer that has proved who it is. The connection may carry
    /// calls once `noted` is told so: at once, from within this call, unless
    /// the peer is new.
    pub(crate) fn met(&self, peer: NodeNumber, introduced: Introduced, noted: Noted) {
        let shared = &self.shared;
        let (known, schedule) = {
            let mut state = lock(&shared.state);
            shared.update_standing(&mut state, peer, introduced.remembered);
            let since = shared.update_remembered(&mut state, peer, introduced);
            let known = if since <= state.written {
                Some(noted)
            } else {
                state.waiting.push((since, noted));
                None
            };
            let wants_write = state.written < state.version;
            let schedule = wants_write && !std::mem::replace(&mut state.is_write_scheduled, true);
            (known, schedule)
        };
        if let Some(noted) = known {
            noted(true);
        }
        if schedule {
            shared.spawn_write(Duration::ZERO);
        }
    }

    /// Ends all writing to the folder. Blocks while a write is on its way.
    pub(crate) fn close(&self) {
        *lock(&self.shared.file) = true;
    }
}

impl Shared {
    /// Hears what a peer remembers of this node.
    fn update_standing(&self, state: &mut State, peer: NodeNumber, remembered: Option<u64>) {
        let nodes = self.members.count();
        let before = state.standing.at_next_start(nodes);
        let served_before = state.standing.is_witness();
        let remembered = Remembered::of(remembered, self.store_id);
        state.standing.meet(peer, remembered, nodes);
        let serves = state.standing.is_witness();
        self.is_witness.store(serves, Ordering::Relaxed);
        let peer = self.members.name(peer);
        let replaced = state.standing == Standing::Replaced;
        match (served_before, serves) {
            (false, true) => tracing::info!("peers know this node's store: its reads count"),
            (true, false) => tracing::error!(
                peer,
                "a peer remembers another store of this node: what was written to that is not \
                 here, so reads of this one do not count until --accept-empty"
            ),
            (false, false) if replaced && before != Standing::Replaced => tracing::error!(
                peer,
                "a peer remembers another store of this node, whose folder was lost or changed: \
                 reads of this one do not count until --accept-empty"
            ),
            _ => {}
        }
        if StoredStanding::from(&state.standing.at_next_start(nodes))
            != StoredStanding::from(&before)
        {
            state.version += 1;
        }
    }

    /// Remembers a peer's store; gives the version since which it is remembered.
    fn update_remembered(
        &self,
        state: &mut State,
        peer: NodeNumber,
        introduced: Introduced,
    ) -> u64 {
        let Introduced {
            store_id,
            is_accepted,
            ..
        } = introduced;
        let before = state.peers[peer.index()];
        let to_remember = to_remember(before.store_id, store_id, is_accepted);
        if to_remember != store_id {
            tracing::warn!(
                peer = self.members.name(peer),
                "a peer came with another store than it had: its reads will fail until it is \
                 started with --accept-empty"
            );
        }
        if before.store_id == Some(to_remember) {
            return before.since;
        }
        state.version += 1;
        state.peers[peer.index()] = Peer {
            store_id: Some(to_remember),
            since: state.version,
        };
        state.version
    }

    fn to_file(&self, state: &State) -> ClusterFile {
        let names = self.members.names().map(str::to_owned);
        ClusterFile {
            own_name: self.members.own_name().to_owned(),
            store_id: self.store_id,
            standing: (&state.standing.at_next_start(self.members.count())).into(),
            nodes: names
                .zip(state.peers.iter().map(|peer| peer.store_id))
                .collect(),
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
            tracing::error!(%error, "cannot write what peers told; new ones are not talked to");
        }
        let (told, schedule) = {
            let mut state = lock(&self.state);
            if result.is_ok() {
                state.written = version;
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

impl Standing {
    /// One word for it, for logs and the status page.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Unconfirmed { .. } => "unconfirmed",
            Self::Confirmed => "confirmed",
            Self::Accepted { .. } => "accepted",
            Self::Replaced => "replaced",
        }
    }
}

impl From<&Standing> for StoredStanding {
    fn from(standing: &Standing) -> Self {
        match standing {
            Standing::Unconfirmed { .. } => Self::Unconfirmed,
            Standing::Confirmed => Self::Confirmed,
            Standing::Accepted { .. } => Self::Accepted,
            Standing::Replaced => Self::Replaced,
        }
    }
}

/// How the store stands as far as the folder tells.
fn initial_standing(loaded: Option<&ClusterFile>, members: &Members, store_id: u64) -> Standing {
    let unknown = Standing::new(members.count());
    let Some(loaded) = loaded else {
        return unknown;
    };
    if members.is_alone() || loaded.own_name != members.own_name() {
        return unknown;
    }
    if loaded.store_id != store_id {
        return Standing::Replaced;
    }
    match loaded.standing {
        StoredStanding::Unconfirmed => unknown,
        StoredStanding::Confirmed => Standing::Confirmed,
        StoredStanding::Accepted => Standing::Accepted {
            known_by: BTreeSet::new(),
        },
        StoredStanding::Replaced => Standing::Replaced,
    }
}

/// Whether the folder is this node's, in this cluster. A node that was alone
/// and still is may change its name: it places no key.
fn check_unchanged(loaded: &ClusterFile, members: &Members) -> Result<(), MembershipError> {
    if members.is_alone() && loaded.nodes.len() == 1 {
        return Ok(());
    }
    if loaded.own_name != members.own_name() {
        return Err(MembershipError::OtherNode {
            was: loaded.own_name.clone(),
            is: members.own_name().to_owned(),
        });
    }
    if !loaded.nodes.keys().map(String::as_str).eq(members.names()) {
        let was: Vec<&str> = loaded.nodes.keys().map(String::as_str).collect();
        let is: Vec<&str> = members.names().collect();
        return Err(MembershipError::OtherNodes {
            was: was.join(", "),
            is: is.join(", "),
        });
    }
    Ok(())
}
