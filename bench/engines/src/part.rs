//! The parts of the comparison.

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
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 3] = [Self::Small, Self::Large, Self::Sync];

    /// The part's name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Large => "large",
            Self::Sync => "sync",
        }
    }
}
