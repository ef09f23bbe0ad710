//! The wait sites of calls to peers, by which profiles name them.

use profile::WaitSite;

/// Where calls to the peer `name` wait for its answer; `what` names their kind.
pub(crate) fn peer(name: &str, what: &str) -> WaitSite {
    WaitSite::named(format!("peer;{};{what}", name.replace(';', ",")))
}
