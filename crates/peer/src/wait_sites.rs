//! What a profile of the waits says of calls to peers.

use profile::WaitSite;

/// A call, for the answer of the peer `name`.
pub(crate) fn peer(name: &str, what: &str) -> WaitSite {
    WaitSite::named(format!("peer;{};{what}", name.replace(';', ",")))
}
