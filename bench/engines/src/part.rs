//! The parts of the comparison.

use crate::store::EngineName;
use serde::{Deserialize, Serialize};

/// A part of the comparison, which can run alone.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Values of 100 bytes, without syncs.
    Small,
    /// Values of 1 KiB, without syncs.
    Large,
    /// Writes that are synced before they return.
    Sync,
    /// Ten gigabytes in values of 1 KiB, without syncs, of Kvorum and RocksDB.
    Big,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 4] = [Self::Small, Self::Large, Self::Sync, Self::Big];

    /// The parts that take minutes together; the other one takes half an hour alone.
    pub const SHORT: [Self; 3] = [Self::Small, Self::Large, Self::Sync];

    /// The engines that take part, in the order of their turns.
    pub fn engines(self) -> &'static [EngineName] {
        match self {
            Self::Small | Self::Large | Self::Sync => &EngineName::ALL,
            Self::Big => &[EngineName::Kvorum, EngineName::RocksDb],
        }
    }

    /// The part's name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Large => "large",
            Self::Sync => "sync",
            Self::Big => "big",
        }
    }
}
