//! Locking without a second meaning.

/// Takes a lock. A panic elsewhere is a bug and ends a node as a whole, so a
/// lock that a panicking thread held is not treated apart. A profile of the
/// waits shows who waited here.
pub(crate) use profile::lock;
