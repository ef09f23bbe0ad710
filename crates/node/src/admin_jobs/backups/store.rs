//! This node's side of backups: its store is frozen, and what was frozen is stored at the target.
//!
//! ```text
//! hold ----> frozen, commits held off ----> go on, keeps ----> kept ----> upload ... ----> ended
//!                      |                                         |          |
//!                      '------- no word for a moment ------------+----------'
//!                                                       let go of, and all that it pins
//! ```
//!
//! A step of an upload that hangs at the target keeps its thread. The snapshot is let go of all the same:
//! the upload has failed then.

use super::BackupEnvironment;
use backup::{
    BackupError, BackupId, NodeSummary, SharedSnapshot, TableHashes, Upload, UploadOrder,
    UploadProgress,
};
use base::Timestamp;
use cluster::backup::HeldStore;
use lsm::{Engine, JobClass};
use membership::{Layouts, Membership};
use peer::BackupAnswer;
use profile::lock;
use replica::background::WorkKind;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The longest that commits are held off. The coordinator waits for half of it.
const HOLD_MAX: Duration = Duration::from_millis(200);

/// How often what is frozen is looked after, before it is kept and from then on.
const UNKEPT_WATCH: Duration = Duration::from_millis(400);
const KEPT_WATCH: Duration = Duration::from_secs(60);

/// How long the coordinator may be silent before what was frozen is let go of.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// How long a step of an upload may take, and what it waits for before it begins. The calls of a target
/// that end by themselves are shorter.
const STEP_MAX: Duration = Duration::from_secs(180);

/// How often a failing target is tried again, and how long it is left alone.
const TRIES_MAX: u32 = 10;
const RETRY_DELAY: Duration = Duration::from_secs(3);

/// The bytes of removed tables that a snapshot may keep on the disk, as a share of the free space.
const PINNED_SHARE_OF_FREE: u64 = 4;

/// This node's side of backups.
pub(crate) struct StoreBackups {
    environment: Arc<BackupEnvironment>,
    engine: Engine,
    membership: Membership,
    layouts: Layouts,
    /// The GC threshold of the store.
    gc_threshold: Box<dyn Fn() -> Timestamp + Send + Sync>,
    name: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    frozen: Option<Frozen>,
    /// Whether the store is being frozen. That waits for commits, so the lock is not held meanwhile:
    /// runtimes take it.
    is_freezing: bool,
    /// Whether a job looks after what is frozen.
    is_watched: bool,
    /// The hashes that the last upload knew.
    hashes: TableHashes,
    /// What is at targets of this node's uploads since its start, in bytes.
    uploaded_bytes: u64,
}

/// What was frozen.
struct Frozen {
    hold: u64,
    /// When the coordinator was last heard of, on the monotonic clock.
    heard: Duration,
    is_kept: bool,
    snapshot: SharedSnapshot,
    upload: UploadState,
}

enum UploadState {
    Waiting,
    Running {
        progress: UploadProgress,
        /// When its last step ended, on the monotonic clock.
        stepped: Duration,
    },
    Ended(NodeSummary),
    Failed(String),
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // The upload has it, too.
        self.snapshot.let_go();
    }
}

impl State {
    /// What was frozen, if this is its hold.
    fn frozen_as(&mut self, hold: u64) -> Option<&mut Frozen> {
        self.frozen.as_mut().filter(|frozen| frozen.hold == hold)
    }

    /// The same, while its upload runs.
    fn running_as(&mut self, hold: u64) -> Option<&mut Frozen> {
        let frozen = self.frozen_as(hold);
        frozen.filter(|frozen| matches!(frozen.upload, UploadState::Running { .. }))
    }
}

/// What a node's part in backups costs, for the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupUsage {
    /// The bytes of removed tables that stay on the disk for a backup.
    pub pinned_bytes: u64,
    /// What was stored at targets since the start, in bytes.
    pub uploaded_bytes: u64,
}

fn refused(why: &(impl Display + ?Sized)) -> BackupAnswer {
    BackupAnswer::Refused(why.to_string())
}

impl StoreBackups {
    pub(crate) fn new(
        environment: Arc<BackupEnvironment>,
        engine: Engine,
        membership: Membership,
        layouts: Layouts,
        gc_threshold: Box<dyn Fn() -> Timestamp + Send + Sync>,
        name: String,
    ) -> Self {
        Self {
            environment,
            engine,
            membership,
            layouts,
            gc_threshold,
            name,
            state: Mutex::default(),
        }
    }

    /// What it costs now.
    pub(crate) fn usage(&self) -> BackupUsage {
        let state = lock(&self.state);
        let pinned = state.frozen.as_ref().map(|frozen| match &frozen.upload {
            UploadState::Waiting => frozen.snapshot.pinned_bytes(),
            UploadState::Running { progress, .. } => progress.pinned_bytes,
            UploadState::Ended(_) | UploadState::Failed(_) => 0,
        });
        BackupUsage {
            pinned_bytes: pinned.unwrap_or(0),
            uploaded_bytes: state.uploaded_bytes,
        }
    }

    /// The IDs of the stores of all members, as far as this node knows them.
    pub(super) fn stores_of_cluster(&self) -> BTreeMap<String, Option<u64>> {
        let layout = self.layouts.load();
        let members = layout.members();
        let stores = members.ids().map(|node| {
            let remembered = self.membership.durably_remembered(node);
            let known = self.membership.store_of(node);
            let store = known.or_else(|| remembered.map(|it| it.store_id));
            (members.name(node).to_owned(), store)
        });
        stores.collect()
    }

    /// The zones of the members that have one.
    pub(super) fn zones(&self) -> BTreeMap<String, String> {
        let list = self.membership.list();
        let members = list.iter().flat_map(|list| list.members());
        members
            .filter_map(|it| Some((it.member.name().to_owned(), it.zone.clone()?)))
            .collect()
    }

    fn now(&self) -> Duration {
        self.environment.clock.monotonic()
    }

    /// Holds the commits off and freezes the store, if that can be done before `deadline` on the
    /// monotonic clock.
    pub(crate) async fn hold(self: &Arc<Self>, deadline: Duration) -> BackupAnswer {
        let own = Arc::clone(self);
        let held = move || own.hold_now(deadline);
        let held = self.environment.run(JobClass::Owner, held).await;
        held.unwrap_or_else(|| refused("the node stops"))
    }

    fn hold_now(self: &Arc<Self>, deadline: Duration) -> BackupAnswer {
        let hold = self.environment.random.next_u64();
        self.let_go_of_silent();
        if !self.membership.replica_state().is_voter() {
            return refused("the store is no voter: it may lack something");
        }
        if self.now() >= deadline {
            return refused("it was too late");
        }
        {
            let mut state = lock(&self.state);
            if state.frozen.is_some() || state.is_freezing {
                return refused("another backup has frozen this store");
            }
            state.is_freezing = true;
        }
        let frozen = self.engine.freeze(hold, HOLD_MAX);
        let mut state = lock(&self.state);
        state.is_freezing = false;
        let snapshot = match frozen {
            Ok(snapshot) => snapshot,
            Err(error) => {
                drop(state);
                if matches!(error, lsm::Error::Overloaded) {
                    self.flush_ahead();
                }
                return refused(&error);
            }
        };
        let store = HeldStore {
            hold,
            greatest_timestamp: snapshot.greatest_timestamp(),
            gc_threshold: (self.gc_threshold)(),
            epoch: self.layouts.peek().epoch(),
        };
        state.frozen = Some(Frozen {
            hold,
            heard: self.now(),
            is_kept: false,
            snapshot: SharedSnapshot::new(snapshot),
            upload: UploadState::Waiting,
        });
        let is_watched = std::mem::replace(&mut state.is_watched, true);
        drop(state);
        if !is_watched {
            self.watch_later(UNKEPT_WATCH);
        }
        BackupAnswer::Held(store)
    }

    /// Flushes what waits, so that the store can be frozen soon.
    fn flush_ahead(&self) {
        let engine = self.engine.clone();
        let job = Box::new(move || {
            if let Err(error) = engine.flush() {
                tracing::debug!(%error, "could not flush ahead of a backup");
            }
        });
        let executor = &self.environment.executor;
        executor.spawn(JobClass::Backup, Duration::ZERO, job);
    }

    /// Lets the commits go on, and says whether they were held off until then.
    pub(crate) async fn go_on(self: &Arc<Self>, hold: u64, keeps: bool) -> BackupAnswer {
        let own = Arc::clone(self);
        let work = move || {
            let has_lasted = own.engine.end_hold(hold) && own.membership.replica_state().is_voter();
            let now = own.now();
            let mut state = lock(&own.state);
            let let_go = match state.frozen_as(hold) {
                Some(frozen) if has_lasted && keeps => {
                    frozen.is_kept = true;
                    frozen.heard = now;
                    None
                }
                _ => state.frozen.take_if(|frozen| frozen.hold == hold),
            };
            drop(state);
            // Without the lock, because it waits for commits.
            drop(let_go);
            BackupAnswer::WentOn { has_lasted }
        };
        let went_on = self.environment.run(JobClass::Owner, work).await;
        went_on.unwrap_or(BackupAnswer::WentOn { has_lasted: false })
    }

    /// Lets go of what was frozen.
    pub(crate) fn give_up(&self, hold: u64) -> BackupAnswer {
        let given_up = lock(&self.state).frozen.take_if(|it| it.hold == hold);
        drop(given_up);
        BackupAnswer::GivenUp
    }

    /// Lets go of what nobody has asked for since.
    fn let_go_of_silent(&self) {
        let now = self.now();
        let is_silent = |frozen: &mut Frozen| {
            let silence = now.saturating_sub(frozen.heard);
            silence
                >= if frozen.is_kept {
                    SILENCE_MAX
                } else {
                    HOLD_MAX
                }
        };
        let silent = lock(&self.state).frozen.take_if(is_silent);
        drop(silent);
    }

    /// Looks after what is frozen until nothing is.
    fn watch_later(self: &Arc<Self>, delay: Duration) {
        let own = Arc::downgrade(self);
        let job = Box::new(move || {
            let Some(own) = own.upgrade() else { return };
            own.let_go_of_silent();
            own.let_go_of_hanging();
            let mut state = lock(&own.state);
            let next = state.frozen.as_ref().map(|frozen| frozen.is_kept);
            state.is_watched = next.is_some();
            drop(state);
            match next {
                Some(true) => own.watch_later(KEPT_WATCH),
                Some(false) => own.watch_later(UNKEPT_WATCH),
                None => {}
            }
        });
        self.environment.executor.spawn(JobClass::Owner, delay, job);
    }

    /// Has an upload fail of which a step hangs, and lets go of what it pins.
    fn let_go_of_hanging(&self) {
        let now = self.now();
        let mut state = lock(&self.state);
        let Some(frozen) = state.frozen.as_mut() else {
            return;
        };
        if let UploadState::Running { stepped, .. } = &frozen.upload
            && now.saturating_sub(*stepped) >= STEP_MAX
        {
            let why = "the target does not answer".to_owned();
            tracing::warn!(why, "this node's part of a backup failed");
            frozen.upload = UploadState::Failed(why);
            let snapshot = frozen.snapshot.clone();
            drop(state);
            // Without the lock, because it waits for commits.
            snapshot.let_go();
        }
    }

    /// Begins to store what was frozen, or says how far that is.
    pub(crate) fn upload(self: &Arc<Self>, hold: u64, backup: &str, target: &str) -> BackupAnswer {
        let mut state = lock(&self.state);
        let frozen = state.frozen.as_mut();
        let Some(frozen) = frozen.filter(|it| it.hold == hold && it.is_kept) else {
            return refused("what was frozen for this backup is gone: the node may have restarted");
        };
        frozen.heard = self.environment.clock.monotonic();
        match &frozen.upload {
            UploadState::Running { progress, .. } => BackupAnswer::Uploading {
                bytes: progress.bytes,
                done_bytes: progress.done_bytes,
            },
            UploadState::Ended(summary) => uploaded(summary),
            UploadState::Failed(why) => refused(why.as_str()),
            UploadState::Waiting => {
                let Some(backup) = BackupId::parse(backup) else {
                    return refused("this is no name of a backup");
                };
                frozen.upload = UploadState::Running {
                    progress: UploadProgress::default(),
                    stepped: frozen.heard,
                };
                let (own, target) = (Arc::clone(self), target.to_owned());
                let snapshot = frozen.snapshot.clone();
                let job = Box::new(move || own.begin_upload(hold, snapshot, backup, &target));
                let executor = &self.environment.executor;
                executor.spawn(JobClass::Backup, Duration::ZERO, job);
                BackupAnswer::Uploading {
                    bytes: 0,
                    done_bytes: 0,
                }
            }
        }
    }

    /// The job that begins an upload.
    fn begin_upload(
        self: Arc<Self>,
        hold: u64,
        snapshot: SharedSnapshot,
        backup: BackupId,
        target: &str,
    ) {
        match self.environment.open(target) {
            Ok(target) => {
                let order = UploadOrder {
                    target,
                    backup,
                    node: self.name.clone(),
                    pinned_bytes_max: self.pinned_bytes_max(),
                };
                let hashes = std::mem::take(&mut lock(&self.state).hashes);
                let upload = Upload::begin(order, snapshot, hashes);
                self.schedule(hold, upload, Tries::default(), Duration::ZERO);
            }
            Err(error) => {
                if let Some(frozen) = lock(&self.state).running_as(hold) {
                    frozen.upload = UploadState::Failed(error.to_string());
                }
            }
        }
    }

    /// What the snapshot may keep: a part of what the disk has left.
    fn pinned_bytes_max(&self) -> u64 {
        let space = self.engine.look_at_folder().ok();
        let free = space.and_then(|space| space.free_bytes);
        free.map_or(u64::MAX, |free| free / PINNED_SHARE_OF_FREE)
    }

    fn schedule(self: &Arc<Self>, hold: u64, upload: Upload, tries: Tries, delay: Duration) {
        let own = Arc::clone(self);
        let job = Box::new(move || own.step(hold, upload, tries));
        self.environment
            .executor
            .spawn(JobClass::Backup, delay, job);
    }

    /// The job of an upload: a step, and then the next job.
    fn step(self: Arc<Self>, hold: u64, mut upload: Upload, mut tries: Tries) {
        self.let_go_of_silent();
        if !self.is_wanted(hold) {
            return self.keep_hashes(upload);
        }
        let before = upload.progress();
        let began = self.now();
        let stepped = upload.step();
        let took = self.now().saturating_sub(began);
        let progress = upload.progress();
        tries.note(&stepped, progress.done_bytes);
        let rest = self
            .environment
            .background
            .rest_after(WorkKind::Backup, took);
        {
            let mut state = lock(&self.state);
            state.uploaded_bytes += progress.new_bytes.saturating_sub(before.new_bytes);
            let now = self.now();
            if let Some(frozen) = state.running_as(hold) {
                frozen.upload = match (&stepped, upload.end()) {
                    (Ok(()), Some(summary)) => UploadState::Ended(summary.clone()),
                    (Err(error), _) if !may_pass(error) || tries.failures > TRIES_MAX => {
                        UploadState::Failed(error.to_string())
                    }
                    _ => UploadState::Running {
                        progress,
                        stepped: now,
                    },
                };
            }
        }
        match stepped {
            Ok(()) if upload.end().is_some() => self.keep_hashes(upload),
            Ok(()) => self.schedule(hold, upload, tries, rest),
            Err(error) if may_pass(&error) && tries.failures <= TRIES_MAX => {
                tracing::warn!(%error, "a step of a backup failed and is tried again");
                self.schedule(hold, upload, tries, RETRY_DELAY);
            }
            Err(error) => {
                tracing::warn!(%error, "this node's part of a backup failed");
                self.keep_hashes(upload);
            }
        }
    }

    /// Whether the coordinator still waits for this upload, and the disk has room.
    fn is_wanted(&self, hold: u64) -> bool {
        let takes_puts = self.engine.takes_puts();
        let mut state = lock(&self.state);
        let Some(frozen) = state.running_as(hold) else {
            return false;
        };
        if !takes_puts {
            let why = "the disk is full, or the store takes no writes";
            frozen.upload = UploadState::Failed(why.to_owned());
        }
        takes_puts
    }

    fn keep_hashes(&self, upload: Upload) {
        let hashes = upload.into_hashes();
        lock(&self.state).hashes = hashes;
    }
}

/// How often an upload has failed since it was last further than ever. A step that succeeds does not
/// count: on a target that is full, a table can be begun again and again.
#[derive(Clone, Copy, Debug, Default)]
struct Tries {
    failures: u32,
    done_bytes: u64,
}

impl Tries {
    fn note(&mut self, stepped: &Result<(), BackupError>, done_bytes: u64) {
        if stepped.is_err() {
            self.failures += 1;
        } else if done_bytes > self.done_bytes {
            self.done_bytes = done_bytes;
            self.failures = 0;
        }
    }
}

/// Whether a failure may pass by itself.
fn may_pass(error: &BackupError) -> bool {
    matches!(error, BackupError::Target { .. })
}

fn uploaded(summary: &NodeSummary) -> BackupAnswer {
    match summary.hash() {
        Some(sha256) => BackupAnswer::Uploaded {
            sha256,
            tables: summary.tables,
            bytes: summary.bytes,
            new_bytes: summary.new_bytes,
        },
        None => refused("the hash of an upload is malformed"),
    }
}
