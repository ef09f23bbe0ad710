//! Versions and features of the protocol: what a build supports, and what two builds negotiate.
//!
//! The nodes of a cluster are upgraded one after another, so two releases must
//! work together. Each says in its hello which versions of the protocol it
//! supports, from the least to the greatest, and which features. The two use the
//! greatest version that both support, and the features that both have. If they
//! share no version, they refuse each other.
//!
//! - A **version** changes the meaning of frames that both sides must understand.
//! - A **feature** is optional for both sides: a frame of a kind that an older
//!   release does not know is sent only if both sides have its feature.

use std::fmt;

/// The feature of frames of the kind `replica_state`: the acceptor reports how its
/// store stands whenever that changes.
pub const REPLICA_STATE: u64 = 1;

/// The dialled side takes part in repair sessions: frames of the kinds `session`, `session
/// answer`, `repair write` and `run`. The features 2, 4, 32 and 128 were earlier forms of them.
pub const SESSIONS: u64 = 65_536;

/// The acceptor reports with its heartbeats what it has: frames of the kind `report`.
pub const REPORT: u64 = 8;

/// The acceptor serves a dialler whose store is outdated the requests of repair sessions, which
/// rebuild that store, and refuses its other requests. An acceptor without the feature
/// closes the connection.
pub const REBUILDS_OUTDATED: u64 = 16;

/// What both sides say of tombstone GC: frames of the kinds `GC threshold` and `repair`, and the
/// reasons `obsolete` and `undecided` in `missed` frames. The feature 64 was an earlier form.
pub const GC_THRESHOLD: u64 = 131_072;

/// The dialled side serves pages of scans: frames of the kinds `page` and `paged`.
pub const PAGES: u64 = 512;

/// Writes and the answers to them travel many in a frame: frames of the kinds `writes` and
/// `newer_versions`.
pub const MANY: u64 = 256;

/// The dialler says of which trace a request is part: frames of the kind `trace`.
pub const TRACES: u64 = 4096;

/// The dialled side says that it holds the same version as a read, rather than send it:
/// frames of the kinds `read unless same` and `same`.
pub const SAME: u64 = 8192;

/// The dialled side serves its node report: frames of the kinds `examine` and `examined`.
pub const EXAMINATION: u64 = 16384;

/// The acceptor says with its heartbeats whether it serves the dialler, and whether all of
/// its links to the dialler are up: frames of the kind `contact`.
pub const CONTACT: u64 = 32768;

/// The dialled side takes part in backups: frames of the kinds `backup` and `backup answer`.
pub const BACKUPS: u64 = 1_048_576;

/// The list of members may change: hellos and reports say which list a node has, nodes hand each
/// other later ones, and vote on the next one. Frames of the kinds `list` and `listed`.
pub const LISTS: u64 = 262_144;

/// The dialled side promises ballots of conditional writes, and the dialler knows of writes that were
/// overtaken: frames of the kinds `promise`, `promise answer` and `accept`.
pub const PROMISES: u64 = 4_194_304;

// 8_388_608 is reserved for arrival positions of changes.

/// The features of this build with the names that people read.
pub const FEATURES: [(&str, u64); 14] = [
    ("replica-state", REPLICA_STATE),
    ("repair", SESSIONS),
    ("heartbeat-reports", REPORT),
    ("rebuild", REBUILDS_OUTDATED),
    ("tombstone-gc", GC_THRESHOLD),
    ("many-writes", MANY),
    ("scan-pages", PAGES),
    ("traces", TRACES),
    ("same-version", SAME),
    ("node-reports", EXAMINATION),
    ("contact", CONTACT),
    ("backups", BACKUPS),
    ("member-lists", LISTS),
    ("conditional-writes", PROMISES),
];

/// What a build supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// The least version.
    pub least: u16,
    /// The greatest version.
    pub greatest: u16,
    /// The features, one bit each.
    pub features: u64,
}

/// What the two sides of a connection have negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegotiatedProtocol {
    /// The version.
    pub version: u16,
    /// The features that both sides have.
    features: u64,
}

impl Protocol {
    /// What this build supports.
    pub const OWN: Self = Self {
        least: 1,
        greatest: 1,
        features: all_bits(&FEATURES),
    };

    /// What this build uses with another; `None` if they share no version.
    pub fn negotiate(self, other: Self) -> Option<NegotiatedProtocol> {
        let version = self.greatest.min(other.greatest);
        let is_shared = version >= self.least.max(other.least);
        is_shared.then_some(NegotiatedProtocol {
            version,
            features: self.features & other.features,
        })
    }
}

/// The bits of all of these features.
const fn all_bits(mut features: &[(&str, u64)]) -> u64 {
    let mut bits = 0;
    while let [(_, bit), rest @ ..] = features {
        bits |= *bit;
        features = rest;
    }
    bits
}

impl fmt::Display for Protocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} to {}", self.least, self.greatest)
    }
}

impl NegotiatedProtocol {
    /// Whether both sides have all of these features.
    pub fn has(self, features: u64) -> bool {
        self.features & features == features
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_builds_use_the_greatest_version_that_both_support() {
        let cases = [
            ((1, 1), (1, 1), Some(1)),
            ((1, 1), (1, 2), Some(1)),
            ((1, 3), (2, 5), Some(3)),
            ((2, 2), (1, 9), Some(2)),
            ((1, 1), (2, 3), None),
            ((4, 9), (2, 3), None),
            // No correct build says this.
            ((3, 1), (1, 3), None),
        ];
        for ((least, greatest), (others_least, others_greatest), version) in cases {
            let supports = |least, greatest| Protocol {
                least,
                greatest,
                features: 0,
            };
            let (own, other) = (
                supports(least, greatest),
                supports(others_least, others_greatest),
            );
            let version_of = |negotiated: Option<NegotiatedProtocol>| {
                negotiated.map(|negotiated| negotiated.version)
            };
            assert_eq!(
                version_of(own.negotiate(other)),
                version,
                "{own} with {other}"
            );
            assert_eq!(
                version_of(other.negotiate(own)),
                version,
                "{other} with {own}"
            );
        }
    }

    #[test]
    fn a_feature_is_used_only_if_both_have_it() {
        let supports = |features| Protocol {
            features,
            ..Protocol::OWN
        };
        let negotiated = supports(0b011).negotiate(supports(0b110)).unwrap();
        assert!(negotiated.has(0b010));
        assert!(!negotiated.has(0b001) && !negotiated.has(0b100));
    }
}
