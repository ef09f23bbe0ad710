//! What a profile of the waits says of the door.

use profile::WaitSite;

/// A request, for a place among those in flight.
pub(crate) static ADMISSION: WaitSite = WaitSite::new("queue;admission");
