//! What a token may do, and what a request needs.

use crate::key_set::KeySet;

/// What a method of a path needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing, not even a token.
    Nothing,
    /// Any token that is in force.
    AnyToken,
    /// The right `read` for the keys that it asks for.
    Read,
    /// The right `write` for the key that it asks for.
    Write,
    /// The right `read` or `write`, and for each line the right of its operation.
    Lines,
    /// The right `metrics`.
    Metrics,
    /// The right `admin`.
    Admin,
}

impl Need {
    /// The rights of which one is needed, by the names that they have in the tokens file.
    #[must_use]
    pub fn rights(self) -> &'static [&'static str] {
        match self {
            Self::Nothing | Self::AnyToken => &[],
            Self::Read => &["read"],
            Self::Write => &["write"],
            Self::Lines => &["read", "write"],
            Self::Metrics => &["metrics"],
            Self::Admin => &["admin"],
        }
    }
}

/// The keys that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedKeys<'a> {
    /// None.
    NoKey,
    /// Some, which its body names.
    SomeKeys,
    /// One key.
    Key(&'a [u8]),
    /// All keys from the first up to, but without, the second; `None` is behind the last.
    Range(&'a [u8], Option<&'a [u8]>),
}

/// What a token may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// The keys that it may read.
    pub read: KeySet,
    /// The keys that it may write and delete.
    pub write: KeySet,
    /// Whether it may do what only operators do.
    pub admin: bool,
    /// Whether it may read the metrics.
    pub metrics: bool,
}

impl Rights {
    /// Whether they allow a request that has this need and asks for these keys.
    #[must_use]
    pub fn allow(&self, need: Need, asked: RequestedKeys<'_>) -> bool {
        let of_keys = |keys: &KeySet| match asked {
            RequestedKeys::NoKey => false,
            RequestedKeys::SomeKeys => !keys.is_empty(),
            RequestedKeys::Key(key) => keys.has(key),
            RequestedKeys::Range(start, end) => keys.has_range(start, end),
        };
        match need {
            Need::Nothing | Need::AnyToken => true,
            Need::Read => of_keys(&self.read),
            Need::Write => of_keys(&self.write),
            Need::Lines => !self.read.is_empty() || !self.write.is_empty(),
            Need::Metrics => self.metrics,
            Need::Admin => self.admin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_right_allows_what_it_names_and_nothing_else() {
        let rights = |name: &str| Rights {
            read: if name == "read" {
                KeySet::all()
            } else {
                KeySet::none()
            },
            write: if name == "write" {
                KeySet::all()
            } else {
                KeySet::none()
            },
            admin: name == "admin",
            metrics: name == "metrics",
        };
        for need in [
            Need::Nothing,
            Need::AnyToken,
            Need::Read,
            Need::Write,
            Need::Lines,
            Need::Metrics,
            Need::Admin,
        ] {
            for name in ["none", "read", "write", "admin", "metrics"] {
                let needs_no_right = need.rights().is_empty();
                let expected = needs_no_right || need.rights().contains(&name);
                let allowed = rights(name).allow(need, RequestedKeys::Key(b"k"));
                assert_eq!(allowed, expected, "{need:?} with {name}");
            }
        }
    }

    #[test]
    fn rights_for_keys_are_for_those_keys() {
        let rights = Rights {
            read: KeySet::of_prefixes(&["cart/"]),
            write: KeySet::of_prefixes(&["cart/a"]),
            ..Rights::default()
        };
        for (need, asked, expected) in [
            (Need::Read, RequestedKeys::Key(b"cart/1"), true),
            (Need::Read, RequestedKeys::Key(b"cart"), false),
            (Need::Write, RequestedKeys::Key(b"cart/1"), false),
            (Need::Write, RequestedKeys::Key(b"cart/a1"), true),
            (
                Need::Read,
                RequestedKeys::Range(b"cart/", Some(b"cart0")),
                true,
            ),
            (Need::Read, RequestedKeys::Range(b"cart/", None), false),
            (Need::Read, RequestedKeys::NoKey, false),
            (Need::Read, RequestedKeys::SomeKeys, true),
            (Need::Lines, RequestedKeys::NoKey, true),
        ] {
            assert_eq!(rights.allow(need, asked), expected, "{need:?} {asked:?}");
        }
        assert!(!Rights::default().allow(Need::Lines, RequestedKeys::NoKey));
        assert!(!Rights::default().allow(Need::Read, RequestedKeys::SomeKeys));
    }
}
