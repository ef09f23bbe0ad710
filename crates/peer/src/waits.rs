//! What a profile of the waits says of calls to peers.

use profile::Place;

/// A call, for the answer of the peer `name`.
pub(crate) fn peer(name: &str, what: &str) -> Place {
    Place::named(format!("peer;{};{what}", name.replace(';', ",")))
}
