//! The places where the engine's callers and threads wait, as a profile of the
//! waits names them. What waits for a lock is told by its stack instead.

use profile::WaitSite;

/// A write, from its submission until its group is taken.
pub(crate) static GATHER: WaitSite = WaitSite::new("queue;engine write;gather");

/// A write, from there until its outcome is known.
pub(crate) static COMMIT: WaitSite = WaitSite::new("queue;engine write;commit");

/// A read of a long block, for its turn.
pub(crate) static LONG_READ: WaitSite = WaitSite::new("queue;long read");

/// A group of writes, for the log to be synced.
pub(crate) static LOG_SYNC: WaitSite = WaitSite::new("disk;log sync");

/// A thread beside the commits, for the log to be synced.
pub(crate) static LOG_SYNC_ASIDE: WaitSite = WaitSite::new("disk;log sync aside");

/// A flush or a compaction, for its table to be synced.
pub(crate) static TABLE_SYNC: WaitSite = WaitSite::new("disk;table sync");

/// A flush or a compaction, for the manifest to be replaced durably.
pub(crate) static MANIFEST: WaitSite = WaitSite::new("disk;manifest");

/// Any thread, for bytes from the disk or the system's cache of it.
pub(crate) static READ: WaitSite = WaitSite::new("disk;read");

/// Any thread, for bytes to be taken by the system.
pub(crate) static WRITE: WaitSite = WaitSite::new("disk;write");
