//! The token by which nodes recognize a client.

use crate::error::Error;
use hyper::header::HeaderValue;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

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

/// Where a token comes from.
#[derive(Clone, Debug)]
pub(super) enum TokenSource {
    Given(Token),
    File(Arc<TokenFile>),
}

/// A file whose first line is a token.
#[derive(Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
    /// What was read, and when the file was modified then.
    read: Mutex<Option<(SystemTime, Token)>>,
}

impl TokenFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            read: Mutex::default(),
        }
    }

    /// The token that the file holds now.
    ///
    /// # Errors
    /// [`Error::NoToken`].
    pub(super) fn token(&self) -> Result<Token, Error> {
        self.read().map_err(|problem| Error::NoToken {
            path: self.path.clone(),
            problem: problem.to_string(),
        })
    }

    fn read(&self) -> io::Result<Token> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let modified = std::fs::metadata(&self.path)?.modified()?;
        if let Some((at, token)) = &*read
            && *at == modified
        {
            return Ok(token.clone());
        }
        let file = File::open(&self.path)?;
        let mut line = String::new();
        BufReader::new(file.take(BYTES_MAX as u64 + 2)).read_line(&mut line)?;
        let token = Token::parse(line.trim_end_matches(['\r', '\n'])).map_err(io::Error::other)?;
        *read = Some((modified, token.clone()));
        Ok(token)
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

    #[test]
    fn a_file_is_read_again_once_it_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let write = |text: &str, seconds: u64| {
            let file = File::create(&path).unwrap();
            io::Write::write_all(&mut &file, text.as_bytes()).unwrap();
            let modified = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            file.set_modified(modified).unwrap();
        };
        let file = TokenFile::new(path.clone());
        assert!(matches!(file.token(), Err(Error::NoToken { .. })));
        for (text, seconds, token) in [
            ("first\nanother line\n", 1, "first"),
            // Not read, because its time is the same.
            ("second", 1, "first"),
            ("second\r\n", 2, "second"),
        ] {
            write(text, seconds);
            assert_eq!(file.token().unwrap().reveal(), token);
        }
        write("no token", 3);
        let error = file.token().unwrap_err();
        assert!(
            error.to_string().contains("one of which is none of these"),
            "{error}"
        );
        assert!(!error.to_string().contains("no token"), "{error}");
    }
}
