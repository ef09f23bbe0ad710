//! The parts of the comparison.

use serde::{Deserialize, Serialize};

/// A part of the comparison that is run on its own.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Values of 100 bytes, no sync.
    Small,
    /// Values of 1 KiB, no sync.
    Large,
    /// Writes that are synced before they return.
    Sync,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Small, Self::Large, Self::Sync];

    /// Its name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Large => "large",
            Self::Sync => "sync",
        }
    }
}
