//! What can be set of a node, and how its memory is divided.
//!
//! [`NodeConfig`] is plain data. Who builds it (the command line) starts from
//! [`NodeConfig::new`] and changes what it likes; [`NodeConfig::validate`]
//! says in words what cannot be, and [`crate::Node::start`] calls it again.

use crate::coordinator::BATCH_BYTES_MAX;
use lsm::{Compression, Durability};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// The least memory that a node can be given, in bytes.
pub const MEMORY_BYTES_MIN: u64 = 128 << 20;

/// The defaults of `ack` and `from` that an operator chose for all requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicasDefault {
    /// How many replicas must answer.
    pub ack: u8,
    /// How many replicas a key has.
    pub from: u8,
}

/// What can be set of a node. All durations are real time; all sizes are bytes.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The node's own URL, `http://host:port`, as clients and peers write it.
    /// Port 0 takes any free port, which is of use to tests.
    pub url: String,
    /// The node's name, by which keys are placed; the URL by default.
    pub name: String,
    /// The version that the status page shows.
    pub version: String,
    /// The addresses to listen on. Empty: those that the URL's host resolves
    /// to; `localhost` is 127.0.0.1 and ::1.
    pub listen: Vec<SocketAddr>,
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
    /// Open connections; more wait in the listen queue. Default: one for each
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
    /// How long an answer, ranges included, may make no progress before it is cut. Default: 30 s.
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
    pub replicas_default: Option<ReplicasDefault>,
}

/// Between which bounds the numbers of a configuration lie. They keep out what
/// can only be a mistake, and what a node could not keep its promises with.
pub mod bounds {
    use std::ops::RangeInclusive;
    use std::time::Duration;

    /// [`NodeConfig::memory_bytes`](super::NodeConfig::memory_bytes).
    pub const MEMORY_BYTES: RangeInclusive<u64> = super::MEMORY_BYTES_MIN..=1 << 50;
    /// [`NodeConfig::threads`](super::NodeConfig::threads).
    pub const THREADS: RangeInclusive<usize> = 1..=1024;
    /// [`NodeConfig::read_threads`](super::NodeConfig::read_threads).
    pub const READ_THREADS: RangeInclusive<usize> = 1..=4096;
    /// Numbers of what waits, is worked on or is open.
    pub const COUNTS: RangeInclusive<usize> = 1..=1 << 20;
    /// [`NodeConfig::requests_queued_max`](super::NodeConfig::requests_queued_max).
    pub const REQUESTS_QUEUED: RangeInclusive<usize> = 0..=1 << 20;
    /// [`NodeConfig::value_bytes_max`](super::NodeConfig::value_bytes_max).
    pub const VALUE_BYTES: RangeInclusive<u64> = 1..=lsm::VALUE_BYTES_MAX as u64;
    /// [`NodeConfig::memtable_bytes`](super::NodeConfig::memtable_bytes).
    pub const MEMTABLE_BYTES: RangeInclusive<u64> = 64 << 10..=1 << 30;
    /// [`NodeConfig::compaction_bytes_per_second`](super::NodeConfig::compaction_bytes_per_second).
    pub const COMPACTION_BYTES_PER_SECOND: RangeInclusive<u64> = 64 << 10..=1 << 40;
    /// [`NodeConfig::disk_reserve_bytes`](super::NodeConfig::disk_reserve_bytes).
    pub const DISK_RESERVE_BYTES: RangeInclusive<u64> = 0..=1 << 40;
    /// How long something may take.
    pub const TIMES: RangeInclusive<Duration> =
        Duration::from_millis(1)..=Duration::from_secs(24 * 3600);
    /// [`NodeConfig::drain_timeout`](super::NodeConfig::drain_timeout): with the
    /// two seconds of the store, a node stops within ten.
    pub const DRAIN_TIMEOUT: RangeInclusive<Duration> =
        Duration::from_millis(1)..=Duration::from_secs(8);
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

/// A URL of a node, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeUrl {
    /// The host, without the brackets of an IPv6 address.
    pub(crate) host: String,
    /// The port.
    pub(crate) port: u16,
}

/// How the one number [`NodeConfig::memory_bytes`] is divided. What is left
/// of it, a sixteenth, is for connections, heads of requests and stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySplit {
    /// The size at which a memtable is flushed. One is filled while up to
    /// [`MemorySplit::MEMTABLES_FROZEN_MAX`] wait for their flush.
    pub memtable_bytes: usize,
    /// Writes that wait for their group commit.
    pub write_queue_bytes: usize,
    /// The cache for data blocks, filters and index blocks.
    pub cache_bytes: usize,
    /// Bodies of requests being read that have brought up to 64 KiB.
    pub uploads_short_bytes: usize,
    /// Longer bodies of requests being read.
    pub uploads_long_bytes: usize,
    /// Values of more than 64 KiB being answered.
    pub answers_bytes: usize,
    /// Batches of ranges being read and answered.
    pub ranges_bytes: usize,
    /// Ranges that are streamed at a time.
    pub scans_max: usize,
}

impl MemorySplit {
    /// Frozen memtables that may wait for their flush.
    pub const MEMTABLES_FROZEN_MAX: usize = 2;

    /// What one range holds: a batch as read and the same as encoded.
    const SCAN_BYTES: usize = 2 * BATCH_BYTES_MAX;

    /// Divides `memory_bytes`, in sixteenths: 3 for memtables (one active, two
    /// frozen), 2 for writes that wait, half a one for short uploads, 1 each
    /// for long uploads, for long answers and for ranges; 1 is left over. The
    /// cache gets the rest.
    ///
    /// Long uploads, long answers and the batch that a range reads have room
    /// for the longest value each, at the cost of the cache.
    #[must_use]
    pub fn of(memory_bytes: u64, value_bytes_max: usize) -> Self {
        let sixteenth = usize::try_from(memory_bytes / 16).unwrap_or(usize::MAX / 16);
        let long_bytes = sixteenth.max(value_bytes_max);
        let mut split = Self {
            memtable_bytes: sixteenth.clamp(1 << 20, 64 << 20),
            write_queue_bytes: sixteenth * 2,
            cache_bytes: 0,
            uploads_short_bytes: sixteenth / 2,
            uploads_long_bytes: long_bytes,
            answers_bytes: long_bytes,
            ranges_bytes: sixteenth.saturating_add(range_batch_bytes(value_bytes_max)),
            scans_max: (sixteenth / Self::SCAN_BYTES).clamp(4, 1024),
        };
        let rest = (sixteenth * 15).saturating_sub(split.planned_bytes());
        split.cache_bytes = rest.max(sixteenth);
        split
    }

    /// All of it.
    fn planned_bytes(&self) -> usize {
        [
            self.memtable_bytes * (1 + Self::MEMTABLES_FROZEN_MAX),
            self.write_queue_bytes,
            self.cache_bytes,
            self.uploads_short_bytes,
            self.uploads_long_bytes,
            self.answers_bytes,
            self.ranges_bytes,
        ]
        .into_iter()
        .fold(0, usize::saturating_add)
    }
}

/// What a batch of a range may take while it is read: a value may come on top
/// of a batch that is nearly full, before it is left for the next one.
fn range_batch_bytes(value_bytes_max: usize) -> usize {
    value_bytes_max.saturating_add(2 * BATCH_BYTES_MAX)
}

impl NodeConfig {
    /// A configuration with every default for a node at `url` that keeps its store in `data`.
    #[must_use]
    pub fn new(url: impl Into<String>, data: impl Into<PathBuf>) -> Self {
        let url = url.into();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut config = Self {
            name: url.clone(),
            url,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            listen: Vec::new(),
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

    /// Checks everything that can be checked without starting.
    ///
    /// # Errors
    /// The first field that cannot be, and what to do about it.
    pub fn validate(&self) -> Result<(), ConfigError> {
        NodeUrl::parse(&self.url)?;
        let check = |field, holds: bool, otherwise: &str| {
            if holds {
                Ok(())
            } else {
                Err(ConfigError::new(field, otherwise))
            }
        };
        check("name", !self.name.is_empty(), "is empty: give one")?;
        check_bounds("memory_bytes", &self.memory_bytes, &bounds::MEMORY_BYTES)?;
        check_bounds("threads", &self.threads, &bounds::THREADS)?;
        check_bounds("read_threads", &self.read_threads, &bounds::READ_THREADS)?;
        check_bounds(
            "requests_queued_max",
            &self.requests_queued_max,
            &bounds::REQUESTS_QUEUED,
        )?;
        for (field, number) in [
            ("read_queue", self.read_queue),
            ("requests_in_flight_max", self.requests_in_flight_max),
            ("connections_max", self.connections_max),
            ("scans_max", self.scans_max.unwrap_or(1)),
        ] {
            check_bounds(field, &number, &bounds::COUNTS)?;
        }
        let value_bytes_max = self.value_bytes_max as u64;
        check_bounds("value_bytes_max", &value_bytes_max, &bounds::VALUE_BYTES)?;
        check(
            "value_bytes_max",
            value_bytes_max <= self.memory_bytes / 8,
            "the longest value may be an eighth of the memory: lower it, or give more memory",
        )?;
        if let Some(memtable_bytes) = self.memtable_bytes.map(|bytes| bytes as u64) {
            check_bounds("memtable_bytes", &memtable_bytes, &bounds::MEMTABLE_BYTES)?;
            check(
                "memtable_bytes",
                memtable_bytes <= self.memory_bytes / 6,
                "there are three memtables, which may take half of the memory: \
                 lower it, or give more memory",
            )?;
        }
        check_bounds(
            "compaction_bytes_per_second",
            &self.compaction_bytes_per_second,
            &bounds::COMPACTION_BYTES_PER_SECOND,
        )?;
        check_bounds(
            "disk_reserve_bytes",
            &self.disk_reserve_bytes,
            &bounds::DISK_RESERVE_BYTES,
        )?;
        for (field, duration) in [
            ("timeout", self.timeout),
            ("idle_timeout", self.idle_timeout),
            ("head_timeout", self.head_timeout),
            ("body_timeout", self.body_timeout),
            ("scan_stall_timeout", self.scan_stall_timeout),
        ] {
            check_bounds(field, &duration, &bounds::TIMES)?;
        }
        check_bounds("drain_timeout", &self.drain_timeout, &bounds::DRAIN_TIMEOUT)?;
        check(
            "filter_false_positive_rate",
            self.filter_false_positive_rate
                .is_none_or(|rate| rate > 0.0 && rate < 1.0),
            "give a number between 0 and 1",
        )?;
        if let Some(pair) = self.replicas_default {
            check(
                "replicas_default",
                (1..=pair.from).contains(&pair.ack),
                "ack is at least 1 and at most from",
            )?;
            check(
                "replicas_default",
                pair.from == 1,
                "from is at most the number of nodes, which is 1",
            )?;
        }
        Ok(())
    }

    /// How the memory is divided.
    #[must_use]
    pub fn memory_split(&self) -> MemorySplit {
        let mut split = MemorySplit::of(self.memory_bytes, self.value_bytes_max);
        if let Some(memtable_bytes) = self.memtable_bytes {
            // The cache makes up for it, as far as it can.
            let memtables = |bytes: usize| bytes * (1 + MemorySplit::MEMTABLES_FROZEN_MAX);
            let least = split.cache_bytes.min(split.write_queue_bytes / 2);
            split.cache_bytes = (split.cache_bytes + memtables(split.memtable_bytes))
                .saturating_sub(memtables(memtable_bytes))
                .max(least);
            split.memtable_bytes = memtable_bytes;
        }
        if let Some(scans_max) = self.scans_max {
            split.scans_max = scans_max;
        }
        split
    }

    /// What a batch of a range may take while it is read, in bytes.
    pub(crate) fn range_batch_bytes(&self) -> usize {
        range_batch_bytes(self.value_bytes_max)
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
            ..lsm::Options::default()
        }
    }

    /// Puts the port that the node really has into a URL whose port is 0, and
    /// into a name that is that URL.
    pub(crate) fn give_port(&mut self, port: u16) {
        let Ok(url) = NodeUrl::parse(&self.url) else {
            return;
        };
        if url.port != 0 {
            return;
        }
        let given = if url.host.contains(':') {
            format!("http://[{}]:{port}", url.host)
        } else {
            format!("http://{}:{port}", url.host)
        };
        if self.name == self.url {
            self.name.clone_from(&given);
        }
        self.url = given;
    }

    /// The addresses to listen on: those given, or those of the URL's host.
    ///
    /// # Errors
    /// A host that cannot be resolved.
    pub(crate) fn addresses(&self) -> Result<Vec<SocketAddr>, ConfigError> {
        if !self.listen.is_empty() {
            return Ok(self.listen.clone());
        }
        let url = NodeUrl::parse(&self.url)?;
        if url.host.eq_ignore_ascii_case("localhost") {
            return Ok(vec![
                SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), url.port),
                SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), url.port),
            ]);
        }
        let mut addresses: Vec<SocketAddr> = (url.host.as_str(), url.port)
            .to_socket_addrs()
            .map_err(|error| {
                let (host, url) = (&url.host, &self.url);
                ConfigError::new(
                    "url",
                    format!(
                        "cannot resolve {host} of {url}: {error}; give the addresses to listen on"
                    ),
                )
            })?
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        Ok(addresses)
    }
}

fn check_bounds<T: PartialOrd + fmt::Debug>(
    field: &'static str,
    number: &T,
    bounds: &RangeInclusive<T>,
) -> Result<(), ConfigError> {
    if bounds.contains(number) {
        return Ok(());
    }
    let (least, most) = (bounds.start(), bounds.end());
    let problem = format!("is {number:?}: give {least:?} to {most:?}");
    Err(ConfigError::new(field, problem))
}

/// Checks that a text is the URL of a node, `http://host:port`.
///
/// # Errors
/// What is wrong with it and what to do.
pub fn check_url(url: &str) -> Result<(), ConfigError> {
    NodeUrl::parse(url).map(|_| ())
}

impl NodeUrl {
    /// Takes `http://host:port` apart; a trailing slash is let pass.
    pub(crate) fn parse(url: &str) -> Result<Self, ConfigError> {
        let wrong = |what: &str| {
            ConfigError::new(
                "url",
                format!("`{url}` {what}: write it as http://host:port"),
            )
        };
        let rest = url
            .strip_prefix("http://")
            .ok_or_else(|| wrong("does not begin with http://"))?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = authority
            .rsplit_once(':')
            .ok_or_else(|| wrong("has no port"))?;
        let bracketed = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let plain = host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        let host = match bracketed {
            Some(host) if host.parse::<Ipv6Addr>().is_ok() => host,
            None if plain && !host.is_empty() => host,
            _ => return Err(wrong("has a host that is none")),
        };
        if !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong("has a port that is no number"));
        }
        let port = port
            .parse()
            .map_err(|_| wrong("has a port that is no number up to 65535"))?;
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (url, host, port) in [
            ("http://localhost:8080", "localhost", 8080),
            ("http://localhost:8080/", "localhost", 8080),
            ("http://[::1]:0", "::1", 0),
            ("http://node-1.example:65535", "node-1.example", 65535),
        ] {
            let expected = NodeUrl {
                host: host.to_owned(),
                port,
            };
            assert_eq!(NodeUrl::parse(url), Ok(expected), "{url}");
        }
        for url in [
            "localhost:8080",
            "https://localhost:8080",
            "http://localhost",
            "http://:80",
            "http://::1:80",
            "http://[localhost]:80",
            "http://localhost:65536",
            "http://localhost:+80",
            "http://localhost:80/path",
            "http://user@localhost:80",
        ] {
            assert!(NodeUrl::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn localhost_is_both_families() {
        let config = NodeConfig::new("http://localhost:7", "data");
        let addresses = config.addresses().unwrap();
        assert_eq!(
            addresses,
            ["127.0.0.1:7".parse().unwrap(), "[::1]:7".parse().unwrap()]
        );
    }

    #[test]
    fn the_parts_of_the_memory_do_not_exceed_it() {
        for memory_mib in [128u64, 192, 256, 1024, 8192, 65536] {
            let memory_bytes = memory_mib << 20;
            let split = MemorySplit::of(memory_bytes, 16 << 20);
            assert!(
                split.planned_bytes() as u64 <= memory_bytes,
                "{memory_mib} MiB"
            );
        }
    }

    #[test]
    fn larger_memtables_are_at_the_cost_of_the_cache() {
        let mut config = NodeConfig::new("http://localhost:8080", "data");
        config.set_memory_bytes(1 << 30);
        let before = config.memory_split();
        config.memtable_bytes = Some(before.memtable_bytes + (1 << 20));
        let after = config.memory_split();
        assert_eq!(after.cache_bytes, before.cache_bytes - (3 << 20));
        assert_eq!(after.planned_bytes(), before.planned_bytes());
    }

    #[test]
    fn what_cannot_be_is_said() {
        let valid = NodeConfig::new("http://localhost:8080", "data");
        assert_eq!(valid.validate(), Ok(()));
        let refused = |change: fn(&mut NodeConfig), word: &str| {
            let mut config = valid.clone();
            change(&mut config);
            let error = config.validate().unwrap_err();
            let text = error.to_string();
            assert!(text.contains(word), "{text} should name {word}");
        };
        refused(|config| config.url = "nowhere".to_owned(), "nowhere");
        refused(|config| config.memory_bytes = 1 << 20, "memory");
        refused(|config| config.threads = 0, "threads");
        refused(|config| config.threads = 1 << 20, "threads");
        refused(|config| config.value_bytes_max = 0, "value_bytes_max");
        refused(
            |config| config.value_bytes_max = 32 << 20,
            "eighth of the memory",
        );
        refused(|config| config.memtable_bytes = Some(1), "memtable_bytes");
        refused(
            |config| config.memtable_bytes = Some(64 << 20),
            "half of the memory",
        );
        refused(
            |config| config.compaction_bytes_per_second = 0,
            "compaction_bytes_per_second",
        );
        refused(
            |config| config.drain_timeout = Duration::from_secs(60),
            "drain_timeout",
        );
        refused(|config| config.timeout = Duration::ZERO, "timeout");
        refused(
            |config| config.filter_false_positive_rate = Some(1.0),
            "filter_false_positive_rate",
        );
        refused(
            |config| config.replicas_default = Some(ReplicasDefault { ack: 2, from: 1 }),
            "ack",
        );
        refused(
            |config| config.replicas_default = Some(ReplicasDefault { ack: 1, from: 2 }),
            "from",
        );
    }
}
