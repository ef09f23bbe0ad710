//! A cluster of three nodes as processes, in a temporary folder.

#![expect(
    clippy::disallowed_methods,
    reason = "the folders and logs belong to other processes"
)]

use crate::ledger::Ledger;
use crate::support::{HttpConnection, PROGRAM, Process, kvorum_by, wait_until, wait_until_ok};
use rustix::process::Signal;
use rustls::ClientConfig;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{OpenOptions, Permissions};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::ops::{Index, IndexMut};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, id};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// The names of the nodes.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// So long that no request reaches it on a busy machine, unless it waits for an
/// unavailable node.
pub(crate) const TIMEOUT_SECONDS: u64 = 10;

/// Only one cluster runs at a time, because two would compete for the cores of
/// a small machine.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Where a node runs.
pub(crate) struct NodeLocation {
    /// The address of its URL.
    pub(crate) address: SocketAddr,
    /// The command that launches the program there, if one is needed.
    pub(crate) launcher: Option<Vec<String>>,
}

/// A node of a cluster, which may be running.
pub(crate) struct ClusterNode {
    pub(crate) name: &'static str,
    pub(crate) location: NodeLocation,
    pub(crate) data: PathBuf,
    /// The list of all nodes.
    pub(crate) list: String,
    /// Additional options for each start.
    pub(crate) options: Vec<String>,
    /// Whether its URL is `https`.
    pub(crate) is_https: bool,
    /// With what a test reaches it over TLS; `None`: without TLS.
    pub(crate) client: Option<Arc<ClientConfig>>,
    log: PathBuf,
    process: Option<Process>,
}

/// Three nodes.
pub(crate) struct TestCluster {
    pub(crate) nodes: [ClusterNode; 3],
    pub(crate) folder: TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl TestCluster {
    /// Starts a cluster on this machine and waits until its nodes know each
    /// other.
    pub(crate) fn start() -> Self {
        let mut cluster = Self::new(node_locations());
        cluster.start_all();
        cluster
    }

    /// Creates a cluster without starting its nodes.
    pub(crate) fn new(node_locations: [NodeLocation; 3]) -> Self {
        // A failed test has stopped its nodes too.
        let alone = ONE_AT_A_TIME.lock();
        let alone = alone.unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let members = NAMES.iter().zip(&node_locations);
        let members: Vec<_> = members
            .map(|(name, location)| format!("{name}=http://{}", location.address))
            .collect();
        let mut names = NAMES.iter();
        let nodes = node_locations.map(|location| {
            let name = names.next().unwrap();
            ClusterNode {
                name,
                location,
                data: folder.path().join(name),
                list: members.join(","),
                options: Vec::new(),
                is_https: false,
                client: None,
                log: folder.path().join(format!("{name}.log")),
                process: None,
            }
        });
        Self {
            nodes,
            folder,
            _alone: alone,
        }
    }

    /// Starts all nodes and waits until they know each other.
    pub(crate) fn start_all(&mut self) {
        for node in &mut self.nodes {
            node.spawn(&[]);
        }
        for node in &mut self.nodes {
            node.wait_until_up();
        }
        self.wait_until_joined();
    }

    /// Waits until each node reaches the others and its reads count.
    pub(crate) fn wait_until_joined(&self) {
        for node in &self.nodes {
            wait_until_ok("a cluster whose nodes know each other", || {
                let status = node.status().map_err(|error| error.to_string())?;
                let states = NAMES.iter().map(|name| state_of(&status, name));
                let is_joined = states.filter(|state| *state == "up").count() == 2
                    && ["voter", "forced_voter"]
                        .contains(&status["replica_state"].as_str().unwrap());
                if is_joined {
                    Ok(())
                } else {
                    Err(status.to_string())
                }
            });
        }
    }

    /// The number of hints that the other nodes keep for the node at `index`.
    pub(crate) fn hints_for(&self, index: usize) -> u64 {
        let name = self[index].name;
        let others = self.nodes.iter().filter(|node| node.name != name);
        others
            .map(|node| hints_of(&node.status().unwrap(), name))
            .sum()
    }

    /// Waits until no node has a hint for a node, and its own store has every
    /// acknowledged write.
    pub(crate) fn wait_until_caught_up(&self, index: usize, ledgers: &[Ledger]) {
        wait_until("hints to be delivered", || {
            (self.hints_for(index) == 0).then_some(())
        });
        wait_until_ok("a store with all acknowledged writes", || {
            self[index].check_store(ledgers)
        });
        assert_eq!(self.hints_for(index), 0);
    }
}

impl Index<usize> for TestCluster {
    type Output = ClusterNode;

    fn index(&self, index: usize) -> &ClusterNode {
        &self.nodes[index]
    }
}

impl IndexMut<usize> for TestCluster {
    fn index_mut(&mut self, index: usize) -> &mut ClusterNode {
        &mut self.nodes[index]
    }
}

impl ClusterNode {
    /// The command that starts the node, with additional options.
    pub(crate) fn command(&self, more: &[&str]) -> Command {
        let scheme = if self.is_https { "https" } else { "http" };
        let url = format!("{scheme}://{}", self.location.address);
        let has_timeout = |option: &String| option.starts_with("--timeout=");
        let timeout = if self.options.iter().any(has_timeout) {
            None
        } else {
            Some(format!("--timeout={TIMEOUT_SECONDS}s"))
        };
        let program = match &self.location.launcher {
            None => Command::new(PROGRAM),
            Some(words) => {
                let mut launcher = Command::new(&words[0]);
                launcher.args(&words[1..]).arg(PROGRAM);
                launcher
            }
        };
        let mut command = kvorum_by(program, &["serve", "--url", &url, "--cluster", &self.list]);
        command
            .args(["--memory", "128MiB", "--threads", "2"])
            .args(timeout)
            .arg("--data")
            .arg(&self.data)
            .args(&self.options)
            .args(more);
        command
    }

    /// Starts the node, which appends to its log.
    pub(crate) fn spawn(&mut self, more: &[&str]) {
        let mut log = OpenOptions::new();
        let log = log.create(true).append(true).open(&self.log).unwrap();
        self.process = Some(Process::spawn(self.command(more).stderr(log)));
    }

    /// Starts the node and waits until it answers.
    pub(crate) fn start(&mut self, more: &[&str]) {
        self.spawn(more);
        self.wait_until_up();
    }

    pub(crate) fn wait_until_up(&mut self) {
        let mut process = self.process.take().unwrap();
        process.wait_until_up_by(|| self.connect());
        self.process = Some(process);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process.as_ref().unwrap().signal(signal);
    }

    /// Waits for the end of the process and returns its exit code.
    pub(crate) fn end(&mut self) -> Option<i32> {
        self.process.take().unwrap().end().code
    }

    /// Kills the node, like a crash of its process.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        assert_eq!(self.end(), None);
    }

    /// Stops the node gracefully.
    pub(crate) fn stop(&mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.end(), Some(0));
    }

    pub(crate) fn connect(&self) -> io::Result<HttpConnection> {
        match &self.client {
            None => HttpConnection::open(self.location.address),
            Some(config) => HttpConnection::open_tls(self.location.address, Arc::clone(config)),
        }
    }

    /// Empties the log.
    pub(crate) fn clear_log(&self) {
        let mut log = OpenOptions::new();
        drop(log.write(true).truncate(true).open(&self.log).unwrap());
    }

    /// The status page.
    pub(crate) fn status(&self) -> io::Result<Value> {
        let answer = self.connect()?.exchange("GET", "/v0/status", b"")?;
        assert_eq!(answer.status, 200);
        Ok(serde_json::from_slice(&answer.body).unwrap())
    }

    /// Waits until the node's store has a replica state.
    pub(crate) fn wait_until_replica_state(&self, replica_state: &str) {
        wait_until_ok(&format!("{} to be {replica_state}", self.name), || {
            let status = self.status().unwrap();
            if status["replica_state"] == replica_state {
                Ok(())
            } else {
                Err(status)
            }
        });
    }

    /// The state of the link to a peer, as this node sees it.
    pub(crate) fn state_of(&self, peer: &str) -> String {
        state_of(&self.status().unwrap(), peer).to_owned()
    }

    /// Waits until a line of the log contains all these words.
    pub(crate) fn wait_until_logged(&self, words: &[&str]) {
        wait_until_ok(
            &format!("{words:?} in a line of {}'s log", self.name),
            || {
                let log = std::fs::read_to_string(&self.log).unwrap();
                let has_all = |line: &str| words.iter().all(|word| line.contains(word));
                if log.lines().any(has_all) {
                    Ok(())
                } else {
                    Err(log)
                }
            },
        );
    }

    /// Checks that the node's own store has every acknowledged write.
    fn check_store(&self, ledgers: &[Ledger]) -> Result<(), String> {
        let connected = self.connect();
        let lines = connected.and_then(|mut connection| connection.lines("/v0/entities?start=0"));
        let lines = lines.map_err(|error| error.to_string())?;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let held: BTreeMap<_, _> = lines
            .iter()
            .map(|line| {
                (
                    text(&line["key"]),
                    (text(&line["version"]), text(&line["value"])),
                )
            })
            .collect();
        for ledger in ledgers {
            for location in 0..ledger.len() {
                let held = held.get(&ledger.key(location));
                let held =
                    held.map(|(version, value)| (version.parse().unwrap(), value.as_bytes()));
                ledger.check(location, held)?;
            }
        }
        Ok(())
    }

    #[expect(clippy::print_stderr, reason = "the output of a test that failed")]
    fn print_log(&self) {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        eprintln!("--- the log of {} ---\n{log}", self.name);
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.nodes.iter().for_each(ClusterNode::print_log);
        }
    }
}

/// Free ports on a loopback address of the cluster's own, so that no other
/// process takes the port of a dead node.
pub(crate) fn node_locations() -> [NodeLocation; 3] {
    static CLUSTERS: AtomicU8 = AtomicU8::new(1);
    let process = (id() % 60_000) as u16 + 256;
    let [high, low] = process.to_be_bytes();
    let own = Ipv4Addr::new(127, high, low, CLUSTERS.fetch_add(1, Relaxed));
    let listeners = [(); 3].map(|()| TcpListener::bind((IpAddr::V4(own), 0)).unwrap());
    listeners.map(|listener| NodeLocation {
        address: listener.local_addr().unwrap(),
        launcher: None,
    })
}

fn member<'a>(status: &'a Value, name: &str) -> &'a Value {
    let members = status["cluster"].as_array().unwrap();
    members
        .iter()
        .find(|member| member["name"] == name)
        .unwrap()
}

fn state_of<'a>(status: &'a Value, name: &str) -> &'a str {
    member(status, name)["state"].as_str().unwrap()
}

fn hints_of(status: &Value, name: &str) -> u64 {
    member(status, name)["hints"].as_u64().unwrap()
}

/// Writes the file of a secret and returns its path.
pub(crate) fn write_secret(folder: &Path, name: &str, secret: &str) -> String {
    let file = folder.join(name);
    std::fs::write(&file, secret).unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    file.to_str().unwrap().to_owned()
}
