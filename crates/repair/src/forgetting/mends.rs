//! Which mends a store takes.

use super::state::State;
use super::{ForgetFile, Forgetting};
use base::{Entry, Kind, Timestamp};
use cluster::ReplicaState;
use cluster::forgetting::{Arrival, Bounds, Obsolete, Receiving};
use cluster::sweep::{PassId, PassKind};
use lsm::{Admission, Barrier, Error, JobClass, LateSource};
use profile::lock;
use replica::Taken;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// What decides about the mends of a pass, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct MendRules {
    pass: PassId,
    barrier: Barrier,
    bounds: Bounds,
    greatest: Timestamp,
    replica_state: ReplicaState,
    takes_part: bool,
    /// Whether the node takes part in no other full pass.
    is_only: bool,
    disturbed: Timestamp,
    sealed: Timestamp,
    /// Whether the node took part in the pass when the store was sealed.
    is_from_before_seal: bool,
    /// Whether the pass has gone back to a checkpoint.
    has_gone_back: bool,
}

impl Forgetting {
    /// What decides now about the mends of a pass.
    pub fn mend_rules(&self, pass: PassId, replica_state: ReplicaState) -> MendRules {
        // Before what the admissions rest on.
        let barrier = self.environment.engine.barrier(LateSource::Comparison);
        let state = lock(&self.state);
        let mut passes = state.passes.iter();
        let is_other =
            |(other, kind): &(PassId, PassKind)| *other != pass && *kind == PassKind::Full;
        MendRules {
            pass,
            barrier,
            bounds: state.stored.bounds,
            greatest: state.greatest,
            replica_state: self.shared.replica_state_of(replica_state),
            takes_part: state.passes.iter().any(|(known, _)| *known == pass),
            is_only: !passes.any(is_other),
            disturbed: state.stored.disturbed,
            sealed: state.stored.sealed,
            is_from_before_seal: state.sealed_passes.contains(&pass),
            has_gone_back: state.passes_gone_back.contains(&pass),
        }
    }

    /// The driver of a pass with this fence asks for the last time whether the store is as it was
    /// when it was fenced. If all members say so, the pass raises F, and nobody knows when this
    /// node hears of that. So from before the answer on, and for good, the store takes a live
    /// version from below the fence only once it was compared with what all other nodes hold.
    /// The receiver hears when that is durable, or that it could not be.
    pub fn seal(self: &Arc<Self>, fence: Timestamp) -> oneshot::Receiver<()> {
        {
            let mut state = lock(&self.state);
            let passes = state.passes.iter().map(|(pass, _)| *pass);
            state.sealed_passes = passes.collect();
        }
        self.note(move |state| state.stored.with_sealed(fence))
    }

    /// A version from before the fence is about to come in behind the scan of a pass: notes that,
    /// durably, for a pass that goes on after a restart. The receiver hears when that is done, or
    /// that it could not be.
    pub fn disturb(self: &Arc<Self>) -> oneshot::Receiver<()> {
        self.note(|state| state.stored.with_disturbed_fence())
    }

    /// Changes what is durable, as a job.
    fn note(
        self: &Arc<Self>,
        change: impl FnOnce(&State) -> ForgetFile + Send + 'static,
    ) -> oneshot::Receiver<()> {
        let (sender, noted) = oneshot::channel();
        let forgetting = Arc::clone(self);
        let job = Box::new(move || match forgetting.change_by(change) {
            Ok(()) => {
                // Whoever asked may have given up.
                let _is_awaited = sender.send(()).is_ok();
            }
            Err(Error::Closed) => {}
            Err(error) => {
                tracing::warn!(
                    %error,
                    "cannot write the file FORGET: old versions are refused, and the GC threshold \
                     does not rise"
                );
            }
        });
        let executor = &self.environment.executor;
        executor.spawn(JobClass::Owner, Duration::ZERO, job);
        noted
    }

    /// The greatest fence of a pass that must not raise F once it goes on after a restart.
    pub fn disturbed(&self) -> Timestamp {
        lock(&self.state).stored.disturbed
    }
}

impl MendRules {
    /// The pass.
    pub fn pass(&self) -> PassId {
        self.pass
    }

    /// The barrier of the store, which names what is admitted by these rules.
    pub fn barrier(&self) -> Barrier {
        self.barrier
    }

    /// The same for what the node itself has asked for, with the number of a range. That number is
    /// known until the pass goes back.
    pub fn for_answers(self) -> Self {
        Self {
            has_gone_back: false,
            ..self
        }
    }

    /// Whether the node takes part in the pass.
    pub fn takes_part(&self) -> bool {
        self.takes_part
    }

    /// Whether it is a live version that a pass must meet that is to raise F: one between F and
    /// the fence. A store that lacks it, as `is_damaged` may say of its key, takes it below F, too,
    /// where a tombstone from above F may hide it.
    pub fn is_old(&self, entry: &Entry, is_damaged: bool) -> bool {
        let (timestamp, replica_state) = (entry.timestamp(), self.replica_state_of_key(is_damaged));
        let is_taken = timestamp >= self.greatest
            || self.takes_part && self.bounds.is_receiver(replica_state, self.greatest);
        is_taken && timestamp < self.bounds.fence && entry.kind() == Kind::Value
    }

    /// How the store stands to a key that a damaged block may have held, or not.
    fn replica_state_of_key(&self, is_damaged: bool) -> ReplicaState {
        match (self.replica_state, is_damaged) {
            (ReplicaState::Voter | ReplicaState::Starting, true) => ReplicaState::Learner,
            (replica_state, _) => replica_state,
        }
    }

    /// Whether no other full pass, which may raise F, has to expect what this one brings.
    pub fn is_only_full_pass(&self) -> bool {
        self.takes_part && self.is_only
    }

    /// Whether it is durable that a version from before the present fence has come in behind a
    /// scan: see [`Forgetting::disturb`].
    pub fn is_noted_as_disturbed(&self) -> bool {
        self.disturbed >= self.bounds.fence
    }

    /// Whether a version that the pass brings is stored, although it may be below the fence, and
    /// how. `is_damaged` says that a damaged block may have held its key: then the store lacks
    /// it like one that is a learner. The store compares the version with its drop bound once
    /// more when it commits it.
    ///
    /// A store that is sealed takes a live version from below that fence only once it was compared
    /// with all others. What it lacks, and so takes below F or without its reads counting, a pass
    /// compares with all others before they do. But that may be the pass that has asked, so
    /// it takes such a version at once only from passes that began later.
    ///
    /// So it is with a pass that has gone back to a checkpoint. A mend from before is one of its
    /// own, and may come behind the comparison of a range that is not over. But the driver did not
    /// wait for it, and its sender may have a tombstone of fewer copies by now.
    ///
    /// # Errors
    /// [`Obsolete`].
    pub fn admit(&self, entry: &Entry, is_damaged: bool) -> Result<Taken, Obsolete> {
        let replica_state = self.replica_state_of_key(is_damaged);
        let receiving = Receiving {
            greatest: self.greatest,
            replica_state,
            takes_part: self.takes_part,
            answering: None,
        };
        let arrival = Arrival::Mend(self.pass);
        let is_dead = entry.kind() == Kind::Tombstone;
        let timestamp = entry.timestamp();
        self.bounds.admit(timestamp, is_dead, arrival, receiving)?;
        let admission = Admission::Late {
            gc_threshold: self.bounds.forgotten,
            barrier: self.barrier,
        };
        let do_reads_count = replica_state != ReplicaState::Learner;
        let is_old = self.is_old(entry, is_damaged);
        let is_sealed = is_old && timestamp < self.sealed;
        let is_met = do_reads_count && timestamp >= self.greatest;
        let comes_behind_seal = is_sealed && (is_met || self.is_from_before_seal);
        Ok(if comes_behind_seal || is_old && self.has_gone_back {
            Taken::OnceCompared {
                admission,
                greatest: self.greatest,
            }
        } else {
            Taken::AtOnce(admission)
        })
    }
}
