//! The tokens file:
//!
//! ```toml
//! [[token]]
//! name = "shop"
//! sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
//! read = true                                 # all keys
//! write = ["cart/", { base64 = "/wA=" }]      # keys with one of these prefixes
//! metrics = true
//! admin = false                               # as if it were left out
//! expires = "2027-02-28T00:00:00Z"            # from then on it is as if it were not there
//! ```
//!
//! A file with anything else in it is refused whole: a right that is misspelt must not be
//! a right that silently is not there, or is there for all keys. A file without tokens is
//! refused, too, because it is what an editor leaves for a moment.

use crate::key_set::KeySet;
use crate::new_token::TOKEN_PREFIX;
use crate::rights::Rights;
use crate::token_table::{Token, TokenHash, TokenTable};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The longest file, in bytes.
pub const FILE_BYTES_MAX: usize = 4 << 20;

/// How many tokens a file may have.
pub const TOKENS_MAX: usize = 10_000;

/// How many prefixes a right may have.
pub const PREFIXES_MAX: usize = 256;

/// The longest name of a token, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// The longest prefix, in bytes: that of a key.
const PREFIX_BYTES_MAX: usize = base::KEY_BYTES_MAX;

/// Why a file cannot be used, in one line, without a token that stands in it by mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FileError(String);

impl FileError {
    fn new(text: impl AsRef<str>) -> Self {
        Self(without_tokens(text.as_ref()))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    token: Vec<TokenFields>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenFields {
    name: String,
    sha256: String,
    #[serde(default)]
    read: Keys,
    #[serde(default)]
    write: Keys,
    #[serde(default)]
    admin: bool,
    #[serde(default)]
    metrics: bool,
    expires: Option<String>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected true for all keys, or a list of prefixes such as [\"cart/\"]"
)]
enum Keys {
    Switch(bool),
    Prefixes(Vec<Prefix>),
}

impl Default for Keys {
    fn default() -> Self {
        Self::Switch(false)
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text or { base64 = \"…\" }")]
enum Prefix {
    Text(String),
    Bytes(BytesOfPrefix),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BytesOfPrefix {
    base64: String,
}

/// Reads the text of a tokens file.
///
/// # Errors
/// What is wrong with it, and what to do.
pub fn read(text: &str) -> Result<TokenTable, FileError> {
    if text.len() > FILE_BYTES_MAX {
        return Err(FileError::new(format!(
            "it has {} bytes: at most {FILE_BYTES_MAX} are read",
            text.len()
        )));
    }
    let document: Document = toml::from_str(text).map_err(|error| of_toml(text, &error))?;
    match document.token.len() {
        0 => {
            return Err(FileError::new(
                "it has no tokens: kvorum admin token new makes one",
            ));
        }
        tokens if tokens > TOKENS_MAX => {
            return Err(FileError::new(format!(
                "it has {tokens} tokens: at most {TOKENS_MAX} are read"
            )));
        }
        _ => {}
    }
    let mut tokens: Vec<Token> = Vec::with_capacity(document.token.len());
    let (mut names, mut hashes) = (BTreeMap::new(), BTreeMap::new());
    for fields in document.token {
        let name = fields.name.clone();
        let token = token_of(fields)?;
        if names.insert(name.clone(), ()).is_some() {
            return Err(FileError::new(format!(
                "two tokens are named `{name}`: give each a name of its own"
            )));
        }
        if let Some(other) = hashes.insert(token.hash, name.clone()) {
            return Err(FileError::new(format!(
                "the tokens `{other}` and `{name}` have the same sha256: make another token"
            )));
        }
        tokens.push(token);
    }
    Ok(TokenTable::new(tokens))
}

/// Checks the name of a token.
///
/// # Errors
/// What names may be.
pub fn check_name(name: &str) -> Result<(), FileError> {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@/".contains(&byte);
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_of_name) {
        return Ok(());
    }
    Err(FileError::new(format!(
        "`{}` is not a valid name of a token: give 1 to {NAME_BYTES_MAX} letters, digits and any \
         of -_.:@/",
        name.chars()
            .take(NAME_BYTES_MAX)
            .collect::<String>()
            .escape_debug()
    )))
}

fn token_of(fields: TokenFields) -> Result<Token, FileError> {
    check_name(&fields.name)?;
    let of_token = |what: String| FileError::new(format!("token `{}`: {what}", fields.name));
    let hash = TokenHash::parse(&fields.sha256).ok_or_else(|| {
        of_token(format!(
            "sha256 has {} characters: give the 64 hexadecimal digits of the token's SHA-256, \
             which kvorum admin token new prints",
            fields.sha256.chars().count()
        ))
    })?;
    let keys = |right: &str, keys: &Keys| {
        keys_of(keys).map_err(|problem| of_token(format!("{right}: {problem}")))
    };
    let rights = Rights {
        read: keys("read", &fields.read)?,
        write: keys("write", &fields.write)?,
        admin: fields.admin,
        metrics: fields.metrics,
    };
    let expires = fields.expires.as_deref().map(unix_ms_of).transpose();
    let expires_unix_ms = expires.map_err(of_token)?;
    Ok(Token::new(fields.name, hash, rights).until(expires_unix_ms))
}

/// A time, in milliseconds since 1970.
fn unix_ms_of(text: &str) -> Result<u64, String> {
    let time: Option<Timestamp> = text.parse().ok();
    let unix_ms = time.and_then(|time| u64::try_from(time.as_millisecond()).ok());
    unix_ms.ok_or_else(|| {
        "expires is no time: write one of RFC 3339, such as \"2027-02-28T00:00:00Z\"".to_owned()
    })
}

fn keys_of(keys: &Keys) -> Result<KeySet, String> {
    let prefixes = match keys {
        Keys::Switch(true) => return Ok(KeySet::all()),
        Keys::Switch(false) => return Ok(KeySet::none()),
        Keys::Prefixes(prefixes) => prefixes,
    };
    if prefixes.len() > PREFIXES_MAX {
        return Err(format!(
            "it has {} prefixes: give at most {PREFIXES_MAX}",
            prefixes.len()
        ));
    }
    let prefixes: Result<Vec<Vec<u8>>, String> = prefixes.iter().map(bytes_of).collect();
    Ok(KeySet::of_prefixes(&prefixes?))
}

fn bytes_of(prefix: &Prefix) -> Result<Vec<u8>, String> {
    let bytes = match prefix {
        Prefix::Text(text) => text.as_bytes().to_vec(),
        Prefix::Bytes(bytes) => BASE64
            .decode(&bytes.base64)
            .map_err(|error| format!("a prefix is not base64: {error}"))?,
    };
    match bytes.len() {
        0 => Err("a prefix is empty: write true for all keys".to_owned()),
        1..=PREFIX_BYTES_MAX => Ok(bytes),
        long => Err(format!(
            "a prefix has {long} bytes: give at most {PREFIX_BYTES_MAX}"
        )),
    }
}

/// The error of the parser, which draws several lines, as one.
fn of_toml(text: &str, error: &toml::de::Error) -> FileError {
    let before = error.span().and_then(|span| text.get(..span.start));
    let message = error.message().split_whitespace().collect::<Vec<_>>();
    let message = message.join(" ");
    FileError::new(match before {
        Some(before) => {
            let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
            format!("line {line}: {message}")
        }
        None => message,
    })
}

/// A text in which no token is left that somebody wrote in place of its hash.
fn without_tokens(text: &str) -> String {
    let mut parts = text.split(TOKEN_PREFIX);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_of_token = |sign: char| sign.is_ascii_alphanumeric() || sign == '-' || sign == '_';
        shown.push_str(TOKEN_PREFIX);
        shown.push('…');
        shown.push_str(part.trim_start_matches(is_of_token));
    }
    shown
}

#[cfg(test)]
mod tests;
