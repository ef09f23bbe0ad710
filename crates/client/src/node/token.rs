//! The token by which nodes recognize a client.

use hyper::header::HeaderValue;
use std::fmt;

/// The longest token, in bytes: far above those that nodes give out.
const BYTES_MAX: usize = 4096;

/// What stands before a token in the field `Authorization`.
const SCHEME: &str = "Bearer ";

/// A token. No output shows it: its `Debug` is one word, and the field with it is marked
/// as sensitive.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(HeaderValue);

/// Why a text is no token. It does not show the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a token is 1 to {BYTES_MAX} letters, digits and signs of -._~+/, with = at its end only; \
     this has {bytes} bytes{}",
    if *.is_odd { ", one of which is none of these" } else { "" }
)]
pub struct TokenError {
    bytes: usize,
    is_odd: bool,
}

impl Token {
    /// Reads a token as RFC 6750 writes it.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
        let is_odd = !text.trim_end_matches('=').bytes().all(is_plain);
        let wrong = TokenError {
            bytes: text.len(),
            is_odd,
        };
        if is_odd || text.starts_with('=') || !(1..=BYTES_MAX).contains(&text.len()) {
            return Err(wrong);
        }
        let mut field = HeaderValue::try_from(format!("{SCHEME}{text}")).map_err(|_| wrong)?;
        field.set_sensitive(true);
        Ok(Self(field))
    }

    /// The value of the field `Authorization`.
    pub(crate) fn field(&self) -> &HeaderValue {
        &self.0
    }

    /// The token itself, for clients of another kind.
    pub fn reveal(&self) -> &str {
        let field = self.0.to_str().unwrap_or_default();
        field.strip_prefix(SCHEME).unwrap_or_default()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_what_a_field_can_carry() {
        let longest = "a".repeat(BYTES_MAX);
        for text in ["a", "kv_0-9.~+/Z==", &longest] {
            let token = Token::parse(text).unwrap();
            assert_eq!(token.reveal(), text);
            assert_eq!(*token.field(), format!("Bearer {text}"));
        }
        let too_long = "a".repeat(BYTES_MAX + 1);
        for text in ["", "=", "a=b", "a b", "a\n", "a\r\nX: y", "é", &too_long] {
            let error = Token::parse(text).unwrap_err();
            assert_eq!(error.bytes, text.len(), "{text:?}");
        }
    }

    #[test]
    fn no_output_shows_a_token() {
        let token = Token::parse("hidden").unwrap();
        assert!(!format!("{token:?} {:?}", token.field()).contains("hidden"));
        let error = Token::parse("hidden hidden").unwrap_err();
        assert!(!format!("{error:?} {error}").contains("hidden"), "{error}");
    }
}
