//! Which mends a store takes.

use super::Forgetting;
use base::{Entry, Kind, Timestamp};
use cluster::Standing;
use cluster::forgetting::{Arrival, Bounds, Obsolete, Receiving};
use cluster::sweep::{PassId, PassKind};
use lsm::{Admission, Error, Lane};
use profile::lock;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// What decides about the mends of a pass, at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MendRules {
    pass: PassId,
    bounds: Bounds,
    greatest: Timestamp,
    standing: Standing,
    takes_part: bool,
    /// Whether the node takes part in no other full pass.
    is_only: bool,
    disturbed: Timestamp,
    sealed_below: Timestamp,
}

/// How long a store is sealed at most: several times what a driver needs to tell all nodes that
/// F has risen. If it cannot, they hear of it from each other.
const SEALED_MAX: Duration = Duration::from_secs(10);

impl Forgetting {
    /// What decides now about the mends of a pass.
    pub(crate) fn mend_rules(&self, pass: PassId, standing: Standing) -> MendRules {
        let state = lock(&self.state);
        let mut passes = state.passes.iter();
        let is_other =
            |(other, kind): &(PassId, PassKind)| *other != pass && *kind == PassKind::Full;
        MendRules {
            pass,
            bounds: state.stored.bounds,
            greatest: state.greatest,
            standing: self.shared.standing_of(standing),
            takes_part: state.passes.iter().any(|(known, _)| *known == pass),
            is_only: !passes.any(is_other),
            disturbed: state.stored.disturbed,
            sealed_below: state.sealed_below,
        }
    }

    /// The driver of a pass is about to ask for the last time whether this store is as it was
    /// when it was fenced, and raises F then. From now on no version from before this fence is
    /// taken: it would come in behind that answer. That ends once this node hears of F, once the
    /// pass has ended without that, or after a while.
    pub(crate) fn seal(self: &Arc<Self>, fence: Timestamp) {
        let number = {
            let mut state = lock(&self.state);
            state.sealed_below = fence;
            state.seals += 1;
            state.seals
        };
        let forgetting = Arc::downgrade(self);
        let job = Box::new(move || {
            if let Some(forgetting) = forgetting.upgrade() {
                let mut state = lock(&forgetting.state);
                if state.seals == number {
                    state.sealed_below = Timestamp::ZERO;
                }
            }
        });
        let executor = &self.environment.executor;
        executor.spawn(Lane::Owner, SEALED_MAX, job);
    }

    /// The pass has ended, and does not raise F.
    pub(crate) fn unseal(&self) {
        lock(&self.state).sealed_below = Timestamp::ZERO;
    }

    /// A version from before the fence is about to come in behind the scan of a pass: notes that,
    /// durably, for a pass that goes on after a restart. The receiver hears when that is done, or
    /// that it could not be.
    pub(crate) fn disturb(self: &Arc<Self>) -> oneshot::Receiver<()> {
        let (sender, noted) = oneshot::channel();
        let forgetting = Arc::clone(self);
        let job = Box::new(move || {
            match forgetting.change_by(|state| state.stored.with_disturbed_fence()) {
                Ok(()) => {
                    // Whoever asked may have given up.
                    let _is_awaited = sender.send(()).is_ok();
                }
                Err(Error::Closed) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot write the file FORGET: an old version is refused");
                }
            }
        });
        let executor = &self.environment.executor;
        executor.spawn(Lane::Owner, Duration::ZERO, job);
        noted
    }

    /// The greatest fence of a pass that must not raise F once it goes on after a restart.
    pub(crate) fn disturbed(&self) -> Timestamp {
        lock(&self.state).stored.disturbed
    }
}

impl MendRules {
    /// The pass.
    pub(crate) fn pass(&self) -> PassId {
        self.pass
    }

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

    /// Whether no other full pass, which may raise F, has to expect what this one brings.
    pub(crate) fn is_only_full_pass(&self) -> bool {
        self.takes_part && self.is_only
    }

    /// Whether it is durable that a version from before the present fence has come in behind a
    /// scan: see [`Forgetting::disturb`].
    pub(crate) fn is_noted_as_disturbed(&self) -> bool {
        self.disturbed >= self.bounds.fence
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
        if self.is_old(entry) && timestamp < self.sealed_below {
            return Err(Obsolete {
                below: self.sealed_below,
            });
        }
        Ok(Admission::Mend {
            drop_bound: self.bounds.forgotten,
        })
    }
}
