//! Locking without a second meaning.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock. A panic elsewhere is a bug and ends a node as a whole, so a
/// lock that a panicking thread held is not treated apart.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
