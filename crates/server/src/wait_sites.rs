//! The wait sites of admission, which a profile of the waits names.

use profile::WaitSite;

/// A request waits for a permit to run.
pub(crate) static ADMISSION: WaitSite = WaitSite::new("queue;admission");

/// A range waits for its place.
pub(crate) static RANGE_PLACE: WaitSite = WaitSite::new("queue;range place");

/// A body waits for memory.
pub(crate) static UPLOAD_ROOM: WaitSite = WaitSite::new("queue;memory for a body");
