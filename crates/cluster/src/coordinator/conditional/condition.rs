//! Conditions on the version that a write replaces, as `If-Match` and `If-None-Match` of RFC 9110
//! state them.

use base::Timestamp;

/// The newest version of a key that a replica or a read has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newest {
    /// Its timestamp; [`None`] where there is no version.
    pub timestamp: Option<Timestamp>,
    /// Whether it is a value that has not expired by the coordinator's clock.
    pub is_value: bool,
}

impl Newest {
    /// No version.
    pub const NOTHING: Self = Self {
        timestamp: None,
        is_value: false,
    };

    /// The version of the value that a client would read.
    #[must_use]
    pub fn value(self) -> Option<Timestamp> {
        self.timestamp.filter(|_| self.is_value)
    }
}

/// Which versions a condition names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matches {
    /// Any value: `*`.
    Any,
    /// The values of these versions.
    Versions(Box<[Timestamp]>),
}

impl Matches {
    fn names(&self, current: Option<Timestamp>) -> bool {
        match (self, current) {
            (_, None) => false,
            (Self::Any, Some(_)) => true,
            (Self::Versions(versions), Some(current)) => versions.contains(&current),
        }
    }
}

/// What must hold of the version that a write replaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// The current version must be one of these: `If-Match`.
    pub matches: Option<Matches>,
    /// The current version must be none of these: `If-None-Match`.
    pub matches_none: Option<Matches>,
}

impl Condition {
    /// There must be no value: `If-None-Match: *`.
    #[must_use]
    pub const fn absent() -> Self {
        Self {
            matches: None,
            matches_none: Some(Matches::Any),
        }
    }

    /// The current value must be of this version: `If-Match` with one entity tag.
    #[must_use]
    pub fn version(version: Timestamp) -> Self {
        Self {
            matches: Some(Matches::Versions([version].into())),
            matches_none: None,
        }
    }

    /// Whether it holds if `current` is the version of the current value.
    #[must_use]
    pub fn holds(&self, current: Option<Timestamp>) -> bool {
        let names = |matches: &Matches| matches.names(current);
        self.matches.as_ref().is_none_or(names) && !self.matches_none.as_ref().is_some_and(names)
    }

    /// Whether it names only values that are older than this version. Once the version is written, none
    /// of them can be current any more.
    #[must_use]
    pub fn is_older_than(&self, version: Timestamp) -> bool {
        let Some(Matches::Versions(versions)) = &self.matches else {
            return false;
        };
        versions.iter().all(|named| *named < version)
    }

    /// The only version on which the write can build, if the condition alone says which.
    pub(super) fn base(&self) -> Option<Base> {
        match (&self.matches, &self.matches_none) {
            (Some(Matches::Versions(versions)), None) => match **versions {
                [version] => Some(Base::Version(version)),
                _ => None,
            },
            (None, Some(Matches::Any)) => Some(Base::NoValue),
            _ => None,
        }
    }
}

/// What a replica's newest version must be for it to promise a ballot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The value of this version.
    Version(Timestamp),
    /// No value: no version, a tombstone, or a value that has expired by the coordinator's clock.
    NoValue,
}

impl Base {
    /// What a read or the answers of the replicas have found.
    pub(super) fn of(newest: Newest) -> Self {
        newest.value().map_or(Self::NoValue, Self::Version)
    }

    /// Whether a newest version is as expected.
    #[must_use]
    pub fn is(self, newest: Newest) -> bool {
        self == Self::of(newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Timestamp = Timestamp::from_u64(1);
    const TWO: Timestamp = Timestamp::from_u64(2);

    #[test]
    fn only_a_condition_that_names_nothing_else_is_older() {
        let named = |versions: &[Timestamp]| Condition {
            matches: Some(Matches::Versions(versions.into())),
            matches_none: None,
        };
        assert!(named(&[ONE]).is_older_than(TWO) && named(&[]).is_older_than(ONE));
        assert!(!named(&[ONE, TWO]).is_older_than(TWO));
        let any = Condition {
            matches: Some(Matches::Any),
            matches_none: None,
        };
        for condition in [any, Condition::absent(), Condition::default()] {
            assert!(!condition.is_older_than(TWO), "{condition:?}");
        }
    }

    #[test]
    fn conditions_hold_as_the_standard_says() {
        let any = || Some(Matches::Any);
        let one = || Some(Matches::Versions([ONE].into()));
        let both = || Some(Matches::Versions([ONE, TWO].into()));
        // The condition; whether it holds for nothing, the first and the second version; its base.
        let cases = [
            (None, None, [true, true, true], None),
            (any(), None, [false, true, true], None),
            (one(), None, [false, true, false], Some(Base::Version(ONE))),
            (both(), None, [false, true, true], None),
            (None, any(), [true, false, false], Some(Base::NoValue)),
            (None, one(), [true, false, true], None),
            (both(), one(), [false, false, true], None),
            (any(), any(), [false, false, false], None),
        ];
        for (matches, matches_none, holds, base) in cases {
            let condition = Condition {
                matches,
                matches_none,
            };
            let found = [None, Some(ONE), Some(TWO)].map(|current| condition.holds(current));
            assert_eq!(found, holds, "{condition:?}");
            assert_eq!(condition.base(), base, "{condition:?}");
        }
    }
}
