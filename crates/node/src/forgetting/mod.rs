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
//! Everything that changes the file is a job of [`Lane::Owner`], so the changes come one
//! after another.

mod file;
#[cfg(test)]
mod tests;

pub(crate) use file::ForgetFile;

use base::{Entry, Kind, Timestamp};
use cluster::forgetting::{Arrival, Bounds, Obsolete, Receiving, may_fence};
use cluster::sweep::PassId;
use cluster::{NodeNumber, Standing};
use lsm::{Disk, Engine, Error, Executor, Lane};
use profile::lock;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// What forgetting works with.
pub(crate) struct ForgettingEnvironment {
    /// The data folder, which exists and is locked.
    pub(crate) folder: PathBuf,
    /// The disk.
    pub(crate) disk: Arc<dyn Disk>,
    /// Runs the jobs.
    pub(crate) executor: Arc<dyn Executor>,
    /// The store.
    pub(crate) engine: Engine,
    /// How far in the past everything below a fence is.
    pub(crate) grace: Duration,
    /// The wall clock in milliseconds since 1970, while it is trusted.
    pub(crate) trusted_unix_ms: Box<dyn Fn() -> Option<u64> + Send + Sync>,
}

/// The F up to which compaction may drop, as the store reads it.
#[derive(Clone, Debug, Default)]
pub(crate) struct DropBound(Arc<AtomicU64>);

impl DropBound {
    /// What is dead below it may go.
    pub(crate) fn get(&self) -> Timestamp {
        Timestamp::from_u64(self.0.load(Relaxed))
    }

    fn raise(&self, forgotten: Timestamp) {
        self.0.fetch_max(forgotten.as_u64(), Relaxed);
    }
}

/// What a node remembers of forgetting. Its runtimes share it.
pub(crate) struct Forgetting {
    environment: ForgettingEnvironment,
    drop_bound: DropBound,
    /// The fence, for those who ask without the lock.
    fence: AtomicU64,
    /// The greatest F that this node has heard of, in the same way.
    heard: AtomicU64,
    state: Mutex<State>,
    /// Held while the file is written; true once it must not be written any more.
    is_closed: Mutex<bool>,
}

struct State {
    /// What is durable.
    stored: ForgetFile,
    /// The greatest F that this node has heard of.
    heard: Timestamp,
    /// The greatest fence of a peer that this node has heard of.
    heard_fence: Timestamp,
    /// How the store stood when something was last heard.
    standing: Standing,
    /// Whether a job will write what was heard.
    is_write_due: bool,
    /// The passes that this node takes part in.
    passes: Vec<PassId>,
    held_back: Option<HeldBack>,
}

/// What a node is fenced at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Raised {
    /// Its durable fence before it was asked.
    pub(crate) before: Timestamp,
    /// Its durable fence now.
    pub(crate) fence: Timestamp,
}

/// What a node knows of forgetting, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgettingStatus {
    /// Below it this node takes no ordinary writes.
    pub fence: Timestamp,
    /// F: what is dead below it is dropped. [`Timestamp::ZERO`] before the first one.
    pub forgotten: Timestamp,
    /// The greatest F that this node has heard of. It is greater than `forgotten` while the
    /// store may lack something.
    pub greatest: Timestamp,
    /// What kept F from rising in the last full pass that this node has driven.
    pub held_back: Option<HeldBack>,
}

/// Why a full pass did not raise F.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldBack {
    /// These nodes were away, had no trusted clock, or run an older release.
    By(Vec<NodeNumber>),
    /// These nodes were not made equal.
    Unequal(Vec<(NodeNumber, NodeNumber)>),
    /// A node was restarted or replaced meanwhile, or versions were found where they do
    /// not belong. The next full pass begins anew.
    Inconclusive,
}

impl Forgetting {
    /// Loads what earlier starts have stored, and fences the store by it. Blocks.
    ///
    /// # Errors
    /// See [`ForgetFile::load`] and [`Engine::fence`].
    pub(crate) fn open(
        environment: ForgettingEnvironment,
        drop_bound: DropBound,
    ) -> Result<Arc<Self>, Error> {
        // The folder is locked by now, so nobody else changes the file any more.
        let stored = ForgetFile::load(&*environment.disk, &environment.folder)?;
        environment.engine.fence(stored.bounds.fence)?;
        drop_bound.raise(stored.bounds.forgotten);
        let state = State {
            stored,
            heard: stored.heard.max(stored.bounds.forgotten),
            heard_fence: Timestamp::ZERO,
            standing: Standing::Unconfirmed,
            is_write_due: false,
            passes: Vec::new(),
            held_back: None,
        };
        Ok(Arc::new(Self {
            environment,
            drop_bound,
            fence: AtomicU64::new(stored.bounds.fence.as_u64()),
            heard: AtomicU64::new(state.heard.as_u64()),
            state: Mutex::new(state),
            is_closed: Mutex::new(false),
        }))
    }

    /// Ends all writing to the data folder. Blocks while a write is running.
    pub(crate) fn close(&self) {
        *lock(&self.is_closed) = true;
    }

    /// What is durable.
    pub(crate) fn bounds(&self) -> Bounds {
        lock(&self.state).stored.bounds
    }

    /// What is durable, without the lock: each read asks. A fence may be newer than the F
    /// beside it.
    pub(crate) fn bounds_now(&self) -> Bounds {
        Bounds {
            forgotten: self.drop_bound.get(),
            fence: Timestamp::from_u64(self.fence.load(Relaxed)),
        }
    }

    /// The greatest F that this node has heard of.
    pub(crate) fn greatest(&self) -> Timestamp {
        Timestamp::from_u64(self.heard.load(Relaxed))
    }

    /// What this node knows.
    pub(crate) fn status(&self) -> ForgettingStatus {
        let state = lock(&self.state);
        ForgettingStatus {
            fence: state.stored.bounds.fence,
            forgotten: state.stored.bounds.forgotten,
            greatest: state.heard,
            held_back: state.held_back.clone(),
        }
    }

    /// Takes note of what a full pass that this node drove could not do; `None` if F has
    /// risen.
    pub(crate) fn set_held_back(&self, held_back: Option<HeldBack>) {
        lock(&self.state).held_back = held_back;
    }

    /// The timestamp to which a pass that begins now is to raise F; `None` while this
    /// node's clock is not trusted.
    pub(crate) fn next_fence(&self) -> Option<Timestamp> {
        let now_unix_ms = (self.environment.trusted_unix_ms)()?;
        let grace_ms = u64::try_from(self.environment.grace.as_millis()).unwrap_or(u64::MAX);
        let fence = Timestamp::from_unix_ms(now_unix_ms.saturating_sub(grace_ms));
        (fence > Timestamp::ZERO).then_some(fence)
    }

    /// Raises the fence durably towards `fence`, as far as this node's own clock allows. Gives
    /// what it is then, in any case.
    pub(crate) fn raise(self: &Arc<Self>, fence: Timestamp) -> oneshot::Receiver<Raised> {
        let (sender, raised) = oneshot::channel();
        let forgetting = Arc::clone(self);
        let job = Box::new(move || {
            let before = forgetting.bounds().fence;
            let own_most = forgetting.next_fence().unwrap_or(Timestamp::ZERO);
            let fence = fence.min(own_most);
            if forgetting.may_fence(fence)
                && let Err(error) = forgetting.change(|bounds| Bounds {
                    fence: bounds.fence.max(fence),
                    ..bounds
                })
            {
                tracing::warn!(%error, "cannot raise the fence: the forget bound does not rise");
            }
            let fence = forgetting.bounds().fence;
            // Whoever asked may have given up.
            let _is_awaited = sender.send(Raised { before, fence }).is_ok();
        });
        let executor = &self.environment.executor;
        executor.spawn(Lane::Owner, Duration::ZERO, job);
        raised
    }

    fn may_fence(&self, fence: Timestamp) -> bool {
        let trusted_unix_ms = (self.environment.trusted_unix_ms)();
        let now_unix_ms = trusted_unix_ms.unwrap_or(0);
        let grace = self.environment.grace;
        may_fence(fence, now_unix_ms, grace, trusted_unix_ms.is_some())
    }

    /// Takes note of the F and the fence that a member names. This node's own F follows
    /// soon, unless its store may lack something: such a store takes over the fence.
    pub(crate) fn hear(
        self: &Arc<Self>,
        forgotten: Timestamp,
        fence: Timestamp,
        standing: Standing,
    ) {
        let is_due = {
            let mut state = lock(&self.state);
            state.heard = state.heard.max(forgotten);
            self.heard.fetch_max(forgotten.as_u64(), Relaxed);
            state.heard_fence = state.heard_fence.max(fence);
            state.standing = standing;
            let is_new = state.next_bounds() != state.stored.bounds;
            is_new && !std::mem::replace(&mut state.is_write_due, true)
        };
        if !is_due {
            return;
        }
        let forgetting = Arc::downgrade(self);
        let job = Box::new(move || {
            if let Some(forgetting) = forgetting.upgrade() {
                forgetting.store_heard();
            }
        });
        let executor = &self.environment.executor;
        executor.spawn(Lane::Owner, Duration::ZERO, job);
    }

    fn store_heard(&self) {
        let next = {
            let mut state = lock(&self.state);
            state.is_write_due = false;
            state.next_bounds()
        };
        // The next report tries again.
        if let Err(error) = self.change(|bounds| Bounds {
            fence: bounds.fence.max(next.fence),
            forgotten: bounds.forgotten.max(next.forgotten),
        }) {
            tracing::warn!(%error, "cannot write the file FORGET: the dead are kept until it can");
        }
    }

    /// Changes the bounds: in the file, then in the store, then for all others. Blocks.
    fn change(&self, change: impl FnOnce(Bounds) -> Bounds) -> Result<(), Error> {
        let is_closed = lock(&self.is_closed);
        if *is_closed {
            return Err(Error::Closed);
        }
        let (before, next) = {
            let state = lock(&self.state);
            let next = ForgetFile {
                bounds: change(state.stored.bounds),
                heard: state.heard,
            };
            (state.stored, next)
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
        engine.fence(next.bounds.fence)?;
        lock(&self.state).stored = next;
        self.fence.fetch_max(next.bounds.fence.as_u64(), Relaxed);
        self.drop_bound.raise(next.bounds.forgotten);
        if next.bounds.forgotten > before.bounds.forgotten {
            tracing::info!(forgotten = %next.bounds.forgotten, "what is dead below may be dropped");
        }
        Ok(())
    }

    /// This node takes part in these passes now.
    pub(crate) fn set_passes(&self, passes: impl Iterator<Item = PassId>) {
        let mut state = lock(&self.state);
        state.passes.clear();
        state.passes.extend(passes);
    }

    /// Whether a version that a pass brings is stored, although it may be below the fence.
    /// `is_damaged` says that a damaged block may have held its key: then the store lacks
    /// it like one that is unfilled.
    ///
    /// # Errors
    /// [`Obsolete`].
    pub(crate) fn admit_mend(
        &self,
        pass: PassId,
        entry: &Entry,
        standing: Standing,
        is_damaged: bool,
    ) -> Result<(), Obsolete> {
        let state = lock(&self.state);
        let standing = match (standing, is_damaged) {
            (Standing::Witness | Standing::Unconfirmed, true) => Standing::Unfilled,
            (standing, _) => standing,
        };
        let receiving = Receiving {
            greatest: state.heard,
            standing,
            takes_part: state.passes.contains(&pass),
            answering: None,
        };
        let arrival = Arrival::Mend {
            pass,
            // Those that take part compare without what is dead below the greatest F, and
            // a pair of which one is a receiver does not come out clean with leftovers.
            forgotten: state.heard,
        };
        let bounds = state.stored.bounds;
        bounds.admit(
            entry.timestamp(),
            entry.kind() == Kind::Tombstone,
            arrival,
            receiving,
        )
    }
}

impl State {
    /// The bounds that follow from what was heard.
    fn next_bounds(&self) -> Bounds {
        let bounds = self.stored.bounds.hear(self.heard, self.standing);
        match self.standing {
            // The store may have been fenced before it lost something.
            Standing::Unfilled | Standing::Accepted => Bounds {
                fence: bounds.fence.max(self.heard_fence),
                ..bounds
            },
            Standing::Witness | Standing::Unconfirmed => bounds,
        }
    }
}
