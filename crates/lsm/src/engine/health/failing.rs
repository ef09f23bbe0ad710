//! Failing work: the store cannot make a file that it needs, or has lost its folder.
//!
//! A write needs a log segment, and later a flush needs a table. If one cannot be made for
//! another reason than a full disk or a failed sync, for example because the folder was moved
//! away, nothing is lost, and it may work again at any time. So the work is tried again each
//! second. Meanwhile the store is **failing**, which its owner can see, and writes that need the
//! work are refused at once.
//!
//! A folder that is removed takes the log's file with it, and what is written there is lost with the
//! process. So its owner has the store look at its folder each second, and no write is taken while
//! the folder is not there.

use crate::error::Error;
use crate::locks::lock;
use base::LogLimiter;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// How long failed work waits before it is tried again.
pub(in crate::engine) const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Work without which writes cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Work {
    /// Making the next segment of the log.
    Log,
    /// Flushing a memtable to a table.
    Flush,
    /// Reaching the folder and the file of the log in it.
    Folder,
}

/// Which work fails, and why. Its lock is held briefly, and no other but that of the log of
/// failures is taken meanwhile.
#[derive(Default)]
pub(in crate::engine) struct Failing {
    errors: Mutex<Errors>,
    /// Whether any work fails: what the path of each write looks at.
    is_any: AtomicBool,
    /// Whether a write was refused because of it, and nothing has worked since.
    is_refusing: AtomicBool,
    logged: Mutex<LogLimiter>,
}

#[derive(Default)]
struct Errors {
    log: Option<Error>,
    flush: Option<Error>,
    folder: Option<Error>,
}

impl Errors {
    fn of(&mut self, work: Work) -> &mut Option<Error> {
        match work {
            Work::Log => &mut self.log,
            Work::Flush => &mut self.flush,
            Work::Folder => &mut self.folder,
        }
    }

    fn first(&self) -> Option<&Error> {
        let writing = self.log.as_ref().or(self.flush.as_ref());
        self.folder.as_ref().or(writing)
    }
}

impl Failing {
    /// Notes that work has failed at `now`. Returns whether it was noted: not if the error is a
    /// state of its own, which then also takes the place of what was noted of this work.
    pub(in crate::engine) fn note(&self, work: Work, error: &Error, now: Duration) -> bool {
        if matches!(
            error,
            Error::DiskFull | Error::Poisoned { .. } | Error::Closed | Error::Overloaded
        ) {
            self.forget(work);
            return false;
        }
        let mut errors = lock(&self.errors);
        *errors.of(work) = Some(error.clone());
        self.is_any.store(true, Relaxed);
        if work == Work::Folder {
            self.is_refusing.store(true, Relaxed);
        }
        drop(errors);
        if lock(&self.logged).admits_failure(&error.to_string(), now) {
            let refuses = match work {
                Work::Folder => "writes are refused",
                Work::Log | Work::Flush => "writes are refused once the memtables are full",
            };
            tracing::error!(
                %error,
                "the store cannot write files, and tries again each second; {refuses}"
            );
        }
        true
    }

    /// Notes that work has succeeded.
    pub(in crate::engine) fn worked(&self, work: Work) {
        if self.forget(work) {
            tracing::info!("the store can write files again");
        }
    }

    /// Forgets the failure of work: it has succeeded, or a state of its own keeps it from being
    /// done, and has it done later. Returns whether that was the last failure.
    pub(in crate::engine) fn forget(&self, work: Work) -> bool {
        if !self.is_any.load(Relaxed) {
            return false;
        }
        let mut errors = lock(&self.errors);
        let had_failed = errors.of(work).take().is_some();
        self.is_refusing.store(errors.folder.is_some(), Relaxed);
        let is_any = errors.first().is_some();
        self.is_any.store(is_any, Relaxed);
        had_failed && !is_any
    }

    /// The last failure of work that fails. A write that needs the work is refused with it.
    pub(in crate::engine) fn refuses(&self, work: Work) -> Option<Error> {
        if !self.is_any.load(Relaxed) {
            return None;
        }
        let error = lock(&self.errors).of(work).clone();
        if error.is_some() {
            self.is_refusing.store(true, Relaxed);
        }
        error
    }

    /// Why work fails, if any does.
    pub(in crate::engine) fn cause(&self) -> Option<String> {
        let is_any = self.is_any.load(Relaxed);
        let errors = is_any.then(|| lock(&self.errors))?;
        errors.first().map(Error::to_string)
    }

    /// Whether writes are refused because work fails.
    pub(in crate::engine) fn is_refusing(&self) -> bool {
        self.is_refusing.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MemoryDisk, environment};
    use crate::{Engine, Options};
    use std::sync::Arc;

    #[test]
    fn it_lasts_until_all_work_succeeds() {
        let failing = Failing::default();
        let error = |what: &str| Error::Invalid(what.to_owned());
        let now = Duration::ZERO;
        assert!(!failing.note(Work::Log, &Error::DiskFull, now));
        assert_eq!(failing.cause(), None);
        assert!(failing.note(Work::Flush, &error("no table"), now));
        assert!(failing.refuses(Work::Log).is_none() && !failing.is_refusing());
        assert!(failing.note(Work::Log, &error("no segment"), now));
        assert_eq!(failing.cause().as_deref(), Some("no segment"));
        assert!(failing.refuses(Work::Log).is_some() && failing.is_refusing());
        failing.worked(Work::Log);
        assert_eq!(failing.cause().as_deref(), Some("no table"));
        assert!(!failing.is_refusing(), "the next write finds out");
        failing.worked(Work::Flush);
        assert_eq!(failing.cause(), None);
    }

    #[test]
    fn a_store_without_its_folder_refuses_all_writes_at_once() {
        let failing = Failing::default();
        let error = |what: &str| Error::Invalid(what.to_owned());
        let now = Duration::ZERO;
        assert!(failing.note(Work::Flush, &error("no table"), now));
        assert!(failing.note(Work::Folder, &error("no folder"), now));
        assert!(failing.is_refusing(), "before a write finds out");
        assert_eq!(failing.cause().as_deref(), Some("no folder"));
        failing.worked(Work::Flush);
        assert!(failing.is_refusing());
        failing.worked(Work::Folder);
        assert!(!failing.is_refusing());
        assert_eq!(failing.cause(), None);
    }

    #[test]
    fn a_state_of_its_own_takes_the_place_of_a_failure() {
        let failing = Failing::default();
        let error = Error::Invalid("no segment".to_owned());
        for work in [Work::Log, Work::Flush] {
            assert!(failing.note(work, &error, Duration::ZERO));
            assert!(failing.refuses(work).is_some() && failing.is_refusing());
            assert!(!failing.note(work, &Error::DiskFull, Duration::ZERO));
            assert_eq!(failing.cause(), None);
            assert!(failing.refuses(work).is_none() && !failing.is_refusing());
        }
    }

    /// On a full disk no segment is made ahead, so nothing else would end the failure before there
    /// is room.
    #[test]
    fn a_full_disk_takes_the_place_of_a_failure() {
        let (environment, _executor) = environment(Arc::new(MemoryDisk::new()));
        let (engine, _) = Engine::open(environment, Options::default()).unwrap();
        let core = &engine.inner.core;
        let error = Error::Invalid("no segment".to_owned());
        core.note_log_failure(&error);
        assert!(core.health.failing().refuses(Work::Log).is_some());
        assert!(engine.refuses_writes().is_some());
        core.enter_full();
        core.log.prepare_segment(core);
        assert_eq!(engine.refuses_writes(), None);
    }
}
