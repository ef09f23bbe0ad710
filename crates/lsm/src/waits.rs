//! The places where the engine's callers and threads wait, as a profile of the
//! waits names them. What waits for a lock is told by its stack instead.

use profile::Place;

/// A write, from its submission until its group is taken.
pub(crate) static GATHER: Place = Place::new("queue;engine write;gather");

/// A write, from there until its outcome is known.
pub(crate) static COMMIT: Place = Place::new("queue;engine write;commit");

/// A read of a long block, for its turn.
pub(crate) static LONG_READ: Place = Place::new("queue;long read");

/// A group of writes, for the log to be synced.
pub(crate) static LOG_SYNC: Place = Place::new("disk;log sync");

/// A thread beside the commits, for the log to be synced.
pub(crate) static LOG_SYNC_ASIDE: Place = Place::new("disk;log sync aside");

/// A flush or a compaction, for its table to be synced.
pub(crate) static TABLE_SYNC: Place = Place::new("disk;table sync");

/// A flush or a compaction, for the manifest to be replaced durably.
pub(crate) static MANIFEST: Place = Place::new("disk;manifest");

/// Any thread, for bytes from the disk or the system's cache of it.
pub(crate) static READ: Place = Place::new("disk;read");

/// Any thread, for bytes to be taken by the system.
pub(crate) static WRITE: Place = Place::new("disk;write");
