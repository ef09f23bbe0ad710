//! The formats of this release: what it writes to disks and says to peers.

use std::ops::RangeInclusive;

/// A format of a file, or of what nodes say to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// Its file, or what it is.
    pub name: &'static str,
    /// The versions that this release reads; it writes the last one.
    pub versions: RangeInclusive<u32>,
}

/// All formats of a node. A file or a frame with a version of its own belongs here, where
/// `kvorum version` finds it.
pub fn formats() -> Vec<Format> {
    let protocol = peer::Protocol::OWN;
    let all = [
        ("MANIFEST", lsm::MANIFEST_VERSIONS),
        ("log", lsm::LOG_VERSIONS),
        ("table", lsm::TABLE_VERSIONS),
        ("CLUSTER", membership::CLUSTER_VERSIONS),
        (
            "TIMESTAMP_BOUND",
            replica::timestamps::TIMESTAMP_BOUND_VERSIONS,
        ),
        ("TOMBSTONE_GC", repair::store::TOMBSTONE_GC_VERSIONS),
        ("REPAIR", repair::session::REPAIR_VERSIONS),
        ("backup", 1..=backup::FORMAT),
        (
            "peer protocol",
            protocol.least.into()..=protocol.greatest.into(),
        ),
    ];
    all.into_iter()
        .map(|(name, versions)| Format { name, versions })
        .collect()
}
