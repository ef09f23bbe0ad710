//! Nodes that meet, restart, lose their folders and come back.

mod cluster_file;
mod concurrent_starts;
mod counters;
mod durability;
mod lists;
mod losses;
mod power_cuts;
mod rebuild;
mod replaced_stores;
mod restored_copies;
mod startup;
mod voter;

use super::*;
use base::{ManualClock, SeededRandom, Timestamp};
use cluster::{Member, Members, NodeUrl};
use lsm_testing::{FaultyDisk, MemoryDisk, StepExecutor};
use peer::Protocol;
use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::AtomicU64;

const NODES: [&str; 3] = ["a", "b", "c"];

fn layouts() -> Layouts {
    Layouts::new(Layout::founding(members("a", &NODES)))
}

fn members(own: &str, names: &[&str]) -> Members {
    let url = |name: &str| -> NodeUrl {
        let number = name.bytes().map(u32::from).sum::<u32>();
        format!("http://127.0.0.1:{}", 8000 + number)
            .parse()
            .unwrap()
    };
    let nodes = names
        .iter()
        .map(|name| Member::named(name, url(name)).unwrap())
        .collect();
    Members::new(nodes, &url(own)).unwrap()
}

fn id_of(name: &str) -> NodeId {
    members("a", &NODES).id_of(name).unwrap()
}

/// A node's data folder, which outlives its starts.
struct Folder {
    memory: Arc<MemoryDisk>,
    disk: Arc<FaultyDisk>,
    executor: Arc<StepExecutor>,
    /// The boot of the machine.
    boot_id: Cell<Option<BootId>>,
    /// Whether commits are synced.
    syncs_commits: Cell<bool>,
    /// What the store has acknowledged, durably.
    acknowledged: Arc<AtomicU64>,
    /// Whether the store is a voter and knows of no other one that lacks something.
    are_all_whole: Arc<AtomicBool>,
}

impl Folder {
    fn new() -> Self {
        Self::on(MemoryDisk::new())
    }

    fn on(memory: MemoryDisk) -> Self {
        let memory = Arc::new(memory);
        memory.create_folder(Path::new("/data")).unwrap();
        Self {
            disk: Arc::new(FaultyDisk::new(Arc::clone(&memory) as Arc<dyn Disk>)),
            memory,
            executor: Arc::new(StepExecutor::new(Arc::new(ManualClock::new(0)))),
            boot_id: Cell::new(Some(BootId(1))),
            syncs_commits: Cell::new(true),
            acknowledged: Arc::default(),
            are_all_whole: Arc::default(),
        }
    }

    /// The folder after a power failure that keeps only what was synced.
    fn after_crash(&self) -> Self {
        self.like(self.memory.clone_synced())
    }

    /// A folder with this content, on the same machine.
    fn like(&self, memory: MemoryDisk) -> Self {
        let folder = Self::on(memory);
        folder.boot_id.set(self.boot_id.get());
        folder.syncs_commits.set(self.syncs_commits.get());
        let acknowledged = self.acknowledged.load(Ordering::SeqCst);
        folder.acknowledged.store(acknowledged, Ordering::SeqCst);
        folder
    }

    /// The store acknowledges so many writes, durably.
    fn acknowledge(&self, writes: u64) {
        self.acknowledged.fetch_add(writes, Ordering::SeqCst);
    }

    /// A copy of the folder in its present state.
    fn copy(&self) -> Self {
        self.like(self.memory.crash_clone(&mut |_| true))
    }

    fn environment(&self, random: u64) -> MembershipEnvironment {
        let acknowledged = Arc::clone(&self.acknowledged);
        MembershipEnvironment {
            folder: "/data".into(),
            disk: Arc::clone(&self.disk) as Arc<dyn Disk>,
            random: Arc::new(SeededRandom::new(random)),
            executor: Arc::clone(&self.executor) as Arc<dyn Executor>,
            boot_id: self.boot_id.get(),
            syncs_commits: self.syncs_commits.get(),
            now_unix_ms: 1_800_000_000_000,
            acknowledged: StoreCount {
                at_open: acknowledged.load(Ordering::SeqCst),
                now: Box::new(move || acknowledged.load(Ordering::SeqCst)),
            },
            default_pair: Replicas::quorum(3),
            restored_for: 0,
            waits: false,
            is_cluster_of_one: false,
            zone: None,
            is_outdated: Arc::default(),
            are_all_whole: Arc::clone(&self.are_all_whole),
        }
    }

    fn open_as(
        &self,
        members: Members,
        store_id: u64,
        accept_data_loss: bool,
    ) -> Result<Membership, MembershipError> {
        static STARTS: AtomicU64 = AtomicU64::new(0);
        let environment = self.environment(STARTS.fetch_add(1, Ordering::SeqCst));
        let layouts = Layouts::new(Layout::founding(members));
        Membership::open(environment, layouts, store_id, accept_data_loss)
    }

    /// Opens it as node `a` of three.
    fn open(&self, store_id: u64) -> Membership {
        self.open_as(members("a", &NODES), store_id, false).unwrap()
    }

    /// Makes a node record a peer's hello, and runs the jobs. Returns whether the
    /// connection may be used, if that is known by then.
    fn record(
        &self,
        membership: &Membership,
        peer: &str,
        hello: &Hello,
        sent: Option<Remembered>,
    ) -> Option<bool> {
        let is_durable = record(membership, peer, hello, sent);
        membership.observed(id_of(peer));
        self.executor.run_all_due();
        *is_durable.lock().unwrap()
    }
}

/// Makes a node record a peer's hello, without running the jobs. The result is
/// rebuilt once it is known whether the connection may be used.
fn record(
    membership: &Membership,
    peer: &str,
    hello: &Hello,
    sent: Option<Remembered>,
) -> Arc<Mutex<Option<bool>>> {
    let result = Arc::new(Mutex::new(None));
    let cell = Arc::clone(&result);
    membership.record_peer(id_of(peer), hello, sent, move |is_durable| {
        *cell.lock().unwrap() = Some(is_durable);
    });
    result
}

/// The hello of a store's first start, on a node that remembers no other.
fn hello(store_id: u64) -> Hello {
    Hello {
        protocol: Protocol::OWN,
        name: String::new(),
        members_hash: 0,
        store_id,
        starts: [store_id].into(),
        is_accepted: false,
        replica_state: ReplicaState::Starting,
        remembered: None,
        remembered_starts: [].into(),
        acknowledged: Some(0),
        greatest_seen: Timestamp::ZERO,
        unix_ms: 0,
        gc_threshold: Timestamp::ZERO,
        cluster: 0,
        list: peer::ListReport::default(),
        waits: false,
    }
}

/// A start of one of three nodes.
struct Started<'a> {
    name: &'static str,
    folder: &'a Folder,
    membership: Membership,
}

fn start<'a>(name: &'static str, folder: &'a Folder, store_id: u64) -> Started<'a> {
    let membership = folder.open_as(members(name, &NODES), store_id, false);
    Started {
        name,
        folder,
        membership: membership.unwrap(),
    }
}

fn start_accepting<'a>(name: &'static str, folder: &'a Folder, store_id: u64) -> Started<'a> {
    let membership = folder.open_as(members(name, &NODES), store_id, true);
    Started {
        name,
        folder,
        membership: membership.unwrap(),
    }
}

/// The token of an attempt of a session.
fn token(session: u64, attempt: u32) -> Token {
    Token { session, attempt }
}

impl Started<'_> {
    /// What it says of itself to another node.
    fn hello_to(&self, other: &Started<'_>) -> Hello {
        let peer = id_of(other.name);
        Hello {
            starts: self.membership.starts(),
            acknowledged: Some(self.membership.acknowledged()),
            is_accepted: self.membership.is_forced_towards(peer),
            replica_state: self.membership.replica_state(),
            remembered: self.membership.durably_remembered(peer),
            remembered_starts: self.membership.starts_of(peer),
            ..hello(self.membership.inner.own.store_id)
        }
    }

    /// What it durably remembers of the node with this name.
    fn remembered(&self, name: &str) -> Option<Remembered> {
        self.membership.durably_remembered(id_of(name))
    }

    /// Whether it refuses another node for now, because that node's previous start
    /// is live.
    fn refuses_for_now(&self, other: &Started<'_>, hello: &Hello) -> bool {
        self.membership
            .is_previous_start_live(id_of(other.name), hello)
    }

    /// Hears what another node reports on a connection.
    fn hear(&self, other: &Started<'_>, start: &StartWatch) {
        let report = StoreReport {
            acknowledged: other.membership.durable_acknowledged(),
            gc_threshold: Timestamp::ZERO,
            list: other.membership.list_report(),
        };
        let peer = id_of(other.name);
        self.membership.heard_report(peer, start, report);
        self.folder.executor.run_all_due();
    }

    /// A full session ends that has brought it all that these nodes have.
    fn full_session(&self, number: u64, has_all_of: &[&str]) {
        let session = token(number, 0);
        let has_all_of: Vec<NodeId> = has_all_of.iter().map(|name| id_of(name)).collect();
        self.membership.session_began(session);
        self.membership.session_ended(session, &has_all_of, &[]);
        self.folder.executor.run_all_due();
    }

    /// The watch of a new connection with another node.
    fn connect(&self, other: &Started<'_>) -> StartWatch {
        let sent = self.remembered(other.name);
        let (peer, theirs) = (id_of(other.name), other.hello_to(self));
        self.membership
            .record_peer(peer, &theirs, sent, |_| {})
            .unwrap()
    }

    /// The word for how its store stands.
    fn word(&self) -> &'static str {
        self.membership.replica_state().word()
    }
}

/// Two nodes shake hands, and each serves a call of the other if both may use the
/// connection. Returns whether they may.
fn shake_hands(one: &Started<'_>, other: &Started<'_>) -> bool {
    let (of_one, of_other) = (one.hello_to(other), other.hello_to(one));
    if one.refuses_for_now(other, &of_other) || other.refuses_for_now(one, &of_one) {
        return false;
    }
    let record = |node: &Started<'_>, peer: &Started<'_>, theirs, ours: &Hello| {
        node.folder
            .record(&node.membership, peer.name, theirs, ours.remembered)
    };
    let at_one = record(one, other, &of_other, &of_one);
    let at_other = record(other, one, &of_one, &of_other);
    let is_used = (at_one, at_other) == (Some(true), Some(true));
    if is_used {
        one.membership.remembered_by(id_of(other.name));
        other.membership.remembered_by(id_of(one.name));
        one.folder.executor.run_all_due();
        other.folder.executor.run_all_due();
    }
    is_used
}

/// All of three nodes, connected with each other.
fn connect(nodes: [&Started<'_>; 3]) {
    let [a, b, c] = nodes;
    for (one, other) in [(a, b), (a, c), (b, c)] {
        assert!(shake_hands(one, other));
    }
}

/// The folders of three nodes that are voters because all of them have met.
fn voters() -> [Folder; 3] {
    let folders = [(); 3].map(|()| Folder::new());
    let [a, b, c] = &folders;
    let (a, b, c) = (start("a", a, 1), start("b", b, 2), start("c", c, 3));
    for (one, other) in [(&a, &b), (&a, &c), (&b, &c)] {
        assert!(shake_hands(one, other));
    }
    for node in [a, b, c] {
        assert_eq!(node.word(), "voter", "{}", node.name);
    }
    folders
}
