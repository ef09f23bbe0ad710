//! Notes of those who use a target: backups under way, and who removes tables.
//!
//! ```text
//! owner     notes itself -> looks for others -> works, and says every minute that it still runs
//!           -> finds its own note once more -> the last step -> takes its note back
//! others    a note that says nothing new for a quarter of an hour is taken for dead, and removed
//! ```
//!
//! How long a note has said nothing new is measured by whoever looks, with its monotonic clock: wall
//! clocks are not asked. An owner that finds its note gone, or has not refreshed it for five minutes,
//! gives up. So whoever was taken for dead and lives completes nothing, and removes nothing more.

use super::listing::{list, remove};
use crate::contents::{RunningContents, User, decode, get, get_bytes, put};
use crate::error::BackupError;
use crate::layout::{self, BackupId, FORMAT, Hash, hash_of};
use crate::target::Target;
use base::Clock;
use profile::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often an owner says that it still runs.
pub(super) const REFRESH_PERIOD: Duration = Duration::from_secs(60);

/// How long an owner goes on that could not say so.
const SILENCE_MAX: Duration = Duration::from_secs(5 * 60);

/// How long a note must have said nothing new to be taken for dead.
const DEAD_AFTER: Duration = Duration::from_secs(15 * 60);

/// What this process has seen of the notes at a target.
#[derive(Debug, Default)]
pub struct NoteWatch(Mutex<BTreeMap<String, (Hash, Duration)>>);

impl NoteWatch {
    /// Whether a note has said nothing new for so long that its owner is taken for dead.
    fn is_dead(&self, name: &str, bytes: &[u8], now: Duration) -> bool {
        let hash = hash_of(bytes);
        let mut seen = lock(&self.0);
        let (of, since) = seen.entry(name.to_owned()).or_insert((hash, now));
        if *of != hash {
            (*of, *since) = (hash, now);
        }
        now.saturating_sub(*since) >= DEAD_AFTER
    }

    fn keep(&self, names: &[String]) {
        lock(&self.0).retain(|name, _| names.contains(name));
    }
}

/// Where notes lie.
pub(super) struct NotePlace {
    pub(super) target: Arc<dyn Target>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) watch: Arc<NoteWatch>,
}

/// A note that something uses the target. The owner takes it back; if it dies, others do.
pub struct Running {
    pub(super) target: Arc<dyn Target>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) user: User,
    pub(super) name: String,
    pub(super) began_unix_ms: u64,
    /// The last beat, and when it was noted.
    beat: Mutex<(u64, Duration)>,
    /// The backup.
    pub id: BackupId,
}

/// Whether a node finds that a backup is under way: its coordinator has written that.
pub(crate) fn is_running(target: &dyn Target, id: &BackupId) -> Result<bool, BackupError> {
    let running: Option<RunningContents> = get(target, &layout::running(id))?;
    Ok(running.is_some())
}

/// Looks at all notes but `own`. Those of dead owners and of earlier starts of `user` are removed;
/// `excludes` says of any other, by its name, why it is in the way.
pub(super) fn look(
    target: &dyn Target,
    watch: &NoteWatch,
    now: Duration,
    (user, own): (&User, &str),
    excludes: impl Fn(&str) -> Option<&'static str>,
) -> Result<Option<&'static str>, BackupError> {
    let names = list(target, layout::RUNNING)?;
    watch.keep(&names);
    let mut why = None;
    for name in names.iter().filter(|name| *name != own) {
        let Some(bytes) = get_bytes(target, name)? else {
            continue;
        };
        // A note that cannot be read may be one that runs.
        let note: Option<RunningContents> = decode(name, &bytes).ok();
        let is_earlier = note.is_some_and(|note| {
            note.owner.node == user.owner.node && note.owner.start != user.owner.start
        });
        if watch.is_dead(name, &bytes, now) || is_earlier {
            remove(target, name)?;
        } else {
            why = why.or_else(|| excludes(name));
        }
    }
    Ok(why)
}

impl Running {
    /// Notes itself, and then looks for others. `excludes` says why another one does.
    pub(super) fn begin(
        place: NotePlace,
        user: &User,
        (name, id): (String, BackupId),
        began_unix_ms: u64,
        excludes: impl Fn(&str) -> Option<&'static str>,
    ) -> Result<Self, BackupError> {
        let own = Self {
            target: place.target,
            clock: place.clock,
            user: user.clone(),
            name,
            began_unix_ms,
            beat: Mutex::default(),
            id,
        };
        own.note()?;
        let now = own.clock.monotonic();
        let found = look(&*own.target, &place.watch, now, (user, &own.name), excludes);
        match found {
            Ok(None) => Ok(own),
            Ok(Some(why)) => {
                own.end()?;
                Err(BackupError::Busy(why.to_owned()))
            }
            Err(error) => {
                own.end()?;
                Err(error)
            }
        }
    }

    fn note(&self) -> Result<(), BackupError> {
        let now = self.clock.monotonic();
        let beat = lock(&self.beat).0 + 1;
        let contents = RunningContents {
            format: FORMAT,
            beat,
            began_unix_ms: self.began_unix_ms,
            owner: self.user.owner.clone(),
        };
        put(&*self.target, &self.name, &contents)?;
        *lock(&self.beat) = (beat, now);
        Ok(())
    }

    /// Finds its note at the target.
    ///
    /// # Errors
    /// [`BackupError::TakenForDead`] if it is gone, or was not refreshed for too long; those of the
    /// target.
    pub(super) fn check_noted(&self) -> Result<(), BackupError> {
        let silence = self.clock.monotonic().saturating_sub(lock(&self.beat).1);
        let found: Option<RunningContents> = get(&*self.target, &self.name)?;
        let is_own = found.is_some_and(|note| note.owner == self.user.owner);
        if is_own && silence < SILENCE_MAX {
            Ok(())
        } else {
            Err(BackupError::TakenForDead)
        }
    }

    /// Says that it still runs, if it has not for a minute.
    ///
    /// # Errors
    /// [`BackupError::TakenForDead`], those of the target.
    pub fn refresh(&self) -> Result<(), BackupError> {
        let since = self.clock.monotonic().saturating_sub(lock(&self.beat).1);
        if since < REFRESH_PERIOD {
            return Ok(());
        }
        self.check_noted()?;
        self.note()
    }

    /// Takes the note back.
    ///
    /// # Errors
    /// Those of the target.
    pub fn end(&self) -> Result<(), BackupError> {
        remove(&*self.target, &self.name)
    }
}
