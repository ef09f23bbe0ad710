//! The configuration of a server, and how it divides the memory.
//!
//! [`ServerConfig`] is plain data and contains the configuration of the node. The command line
//! starts from [`ServerConfig::new`] and changes fields. [`ServerConfig::validate`] (`validation`,
//! `bounds`) says what is invalid and what to do about it; [`crate::Server::start`] calls it again,
//! and checks who can reach the node (`trust`). [`MemorySplit`] (`memory`) divides the one number
//! for memory.

pub mod bounds;
mod log_keys;
mod memory;
mod trust;
mod validation;

pub use bounds::MEMORY_BYTES_MIN;
pub use log_keys::LogKeys;
pub use memory::{MemorySplit, TlsSplit};
pub use trust::{AuditTarget, TrustConfig};

use cluster::{Members, NodeUrl, Replicas};
use node::{ConfigError, NodeConfig, Resources};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;
use tls::TlsFiles;

/// The configuration of a server. All durations are real time; all sizes are bytes.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The node that is served. If it is alone, its port may be 0, which stands for any
    /// free port and is for tests.
    pub node: NodeConfig,
    /// The version that the status page shows.
    pub version: String,
    /// The addresses to listen on. Empty: those that the URL's host resolves
    /// to; `localhost` is 127.0.0.1 and ::1.
    pub listen: Vec<SocketAddr>,
    /// How the node speaks TLS; `None`: it does not. Default: none.
    pub tls: Option<TlsConfig>,
    /// Names by which clients may address the node, beside `localhost`, the hosts of the
    /// URLs of all members and any IP address. Default: none.
    pub hosts: Vec<String>,
    /// The origins, beside the node's own, whose web pages may use the node:
    /// `https://app.example`. Default: none.
    pub cors_origins: Vec<String>,
    /// The memory that the node plans with; see [`MemorySplit`]. Default: 128 MiB.
    pub memory_bytes: u64,
    /// The size at which a memtable is flushed; `None`: that of [`MemorySplit`].
    pub memtable_bytes: Option<usize>,
    /// Runtimes that serve connections, each a thread. Default: one a core.
    pub threads: usize,
    /// Threads for reads that may block on the disk. Default: four a core, at least 4.
    pub read_threads: usize,
    /// How many requests run at a time, over all runtimes, each of which has an even
    /// share. Default: 1024.
    pub requests_in_flight_max: usize,
    /// How many requests may wait for that, each until its deadline. All further
    /// requests are refused at once. Default: 1024.
    pub requests_queued_max: usize,
    /// How many connections of clients and peers may be open. A node accepts more as
    /// unauthenticated connections, on which it serves peers and requests for health, and
    /// answers `503` to all others. Default: one for each 128 KiB of memory, between 256
    /// and 16,384.
    pub connections_max: usize,
    /// How many scans are streamed at a time; more wait. `None`: that of
    /// [`MemorySplit::scans_max`].
    pub scans_max: Option<usize>,
    /// How long a connection may be idle between requests. Default: 75 s.
    pub idle_timeout: Duration,
    /// How long the head of a request may take from its first byte to its last.
    /// Default: 10 s.
    pub head_timeout: Duration,
    /// The span over which at least 64 KiB of a request's body must arrive a second, if
    /// it does not end within the span. Default: 10 s.
    pub body_timeout: Duration,
    /// How long an answer (also a scan) may wait for a client that reads nothing of
    /// it, or less than 8 KiB a second, before the node cuts it. Default: 30 s.
    pub stall_timeout: Duration,
    /// How long a shutdown waits for admitted requests. Default: 8 s, which leaves the
    /// store 2 s of the 10 s that a shutdown may take.
    pub drain_timeout: Duration,
    /// `ack` and `from` of a request that names neither; `None`: all nodes and their
    /// quorum.
    pub replicas_default: Option<Replicas>,
    /// Who may do what.
    pub trust: TrustConfig,
    /// How long a request may take before the log says where its time went. `None`: however
    /// long.
    pub slow_request: Option<Duration>,
    /// The collector that gets the spans of sampled requests, by OTLP over HTTP without TLS.
    /// Default: none.
    pub otlp_endpoint: Option<NodeUrl>,
    /// The share of the requests without `traceparent` that are sampled, from 0 to 1.
    /// Default: 0.
    pub trace_sample: f64,
    /// Whether the node serves `/debug/profile`, which shows every client what happens
    /// inside the node. Default: no.
    pub debug_endpoints: bool,
}

/// How a node speaks TLS, with clients and with its peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// The node's certificate and key, and the authorities of its peers.
    pub files: TlsFiles,
    /// Whether the node also accepts connections without TLS. That is for the time in
    /// which a cluster moves to TLS node by node.
    pub is_optional: bool,
}

impl ServerConfig {
    /// The default configuration of one of `members` that keeps its store in `data`. A
    /// [`NodeUrl`](cluster::NodeUrl) instead of members stands for a node that is alone.
    #[must_use]
    pub fn new(members: impl Into<Members>, data: impl Into<PathBuf>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut config = Self {
            node: NodeConfig::new(members, data),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            listen: Vec::new(),
            tls: None,
            hosts: Vec::new(),
            cors_origins: Vec::new(),
            memory_bytes: 0,
            memtable_bytes: None,
            threads: cores,
            read_threads: cores.saturating_mul(4).max(4),
            requests_in_flight_max: 1024,
            requests_queued_max: 1024,
            connections_max: 0,
            scans_max: None,
            idle_timeout: Duration::from_secs(75),
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(8),
            replicas_default: None,
            trust: TrustConfig::default(),
            slow_request: None,
            otlp_endpoint: None,
            trace_sample: 0.0,
            debug_endpoints: false,
        };
        config.node.compactions_max = (cores / 2).clamp(1, *bounds::COMPACTIONS.end());
        config.set_memory_bytes(MEMORY_BYTES_MIN);
        config
    }

    /// Sets the memory, and what depends on it: the bound on connections, and the longest value.
    pub fn set_memory_bytes(&mut self, memory_bytes: u64) {
        self.memory_bytes = memory_bytes;
        self.node.value_bytes_max = MemorySplit::value_bytes_default(memory_bytes);
        self.connections_max = usize::try_from(memory_bytes >> 17)
            .unwrap_or(usize::MAX)
            .clamp(256, 16_384);
    }

    /// How the memory is divided.
    #[must_use]
    pub fn memory_split(&self) -> MemorySplit {
        MemorySplit::of(self)
    }

    /// The resources of the node.
    #[must_use]
    pub fn resources(&self) -> Resources {
        Resources {
            runtimes: self.threads,
            requests_max: self.requests_in_flight_max,
            memory: self.memory_split().node,
        }
    }

    /// Replaces port 0 in the node's URL, and in a name that is that URL, by the port
    /// that the node really has.
    pub(crate) fn set_port(&mut self, port: u16) {
        self.node.members.set_own_port(port);
    }

    /// The addresses to listen on: the configured ones, without those that others cover, or
    /// those of the URL's host.
    ///
    /// # Errors
    /// The host cannot be resolved.
    pub(crate) fn addresses(&self) -> Result<Vec<SocketAddr>, ConfigError> {
        if !self.listen.is_empty() {
            return Ok(without_covered(&self.listen));
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

/// The addresses without those that stand there before, or that are among all addresses of
/// their family: the system has one socket for both.
fn without_covered(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let all_of_family = |address: &SocketAddr| {
        let all = match address.ip() {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        SocketAddr::new(all, address.port())
    };
    let numbered = addresses.iter().enumerate();
    numbered
        .filter(|(number, address)| {
            let all = all_of_family(address);
            let is_among_all = **address != all && addresses.contains(&all);
            !is_among_all && !addresses[..*number].contains(address)
        })
        .map(|(_, address)| *address)
        .collect()
}

#[cfg(test)]
mod tests;
