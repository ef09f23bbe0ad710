//! What a build speaks, and what two builds speak with each other.
//!
//! Nodes of a cluster are replaced one after another, so two releases have to
//! work together. Each says in its hello which versions of the protocol it
//! speaks, from the least to the greatest, and which features it knows. They
//! speak the greatest version that both know, and use the features that both
//! have; who shares no version is refused.
//!
//! - A **version** changes what frames mean that both sides must understand.
//! - A **feature** is what one side may do without: a frame of a kind that an
//!   older release does not know is sent only where both have its feature.

use std::fmt;

/// The dialled side tells how its store stands, as often as that changes:
/// frames of the kind `standing`.
pub const STANDING: u64 = 1;

/// What a build speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// The least version.
    pub least: u16,
    /// The greatest version.
    pub greatest: u16,
    /// The features, a bit each.
    pub features: u64,
}

/// What the two sides of a connection speak with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegotiatedProtocol {
    /// The version.
    pub version: u16,
    /// The features.
    features: u64,
}

impl Protocol {
    /// What this build speaks.
    pub const OWN: Self = Self {
        least: 1,
        greatest: 1,
        features: STANDING,
    };

    /// What it speaks with another build; `None` where they share no version.
    pub fn with(self, other: Self) -> Option<NegotiatedProtocol> {
        let version = self.greatest.min(other.greatest);
        let is_shared = version >= self.least.max(other.least);
        is_shared.then_some(NegotiatedProtocol {
            version,
            features: self.features & other.features,
        })
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} to {}", self.least, self.greatest)
    }
}

impl NegotiatedProtocol {
    /// Whether both sides have this feature.
    pub fn has(self, feature: u64) -> bool {
        self.features & feature != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_builds_speak_the_greatest_version_that_both_know() {
        let cases = [
            ((1, 1), (1, 1), Some(1)),
            ((1, 1), (1, 2), Some(1)),
            ((1, 3), (2, 5), Some(3)),
            ((2, 2), (1, 9), Some(2)),
            ((1, 1), (2, 3), None),
            ((4, 9), (2, 3), None),
            // Nobody who is sound says this of himself.
            ((3, 1), (1, 3), None),
        ];
        for ((least, greatest), (others_least, others_greatest), version) in cases {
            let speaks = |least, greatest| Protocol {
                least,
                greatest,
                features: 0,
            };
            let (own, other) = (
                speaks(least, greatest),
                speaks(others_least, others_greatest),
            );
            let version_of = |negotiated: Option<NegotiatedProtocol>| {
                negotiated.map(|negotiated| negotiated.version)
            };
            assert_eq!(version_of(own.with(other)), version, "{own} with {other}");
            assert_eq!(version_of(other.with(own)), version, "{other} with {own}");
        }
    }

    #[test]
    fn a_feature_is_used_only_where_both_have_it() {
        let speaks = |features| Protocol {
            features,
            ..Protocol::OWN
        };
        let negotiated = speaks(0b011).with(speaks(0b110)).unwrap();
        assert!(negotiated.has(0b010));
        assert!(!negotiated.has(0b001) && !negotiated.has(0b100));
    }
}
