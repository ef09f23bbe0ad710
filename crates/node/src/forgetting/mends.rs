//! Which mends a store takes.

use base::{Entry, Kind, Timestamp};
use cluster::Standing;
use cluster::forgetting::{Arrival, Bounds, Obsolete, Receiving};
use cluster::sweep::PassId;
use lsm::Admission;

/// What decides about the mends of a pass, at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MendRules {
    pub(super) pass: PassId,
    pub(super) bounds: Bounds,
    pub(super) greatest: Timestamp,
    pub(super) standing: Standing,
    pub(super) takes_part: bool,
}

impl MendRules {
    /// Whether the node takes part in the pass.
    pub(crate) fn takes_part(&self) -> bool {
        self.takes_part
    }

    /// Whether it is a live version that a pass must meet that is to raise F: one between F and
    /// the fence.
    pub(crate) fn is_old(&self, entry: &Entry) -> bool {
        let timestamp = entry.timestamp();
        let is_between = timestamp >= self.greatest && timestamp < self.bounds.fence;
        is_between && entry.kind() == Kind::Value
    }

    /// Whether a version that the pass brings is stored, although it may be below the fence.
    /// `is_damaged` says that a damaged block may have held its key: then the store lacks
    /// it like one that is unfilled. The store compares the version with its drop bound once
    /// more when it commits it.
    ///
    /// # Errors
    /// [`Obsolete`].
    pub(crate) fn admit(&self, entry: &Entry, is_damaged: bool) -> Result<Admission, Obsolete> {
        let standing = match (self.standing, is_damaged) {
            (Standing::Witness | Standing::Unconfirmed, true) => Standing::Unfilled,
            (standing, _) => standing,
        };
        let receiving = Receiving {
            greatest: self.greatest,
            standing,
            takes_part: self.takes_part,
            answering: None,
        };
        let arrival = Arrival::Mend(self.pass);
        let is_dead = entry.kind() == Kind::Tombstone;
        let timestamp = entry.timestamp();
        self.bounds.admit(timestamp, is_dead, arrival, receiving)?;
        Ok(Admission::Mend {
            drop_bound: self.bounds.forgotten,
        })
    }
}
