//! A store's side of repair sessions: carries out what [`StoreState`] says, and remembers it.
//!
//! # What is durable before what
//!
//! Each step is a job of [`JobClass::Owner`], so steps come one after another. What takes long is
//! done before, by jobs for which nobody waits: a flush before something is set aside, a sync of
//! what a session has brought. A step carries its actions out in their order: the store is a
//! learner durably before anything is set aside, what a session has brought is synced before the
//! record says so, and the record is durable in the file ([`StoreFile`]) before it is in force. Then the engine is told, and only then the coordinator.
//! If something cannot be done, the state stays what it was, and nobody is answered. A crash
//! between two actions is as if the step had not begun: all actions may be repeated.
//!
//! # What holds for what is on its way
//!
//! A version from below the closed timestamp is admitted for the state that is in force. The engine
//! numbers the generations of admissions, those of repair writes and those of read repairs, and each
//! step begins new ones. It refuses at the commit what was admitted in an earlier one.
//!
//! The files of this folder: `file` is the codec, `believing` says which timestamps of other
//! members are believed, `status` and `held_back` are what an operator hears.

mod believing;
mod file;
mod held_back;
mod status;
#[cfg(test)]
pub(crate) mod tests;

pub use file::{StoreFile, TOMBSTONE_GC_VERSIONS, fuzz_store_file};
pub use held_back::HeldBack;
pub use status::GcStatus;

use base::{Clock, Entry, Kind, LimitedLog, Timestamp};
use cluster::layout::Phase;
use cluster::repair::{
    Admission, Arriving, SessionAnswer, SessionRequest, StoreAction, StoreEvent, StoreRecord,
    StoreState, Token, latest_closed,
};
use cluster::{Epoch, Miss, ReplicaState};
use lsm::{Disk, Engine, Error, Executor, JobClass, LateSource, SetAsideKeys};
use membership::{Layouts, Membership};
use profile::lock;
use replica::SharedBounds;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::AcqRel, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// What a store's side works with.
pub struct StoreSideEnvironment {
    /// The data folder, which exists and is locked.
    pub folder: PathBuf,
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// Runs the jobs.
    pub executor: Arc<dyn Executor>,
    /// The store.
    pub engine: Engine,
    /// How the store stands with its peers.
    pub membership: Membership,
    /// How far in the past everything below a closed timestamp is.
    pub gc_grace: Duration,
    /// The layout in force: what was shown of non-owned copies holds for its change only.
    pub layouts: Layouts,
    /// While an operator drops the versions from the future: what the present is. A closed
    /// timestamp or a GC threshold from the future goes as well, wherever it comes from.
    pub present: Option<Box<dyn Fn() -> Timestamp + Send + Sync>>,
    /// The wall clock in milliseconds since 1970, while it is trusted.
    pub trusted_unix_ms: Box<dyn Fn() -> Option<u64> + Send + Sync>,
    /// The greatest closed timestamp or GC threshold that another member can name truthfully now.
    pub latest_named: Box<dyn Fn() -> Timestamp + Send + Sync>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl StoreSideEnvironment {
    /// The epoch in which the present or the last change of the members began.
    fn change(&self) -> Epoch {
        self.layouts.peek().change()
    }
}

/// A store's side of repair sessions. The runtimes of a node share it.
pub struct StoreSide {
    environment: StoreSideEnvironment,
    shared: Arc<SharedBounds>,
    /// Held during a step.
    writer: Mutex<Writer>,
    /// Whether a job takes over what was heard.
    is_hearing: AtomicBool,
    voided_by_read_repairs: AtomicU64,
    held_back: Mutex<Option<HeldBack>>,
    /// The lines about timestamps that are not believed, by the member that names them, and about
    /// steps that could not be carried out.
    log: LimitedLog<String>,
}

/// What only the steps change.
struct Writer {
    /// The last loss of the store that the file knows.
    loss: u64,
    /// Whether the file must not be written any more.
    is_closed: bool,
}

impl StoreSide {
    /// Loads what earlier starts have stored, and closes the store by it. Blocks.
    ///
    /// # Errors
    /// See [`StoreFile::load`], [`Engine::raise_closed_timestamp`] and [`Engine::set_aside`].
    pub fn open(
        environment: StoreSideEnvironment,
        shared: Arc<SharedBounds>,
    ) -> Result<Arc<Self>, Error> {
        // The folder is locked by now, so nobody else changes the file any more.
        let mut stored = StoreFile::load(&*environment.disk, &environment.folder)?;
        if let Some(present) = &environment.present {
            // What was acknowledged since other nodes were started like this is within the
            // GC grace. A closed timestamp that is too high only refuses, so it stays as high as it
            // can.
            let closed_max = present();
            let gc_grace_ms = u64::try_from(environment.gc_grace.as_millis()).unwrap_or(u64::MAX);
            let threshold_ms = closed_max.unix_ms().saturating_sub(gc_grace_ms);
            let lowered = stored.at_most(closed_max, Timestamp::from_unix_ms(threshold_ms));
            if lowered != stored {
                tracing::warn!(
                    closed = %stored.record.closed,
                    gc_threshold = %stored.record.gc_threshold,
                    "the closed timestamp or the GC threshold came from the future, and is lowered"
                );
                lowered.store(&*environment.disk, &environment.folder)?;
                stored = lowered;
            }
        }
        believing::warn_of_future(&stored, (environment.latest_named)());
        let state = StoreState::opened(stored.record);
        environment
            .engine
            .raise_closed_timestamp(state.refuses_below())?;
        shared.put_in_force(state, environment.change());
        let clock = Arc::clone(&environment.clock);
        let side = Self {
            environment,
            shared,
            writer: Mutex::new(Writer {
                loss: stored.loss,
                is_closed: false,
            }),
            is_hearing: AtomicBool::new(false),
            voided_by_read_repairs: AtomicU64::new(0),
            held_back: Mutex::new(None),
            log: LimitedLog::new(clock, believing::REFUSED),
        };
        side.note_losses(&mut lock(&side.writer))?;
        Ok(Arc::new(side))
    }

    /// Ends all writing to the data folder. Blocks while a step is carried out.
    pub fn close(&self) {
        lock(&self.writer).is_closed = true;
    }

    /// Takes note that another layout is in force. Blocks while a step is carried out.
    pub fn follow_layout(&self) {
        let _writer = lock(&self.writer);
        let change = self.environment.change();
        self.shared.put_in_force(self.shared.state(), change);
    }

    /// What requests ask.
    pub fn shared(&self) -> &Arc<SharedBounds> {
        &self.shared
    }

    /// What is durable.
    pub fn record(&self) -> StoreRecord {
        self.shared.record()
    }

    /// Whether the store scans for the session with this token, and takes its repair writes.
    pub fn scans_for(&self, token: Token) -> bool {
        self.shared.state().scans_for(token)
    }

    /// The greatest GC threshold that this node has heard of.
    pub fn greatest_known(&self) -> Timestamp {
        self.shared.greatest()
    }

    /// What this node knows.
    pub fn status(&self) -> GcStatus {
        let record = self.record();
        GcStatus {
            closed: record.closed,
            gc_threshold: record.gc_threshold,
            non_owned_below: self.shared.non_owned_below(),
            greatest: self.shared.greatest(),
            voided_by_read_repairs: self.voided_by_read_repairs.load(Relaxed),
            held_back: lock(&self.held_back).clone(),
        }
    }

    /// Takes note of what a full session that this node led could not do; `None` if the GC
    /// threshold has risen.
    pub fn set_held_back(&self, held_back: Option<HeldBack>) {
        *lock(&self.held_back) = held_back;
    }

    /// How far this node's own clock allows the closed timestamp to rise; [`Timestamp::ZERO`]
    /// while that is not trusted.
    pub fn latest(&self) -> Timestamp {
        let trusted_unix_ms = (self.environment.trusted_unix_ms)();
        latest_closed(trusted_unix_ms, self.environment.gc_grace).unwrap_or(Timestamp::ZERO)
    }

    /// Does as the coordinator of a session asks. The sender is dropped if it could not be done,
    /// and then nothing has changed.
    pub fn asked(
        self: &Arc<Self>,
        token: Token,
        request: SessionRequest,
    ) -> oneshot::Receiver<SessionAnswer> {
        let (sender, answer) = oneshot::channel();
        let event_at = move |latest| StoreEvent::Asked {
            token,
            request,
            latest,
        };
        self.spawn_step(event_at(Timestamp::ZERO), move |side| {
            let event = event_at(side.latest());
            if let Some(answer) = side.carry_out(event).flatten() {
                // Whoever asked may have given up.
                let _is_awaited = sender.send(answer).is_ok();
            }
        });
        answer
    }

    /// An old version is about to come in behind the scan as a read repair. Says when it is durable
    /// that the session does not raise the GC threshold; the sender is dropped if it could not be.
    pub fn void_session(self: &Arc<Self>) -> oneshot::Receiver<()> {
        let (sender, noted) = oneshot::channel();
        self.spawn_step(StoreEvent::Voided, move |side| {
            let may_raise = side.record().may_raise;
            if side.carry_out(StoreEvent::Voided).is_some() {
                if may_raise {
                    side.voided_by_read_repairs.fetch_add(1, Relaxed);
                }
                // Whoever asked may have given up.
                let _is_awaited = sender.send(()).is_ok();
            }
        });
        noted
    }

    /// The coordinator of the session with this token was restarted, and does not go on with it.
    pub fn abandoned(self: &Arc<Self>, token: Token) {
        self.spawn(move |side| {
            side.carry_out(StoreEvent::Abandoned { token });
        });
    }

    /// Takes note of the GC threshold that the member `name` names, if that is believed. If it
    /// cannot be taken over, it is once it is named again.
    ///
    /// `is_whole` says whether that member is known to lack nothing. A voter that is behind sets
    /// nothing aside by the word of any other one, so that one is left that has it all. It does not
    /// count meanwhile, and takes the threshold over in the next full session at the latest.
    pub fn heard(self: &Arc<Self>, name: &str, gc_threshold: Timestamp, is_whole: bool) {
        if gc_threshold <= self.shared.gc_threshold()
            || !self.believes(name, gc_threshold)
            || self.is_from_future(gc_threshold)
        {
            return;
        }
        self.shared.hear(gc_threshold);
        let falls_behind = || self.is_to_fall_behind() && !self.is_new_and_empty();
        if self.shared.is_behind() && !is_whole && falls_behind() {
            return self.log.line("behind".to_owned(), |_left_out| {
                tracing::error!(
                    node = name,
                    %gc_threshold,
                    "a peer that may lack data itself names a GC threshold that this store has \
                     not helped to raise: this store's reads and acks do not count until a peer \
                     that lacks nothing, or a full repair, settles it"
                );
            });
        }
        if !self.is_hearing.swap(true, AcqRel) {
            self.spawn_step(StoreEvent::Heard { gc_threshold }, |side| {
                side.is_hearing.store(false, Relaxed);
                let gc_threshold = side.shared.greatest();
                side.carry_out(StoreEvent::Heard { gc_threshold });
            });
        }
    }

    /// How the store takes a repair write of the session with this token. `is_damaged` says that a
    /// damaged block may have held its key.
    ///
    /// # Errors
    /// [`Miss::Obsolete`]; [`Miss::Refused`] if it may come again in another session.
    pub fn admits(
        &self,
        entry: &Entry,
        is_damaged: bool,
        token: Token,
    ) -> Result<lsm::Admission, Miss> {
        // Before what the admission rests on.
        let generation = self.environment.engine.generation(LateSource::RepairWrite);
        if entry.timestamp() >= self.shared.closed() {
            return Ok(lsm::Admission::Ordinary);
        }
        let layout = self.environment.layouts.peek();
        let own = layout.members().own();
        let placements = layout.placements();
        let version = Arriving {
            timestamp: entry.timestamp(),
            is_dead: entry.kind() == Kind::Tombstone,
            is_lacking: is_damaged
                || self.environment.membership.replica_state().lacks()
                || placements.gains(own, entry.key(), entry.copies()),
        };
        let admitted = self.shared.admits_repair(version, token);
        match admitted.admission {
            Admission::Taken => Ok(lsm::Admission::Late {
                gc_threshold: admitted.gc_threshold,
                generation,
            }),
            Admission::OnceVoided | Admission::NotNow => Err(Miss::Refused),
            Admission::Obsolete { below } => Err(Miss::Obsolete { below }),
        }
    }

    /// From now on only the keys from `from` on and before `until` are ahead of the scan of the
    /// session.
    pub fn set_ahead(&self, from: &[u8], until: Option<&[u8]>) {
        self.shared.set_ahead(from, until);
    }

    /// A step of the scan begins: what it may meet counts as scanned until
    /// [`StoreSide::set_ahead`]. Blocks.
    ///
    /// # Errors
    /// See [`Engine::begin_generation`].
    pub fn scan_begins(&self) -> Result<(), Error> {
        self.shared.begin_step();
        self.environment
            .engine
            .begin_generation(&[LateSource::ReadRepair])
    }

    /// Has a step made for an event of this kind. What it sets aside has to be in tables, so a job
    /// for which nobody waits flushes the store before: other jobs of the owner, for which requests
    /// wait, come behind the step.
    fn spawn_step(self: &Arc<Self>, event: StoreEvent, step: impl FnOnce(&Self) + Send + 'static) {
        if !self.sets_aside(event) {
            return self.spawn(step);
        }
        let side = Arc::clone(self);
        let flush = Box::new(move || {
            // If that fails, so does the step, which reports it.
            let _flushed = side.environment.engine.flush();
            side.spawn(step);
        });
        let executor = &self.environment.executor;
        executor.spawn(JobClass::Scan, Duration::ZERO, flush);
    }

    /// Whether the step of an event sets something aside, as the state is now.
    fn sets_aside(&self, event: StoreEvent) -> bool {
        let StoreSideEnvironment { engine, clock, .. } = &self.environment;
        let (_, actions) = self.shared.state().step(event, clock.monotonic());
        let sets_aside = |action: &StoreAction| matches!(action, StoreAction::SetAside { .. });
        actions.iter().any(sets_aside) || engine.has_damage_to_set_aside()
    }

    fn spawn(self: &Arc<Self>, job: impl FnOnce(&Self) + Send + 'static) {
        let side = Arc::clone(self);
        let executor = &self.environment.executor;
        let job = Box::new(move || job(&side));
        executor.spawn(JobClass::Owner, Duration::ZERO, job);
    }

    /// Whether a timestamp is to be dropped, because an operator drops what is from the future:
    /// the member that names it was not started so yet.
    fn is_from_future(&self, named: Timestamp) -> bool {
        let present = self.environment.present.as_ref();
        present.is_some_and(|present| named > present())
    }

    /// Carries out what an event leads to, and gives the answer; `None` if it could not be done.
    fn carry_out(&self, event: StoreEvent) -> Option<Option<SessionAnswer>> {
        let mut writer = lock(&self.writer);
        let done = self
            .note_losses(&mut writer)
            .and_then(|()| self.step(&mut writer, event));
        match done {
            Ok(answer) => Some(answer),
            Err(Error::Closed) => None,
            Err(error) => {
                self.log.line("step".to_owned(), |_left_out| {
                    tracing::warn!(
                        %error,
                        "this node cannot take part in repair sessions, and the GC threshold does \
                         not rise, until its store and the file TOMBSTONE_GC can be written again"
                    );
                });
                None
            }
        }
    }

    /// Takes note of what the store has lost since the last step.
    fn note_losses(&self, writer: &mut Writer) -> Result<(), Error> {
        let StoreSideEnvironment {
            engine, membership, ..
        } = &self.environment;
        let loss = membership.incarnation().last_loss;
        if loss != writer.loss {
            let before = std::mem::replace(&mut writer.loss, loss);
            if let Err(error) = self.step(writer, StoreEvent::Lost) {
                writer.loss = before;
                return Err(error);
            }
        }
        if engine.has_damage_to_set_aside() && !membership.is_alone() {
            // Durable before the engine notes that the damage was dealt with: it would not ask for
            // this again.
            self.step(writer, StoreEvent::Voided)?;
            self.step(writer, StoreEvent::Damaged)?;
        }
        Ok(())
    }

    /// Makes a step. If it cannot be done, what the store has lost by it is stepped next.
    fn step(&self, writer: &mut Writer, event: StoreEvent) -> Result<Option<SessionAnswer>, Error> {
        let loss = writer.loss;
        let done = self.act(writer, event);
        if done.is_err() {
            writer.loss = loss;
        }
        done
    }

    fn act(&self, writer: &mut Writer, event: StoreEvent) -> Result<Option<SessionAnswer>, Error> {
        if writer.is_closed {
            return Err(Error::Closed);
        }
        let StoreSideEnvironment {
            folder,
            disk,
            engine,
            clock,
            ..
        } = &self.environment;
        let before = self.shared.state();
        let (next, actions) = before.step(event, clock.monotonic());
        let mut answer = None;
        for action in actions {
            match action {
                StoreAction::SetAside {
                    below,
                    is_of_damage,
                } => self.set_aside(writer, below, is_of_damage)?,
                StoreAction::Sync => engine.sync()?,
                StoreAction::Persist(record) => {
                    let loss = writer.loss;
                    StoreFile { record, loss }.store(&**disk, folder)?;
                }
                StoreAction::Answer(given) => answer = Some(given),
            }
        }
        self.put_in_force(event, before, next)?;
        Ok(answer)
    }

    /// Sets aside what the store holds below a timestamp, and makes it a learner first if it is to
    /// lack that.
    fn set_aside(
        &self,
        writer: &mut Writer,
        below: Timestamp,
        is_of_damage: bool,
    ) -> Result<(), Error> {
        let StoreSideEnvironment {
            engine, membership, ..
        } = &self.environment;
        if !is_of_damage && self.is_new_and_empty() {
            return Ok(());
        }
        let keys = if is_of_damage {
            SetAsideKeys::Damaged
        } else {
            if self.is_to_fall_behind() {
                writer.loss = membership.fall_behind()?;
            }
            SetAsideKeys::All
        };
        // A read that runs meanwhile may have found what is gone then.
        self.shared.note_set_aside();
        engine.set_aside(below, keys)?;
        self.shared.note_set_aside();
        Ok(())
    }

    /// Whether the store is that of a node which has just joined: in a change of the members it has
    /// never held anything nor taken part in a session. It can hold nothing that was deleted, so a GC threshold of which it
    /// hears leaves it as it is.
    fn is_new_and_empty(&self) -> bool {
        let StoreSideEnvironment {
            engine, layouts, ..
        } = &self.environment;
        let held = engine.statistics();
        layouts.peek().phase() != Phase::Stable
            && self.record() == StoreRecord::default()
            && held.table_entries + held.memtable_entries == 0
    }

    /// Whether the store counts, or may come to, and an operator has not accepted it as it is.
    fn is_to_fall_behind(&self) -> bool {
        let replica_state = self.environment.membership.replica_state();
        matches!(replica_state, ReplicaState::Voter | ReplicaState::Starting)
    }

    /// Puts a state in force: first for what is admitted from now on, then for what is on its way.
    fn put_in_force(
        &self,
        event: StoreEvent,
        before: StoreState,
        next: StoreState,
    ) -> Result<(), Error> {
        let engine = &self.environment.engine;
        self.shared.put_in_force(next, self.environment.change());
        if next.refuses_below() > before.refuses_below() {
            engine.raise_closed_timestamp(next.refuses_below())?;
        }
        let (was, is) = (before.record(), next.record());
        if is.gc_threshold > was.gc_threshold {
            // Whoever led that session, what this node had found no longer holds it back.
            self.set_held_back(None);
            tracing::info!(gc_threshold = %is.gc_threshold, "what is dead below may be dropped");
        }
        if is.gc_threshold > was.gc_threshold || is.non_owned != was.non_owned {
            engine.apply_gc_threshold();
        }
        if next.has_other_part_than(&before) {
            engine.begin_generation(&[LateSource::RepairWrite, LateSource::ReadRepair])?;
        } else if is != was && event != StoreEvent::Voided {
            engine.begin_generation(&[LateSource::ReadRepair])?;
        }
        Ok(())
    }
}
