//! Backups of the cluster: this node's part in them, and their coordination.
//!
//! - `store` is this node's side: it holds the commits of its store off, freezes it, and stores
//!   what was frozen at the target, a step a job.
//! - `coordinator` makes a backup: the cut ([`cluster::backup`]), the uploads of all nodes, and at
//!   last the object that makes all of it a backup.
//! - This file: what the runtimes share, what is known of the targets, and what operators ask of
//!   them.

mod coordinator;
mod store;

pub(crate) use coordinator::answer;
pub(crate) use coordinator::{BackupCoordinator, BackupOrder};
pub use store::BackupUsage;
pub(crate) use store::StoreBackups;

use backup::{
    BackupError, BackupId, Catalog, FolderTarget, Listed, Listing, NoteWatch, Owner, Pruned,
    Target, TargetPlace, User, Verified, Verify,
};
use base::{Clock, Random};
use lsm::{Disk, Executor, JobClass};
use profile::lock;
use replica::background::{Background, WorkKind};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long a step of a verification takes, about.
const VERIFY_STEP: Duration = Duration::from_millis(20);

/// How long a target is waited for. What hangs longer keeps a thread, but nobody else.
const TARGET_WAIT: Duration = Duration::from_secs(120);

/// How many jobs may wait for targets.
const JOBS_MAX: usize = 64;

/// What backups work with.
pub(crate) struct BackupEnvironment {
    /// Where backups may lie, by name.
    pub(crate) targets: BTreeMap<String, TargetPlace>,
    /// What was seen of the notes at each.
    pub(crate) watches: BTreeMap<String, Arc<NoteWatch>>,
    /// How many jobs wait for targets.
    pub(crate) jobs: Arc<AtomicUsize>,
    /// This start of this node.
    pub(crate) owner: Owner,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) background: Arc<Background>,
}

/// What the runtimes of a node share of backups.
pub(crate) struct Backups {
    pub(crate) environment: Arc<BackupEnvironment>,
    pub(crate) store: Arc<StoreBackups>,
    coordinating: Mutex<Coordinating>,
}

#[derive(Default)]
struct Coordinating {
    /// How many backups were ordered.
    ordered: u64,
    running: Option<RunningBackup>,
    ended: Option<EndedBackup>,
    /// The newest backup of each target, as far as it is known.
    newest: BTreeMap<String, NewestBackup>,
}

/// A backup that this node coordinates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningBackup {
    /// Which of those that were ordered of this node since its start.
    pub number: u64,
    /// The name of its target.
    pub target: String,
    /// When it began, in milliseconds since the Unix epoch.
    pub began_unix_ms: u64,
    /// The bytes of all tables, as far as they are known.
    pub bytes: u64,
    /// The bytes of those that are at the target.
    pub done_bytes: u64,
    /// How many stores may be missing.
    pub missing_max: usize,
}

/// The last backup that this node has coordinated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedBackup {
    /// Which it was.
    pub number: u64,
    /// The backup, or why there is none.
    pub result: Result<Listed, String>,
}

/// The newest backup at a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewestBackup {
    /// Of when it is, in milliseconds since the Unix epoch; `None` if there is none.
    pub cut_unix_ms: Option<u64>,
    /// Whether the target could be read when it was last looked at.
    pub is_reached: bool,
}

impl BackupEnvironment {
    /// Where a target lies.
    ///
    /// # Errors
    /// [`BackupError::NoTarget`].
    fn place_of(&self, name: &str) -> Result<&TargetPlace, BackupError> {
        let known: Vec<&str> = self.targets.keys().map(String::as_str).collect();
        match self.targets.get(name) {
            Some(place) => Ok(place),
            None if known.is_empty() => Err(BackupError::NoTarget(
                "this node has no backup targets: give it a --backup-target".to_owned(),
            )),
            None => Err(BackupError::NoTarget(format!(
                "this node has no backup target of this name, but {}",
                known.join(", ")
            ))),
        }
    }

    /// Opens a target.
    ///
    /// # Errors
    /// Why that is not possible.
    pub(crate) fn open(&self, name: &str) -> Result<Arc<dyn Target>, BackupError> {
        let folder = match self.place_of(name)? {
            TargetPlace::Folder(folder) => folder,
            TargetPlace::Opened(target) => return Ok(Arc::clone(target)),
        };
        let process = self.random.next_u64();
        let opened = FolderTarget::open(Arc::clone(&self.disk), folder, process);
        let opened = opened.map_err(|source| BackupError::Target {
            action: "open",
            object: folder.display().to_string(),
            source,
        })?;
        Ok(Arc::new(opened))
    }

    fn catalog(&self, name: &str) -> Result<Catalog, BackupError> {
        let catalog = Catalog::new(self.open(name)?, Arc::clone(&self.clock));
        let watch = self.watches.get(name);
        Ok(match watch {
            Some(watch) => catalog.watching(Arc::clone(watch)),
            None => catalog,
        })
    }

    /// Does work at a target in a job. Whoever hangs there is waited for, but not for long.
    ///
    /// # Errors
    /// [`BackupError::Silent`], [`BackupError::Busy`] while too many wait already, and those of the
    /// work.
    async fn run_at<T: Send + 'static>(
        &self,
        target: &str,
        work: impl FnOnce() -> Result<T, BackupError> + Send + 'static,
    ) -> Result<T, BackupError> {
        let counted = self.count_job()?;
        let work = move || {
            let _counted = counted;
            work()
        };
        let done = answered(target, self.run(JobClass::Backup, work)).await?;
        done.unwrap_or_else(|| Err(stopped()))
    }

    /// Counts a job until what that returns is dropped.
    fn count_job(&self) -> Result<CountedJob, BackupError> {
        let counted = CountedJob(Arc::clone(&self.jobs));
        if self.jobs.fetch_add(1, Relaxed) >= JOBS_MAX {
            let why = "too many wait for the targets of this node, which do not answer";
            return Err(BackupError::Busy(why.to_owned()));
        }
        Ok(counted)
    }

    /// Does work that blocks in a job, unless nobody waits for it any more; `None` if the node stops
    /// before.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        class: JobClass,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, done) = oneshot::channel();
        let job = Box::new(move || {
            if !sender.is_closed() {
                // Whoever asked may have left.
                let _is_awaited = sender.send(work()).is_ok();
            }
        });
        self.executor.spawn(class, Duration::ZERO, job);
        done.await.ok()
    }
}

/// A job that waits for a target.
struct CountedJob(Arc<AtomicUsize>);

impl Drop for CountedJob {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

fn stopped() -> BackupError {
    BackupError::Store(lsm::Error::Closed)
}

/// What a target answers, in time.
async fn answered<T>(target: &str, work: impl Future<Output = T>) -> Result<T, BackupError> {
    let answered = timeout(TARGET_WAIT, work).await;
    answered.map_err(|_| BackupError::Silent(target.to_owned()))
}

impl Backups {
    pub(crate) fn new(environment: Arc<BackupEnvironment>, store: Arc<StoreBackups>) -> Self {
        Self {
            environment,
            store,
            coordinating: Mutex::default(),
        }
    }

    /// Who this node is to a target.
    fn user(&self) -> User {
        User {
            owner: self.environment.owner.clone(),
            stores: self.store.stores_of_cluster(),
        }
    }

    /// Does work at a target in a job.
    async fn at_target<T: Send + 'static>(
        &self,
        target: &str,
        work: impl FnOnce(&Catalog) -> Result<T, BackupError> + Send + 'static,
    ) -> Result<T, BackupError> {
        let (environment, name) = (Arc::clone(&self.environment), target.to_owned());
        let work = move || work(&environment.catalog(&name)?);
        self.environment.run_at(target, work).await
    }

    /// The backups at a target.
    pub(crate) async fn list(&self, target: &str) -> Result<Listing, BackupError> {
        let listed = self.at_target(target, Catalog::list).await;
        self.note_newest(target, &listed);
        listed
    }

    /// Removes all but the newest backups. It ends early if nobody waits for it any more.
    pub(crate) async fn prune(&self, target: &str, keep: usize) -> Result<Pruned, BackupError> {
        let random = self.environment.random.next_u64();
        let (environment, user) = (Arc::clone(&self.environment), self.user());
        let counted = self.environment.count_job()?;
        let steps = Arc::new(AtomicU64::new(0));
        let (sender, mut done) = oneshot::channel();
        let (name, counter) = (target.to_owned(), Arc::clone(&steps));
        let job = Box::new(move || {
            let _counted = counted;
            if sender.is_closed() {
                return;
            }
            let prune = || -> Result<Pruned, BackupError> {
                let mut prune = environment.catalog(&name)?.prune(&user, keep, random)?;
                while !sender.is_closed() {
                    counter.fetch_add(1, Relaxed);
                    if prune.step()? {
                        return Ok(prune.progress().clone());
                    }
                }
                prune.give_up()?;
                Err(BackupError::Silent(name))
            };
            let pruned = prune();
            // Whoever asked may have left.
            let _is_awaited = sender.send(pruned).is_ok();
        });
        let executor = &self.environment.executor;
        executor.spawn(JobClass::Backup, Duration::ZERO, job);
        loop {
            let before = steps.load(Relaxed);
            match answered(target, &mut done).await {
                Ok(done) => return done.unwrap_or_else(|_| Err(stopped())),
                Err(silent) if steps.load(Relaxed) == before => return Err(silent),
                Err(_) => {}
            }
        }
    }

    /// Reads everything of a backup, for as long as `goes_on`.
    pub(crate) async fn verify(
        &self,
        target: &str,
        id: Option<BackupId>,
        mut goes_on: impl AsyncFnMut() -> bool,
    ) -> Result<(Listed, Verified), BackupError> {
        let begin = move |catalog: &Catalog| {
            let backup = catalog.find(id.as_ref())?;
            Ok((backup.clone(), catalog.verify(backup)))
        };
        let (backup, mut verify) = self.at_target(target, begin).await?;
        loop {
            let clock = Arc::clone(&self.environment.clock);
            let step = move || -> Result<(Verify, bool, Duration), BackupError> {
                let began = clock.monotonic();
                loop {
                    let stepped = verify.step();
                    let took = clock.monotonic().saturating_sub(began);
                    if took >= VERIFY_STEP || !matches!(stepped, Ok(false)) {
                        return Ok((verify, stepped?, took));
                    }
                }
            };
            let (next, is_over, took) = self.environment.run_at(target, step).await?;
            verify = next;
            if is_over {
                return Ok((backup, verify.progress()));
            }
            if !goes_on().await {
                return Err(BackupError::Invalid("the client has left".to_owned()));
            }
            let rest = self
                .environment
                .background
                .rest_after(WorkKind::Backup, took);
            tokio::time::sleep(rest).await;
        }
    }

    /// Looks at all targets, for the metrics.
    pub(crate) async fn look_at_targets(&self) {
        for target in self.environment.targets.keys() {
            let user = self.user();
            let look = move |catalog: &Catalog| catalog.look_at_notes(&user);
            if let Err(error) = self.at_target(target, look).await {
                tracing::debug!(%error, target, "could not look at a target of backups");
            }
            let _listed = self.list(target).await;
        }
    }

    fn note_newest(&self, target: &str, listed: &Result<Listing, BackupError>) {
        let mut coordinating = lock(&self.coordinating);
        let newest = match listed {
            Ok(listed) => NewestBackup {
                cut_unix_ms: listed.backups.first().map(|it| it.contents.cut_unix_ms),
                is_reached: true,
            },
            Err(_) => NewestBackup {
                cut_unix_ms: coordinating
                    .newest
                    .get(target)
                    .and_then(|it| it.cut_unix_ms),
                is_reached: false,
            },
        };
        if self.environment.targets.contains_key(target) {
            coordinating.newest.insert(target.to_owned(), newest);
        }
    }

    /// The newest backup of each target that was looked at.
    pub(crate) fn newest(&self) -> BTreeMap<String, NewestBackup> {
        lock(&self.coordinating).newest.clone()
    }

    /// The backup under way that this node coordinates.
    pub(crate) fn running(&self) -> Option<RunningBackup> {
        lock(&self.coordinating).running.clone()
    }

    /// How a backup has ended; `None` while it is under way, or if another one has ended since.
    pub(crate) fn end(&self, number: u64) -> Option<EndedBackup> {
        let coordinating = lock(&self.coordinating);
        coordinating.ended.clone().filter(|it| it.number == number)
    }

    /// Begins to coordinate a backup, unless one like it is under way: then that one.
    fn begin(&self, order: &BackupOrder) -> Result<(u64, bool), BackupError> {
        let target = &order.target;
        let mut coordinating = lock(&self.coordinating);
        if let Some(running) = &coordinating.running {
            let other = &running.target;
            return if other != target {
                Err(BackupError::Busy(format!(
                    "this node makes a backup at the target {other}; try again later"
                )))
            } else if running.missing_max != order.missing_max || order.adopts {
                Err(BackupError::Busy(format!(
                    "this node makes a backup at {other} with missing_max={}; try again later",
                    running.missing_max
                )))
            } else {
                Ok((running.number, false))
            };
        }
        coordinating.ordered += 1;
        let number = coordinating.ordered;
        coordinating.running = Some(RunningBackup {
            number,
            target: target.clone(),
            began_unix_ms: self.environment.clock.unix_ms(),
            bytes: 0,
            done_bytes: 0,
            missing_max: order.missing_max,
        });
        Ok((number, true))
    }

    fn note_progress(&self, bytes: u64, done_bytes: u64) {
        if let Some(running) = &mut lock(&self.coordinating).running {
            running.bytes = bytes;
            running.done_bytes = done_bytes;
        }
    }

    fn note_end(&self, number: u64, target: &str, result: Result<Listed, String>) {
        let mut coordinating = lock(&self.coordinating);
        if let Ok(backup) = &result {
            let newest = NewestBackup {
                cut_unix_ms: Some(backup.contents.cut_unix_ms),
                is_reached: true,
            };
            coordinating.newest.insert(target.to_owned(), newest);
        }
        coordinating.running = None;
        coordinating.ended = Some(EndedBackup { number, result });
    }
}
