//! What can be set of a node, and how its memory is divided.
//!
//! [`NodeConfig`] is plain data. Who builds it (the command line) starts from
//! [`NodeConfig::new`] and changes what it likes; [`NodeConfig::validate`]
//! (`validation`, `bounds`) says in words what cannot be, and
//! [`crate::Node::start`] calls it again. [`MemorySplit`] (`memory`) divides
//! the one number for memory.

pub mod bounds;
mod memory;
mod secret;
mod validation;

pub use memory::MemorySplit;
pub use secret::Secret;

use cluster::{Members, NodeUrl, Replicas};
use lsm::{Compression, Durability};
use peer::Protocol;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

/// The least memory that a node can be given, in bytes.
pub const MEMORY_BYTES_MIN: u64 = 128 << 20;

/// What can be set of a node. All durations are real time; all sizes are bytes.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// All nodes of the cluster, this one among them. Where it is alone, its
    /// port may be 0, which takes any free one and is of use to tests.
    pub members: Members,
    /// The version that the status page shows.
    pub version: String,
    /// The addresses to listen on. Empty: those that the URL's host resolves
    /// to; `localhost` is 127.0.0.1 and ::1.
    pub listen: Vec<SocketAddr>,
    /// Names by which clients reach the node, beside `localhost` and the hosts
    /// of the URLs of all members; any IP address will do. Default: none.
    pub hosts: Vec<String>,
    /// The folder that holds the store and nothing else.
    pub data: PathBuf,
    /// All the memory that the node may plan with; see [`MemorySplit`]. Default: 128 MiB.
    pub memory_bytes: u64,
    /// When a write counts as stored. Default: [`Durability::Sync`].
    pub durability: Durability,
    /// Runtimes that serve connections, each a thread. Default: one a core.
    pub threads: usize,
    /// Threads for reads that may block on the disk. Default: four a core, at least 4.
    pub read_threads: usize,
    /// Reads that may wait for one of these threads; more are refused. Default: 1024.
    pub read_queue: usize,
    /// Requests that are worked on at a time, over all runtimes, each of which
    /// has an even share. Default: 1024.
    pub requests_in_flight_max: usize,
    /// Requests that may wait to be worked on; more are refused. Default: 1024.
    pub requests_queued_max: usize,
    /// Open connections of clients and peers; more wait in the listen queue. A
    /// node with peers refuses some of those, to let peers in. Default: one for each
    /// 32 KiB of memory, between 256 and 16,384.
    pub connections_max: usize,
    /// Ranges that are streamed at a time; more are refused. `None`: as
    /// [`MemorySplit::scans_max`] has it.
    pub scans_max: Option<usize>,
    /// The longest value. Default: 16 MiB.
    pub value_bytes_max: usize,
    /// How long the replicas have to answer before a request ends in `504`. Default: 1 s.
    pub timeout: Duration,
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
    /// The share of absent keys for which a table is read in vain; `None` for
    /// no filters. Default: 0.01.
    pub filter_false_positive_rate: Option<f64>,
    /// How data blocks are compressed. Default: LZ4.
    pub compression: Compression,
    /// Whether tables are compacted in the background. Default: yes.
    pub compaction: bool,
    /// How fast compaction may write, in bytes a second. Default: 64 MiB.
    pub compaction_bytes_per_second: u64,
    /// The size at which a memtable is flushed; `None`: as [`MemorySplit`] has it.
    pub memtable_bytes: Option<usize>,
    /// Space kept free for deletes and compaction when the disk is full. Default: 64 MiB.
    pub disk_reserve_bytes: u64,
    /// `ack` and `from` where a request gives neither; `None`: all nodes and their quorum.
    pub replicas_default: Option<Replicas>,
    /// The secret by which the nodes of the cluster know each other. Only where
    /// all of them are on this machine, or this one is alone, can it be `None`.
    pub cluster_secret: Option<Secret>,
    /// Whether this store's reads and acks count although it is not the one
    /// that the peers knew, or an older state of it, so that what it had
    /// acknowledged may be missing. Default: no.
    pub accept_empty: bool,
    /// Whether this start drops, for good, the versions and hints that are
    /// stamped further ahead of the clock than [`NodeConfig::clock_drift_max`].
    /// Default: no.
    pub drop_future_versions: bool,
    /// How far the clock may be from those of most peers; beyond it the node
    /// stamps no writes. Default: 1 h.
    pub clock_drift_max: Duration,
    /// How much room the hints for all peers may take on the disk, in bytes;
    /// the oldest go first. Default: 1 GiB.
    pub hint_bytes_max: u64,
    /// How long a hint is kept. Default: 3 h.
    pub hint_age_max: Duration,
    /// Whether `/debug/profile` is served, which tells whoever asks what goes
    /// on inside the node. Default: no.
    pub debug_endpoints: bool,
    /// What the node speaks with its peers: another build's, for tests of two
    /// releases side by side. Default: [`Protocol::OWN`].
    #[doc(hidden)]
    pub protocol: Protocol,
}

/// Why a configuration cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct ConfigError {
    /// The field of [`NodeConfig`].
    pub field: &'static str,
    /// What is wrong with it and what to do.
    pub problem: String,
}

impl ConfigError {
    /// What is wrong with a field and what to do.
    pub(crate) fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self {
            field,
            problem: problem.into(),
        }
    }
}

impl NodeConfig {
    /// A configuration with every default for one of `members` (a
    /// [`NodeUrl`] stands for a node that is alone) that keeps its store in `data`.
    #[must_use]
    pub fn new(members: impl Into<Members>, data: impl Into<PathBuf>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut config = Self {
            members: members.into(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            listen: Vec::new(),
            hosts: Vec::new(),
            data: data.into(),
            memory_bytes: 0,
            durability: Durability::Sync,
            threads: cores,
            read_threads: cores.saturating_mul(4).max(4),
            read_queue: 1024,
            requests_in_flight_max: 1024,
            requests_queued_max: 1024,
            connections_max: 0,
            scans_max: None,
            value_bytes_max: 16 << 20,
            timeout: Duration::from_secs(1),
            idle_timeout: Duration::from_secs(75),
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            scan_stall_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(8),
            filter_false_positive_rate: Some(0.01),
            compression: Compression::Lz4,
            compaction: true,
            compaction_bytes_per_second: 64 << 20,
            memtable_bytes: None,
            disk_reserve_bytes: 64 << 20,
            replicas_default: None,
            cluster_secret: None,
            accept_empty: false,
            drop_future_versions: false,
            clock_drift_max: Duration::from_secs(3600),
            hint_bytes_max: 1 << 30,
            hint_age_max: Duration::from_secs(3 * 3600),
            debug_endpoints: false,
            protocol: Protocol::OWN,
        };
        config.set_memory_bytes(MEMORY_BYTES_MIN);
        config
    }

    /// Sets the memory, and the bound on connections that follows from it.
    pub fn set_memory_bytes(&mut self, memory_bytes: u64) {
        self.memory_bytes = memory_bytes;
        self.connections_max = usize::try_from(memory_bytes >> 15)
            .unwrap_or(usize::MAX)
            .clamp(256, 16_384);
    }

    /// The node's own URL.
    #[must_use]
    pub fn url(&self) -> &NodeUrl {
        self.members.own_url()
    }

    /// The node's name, by which keys are placed.
    #[must_use]
    pub fn name(&self) -> &str {
        self.members.own_name()
    }

    /// How the memory is divided.
    #[must_use]
    pub fn memory_split(&self) -> MemorySplit {
        MemorySplit::of(self)
    }

    /// What a batch of a range may take while it is read, in bytes.
    pub(crate) fn range_batch_bytes(&self) -> usize {
        memory::range_batch_bytes(self.value_bytes_max)
    }

    /// The options of the store.
    #[must_use]
    pub fn store_options(&self) -> lsm::Options {
        let split = self.memory_split();
        lsm::Options {
            durability: self.durability,
            memtable_bytes: split.memtable_bytes,
            memtables_frozen_max: MemorySplit::MEMTABLES_FROZEN_MAX,
            write_queue_bytes_max: split.write_queue_bytes,
            cache_bytes: split.cache_bytes,
            compression: self.compression,
            filter_false_positive_rate: self.filter_false_positive_rate,
            compaction: self.compaction,
            compaction_bytes_per_second: self.compaction_bytes_per_second,
            disk_reserve_bytes: self.disk_reserve_bytes,
            // A request is told of for as long as it takes, also one that came
            // late; the nodes of a cluster have the same timeout.
            verdicts_kept: self.timeout.saturating_mul(2),
            ..lsm::Options::default()
        }
    }

    /// Puts the port that the node really has into a URL whose port is 0, and
    /// into a name that is that URL.
    pub(crate) fn give_port(&mut self, port: u16) {
        self.members.give_own_port(port);
    }

    /// The addresses to listen on: those given, or those of the URL's host.
    ///
    /// # Errors
    /// A host that cannot be resolved.
    pub(crate) fn addresses(&self) -> Result<Vec<SocketAddr>, ConfigError> {
        if !self.listen.is_empty() {
            return Ok(self.listen.clone());
        }
        let url = self.url();
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
