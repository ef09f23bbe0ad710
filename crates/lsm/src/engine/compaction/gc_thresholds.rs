//! What the owner of the store allows compaction to drop.

use crate::options::Environment;
use base::Timestamp;

/// Below which timestamps compaction may drop what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GcThresholds {
    /// Tombstones.
    pub(crate) tombstones: Timestamp,
    /// Non-owned versions. No greater than that for tombstones, on which rests that nothing
    /// older comes later.
    pub(crate) non_owned: Timestamp,
}

impl GcThresholds {
    /// Nothing may be dropped.
    pub(crate) const NONE: Self = Self {
        tombstones: Timestamp::ZERO,
        non_owned: Timestamp::ZERO,
    };

    /// What the owner of the store allows now.
    pub(crate) fn of(environment: &Environment) -> Self {
        let non_owned = environment.non_owned.as_ref();
        let non_owned = non_owned.map_or(Timestamp::ZERO, |non_owned| (non_owned.gc_threshold)());
        let tombstones = (environment.gc_threshold)();
        Self {
            tombstones,
            non_owned: non_owned.min(tombstones),
        }
    }

    /// The same, but no greater than `most`.
    #[must_use]
    pub(crate) fn at_most(self, most: Timestamp) -> Self {
        Self {
            tombstones: self.tombstones.min(most),
            non_owned: self.non_owned.min(most),
        }
    }
}
