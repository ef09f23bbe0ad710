//! The wait sites of admission, which a profile of the waits names.

use profile::WaitSite;

/// A request waits for a permit to run.
pub(crate) static ADMISSION: WaitSite = WaitSite::new("queue;admission");

/// A scan waits for its turn.
pub(crate) static SCAN: WaitSite = WaitSite::new("queue;scan");

/// A body waits for memory.
pub(crate) static UPLOAD_MEMORY: WaitSite = WaitSite::new("queue;memory for a body");

/// A page waits for its turn.
pub(crate) static PAGE: WaitSite = WaitSite::new("queue;page");
