//! Makes tokens.

use crate::token_table::TokenHash;
use base::Random;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD as BASE64, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use std::fmt;

/// How each token begins that the program makes, so that people, and scanners of code for
/// secrets, recognise it.
pub const TOKEN_PREFIX: &str = "kvorum_";

/// A token that was just drawn. Only its text is secret; nothing prints it by accident.
pub struct NewToken {
    text: String,
}

impl NewToken {
    /// Draws a token of 256 random bits.
    #[must_use]
    pub fn draw(random: &dyn Random) -> Self {
        let mut bytes = [0; 32];
        for part in bytes.chunks_exact_mut(8) {
            part.copy_from_slice(&random.next_u64().to_le_bytes());
        }
        Self {
            text: format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)),
        }
    }

    /// The token, for the client that will use it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its hash, for the tokens file.
    #[must_use]
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(self.text.as_bytes())
    }
}

/// The lines of a token in the tokens file, as its `Display`.
#[derive(Clone, Debug)]
pub struct Stanza {
    /// Its name.
    pub name: String,
    /// Its hash.
    pub hash: TokenHash,
    /// Whether it may read.
    pub read: bool,
    /// Whether it may write and delete.
    pub write: bool,
    /// The prefixes of the keys that it may read or write; none for all keys.
    pub prefixes: Vec<Vec<u8>>,
    /// Whether it may do what only operators do.
    pub admin: bool,
    /// Whether it may read the metrics.
    pub metrics: bool,
    /// From when on it is not in force any more, in seconds since 1970.
    pub expires_unix_s: Option<i64>,
}

impl Stanza {
    /// From when on it is not in force any more, as RFC 3339 writes it.
    #[must_use]
    pub fn expires(&self) -> Option<String> {
        let expires = self.expires_unix_s.map(Timestamp::from_second)?.ok()?;
        Some(expires.to_string())
    }

    fn keys(&self) -> String {
        if self.prefixes.is_empty() {
            return "true".to_owned();
        }
        let prefixes = self
            .prefixes
            .iter()
            .map(|prefix| match str::from_utf8(prefix) {
                Ok(text) => quoted(text),
                Err(_) => format!("{{ base64 = \"{}\" }}", BASE64.encode(prefix)),
            });
        format!("[{}]", prefixes.collect::<Vec<_>>().join(", "))
    }
}

/// A text as a basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for sign in text.chars() {
        match sign {
            '"' | '\\' => quoted.extend(['\\', sign]),
            sign if sign.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(sign))),
            sign => quoted.push(sign),
        }
    }
    quoted.push('"');
    quoted
}

impl fmt::Display for Stanza {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "[[token]]")?;
        writeln!(formatter, "name = {}", quoted(&self.name))?;
        writeln!(formatter, "sha256 = \"{}\"", self.hash)?;
        for (right, is_given, value) in [
            ("read", self.read, self.keys()),
            ("write", self.write, self.keys()),
            ("admin", self.admin, "true".to_owned()),
            ("metrics", self.metrics, "true".to_owned()),
        ] {
            if is_given {
                writeln!(formatter, "{right} = {value}")?;
            }
        }
        if let Some(expires) = self.expires() {
            writeln!(formatter, "expires = \"{expires}\"")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bearer::bearer;
    use base::SeededRandom;

    #[test]
    fn a_token_is_recognised_and_fits_a_header_and_one_block_of_sha256() {
        let random = SeededRandom::new(1);
        let (one, other) = (NewToken::draw(&random), NewToken::draw(&random));
        assert_ne!(one.text(), other.text());
        assert_ne!(one.hash(), other.hash());
        assert!(one.text().starts_with(TOKEN_PREFIX));
        // Nine more bytes of padding make a block of 64.
        assert_eq!(one.text().len(), 50);
        let field = format!("Bearer {}", one.text());
        assert_eq!(bearer(field.as_bytes()), Some(one.text().as_bytes()));
    }
}
