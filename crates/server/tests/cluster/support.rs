//! A cluster to test: nodes that are stopped and come back with what their
//! disks hold.

use crate::wire::{self, Client, Gate, Reply};
use base::{Clock, SeededRandom, SystemClock};
use cluster::{Member, Members, NodeUrl};
use lsm::{Disk, MemoryDisk};
use server::{Seams, Server, ServerConfig, StartError};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU16, Ordering};
use std::time::Duration;

/// How long anything may take before a test gives it up: long, since it is
/// only ever waited for in vain.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long between two looks at something that is waited for.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How often other ports are tried when somebody else took one.
const PORT_ATTEMPTS: usize = 16;

/// The names of nodes. Keys are placed by them, so no test depends on ports.
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// The machine's clock, set wrong by some time.
pub(crate) struct SkewedClock {
    inner: SystemClock,
    ahead_ms: AtomicI64,
}

impl SkewedClock {
    /// Makes the wall clock jump to so many seconds before or after the right time.
    pub(crate) fn set_ahead_seconds(&self, seconds: i64) {
        self.ahead_ms.store(seconds * 1000, Ordering::SeqCst);
    }
}

impl Clock for SkewedClock {
    fn unix_ms(&self) -> u64 {
        let ahead_ms = self.ahead_ms.load(Ordering::SeqCst);
        self.inner.unix_ms().saturating_add_signed(ahead_ms)
    }

    fn monotonic(&self) -> Duration {
        self.inner.monotonic()
    }
}

/// What outlives a node that is stopped.
struct Machine {
    config: ServerConfig,
    disk: Arc<dyn Disk>,
    clock: Arc<SkewedClock>,
    node: Option<Server>,
    starts: u64,
}

/// A cluster of nodes that know each other as `a`, `b`, and so on.
pub(crate) struct Cluster {
    machines: Vec<Machine>,
}

impl Cluster {
    /// A cluster whose nodes are up and have found each other.
    pub(crate) fn start(nodes: usize) -> Self {
        Self::start_with(nodes, |_| {})
    }

    /// The same, with another configuration.
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

    /// A cluster of which these nodes are started, in this order; they may not
    /// have found each other yet.
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
                    clock: Arc::new(SkewedClock {
                        inner: SystemClock::new(),
                        ahead_ms: AtomicI64::new(0),
                    }),
                    node: None,
                    starts: 0,
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
            // As real chance, it is another at each start.
            random: Arc::new(SeededRandom::new(machine.starts * 100 + node as u64)),
        };
        machine.node = Some(Server::start_with(machine.config.clone(), seams)?);
        Ok(())
    }

    /// Gives a node that is stopped another disk.
    pub(crate) fn replace_disk(&mut self, node: usize, disk: Arc<dyn Disk>) {
        assert!(self.machines[node].node.is_none(), "it runs");
        self.machines[node].disk = disk;
    }

    /// Gives a node that is stopped another configuration.
    pub(crate) fn change_config(&mut self, node: usize, change: impl FnOnce(&mut ServerConfig)) {
        change(&mut self.machines[node].config);
    }

    /// The configuration of a node.
    pub(crate) fn config(&self, node: usize) -> ServerConfig {
        self.machines[node].config.clone()
    }

    /// Starts a node that was stopped.
    pub(crate) fn start_node(&mut self, node: usize) {
        self.try_start_node(node).unwrap();
    }

    /// Stops a node; returns when the others know.
    pub(crate) fn stop_node(&mut self, node: usize) {
        self.machines[node].node = None;
        for other in self.nodes_up() {
            until("the others see that a node is down", || {
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
                until("the nodes see each other", || {
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

    /// A node's URL, as receipts have it.
    pub(crate) fn url(&self, node: usize) -> String {
        self.machines[node].config.node.url().to_string()
    }

    /// A connection to a node.
    pub(crate) fn client(&self, node: usize) -> Client {
        Client::connect(self.node(node))
    }

    /// The status page of a node.
    pub(crate) fn status(&self, node: usize) -> serde_json::Value {
        self.client(node).get("/v0/status").json()
    }

    /// What one node's status page says of another.
    pub(crate) fn member_at(&self, at: usize, of: usize) -> serde_json::Value {
        self.status(at)["cluster"][of].clone()
    }

    /// How a node's store stands.
    pub(crate) fn standing(&self, node: usize) -> String {
        self.status(node)["standing"].as_str().unwrap().to_owned()
    }

    /// How a node's store stands as another one has it.
    pub(crate) fn standing_at(&self, at: usize, of: usize) -> Option<String> {
        let member = self.member_at(at, of);
        member["standing"].as_str().map(str::to_owned)
    }

    fn state_at(&self, at: usize, of: usize) -> String {
        let member = self.member_at(at, of);
        member["state"].as_str().unwrap().to_owned()
    }

    /// How many hints wait at a node for another.
    pub(crate) fn hints_at(&self, at: usize, of: usize) -> u64 {
        self.member_at(at, of)["hints"].as_u64().unwrap()
    }

    /// A node's number of a metric.
    pub(crate) fn metric(&self, node: usize, name: &str) -> f64 {
        let metrics = self.client(node).get("/metrics");
        metric_of(metrics.text(), name)
    }

    /// The numbers of a key's nodes, the first choice first.
    pub(crate) fn ranking(&self, key: &str) -> Vec<usize> {
        let node = self.nodes_up()[0];
        let reply = self.client(node).get(&format!("/v0/ring?id={key}"));
        ranking_of(&reply)
    }

    /// A key whose first places are these nodes.
    pub(crate) fn key_on(&self, first_places: &[usize]) -> String {
        let mut keys = (0..1000).map(|number| format!("k{number}"));
        keys.find(|key| self.ranking(key).starts_with(first_places))
            .unwrap()
    }

    /// The value and version that a node itself holds of a key, if it is live.
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

    /// The nodes that hold a live version of a key, of those that run.
    pub(crate) fn holders(&self, key: &str) -> Vec<usize> {
        let holds = |node: &usize| self.held_by(*node, key).is_some();
        self.nodes_up().into_iter().filter(holds).collect()
    }

    /// Loses the hints of a node that is stopped.
    pub(crate) fn lose_hints(&self, node: usize) {
        let machine = &self.machines[node];
        let folder = machine.config.node.data.join("hints");
        let files = machine.disk.list(&folder).unwrap();
        assert!(!files.is_empty(), "there were hints");
        for file in files {
            machine.disk.remove(&folder.join(file)).unwrap();
        }
        machine.disk.sync_folder(&folder).unwrap();
        assert_eq!(machine.disk.list(Path::new(&folder)).unwrap().len(), 0);
    }
}

/// Opens a gate when a test ends, also when it fails: a node whose disk waits
/// does not stop.
pub(crate) struct OpensAtLast(pub(crate) Arc<Gate>);

impl Drop for OpensAtLast {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// The nodes that a ring page lists, by their numbers.
pub(crate) fn ranking_of(reply: &Reply) -> Vec<usize> {
    assert_eq!(reply.status, 200);
    let ring = reply.json();
    let places = ring["replicas"].as_array().unwrap();
    let number_of = |place: &serde_json::Value| {
        let name = place["name"].as_str();
        NAMES.iter().position(|known| Some(*known) == name).unwrap()
    };
    places.iter().map(number_of).collect()
}

/// The number of a metric in a page.
pub(crate) fn metric_of(page: &str, name: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(name));
    let number = line.unwrap_or_else(|| panic!("{name} is not in {page}"));
    number.trim().parse().unwrap()
}

/// Looks until something is so.
#[expect(
    clippy::disallowed_methods,
    reason = "these tests watch nodes that run in real time"
)]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "in vain: {what}");
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// How long something takes.
#[expect(
    clippy::disallowed_methods,
    reason = "these tests watch nodes that run in real time"
)]
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = std::time::Instant::now();
    let result = work();
    (result, begin.elapsed())
}

/// An address that was free a moment ago. It lies below the ports that the
/// system gives to connections, so that none takes it while a node is stopped.
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
