//! What can be set of a server, and how its memory is divided.
//!
//! [`ServerConfig`] is plain data, with that of the node in it. Who builds it
//! (the command line) starts from [`ServerConfig::new`] and changes what it
//! likes; [`ServerConfig::validate`] (`validation`, `bounds`) says in words what
//! cannot be, and [`crate::Server::start`] calls it again. [`MemorySplit`]
//! (`memory`) divides the one number for memory.

pub mod bounds;
mod memory;
mod validation;

pub use memory::MemorySplit;

use cluster::{Members, Replicas};
use node::{ConfigError, NodeConfig, Resources};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

/// The least memory that a server can be given, in bytes.
pub const MEMORY_BYTES_MIN: u64 = 128 << 20;

/// What can be set of a server. All durations are real time; all sizes are bytes.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The node that is served. Where it is alone, its port may be 0, which
    /// takes any free one and is of use to tests.
    pub node: NodeConfig,
    /// The version that the status page shows.
    pub version: String,
    /// The addresses to listen on. Empty: those that the URL's host resolves
    /// to; `localhost` is 127.0.0.1 and ::1.
    pub listen: Vec<SocketAddr>,
    /// Names by which clients reach the node, beside `localhost` and the hosts
    /// of the URLs of all members; any IP address will do. Default: none.
    pub hosts: Vec<String>,
    /// All the memory that the node may plan with; see [`MemorySplit`]. Default: 128 MiB.
    pub memory_bytes: u64,
    /// The size at which a memtable is flushed; `None`: as [`MemorySplit`] has it.
    pub memtable_bytes: Option<usize>,
    /// Runtimes that serve connections, each a thread. Default: one a core.
    pub threads: usize,
    /// Requests that are worked on at a time, over all runtimes, each of which
    /// has an even share. Default: 1024.
    pub requests_in_flight_max: usize,
    /// Requests that may wait to be worked on; more are refused. Default: 1024.
    pub requests_queued_max: usize,
    /// Open connections of clients and peers; more wait in the listen queue. A
    /// node with peers refuses some of those, to let peers in. Default: one for each
    /// 64 KiB of memory, between 256 and 16,384.
    pub connections_max: usize,
    /// Ranges that are streamed at a time; more are refused. `None`: as
    /// [`MemorySplit::scans_max`] has it.
    pub scans_max: Option<usize>,
    /// How long a connection may be idle between requests. Default: 75 s.
    pub idle_timeout: Duration,
    /// How long the head of a request may take, first byte to last. Default: 10 s.
    pub head_timeout: Duration,
    /// The span over which a request's body must bring 64 KiB a second, or its end. Default: 10 s.
    pub body_timeout: Duration,
    /// How long an answer, ranges included, may keep waiting for a client that
    /// takes nothing of it, or less than 8 KiB a second, before it is cut. Default: 30 s.
    pub scan_stall_timeout: Duration,
    /// How long admitted requests have to finish at shutdown. Default: 8 s,
    /// which leaves 2 s of the 10 s that a shutdown may take to the store.
    pub drain_timeout: Duration,
    /// `ack` and `from` where a request gives neither; `None`: all nodes and their quorum.
    pub replicas_default: Option<Replicas>,
    /// Whether `/debug/profile` is served, which tells whoever asks what goes
    /// on inside the node. Default: no.
    pub debug_endpoints: bool,
}

impl ServerConfig {
    /// A configuration with every default for one of `members` (a
    /// [`NodeUrl`](cluster::NodeUrl) stands for a node that is alone) that keeps
    /// its store in `data`.
    #[must_use]
    pub fn new(members: impl Into<Members>, data: impl Into<PathBuf>) -> Self {
        let mut config = Self {
            node: NodeConfig::new(members, data),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            listen: Vec::new(),
            hosts: Vec::new(),
            memory_bytes: 0,
            memtable_bytes: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            requests_in_flight_max: 1024,
            requests_queued_max: 1024,
            connections_max: 0,
            scans_max: None,
            idle_timeout: Duration::from_secs(75),
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            scan_stall_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(8),
            replicas_default: None,
            debug_endpoints: false,
        };
        config.set_memory_bytes(MEMORY_BYTES_MIN);
        config
    }

    /// Sets the memory, and the bound on connections that follows from it.
    pub fn set_memory_bytes(&mut self, memory_bytes: u64) {
        self.memory_bytes = memory_bytes;
        self.connections_max = usize::try_from(memory_bytes >> 16)
            .unwrap_or(usize::MAX)
            .clamp(256, 16_384);
    }

    /// How the memory is divided.
    #[must_use]
    pub fn memory_split(&self) -> MemorySplit {
        MemorySplit::of(self)
    }

    /// What the node is given to work with.
    #[must_use]
    pub fn resources(&self) -> Resources {
        Resources {
            runtimes: self.threads,
            requests_max: self.requests_in_flight_max,
            memory: self.memory_split().node,
        }
    }

    /// Puts the port that the node really has into a URL whose port is 0, and
    /// into a name that is that URL.
    pub(crate) fn give_port(&mut self, port: u16) {
        self.node.members.set_own_port(port);
    }

    /// The addresses to listen on: those given, or those of the URL's host.
    ///
    /// # Errors
    /// A host that cannot be resolved.
    pub(crate) fn addresses(&self) -> Result<Vec<SocketAddr>, ConfigError> {
        if !self.listen.is_empty() {
            return Ok(self.listen.clone());
        }
        let url = self.node.url();
        let (host, port) = (url.host(), url.port());
        if host == "localhost" {
            return Ok(vec![
                SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
                SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), port),
            ]);
        }
        let mut addresses: Vec<SocketAddr> = (host, port)
            .to_socket_addrs()
            .map_err(|error| {
                ConfigError::new(
                    "url",
                    format!(
                        "cannot resolve {host} of {url}: {error}; give the addresses to listen on with --listen"
                    ),
                )
            })?
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests;
