//! How keys appear in logs.

use tokens::TokenHash;

/// How many bytes of a key a line shows.
const SHOWN_BYTES_MAX: usize = 256;

/// How many digits of its hash.
const HASH_DIGITS: usize = 16;

/// How keys appear in logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogKeys {
    /// As they are, with escapes, and cut off when they are long.
    Plain,
    /// As the first 16 digits of their SHA-256, so that who knows a key finds its lines.
    #[default]
    Hash,
    /// Not at all.
    Off,
}

impl LogKeys {
    /// A key as a line shows it.
    pub(crate) fn shown(self, key: &[u8]) -> Option<String> {
        match self {
            Self::Plain => {
                let begin = &key[..key.len().min(SHOWN_BYTES_MAX)];
                let cut = if key.len() > SHOWN_BYTES_MAX {
                    "…"
                } else {
                    ""
                };
                Some(format!("{}{cut}", begin.escape_ascii()))
            }
            Self::Hash => {
                let mut digits = TokenHash::of(key).to_string();
                digits.truncate(HASH_DIGITS);
                Some(format!("sha256:{digits}"))
            }
            Self::Off => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_appear_as_the_operator_chose() {
        let long = [b'a'; SHOWN_BYTES_MAX + 1];
        let cut = format!("{}…", "a".repeat(SHOWN_BYTES_MAX));
        for (how, key, shown) in [
            (LogKeys::Plain, &b"a\n\xff"[..], Some("a\\n\\xff")),
            (LogKeys::Plain, &long, Some(&*cut)),
            (LogKeys::Hash, b"abc", Some("sha256:ba7816bf8f01cfea")),
            (LogKeys::Off, b"abc", None),
        ] {
            assert_eq!(how.shown(key).as_deref(), shown, "{how:?}");
        }
    }
}
