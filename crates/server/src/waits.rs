//! What a profile of the waits says of the door.

use profile::Place;

/// A request, for a place among those in flight.
pub(crate) static ADMISSION: Place = Place::new("queue;admission");
