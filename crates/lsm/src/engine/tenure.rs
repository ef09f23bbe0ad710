//! How long the folder is this engine's: until it is closed.
//!
//! Every job, and every call that may write, holds the tenure while it runs.
//! Its end waits for those that do, lets go of the folder's lock, and turns
//! away whoever comes later: a job that an executor kept for long, or a call
//! on a clone of the engine. So nothing is written beside a later engine's
//! work on the same folder, which may begin as soon as the lock is free.

use crate::error::Error;
use std::any::Any;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// What the disk gave when the folder was locked; dropped, it frees the folder.
pub(super) type FolderLock = Box<dyn Any + Send + Sync>;

/// The right to write to the folder.
pub(super) struct Tenure(RwLock<Option<FolderLock>>);

/// Keeps the folder this engine's for as long as it lives. Not to be taken
/// twice by one thread: between the two, the end may begin to wait.
pub(super) type Held<'a> = RwLockReadGuard<'a, Option<FolderLock>>;

impl Tenure {
    /// The tenure of the engine that has locked the folder.
    pub(super) fn new(folder_lock: FolderLock) -> Self {
        Self(RwLock::new(Some(folder_lock)))
    }

    /// Holds off the end.
    ///
    /// # Errors
    /// [`Error::Closed`] once it has come.
    pub(super) fn hold(&self) -> Result<Held<'_>, Error> {
        let guard = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match *guard {
            Some(_) => Ok(guard),
            None => Err(Error::Closed),
        }
    }

    /// Waits for those that hold it, and gives the folder back.
    pub(super) fn end(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::sync::mpsc;

    #[test]
    fn the_end_waits_for_who_holds_it_and_turns_away_who_comes_later() {
        let tenure = Tenure::new(Box::new(()));
        let wrote = AtomicBool::new(false);
        let (ending, begins) = mpsc::channel();
        std::thread::scope(|scope| {
            let held = tenure.hold().unwrap();
            scope.spawn(|| {
                ending.send(()).unwrap();
                tenure.end();
                assert!(wrote.load(SeqCst), "the end has overtaken a writer");
            });
            begins.recv().unwrap();
            for _ in 0..1000 {
                std::thread::yield_now();
            }
            wrote.store(true, SeqCst);
            drop(held);
        });
        assert!(matches!(tenure.hold(), Err(Error::Closed)));
    }
}
