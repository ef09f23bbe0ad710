//! The engines, behind the few calls that the workloads need.

mod executor;
mod fjall;
mod kvorum;
mod opening;
mod rocksdb;

pub use opening::open;

use crate::data::Key;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why an engine could not do what it was asked.
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
    /// All of them.
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
    /// Once the operating system has it.
    Os,
    /// Once it is synced, alone or with others.
    Sync,
}

/// An open engine.
pub trait Store: Send + Sync {
    /// Stores one value, as durably as the store was opened for.
    fn put(&self, key: &Key, value: &[u8]) -> Result<(), Failure>;

    /// Stores many, and returns once all are.
    fn put_batch(&self, pairs: &[(Key, Vec<u8>)]) -> Result<(), Failure>;

    /// Shows `seen` the value of a key; does not call it when there is none.
    fn get(&self, key: &Key, seen: &mut dyn FnMut(&[u8])) -> Result<(), Failure>;

    /// Shows `seen` up to `count_max` keys and values from `start` on, in order.
    fn scan(
        &self,
        start: &[u8],
        count_max: usize,
        seen: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), Failure>;

    /// Flushes, and waits until no flush and no compaction is due any more.
    fn settle(&self) -> Result<(), Failure>;

    /// Ends the engine, its threads included.
    fn close(self: Box<Self>) -> Result<(), Failure>;
}

#[cfg(test)]
mod tests;
