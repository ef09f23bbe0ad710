//! Locks that ignore poisoning.

pub(crate) mod sites;

use std::sync::{Mutex, MutexGuard, TryLockError};

/// Takes a lock, whether or not a thread panicked while it held it: a panic is a
/// bug that ends the whole node. A profile of the waits shows the wait for it.
pub(crate) use profile::{lock, read, write};

/// Takes a lock if it is free.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
