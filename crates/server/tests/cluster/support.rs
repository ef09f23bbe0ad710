//! A cluster to test: nodes that can be stopped, and start again with what their disks
//! hold.

use crate::wire::{self, Client, Gate, Reply, SkewedClock};
use base::{BootId, Clock, SeededRandom};
use cluster::{Member, Members, NodeUrl};
use http_testing::WAIT_MAX;
use lsm::Disk;
use lsm_testing::MemoryDisk;
use node::OpenError;
use server::{Seams, Server, ServerConfig, StartError};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a test sleeps between two checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How many sets of ports are tried when another process takes one of them.
const PORT_ATTEMPTS: usize = 16;

/// The names of nodes. They determine the replicas of keys, so no test depends on ports.
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// What remains of a node that is stopped.
struct Machine {
    config: ServerConfig,
    disk: Arc<dyn Disk>,
    clock: Arc<SkewedClock>,
    node: Option<Server>,
    starts: u64,
    boot_id: BootId,
}

/// A cluster of nodes that know each other as `a`, `b`, and so on.
pub(crate) struct Cluster {
    machines: Vec<Machine>,
}

/// The disks of the nodes, which a test can copy and replace.
pub(crate) struct Disks(Mutex<Vec<Arc<MemoryDisk>>>);

impl Disks {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// A new disk for a node.
    pub(crate) fn add(&self, node: usize) -> Arc<dyn Disk> {
        let mut disks = self.0.lock().unwrap();
        disks.truncate(node);
        disks.push(Arc::new(MemoryDisk::new()));
        Arc::clone(&disks[node]) as Arc<dyn Disk>
    }

    pub(crate) fn disk(&self, node: usize) -> Arc<MemoryDisk> {
        Arc::clone(&self.0.lock().unwrap()[node])
    }

    /// A copy of a node's disk with everything that was written.
    pub(crate) fn copy(&self, node: usize) -> Arc<MemoryDisk> {
        Arc::new(self.disk(node).crash_clone(&mut |_| true))
    }

    /// A node's disk as a power cut leaves it now: only what was synced is there.
    pub(crate) fn after_power_cut(&self, node: usize) -> Arc<MemoryDisk> {
        Arc::new(self.disk(node).clone_synced())
    }

    /// Stops a node that gets no chance to end well: what it has written so far is all
    /// that its next start finds.
    pub(crate) fn kill(&self, cluster: &mut Cluster, node: usize) {
        let left = self.copy(node);
        cluster.stop_node(node);
        self.replace(cluster, node, left);
    }

    /// Replaces the disk of a node that is stopped.
    pub(crate) fn replace(&self, cluster: &mut Cluster, node: usize, disk: Arc<MemoryDisk>) {
        self.0.lock().unwrap()[node] = Arc::clone(&disk);
        cluster.replace_disk(node, disk);
    }
}

impl Cluster {
    /// A cluster whose nodes are up and have found each other.
    pub(crate) fn start(nodes: usize) -> Self {
        Self::start_with(nodes, |_| {})
    }

    /// The same, with a changed configuration.
    pub(crate) fn start_with(nodes: usize, change: impl Fn(&mut ServerConfig)) -> Self {
        Self::start_on(nodes, change, |_| Arc::new(MemoryDisk::new()))
    }

    /// The same, with other disks.
    pub(crate) fn start_on(
        nodes: usize,
        change: impl Fn(&mut ServerConfig),
        disk: impl Fn(usize) -> Arc<dyn Disk>,
    ) -> Self {
        let all: Vec<usize> = (0..nodes).collect();
        let cluster = Self::start_some(nodes, &all, change, disk);
        cluster.wait_until_joined();
        cluster
    }

    /// A cluster of which only these nodes are started, in this order. Returns before
    /// they have found each other.
    pub(crate) fn start_some(
        nodes: usize,
        started: &[usize],
        change: impl Fn(&mut ServerConfig),
        disk: impl Fn(usize) -> Arc<dyn Disk>,
    ) -> Self {
        for _ in 0..PORT_ATTEMPTS {
            let members: Vec<Member> = NAMES[..nodes]
                .iter()
                .map(|name| Member::named(name, free_url()).unwrap())
                .collect();
            let machines = members.iter().enumerate().map(|(number, member)| {
                let mut config = wire::config();
                config.node.members = Members::new(members.clone(), member.url()).unwrap();
                change(&mut config);
                Machine {
                    config,
                    disk: disk(number),
                    clock: Arc::new(SkewedClock::new()),
                    node: None,
                    starts: 0,
                    boot_id: BootId(1),
                }
            });
            let mut cluster = Self {
                machines: machines.collect(),
            };
            let mut started = started.iter();
            match started.try_for_each(|node| cluster.try_start_node(*node)) {
                Ok(()) => return cluster,
                Err(StartError::Address { .. }) => {}
                Err(error) => panic!("a node does not start: {error}"),
            }
        }
        panic!("no free ports");
    }

    fn try_start_node(&mut self, node: usize) -> Result<(), StartError> {
        let machine = &mut self.machines[node];
        machine.starts += 1;
        let seams = Seams {
            disk: Arc::clone(&machine.disk),
            clock: Arc::clone(&machine.clock) as Arc<dyn Clock>,
            // Like real randomness, the sequence is another one at each start.
            random: Arc::new(SeededRandom::new(machine.starts * 100 + node as u64)),
            boot_id: Some(machine.boot_id),
        };
        machine.node = Some(Server::start_with(machine.config.clone(), seams)?);
        Ok(())
    }

    /// Replaces the disk of a node that is stopped.
    pub(crate) fn replace_disk(&mut self, node: usize, disk: Arc<dyn Disk>) {
        assert!(
            self.machines[node].node.is_none(),
            "the node must be stopped first"
        );
        self.machines[node].disk = disk;
    }

    /// Starts the machine of a node that is stopped anew.
    pub(crate) fn reboot(&mut self, node: usize) {
        self.machines[node].boot_id.0 += 1;
    }

    /// Changes the configuration of a node that is stopped.
    pub(crate) fn change_config(&mut self, node: usize, change: impl FnOnce(&mut ServerConfig)) {
        change(&mut self.machines[node].config);
    }

    /// The configuration of a node.
    pub(crate) fn config(&self, node: usize) -> ServerConfig {
        self.machines[node].config.clone()
    }

    /// Starts a node that was stopped. On a busy machine the stop may have returned before the
    /// store was closed.
    pub(crate) fn start_node(&mut self, node: usize) {
        until("the store is closed", || match self.try_start_node(node) {
            Err(StartError::Node(OpenError::Store(lsm::Error::Locked { .. }))) => false,
            started => {
                started.unwrap();
                true
            }
        });
    }

    /// Stops a node. Returns when the others show it as down.
    pub(crate) fn stop_node(&mut self, node: usize) {
        self.machines[node].node = None;
        for other in self.nodes_up() {
            until("the others show the node as down", || {
                self.state_at(other, node) == "down"
            });
        }
    }

    /// The numbers of the nodes that run.
    pub(crate) fn nodes_up(&self) -> Vec<usize> {
        let up = |node: &usize| self.machines[*node].node.is_some();
        (0..self.machines.len()).filter(up).collect()
    }

    /// Waits until all nodes that run see each other.
    pub(crate) fn wait_until_joined(&self) {
        for from in self.nodes_up() {
            for to in self.nodes_up() {
                until("the nodes show each other as up", || {
                    from == to || self.state_at(from, to) == "up"
                });
            }
        }
    }

    /// A node that runs.
    pub(crate) fn node(&self, node: usize) -> &Server {
        self.machines[node].node.as_ref().unwrap()
    }

    /// The clock of a node.
    pub(crate) fn clock(&self, node: usize) -> &SkewedClock {
        &self.machines[node].clock
    }

    /// A node's URL as it stands in receipts.
    pub(crate) fn url(&self, node: usize) -> String {
        self.machines[node].config.node.url().to_string()
    }

    /// A connection to a node.
    pub(crate) fn client(&self, node: usize) -> Client {
        Client::connect(self.node(node))
    }

    /// Puts a value by a node until enough replicas have acknowledged it. On a busy machine a
    /// node that is slow for a moment is suspected, and a long value that needs its
    /// acknowledgement gets a 504.
    pub(crate) fn put_acknowledged(&self, node: usize, target: &str, value: &[u8]) -> Reply {
        let mut put = self.client(node).put(target, value);
        until("a put is acknowledged", || {
            if put.status != 201 {
                put = self.client(node).put(target, value);
            }
            put.status == 201
        });
        put
    }

    /// The status page of a node.
    pub(crate) fn status(&self, node: usize) -> serde_json::Value {
        self.client(node).get("/v0/status").json()
    }

    /// What one node's status page says of another.
    pub(crate) fn member_at(&self, at: usize, of: usize) -> serde_json::Value {
        self.status(at)["cluster"][of].clone()
    }

    /// The replica state of a node's store.
    pub(crate) fn replica_state(&self, node: usize) -> String {
        self.status(node)["replica_state"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// The replica state of a node's store that another node shows.
    pub(crate) fn replica_state_at(&self, at: usize, of: usize) -> Option<String> {
        let member = self.member_at(at, of);
        member["replica_state"].as_str().map(str::to_owned)
    }

    fn state_at(&self, at: usize, of: usize) -> String {
        let member = self.member_at(at, of);
        member["state"].as_str().unwrap().to_owned()
    }

    /// How many hints a node keeps for another.
    pub(crate) fn hints_at(&self, at: usize, of: usize) -> u64 {
        self.member_at(at, of)["hints"].as_u64().unwrap()
    }

    /// The value of a metric of a node.
    pub(crate) fn metric(&self, node: usize, name: &str) -> f64 {
        let metrics = self.client(node).get("/metrics");
        metric_of(metrics.text(), name)
    }

    /// The numbers of the nodes in the order of a key's preference list.
    pub(crate) fn preference_list(&self, key: &str) -> Vec<usize> {
        let node = self.nodes_up()[0];
        let reply = self.client(node).get(&format!("/v0/replicas?id={key}"));
        preference_list_of(&reply)
    }

    /// A key whose preference list begins with these nodes.
    pub(crate) fn key_on(&self, first_replicas: &[usize]) -> String {
        let mut keys = (0..1000).map(|number| format!("k{number}"));
        keys.find(|key| self.preference_list(key).starts_with(first_replicas))
            .unwrap()
    }

    /// The value and version of a key in a node's own store, if it is live.
    pub(crate) fn held_by(&self, node: usize, key: &str) -> Option<(String, u64)> {
        let target = format!("/v0/entities?start={key}&end={key}%00");
        let ndjson = "accept: application/x-ndjson\r\n";
        let reply = self.client(node).request("GET", &target, ndjson, b"");
        assert_eq!(reply.status, 200);
        let line = reply.text().lines().next()?;
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| line[name].as_str().unwrap().to_owned();
        assert_eq!(text("key"), key);
        Some((text("value"), text("version").parse().unwrap()))
    }

    /// The running nodes that hold a live version of a key.
    pub(crate) fn holders(&self, key: &str) -> Vec<usize> {
        let holds = |node: &usize| self.held_by(*node, key).is_some();
        self.nodes_up().into_iter().filter(holds).collect()
    }

    /// Deletes the hints of a node that is stopped.
    pub(crate) fn lose_hints(&self, node: usize) {
        let machine = &self.machines[node];
        let folder = machine.config.node.data.join("hints");
        let files = machine.disk.list(&folder).unwrap();
        assert!(!files.is_empty(), "the node should have hints");
        for file in files {
            machine.disk.remove(&folder.join(file)).unwrap();
        }
        machine.disk.sync_folder(&folder).unwrap();
        assert_eq!(machine.disk.list(Path::new(&folder)).unwrap().len(), 0);
    }
}

/// Opens a gate when a test ends, also when it fails, because a node whose disk waits
/// cannot stop.
pub(crate) struct OpenOnDrop(pub(crate) Arc<Gate>);

impl Drop for OpenOnDrop {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// The nodes that a page of replicas lists, by their numbers.
pub(crate) fn preference_list_of(reply: &Reply) -> Vec<usize> {
    assert_eq!(reply.status, 200);
    let page = reply.json();
    let places = page["replicas"].as_array().unwrap();
    let number_of = |place: &serde_json::Value| {
        let name = place["name"].as_str();
        NAMES.iter().position(|known| Some(*known) == name).unwrap()
    };
    places.iter().map(number_of).collect()
}

/// The value of a metric in a page.
pub(crate) fn metric_of(page: &str, name: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(name));
    let number = line.unwrap_or_else(|| panic!("{name} is not in {page}"));
    number.trim().parse().unwrap()
}

/// Waits until a condition holds; `what` names it.
#[expect(
    clippy::disallowed_methods,
    reason = "these tests watch nodes that run in real time"
)]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !holds() {
        assert!(begin.elapsed() < WAIT_MAX, "gave up waiting until {what}");
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Measures how long something takes.
#[expect(
    clippy::disallowed_methods,
    reason = "these tests watch nodes that run in real time"
)]
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = std::time::Instant::now();
    let result = work();
    (result, begin.elapsed())
}

/// An address that was free a moment ago. Its port is below those that the system
/// chooses for connections, so that no connection takes it while a node is stopped.
fn free_url() -> NodeUrl {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = std::process::id().wrapping_mul(61) as u16;
    let free = (0..10_000).find_map(|_| {
        let number = first.wrapping_add(NEXT.fetch_add(1, Ordering::SeqCst));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 12_000 + number % 20_000));
        TcpListener::bind(address).is_ok().then_some(address)
    });
    NodeUrl::from(free.unwrap())
}
