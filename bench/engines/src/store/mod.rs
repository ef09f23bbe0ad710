//! The engines behind one trait, with the calls that the workloads need.

mod executor;
mod fjall;
mod kvorum;
mod opening;
mod rocksdb;

pub use opening::open;

use crate::data::Key;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why an operation failed.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// An engine that is compared.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum EngineName {
    /// This project's own.
    Kvorum,
    /// RocksDB, the bundled version of the crate.
    #[value(name = "rocksdb")]
    RocksDb,
    /// fjall.
    Fjall,
}

impl EngineName {
    /// All engines.
    pub const ALL: [Self; 3] = [Self::Kvorum, Self::RocksDb, Self::Fjall];
}

impl fmt::Display for EngineName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Kvorum => "Kvorum",
            Self::RocksDb => "RocksDB",
            Self::Fjall => "fjall",
        })
    }
}

/// When a write returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// After the operating system has it.
    Os,
    /// After it is synced, alone or together with others.
    Sync,
}

/// An open engine.
pub trait Store: Send + Sync {
    /// Stores one value, with the durability that the store was opened with.
    fn put(&self, key: &Key, value: &[u8]) -> Result<(), Failure>;

    /// Stores many values, and returns when all are stored.
    fn put_batch(&self, pairs: &[(Key, Vec<u8>)]) -> Result<(), Failure>;

    /// Calls `seen` with the value of a key, if the key has one.
    fn get(&self, key: &Key, seen: &mut dyn FnMut(&[u8])) -> Result<(), Failure>;

    /// Calls `seen` with up to `count_max` keys and values from `start` on, in order.
    fn scan(
        &self,
        start: &[u8],
        count_max: usize,
        seen: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), Failure>;

    /// Flushes, and waits until no flush and no compaction is due.
    fn settle(&self) -> Result<(), Failure>;

    /// Ends the engine, its threads included.
    fn close(self: Box<Self>) -> Result<(), Failure>;
}

#[cfg(test)]
mod tests;
