//! What the owner of the store allows compaction to drop.

use crate::options::Environment;
use base::Timestamp;

/// Below which timestamps compaction may drop what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DropBounds {
    /// Tombstones.
    pub(crate) tombstones: Timestamp,
    /// Surplus versions. No greater than that for tombstones, on which rests that nothing
    /// older comes later.
    pub(crate) surplus: Timestamp,
}

impl DropBounds {
    /// Nothing may be dropped.
    pub(crate) const NONE: Self = Self {
        tombstones: Timestamp::ZERO,
        surplus: Timestamp::ZERO,
    };

    /// What the owner of the store allows now.
    pub(crate) fn of(environment: &Environment) -> Self {
        let surplus = environment.surplus.as_ref();
        let surplus = surplus.map_or(Timestamp::ZERO, |surplus| (surplus.drop_bound)());
        let tombstones = (environment.drop_bound)();
        Self {
            tombstones,
            surplus: surplus.min(tombstones),
        }
    }

    /// The same, but no greater than `most`.
    #[must_use]
    pub(crate) fn at_most(self, most: Timestamp) -> Self {
        Self {
            tombstones: self.tombstones.min(most),
            surplus: self.surplus.min(most),
        }
    }
}
