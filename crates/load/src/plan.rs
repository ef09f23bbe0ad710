//! What a run is to do.

mod check;

pub(crate) use check::KEY_DIGITS_MAX;

use serde::{Deserialize, Serialize};

/// What a run is to do; also the parameters that its outcome and reports show.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Plan {
    /// The nodes to ask, as `http://HOST:PORT`; connections take them in turn. At least one.
    pub targets: Vec<String>,
    /// Open connections, over all threads. At least one a thread.
    pub connections: usize,
    /// Threads of the generator. At least one.
    pub threads: usize,
    /// How fast requests are due.
    pub rate: Rate,
    /// Seconds of load before anything is counted.
    pub warmup_seconds: f64,
    /// Seconds that are counted.
    pub seconds: f64,
    /// Seconds after which a request that has no answer is given up.
    pub timeout_seconds: f64,
    /// How often each operation is chosen.
    pub operations: Vec<(Operation, f64)>,
    /// How many keys there are: key numbers are below it, but for those that inserts add.
    pub keys: u64,
    /// Which key a request takes.
    pub key_choice: KeyChoice,
    /// The bytes of a key.
    pub key_bytes: SizeDistribution,
    /// The bytes of a value.
    pub value_bytes: SizeDistribution,
    /// How many entities a range asks for at most.
    pub range_limit: u64,
    /// `ack` and `from` of each request; none for the store's own default.
    pub replicas: Option<(u8, u8)>,
    /// Whether values read are verified. Those put always carry a checksum over
    /// themselves and their key.
    pub verify: bool,
    /// What all choices are derived from.
    pub seed: u64,
}

impl Plan {
    /// A plan with the values that a quick look takes: 64 connections, a thread,
    /// 10 s after 1 s of warm-up, 100,000 keys of 16 bytes chosen uniformly,
    /// values of 64 bytes.
    pub fn new(target: impl Into<String>, operation: Operation, rate: Rate) -> Self {
        Self {
            targets: vec![target.into()],
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
            range_limit: 100,
            replicas: None,
            verify: true,
            seed: 1,
        }
    }

    /// The operations that it asks for, in a word or two.
    pub fn operations_label(&self) -> String {
        let used = self.operations.iter().filter(|(_, weight)| *weight > 0.0);
        let names: Vec<&str> = used.map(|(operation, _)| operation.name()).collect();
        names.join("+")
    }
}

/// How fast requests are due.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// Open loop: so many a second over all connections, whatever the answers do.
    /// Latency counts from when a request was due.
    PerSecond(f64),
    /// Closed loop: each connection asks again as soon as it is answered.
    Max,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// `PUT` of a chosen key.
    Put,
    /// `PUT` of a key that is new: the next number above all others.
    Insert,
    /// `GET` of a chosen key.
    Get,
    /// `GET` of a key that nobody ever put.
    GetMissing,
    /// `DELETE` of a chosen key.
    Delete,
    /// `GET`, then `PUT`, of a chosen key; its latency is that of both.
    ReadModifyWrite,
    /// A range from a chosen key.
    Range,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Put,
        Self::Insert,
        Self::Get,
        Self::GetMissing,
        Self::Delete,
        Self::ReadModifyWrite,
        Self::Range,
    ];

    /// Its name in options and labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Insert => "insert",
            Self::Get => "get",
            Self::GetMissing => "get-missing",
            Self::Delete => "delete",
            Self::ReadModifyWrite => "read-modify-write",
            Self::Range => "range",
        }
    }
}

/// Which key a request takes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyChoice {
    /// One after the other, over again from the first.
    Sequential,
    /// Any, with equal chance.
    Uniform,
    /// Few keys take most requests: Zipf's law with constant 0.99, the popular
    /// ones scattered over the key space, as in YCSB.
    Zipfian,
    /// Zipf's law over how long ago a key was inserted.
    Latest,
}

/// A size in bytes, fixed or drawn.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SizeDistribution {
    /// Always the same.
    Fixed(usize),
    /// Any from the first to the second, with equal chance.
    Uniform(usize, usize),
    /// Exponentially distributed around the first, up to the second.
    Exponential(usize, usize),
}

impl SizeDistribution {
    /// The least and the greatest that can be drawn.
    pub(crate) fn bounds(self) -> (usize, usize) {
        match self {
            Self::Fixed(bytes) => (bytes, bytes),
            Self::Uniform(least, most) => (least, most),
            Self::Exponential(_, most) => (1.min(most), most),
        }
    }
}
