//! The plan of a load.

mod check;

pub(crate) use check::KEY_DIGITS_MAX;

use crate::Credentials;
use serde::{Deserialize, Serialize};

/// The plan of a load: what a run is to do. It is also part of the results and
/// of reports.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Plan {
    /// The nodes that get requests, as `http://HOST:PORT` or `https://HOST:PORT`;
    /// connections are spread over them. At least one.
    pub targets: Vec<String>,
    /// Which of the targets gets a request.
    #[serde(default)]
    pub ask: Ask,
    /// Open connections over all threads. At least one per thread.
    pub connections: usize,
    /// Threads of the generator. At least one.
    pub threads: usize,
    /// The arrival rate of requests.
    pub rate: Rate,
    /// Seconds of load before the measurement.
    pub warmup_seconds: f64,
    /// Seconds that are measured.
    pub seconds: f64,
    /// Seconds after which a request without a response counts as timed out.
    pub timeout_seconds: f64,
    /// The operations and their weights.
    pub operations: Vec<(Operation, f64)>,
    /// The number of keys. Key numbers are below it, except those that inserts
    /// add.
    pub keys: u64,
    /// How the keys of requests are chosen.
    pub key_choice: KeyChoice,
    /// The bytes of a key.
    pub key_bytes: SizeDistribution,
    /// The bytes of a value.
    pub value_bytes: SizeDistribution,
    /// The most entities that a scan requests.
    pub scan_limit: u64,
    /// `ack` and `from` of each request; none for the store's default.
    pub replicas: Option<(u8, u8)>,
    /// The time to live of the values that are put, in seconds; none for values that do
    /// not expire.
    #[serde(default)]
    pub ttl_seconds: Option<u64>,
    /// How many operations a request has, as a batch; none for requests of one operation.
    #[serde(default)]
    pub batch: Option<usize>,
    /// How many batches of a connection may wait for their answers, as one request that does not
    /// end; none if each batch is a request, which the next one waits for.
    #[serde(default)]
    pub pipeline: Option<usize>,
    /// Whether the values that are read are verified. All values that are put
    /// carry a checksum over themselves and their key.
    pub verify: bool,
    /// The seed of all random choices.
    pub seed: u64,
    /// How the targets and the generator trust each other; no part of results.
    #[serde(skip)]
    pub access: Credentials,
}

impl Plan {
    /// A plan with default values: 64 connections, one thread, 10 s after 1 s
    /// of warm-up, 100,000 keys of 16 bytes chosen uniformly, values of 64
    /// bytes.
    pub fn new(target: impl Into<String>, operation: Operation, rate: Rate) -> Self {
        Self {
            targets: vec![target.into()],
            ask: Ask::Any,
            connections: 64,
            threads: 1,
            rate,
            warmup_seconds: 1.0,
            seconds: 10.0,
            timeout_seconds: 10.0,
            operations: vec![(operation, 1.0)],
            keys: 100_000,
            key_choice: KeyChoice::Uniform,
            key_bytes: SizeDistribution::Fixed(16),
            value_bytes: SizeDistribution::Fixed(64),
            scan_limit: 100,
            replicas: None,
            ttl_seconds: None,
            batch: None,
            pipeline: None,
            verify: true,
            seed: 1,
            access: Credentials::default(),
        }
    }

    /// The names of its operations.
    pub fn operations_label(&self) -> String {
        let used = self.operations.iter().filter(|(_, weight)| *weight > 0.0);
        let names: Vec<&str> = used.map(|(operation, _)| operation.name()).collect();
        names.join("+")
    }
}

/// Which of the targets gets a request.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Any: that of the connection that has been free longest.
    #[default]
    Any,
    /// The first in the preference list of the key, of those that have an open connection.
    Owner,
}

/// The arrival rate of requests.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// Open loop: requests per second over all connections, independent of the
    /// responses. Latency counts from when a request was due.
    PerSecond(f64),
    /// Closed loop: each connection sends its next request as soon as it has a
    /// response.
    Max,
}

/// The operation of a request.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// `PUT` of a chosen key.
    Put,
    /// `PUT` of a key that is new: the next number above all others.
    Insert,
    /// `GET` of a chosen key.
    Get,
    /// `GET` of a key that is never put.
    GetMissing,
    /// `DELETE` of a chosen key.
    Delete,
    /// `GET`, then `PUT` of a chosen key; its latency covers both.
    ReadModifyWrite,
    /// The same, and the `PUT` has the condition that the value is still the one that was read; its
    /// latency covers both. A `412` is a failure: another client was faster.
    CompareAndSet,
    /// A scan from a chosen key.
    Scan,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 8] = [
        Self::Put,
        Self::Insert,
        Self::Get,
        Self::GetMissing,
        Self::Delete,
        Self::ReadModifyWrite,
        Self::CompareAndSet,
        Self::Scan,
    ];

    /// The status with which a node does it, or the last part of it: a server that answers with
    /// another one is none.
    pub(crate) fn success_status(self) -> u16 {
        match self {
            Self::Put | Self::Insert | Self::ReadModifyWrite | Self::CompareAndSet => 201,
            Self::Delete => 202,
            Self::Get | Self::GetMissing | Self::Scan => 200,
        }
    }

    /// Whether it reads a key before it writes it.
    pub(crate) fn writes_back(self) -> bool {
        matches!(self, Self::ReadModifyWrite | Self::CompareAndSet)
    }

    /// Its name in options and labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Insert => "insert",
            Self::Get => "get",
            Self::GetMissing => "get-missing",
            Self::Delete => "delete",
            Self::ReadModifyWrite => "read-modify-write",
            Self::CompareAndSet => "compare-and-set",
            Self::Scan => "scan",
        }
    }
}

/// How the keys of requests are chosen.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyChoice {
    /// In sequence, and again from the first key.
    Sequential,
    /// Each key with equal probability.
    Uniform,
    /// A few keys take most requests: Zipf's law with constant 0.99, with the
    /// popular keys scattered over the key space, as in YCSB.
    Zipfian,
    /// Zipf's law over the age of keys: mostly the keys inserted last.
    Latest,
}

/// A distribution of sizes in bytes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SizeDistribution {
    /// Always this size.
    Fixed(usize),
    /// Uniform from the first size to the second.
    Uniform(usize, usize),
    /// Exponential with the first size as its mean, cut off at the second.
    Exponential(usize, usize),
}

impl SizeDistribution {
    /// The smallest and the greatest possible size.
    pub(crate) fn bounds(self) -> (usize, usize) {
        match self {
            Self::Fixed(bytes) => (bytes, bytes),
            Self::Uniform(least, most) => (least, most),
            Self::Exponential(_, most) => (1.min(most), most),
        }
    }
}
