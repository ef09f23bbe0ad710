//! The sites where the engine's callers and threads wait, as a profile of the
//! waits names them. A wait for a lock is shown by its stack instead.

use profile::WaitSite;

/// A write waits, from its submission, for its group to be taken.
pub(crate) static GATHER: WaitSite = WaitSite::new("queue;engine write;gather");

/// A write waits, from then on, for its outcome.
pub(crate) static COMMIT: WaitSite = WaitSite::new("queue;engine write;commit");

/// A read of a long block waits for its turn.
pub(crate) static LONG_READ: WaitSite = WaitSite::new("queue;long read");

/// A group of writes waits for a sync of the log.
pub(crate) static LOG_SYNC: WaitSite = WaitSite::new("disk;log sync");

/// A thread beside the commits waits for a sync of the log.
pub(crate) static LOG_SYNC_ASIDE: WaitSite = WaitSite::new("disk;log sync aside");

/// A flush or a compaction waits for a sync of its table.
pub(crate) static TABLE_SYNC: WaitSite = WaitSite::new("disk;table sync");

/// A flush or a compaction waits for the manifest to be replaced durably.
pub(crate) static MANIFEST: WaitSite = WaitSite::new("disk;manifest");

/// A thread waits for bytes from the disk or from the system's cache.
pub(crate) static READ: WaitSite = WaitSite::new("disk;read");

/// A thread waits for the system to take bytes.
pub(crate) static WRITE: WaitSite = WaitSite::new("disk;write");
