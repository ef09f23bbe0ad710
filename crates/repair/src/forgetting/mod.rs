//! What this node remembers of forgetting: its fence, and the forget bound F below which
//! compaction drops what is dead. The rules are those of [`cluster::forgetting`].
//!
//! # What is durable before what
//!
//! - **The fence**: first the file ([`ForgetFile`]), then the store, then the answer to
//!   the driver of the pass. A crash in between leaves a fence that nobody counts on, and
//!   the next start gives it to the store before it takes a write.
//! - **F**: first the file, then compaction. Otherwise a node that has dropped tombstones
//!   could come back without knowing that, and take the versions that they hid.
//!
//! - **A version from before the fence that comes in behind a scan**: first the note of it in the
//!   file, then the version. Otherwise a pass that goes on after a restart could raise F over it.
//! - **The seal**: first the file, then the last answer of a store in a pass. Otherwise it could
//!   take an old version after a restart, while the pass raises F by that answer.
//! - **The bound for surplus copies**: first the file, then compaction. It follows F, but only
//!   for a pass in which this store took part from begin to end, and it holds for the list of
//!   nodes of that pass: other nodes are the replicas of a key under another list.
//!
//! Everything that changes the file is a job of [`JobClass::Owner`], so the changes come one
//! after another.

mod believing;
mod file;
mod mends;
mod state;
mod status;
#[cfg(test)]
mod tests;

pub use file::fuzz_forget;
pub use file::{FORGET_VERSIONS, ForgetFile};
pub use mends::MendRules;
pub use status::{ForgettingStatus, HeldBack};

use base::{Clock, LimitedLog, Timestamp};
use cluster::ReplicaState;
use cluster::forgetting::{Bounds, latest_fence};
use cluster::sweep::{PassId, PassKind};
use lsm::{Disk, Engine, Error, Executor, JobClass};
use profile::lock;
use replica::SharedBounds;
use state::State;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long after a failure the file is written again.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// What forgetting works with.
pub struct ForgettingEnvironment {
    /// The data folder, which exists and is locked.
    pub folder: PathBuf,
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// Runs the jobs.
    pub executor: Arc<dyn Executor>,
    /// The store.
    pub engine: Engine,
    /// How far in the past everything below a fence is.
    pub grace: Duration,
    /// The [hash](cluster::Members::names_hash) of the list of nodes.
    pub members_hash: u64,
    /// While an operator drops the versions from the future: what the present is. A fence
    /// or a forget bound from the future goes as well, wherever it comes from.
    pub present: Option<Box<dyn Fn() -> Timestamp + Send + Sync>>,
    /// The wall clock in milliseconds since 1970, while it is trusted.
    pub trusted_unix_ms: Box<dyn Fn() -> Option<u64> + Send + Sync>,
    /// The greatest fence or forget bound that another member can name truthfully now.
    pub latest_named: Box<dyn Fn() -> Timestamp + Send + Sync>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// What a node remembers of forgetting. Its runtimes share it.
pub struct Forgetting {
    environment: ForgettingEnvironment,
    shared: Arc<SharedBounds>,
    state: Mutex<State>,
    /// The lines about bounds that are not believed, by the member that names them.
    refused: LimitedLog<String>,
    /// Held while the file is written; true once it must not be written any more.
    is_closed: Mutex<bool>,
}

/// What a node is fenced at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raised {
    /// Its durable fence before it was asked.
    pub before: Timestamp,
    /// Its durable fence now.
    pub fence: Timestamp,
}

/// What a member names of forgetting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// The greatest F that it knows.
    pub forgotten: Timestamp,
    /// Its durable fence.
    pub fence: Timestamp,
}

impl Forgetting {
    /// Loads what earlier starts have stored, and fences the store by it. Blocks.
    ///
    /// # Errors
    /// See [`ForgetFile::load`] and [`Engine::raise_closed_timestamp`].
    pub fn open(
        environment: ForgettingEnvironment,
        shared: Arc<SharedBounds>,
    ) -> Result<Arc<Self>, Error> {
        // The folder is locked by now, so nobody else changes the file any more.
        let mut stored = ForgetFile::load(&*environment.disk, &environment.folder)?;
        if let Some(present) = &environment.present {
            // What was acknowledged since other nodes were started like this is within the
            // grace. A fence that is too high only refuses, so it stays as high as it can.
            let fence_max = present();
            let grace_ms = u64::try_from(environment.grace.as_millis()).unwrap_or(u64::MAX);
            let forgotten_ms = fence_max.unix_ms().saturating_sub(grace_ms);
            let lowered = stored.at_most(fence_max, Timestamp::from_unix_ms(forgotten_ms));
            if lowered != stored {
                tracing::warn!(
                    fence = %stored.bounds.fence,
                    forgotten = %stored.greatest.max(stored.bounds.forgotten),
                    "the fence or the GC threshold came from the future, and is lowered"
                );
                lowered.store(&*environment.disk, &environment.folder)?;
                stored = lowered;
            }
        }
        let greatest = stored.greatest.max(stored.bounds.forgotten);
        believing::warn_of_future(&stored, (environment.latest_named)());
        let refused_below = stored.refuses_below(greatest);
        environment.engine.raise_closed_timestamp(refused_below)?;
        stored.publish(&shared, environment.members_hash);
        shared.hear(greatest);
        let state = State {
            stored,
            refused_below,
            greatest,
            greatest_fence: Timestamp::ZERO,
            replica_state: ReplicaState::Starting,
            is_write_due: false,
            ended_pass: None,
            shown: Timestamp::ZERO,
            waiting: Vec::new(),
            sealed_passes: Vec::new(),
            passes: Vec::new(),
            passes_gone_back: Vec::new(),
            held_back: None,
        };
        let clock = Arc::clone(&environment.clock);
        Ok(Arc::new(Self {
            environment,
            shared,
            state: Mutex::new(state),
            refused: LimitedLog::new(clock, believing::REFUSED),
            is_closed: Mutex::new(false),
        }))
    }

    /// Ends all writing to the data folder. Blocks while a write is running.
    pub fn close(&self) {
        *lock(&self.is_closed) = true;
    }

    /// What requests ask.
    pub fn shared(&self) -> &Arc<SharedBounds> {
        &self.shared
    }

    /// What is durable.
    pub fn bounds(&self) -> Bounds {
        lock(&self.state).stored.bounds
    }

    /// The greatest F that this node has heard of.
    pub fn greatest(&self) -> Timestamp {
        self.shared.greatest()
    }

    /// What this node knows.
    pub fn status(&self) -> ForgettingStatus {
        let state = lock(&self.state);
        ForgettingStatus {
            fence: state.stored.bounds.fence,
            forgotten: state.stored.bounds.forgotten,
            surplus_below: state.stored.surplus.with(self.environment.members_hash),
            greatest: state.greatest,
            held_back: state.held_back.clone(),
        }
    }

    /// Takes note of what a full pass that this node drove could not do; `None` if F has
    /// risen.
    pub fn set_held_back(&self, held_back: Option<HeldBack>) {
        lock(&self.state).held_back = held_back;
    }

    /// The timestamp to which a pass that begins now is to raise F; `None` while this
    /// node's clock is not trusted.
    pub fn next_fence(&self) -> Option<Timestamp> {
        let trusted_unix_ms = (self.environment.trusted_unix_ms)();
        latest_fence(trusted_unix_ms, self.environment.grace)
    }

    /// Raises the fence durably towards `fence`, as far as this node's own clock allows, unless
    /// the store is from before the fence of a pass that F rests on. Gives what it is then, in
    /// any case.
    pub fn raise(self: &Arc<Self>, fence: Timestamp) -> oneshot::Receiver<Raised> {
        let (sender, raised) = oneshot::channel();
        let forgetting = Arc::clone(self);
        let job = Box::new(move || {
            let before = forgetting.bounds().fence;
            let own_most = forgetting.next_fence().unwrap_or(Timestamp::ZERO);
            let raise = |state: &State| {
                if state.is_from_before_fence() {
                    // Its low fence says until it is filled that it lacks something.
                    state.stored
                } else {
                    ForgetFile {
                        bounds: Bounds {
                            fence: state.stored.bounds.fence.max(fence.min(own_most)),
                            ..state.stored.bounds
                        },
                        ..state.stored
                    }
                }
            };
            match forgetting.change_by(raise) {
                Ok(()) | Err(Error::Closed) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot raise the fence: the GC threshold does not rise");
                }
            }
            let fence = forgetting.bounds().fence;
            // Whoever asked may have given up.
            let _is_awaited = sender.send(Raised { before, fence }).is_ok();
        });
        let executor = &self.environment.executor;
        executor.spawn(JobClass::Owner, Duration::ZERO, job);
        raised
    }

    /// Takes note of what a member names, or of how the store stands now. This node's own F
    /// follows soon, unless its store may lack something: such a store takes over the fence,
    /// and says when it is fenced if it was not yet. It must take nothing from that member
    /// before, because what is late would come in behind the passes of the others.
    pub fn hear(
        self: &Arc<Self>,
        heard: Heard,
        replica_state: ReplicaState,
    ) -> Option<oneshot::Receiver<()>> {
        let heard = self.without_future(heard);
        let (is_due, fenced) = {
            let mut state = lock(&self.state);
            state.greatest = state.greatest.max(heard.forgotten);
            self.shared.hear(state.greatest);
            state.greatest_fence = state.greatest_fence.max(heard.fence);
            self.apply_replica_state(&mut state, replica_state);
            let next = self.next(&state);
            if next == state.stored {
                return None;
            }
            let takes_over = next.refuses_below(state.greatest) > state.refused_below;
            let fenced = takes_over.then(|| {
                let (sender, fenced) = oneshot::channel();
                state.waiting.retain(|waiting| !waiting.is_closed());
                state.waiting.push(sender);
                fenced
            });
            (!std::mem::replace(&mut state.is_write_due, true), fenced)
        };
        if is_due {
            self.spawn_store_heard(Duration::ZERO);
        }
        fenced
    }

    /// Takes note of the F that a pass has shown, if that pass has ended in this node.
    pub fn shown(&self, pass: PassId, forgotten: Timestamp) {
        let mut state = lock(&self.state);
        if state.ended_pass == Some(pass) {
            state.shown = state.shown.max(forgotten);
        }
    }

    /// A full pass begins or goes on, so what is named in it is not what it has shown; or it
    /// has ended in this node, which took part in it from its begin, without a restart, and is
    /// equal with all others.
    pub fn set_ended_pass(&self, ended: Option<PassId>) {
        lock(&self.state).ended_pass = ended;
    }

    /// What a member names, but for what comes from the future, while an operator drops that:
    /// the member was not started so yet.
    fn without_future(&self, heard: Heard) -> Heard {
        let Some(present) = &self.environment.present else {
            return heard;
        };
        let present = present();
        let past = |bound: Timestamp| {
            if bound <= present {
                bound
            } else {
                Timestamp::ZERO
            }
        };
        Heard {
            forgotten: past(heard.forgotten),
            fence: past(heard.fence),
        }
    }

    fn spawn_store_heard(self: &Arc<Self>, delay: Duration) {
        let forgetting = Arc::downgrade(self);
        let job = Box::new(move || {
            if let Some(forgetting) = forgetting.upgrade() {
                forgetting.store_heard();
            }
        });
        self.environment.executor.spawn(JobClass::Owner, delay, job);
    }

    fn store_heard(self: &Arc<Self>) {
        let waiting = {
            let mut state = lock(&self.state);
            state.is_write_due = false;
            std::mem::take(&mut state.waiting)
        };
        match self.change_by(|state| self.next(state)) {
            Ok(()) => {
                for waiting in waiting {
                    // The handshake may have ended.
                    let _is_awaited = waiting.send(()).is_ok();
                }
            }
            Err(Error::Closed) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot write the file FORGET: the dead are kept until it can");
                lock(&self.state).is_write_due = true;
                self.spawn_store_heard(RETRY_DELAY);
            }
        }
    }

    /// Takes note of how the store stands, before it takes a write. Blocks.
    ///
    /// # Errors
    /// As those of writing the file.
    pub fn set_replica_state(&self, replica_state: ReplicaState) -> Result<(), Error> {
        self.apply_replica_state(&mut lock(&self.state), replica_state);
        self.change_by(|state| self.next(state))
    }

    /// The store was compared with all others, and has buried its leftovers: it is no receiver
    /// any more. Says when that is durable.
    pub fn fill(self: &Arc<Self>) -> oneshot::Receiver<()> {
        let (sender, filled) = oneshot::channel();
        // What was heard while it lacked something may still wait to be written.
        lock(&self.state).replica_state = ReplicaState::Starting;
        let forgetting = Arc::clone(self);
        let job = Box::new(move || {
            let fill = |state: &State| ForgetFile {
                bounds: state.stored.bounds.filled(state.greatest),
                receives_below: Timestamp::ZERO,
                greatest: state.greatest,
                ..state.stored
            };
            match forgetting.change_by(fill) {
                Ok(()) => {
                    let state = lock(&forgetting.state);
                    let is_filled = state.replica_state != ReplicaState::Learner;
                    forgetting.shared.set_filled(is_filled);
                    drop(state);
                    // Whoever asked may have given up.
                    let _is_awaited = sender.send(()).is_ok();
                }
                Err(Error::Closed) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot write the file FORGET: the store waits for the next full repair");
                }
            }
        });
        let executor = &self.environment.executor;
        executor.spawn(JobClass::Owner, Duration::ZERO, job);
        filled
    }

    /// Changes what is durable: in the file, then in the store, then for all others. Blocks.
    fn change_by(&self, change: impl FnOnce(&State) -> ForgetFile) -> Result<(), Error> {
        let is_closed = lock(&self.is_closed);
        if *is_closed {
            return Err(Error::Closed);
        }
        let (before, next, refused_below) = {
            let state = lock(&self.state);
            let next = change(&state);
            let refused_below = state.refused_below.max(next.refuses_below(state.greatest));
            (state.stored, next, refused_below)
        };
        let ForgettingEnvironment {
            folder,
            disk,
            engine,
            ..
        } = &self.environment;
        if next != before {
            next.store(&**disk, folder)?;
        }
        engine.raise_closed_timestamp(refused_below)?;
        let has_risen = next.bounds.forgotten > before.bounds.forgotten;
        let has_surplus_risen = next.surplus != before.surplus;
        {
            let mut state = lock(&self.state);
            (state.stored, state.refused_below) = (next, refused_below);
            next.publish(&self.shared, self.environment.members_hash);
            if has_risen {
                // Whoever drove that pass, what this node had found no longer holds F back.
                state.held_back = None;
            }
        }
        if has_risen || has_surplus_risen {
            engine.apply_gc_threshold();
        }
        if has_risen {
            tracing::info!(forgotten = %next.bounds.forgotten, "what is dead below may be dropped");
        }
        Ok(())
    }

    /// This node takes part in these passes now.
    pub fn set_passes(&self, passes: impl Iterator<Item = (PassId, PassKind)>) {
        let mut state = lock(&self.state);
        state.passes.clear();
        state.passes.extend(passes);
    }

    /// These of them have gone back to a checkpoint, after all nodes were fenced: mends from before
    /// that may still come.
    pub fn set_passes_gone_back(&self, passes: impl Iterator<Item = PassId>) {
        let mut state = lock(&self.state);
        state.passes_gone_back.clear();
        state.passes_gone_back.extend(passes);
    }

    /// Whether the store only receives below the greatest F, if it stands so with its peers.
    pub fn is_receiver(&self, replica_state: ReplicaState) -> bool {
        let state = lock(&self.state);
        let replica_state = self.shared.replica_state_of(replica_state);
        state
            .stored
            .bounds
            .is_receiver(replica_state, state.greatest)
    }

    /// Whether nothing is missing from the store below F, if it stands so with its peers and
    /// has no damage.
    pub fn lacks_nothing(&self, replica_state: ReplicaState) -> bool {
        let is_voter = self.shared.replica_state_of(replica_state) == ReplicaState::Voter;
        is_voter && !self.is_receiver(replica_state)
    }

    fn apply_replica_state(&self, state: &mut State, replica_state: ReplicaState) {
        state.replica_state = replica_state;
        if replica_state == ReplicaState::Learner {
            self.shared.set_filled(false);
        }
    }

    /// What follows from what was heard.
    fn next(&self, state: &State) -> ForgetFile {
        let known = ForgetFile {
            greatest: state.greatest,
            ..state.stored
        };
        let fence = known.bounds.fence.max(state.greatest_fence);
        let next = match self.shared.replica_state_of(state.replica_state) {
            // The store may have been fenced before it lost something.
            ReplicaState::Learner | ReplicaState::ForcedVoter => ForgetFile {
                bounds: Bounds {
                    fence: fence.max(state.greatest),
                    ..known.bounds
                },
                receives_below: state.greatest,
                ..known
            },
            replica_state @ (ReplicaState::Voter | ReplicaState::Starting) => ForgetFile {
                bounds: known.bounds.hear(state.greatest, replica_state),
                ..known
            },
        };
        next.with_shown(state.shown, self.environment.members_hash)
    }
}
