//! Locking without a second meaning.

use std::sync::{Mutex, MutexGuard, TryLockError};

/// Takes a lock. A panic elsewhere is a bug and ends a node as a whole, so a
/// lock that a panicking thread held is not treated apart. A profile of the
/// waits shows who waited here.
pub(crate) use profile::lock;

/// Takes a lock that nobody has.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
