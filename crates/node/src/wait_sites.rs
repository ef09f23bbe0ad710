//! The places where requests wait, as a profile of the waits names them; those
//! of the engine are its own. What waits for a lock is told by its stack instead.

use profile::WaitSite;

/// A write, until the runtime has done all that one poll brought.
pub(crate) static TURN: WaitSite = WaitSite::new("queue;engine write;turn of the runtime");

/// A read, for a thread that may block.
pub(crate) static READ_POOL: WaitSite = WaitSite::new("queue;read pool");

/// A range, for memory to read its next batch.
pub(crate) static RANGE_MEMORY: WaitSite = WaitSite::new("queue;range memory");

/// An answer of another thread, for the runtime.
pub(crate) static OUTBOX: WaitSite = WaitSite::new("queue;outbox");
