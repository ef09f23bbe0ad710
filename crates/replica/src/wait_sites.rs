//! The places where requests wait, by the names that a profile of waits shows. The engine has its
//! own wait sites. A profile shows a wait for a lock by its stack instead.

use profile::WaitSite;

/// A write waits until the runtime has processed everything of one poll.
pub(crate) static TURN: WaitSite = WaitSite::new("queue;engine write;turn of the runtime");

/// A read waits for a thread that may block.
pub(crate) static READ_POOL: WaitSite = WaitSite::new("queue;read pool");

/// A scan waits for memory to read its next batch.
pub static SCAN_MEMORY: WaitSite = WaitSite::new("queue;scan memory");

/// A completion of another thread waits for the runtime.
pub(crate) static COMPLETIONS: WaitSite = WaitSite::new("queue;outbox");
