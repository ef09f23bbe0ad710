//! All tokens in force, found by their hashes.
//!
//! A lookup takes the same time whether a token is nearly right or wholly wrong: what is
//! compared are hashes, and of those that begin alike all bytes.

use crate::rights::Rights;
use sha2::{Digest, Sha256};
use std::fmt;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The SHA-256 of a token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenHash(pub [u8; 32]);

impl TokenHash {
    /// The hash of a token.
    #[must_use]
    pub fn of(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// A hash as 64 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        let mut hash = [0; 32];
        if digits.len() != 2 * hash.len() {
            return None;
        }
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            for digit in pair {
                let digit = char::from(*digit).to_digit(16)?;
                *byte = *byte << 4 | u8::try_from(digit).ok()?;
            }
        }
        Some(Self(hash))
    }

    /// Its first bytes, by which it is found.
    fn begin(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }

    /// Whether two are the same, by comparing all bytes.
    fn is_same(&self, other: &Self) -> bool {
        let pairs = self.0.iter().zip(&other.0);
        let differences = pairs.fold(0, |differences, (one, other)| {
            black_box(differences | (one ^ other))
        });
        differences == 0
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// A token, without its text.
#[derive(Debug)]
pub struct Token {
    /// Its name, which logs show.
    pub name: String,
    /// Its hash.
    pub hash: TokenHash,
    /// What it may do.
    pub rights: Rights,
    /// From when on it is not in force any more, in milliseconds since 1970; `None` for never.
    pub expires_unix_ms: Option<u64>,
    is_superseded: AtomicBool,
}

impl Token {
    /// A token in force, which does not expire.
    #[must_use]
    pub fn new(name: String, hash: TokenHash, rights: Rights) -> Self {
        Self {
            name,
            hash,
            rights,
            expires_unix_ms: None,
            is_superseded: AtomicBool::new(false),
        }
    }

    /// The same, in force until then.
    #[must_use]
    pub fn until(self, expires_unix_ms: Option<u64>) -> Self {
        Self {
            expires_unix_ms,
            ..self
        }
    }

    /// Notes that a later table has replaced it.
    pub fn supersede(&self) {
        self.is_superseded.store(true, Ordering::Release);
    }

    /// Whether a later table has replaced it, by itself with other rights or by nothing.
    #[must_use]
    pub fn is_superseded(&self) -> bool {
        self.is_superseded.load(Ordering::Acquire)
    }
}

/// All tokens in force.
#[derive(Clone, Debug, Default)]
pub struct TokenTable {
    /// Sorted by their hashes, each of which is there once.
    tokens: Vec<Arc<Token>>,
}

impl TokenTable {
    /// A table of these tokens, whose hashes differ.
    #[must_use]
    pub fn new(tokens: Vec<Token>) -> Self {
        let mut tokens: Vec<Arc<Token>> = tokens.into_iter().map(Arc::new).collect();
        tokens.sort_unstable_by_key(|token| token.hash);
        Self { tokens }
    }

    /// The table without the tokens that have expired.
    #[must_use]
    pub fn at(mut self, now_unix_ms: u64) -> Self {
        let is_expired =
            |token: &Arc<Token>| token.expires_unix_ms.is_some_and(|at| at <= now_unix_ms);
        self.tokens.retain(|token| !is_expired(token));
        self
    }

    /// When the next of the tokens expires; `None` if none does.
    #[must_use]
    pub fn next_expiry_unix_ms(&self) -> Option<u64> {
        self.tokens()
            .filter_map(|token| token.expires_unix_ms)
            .min()
    }

    /// The token whose hash this is.
    #[must_use]
    pub fn find(&self, hash: &TokenHash) -> Option<&Arc<Token>> {
        let begin = hash.begin();
        let first = self
            .tokens
            .partition_point(|token| token.hash.begin() < begin);
        let alike = self.tokens[first..].iter();
        let mut alike = alike.take_while(|token| token.hash.begin() == begin);
        alike.find(|token| token.hash.is_same(hash))
    }

    /// The number of tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there are no tokens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// All tokens.
    pub fn tokens(&self) -> impl Iterator<Item = &Token> {
        self.tokens.iter().map(|token| &**token)
    }

    /// The names of all tokens.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tokens().map(|token| token.name.as_str())
    }

    /// Takes over the tokens of an earlier table that are the same here. Returns those that
    /// this table does not have, or has with other rights: they are superseded once this
    /// table is in force, and not before, so that who is refused with one finds the other.
    #[must_use]
    pub fn take_over(&mut self, earlier: &Self) -> Vec<Arc<Token>> {
        let mut replaced = Vec::new();
        for token in &earlier.tokens {
            let place = self
                .tokens
                .binary_search_by_key(&token.hash, |known| known.hash);
            let known = place.ok().and_then(|place| self.tokens.get_mut(place));
            match known {
                Some(known)
                    if known.name == token.name
                        && known.rights == token.rights
                        && known.expires_unix_ms == token.expires_unix_ms =>
                {
                    *known = Arc::clone(token);
                }
                _ => replaced.push(Arc::clone(token)),
            }
        }
        replaced
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_set::KeySet;

    fn token(name: &str, text: &str, rights: &Rights) -> Token {
        Token::new(
            name.to_owned(),
            TokenHash::of(text.as_bytes()),
            rights.clone(),
        )
    }

    #[test]
    fn a_token_is_found_by_its_text_and_by_no_other() {
        let names: Vec<String> = (0..100).map(|number| format!("t{number}")).collect();
        let rights = Rights::default();
        let tokens = names
            .iter()
            .map(|name| token(name, name, &rights))
            .collect();
        let table = TokenTable::new(tokens);
        assert_eq!((table.len(), table.is_empty()), (100, false));
        for name in &names {
            let found = table.find(&TokenHash::of(name.as_bytes())).unwrap();
            assert_eq!(&found.name, name);
        }
        assert!(table.find(&TokenHash::of(b"t100")).is_none());
        assert!(table.find(&TokenHash::of(b"")).is_none());
    }

    #[test]
    fn hashes_that_begin_alike_are_told_apart() {
        let hash = |last: u8| {
            let mut hash = [7; 32];
            hash[31] = last;
            TokenHash(hash)
        };
        let tokens = (0..4).map(|last| Token::new(last.to_string(), hash(last), Rights::default()));
        let table = TokenTable::new(tokens.collect());
        for last in 0..4 {
            assert_eq!(table.find(&hash(last)).unwrap().name, last.to_string());
        }
        assert!(table.find(&hash(4)).is_none());
    }

    #[test]
    fn a_token_is_there_until_it_expires() {
        let table = |now| {
            let tokens = [("ever", None), ("soon", Some(10)), ("later", Some(20))];
            let tokens =
                tokens.map(|(name, expires)| token(name, name, &Rights::default()).until(expires));
            TokenTable::new(tokens.into()).at(now)
        };
        for (now, names, next) in [
            (9, &["ever", "later", "soon"][..], Some(10)),
            (10, &["ever", "later"], Some(20)),
            (20, &["ever"], None),
        ] {
            let table = table(now);
            let mut found: Vec<&str> = table.names().collect();
            found.sort_unstable();
            assert_eq!(
                (&found[..], table.next_expiry_unix_ms()),
                (names, next),
                "{now}"
            );
        }
    }

    #[test]
    fn a_hash_is_that_of_sha256() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(TokenHash::of(b"abc").to_string(), abc);
    }

    #[test]
    fn what_a_later_table_lacks_or_changes_is_superseded_once_it_is_in_force() {
        let reader = Rights {
            read: KeySet::all(),
            ..Rights::default()
        };
        let all = ["kept", "changed", "renamed", "gone"];
        let earlier = TokenTable::new(all.map(|name| token(name, name, &reader)).into());
        let mut later = TokenTable::new(vec![
            token("kept", "kept", &reader),
            token("changed", "changed", &Rights::default()),
            token("new name", "renamed", &reader),
            token("new", "new", &reader),
        ]);
        let replaced = later.take_over(&earlier);
        assert!(earlier.tokens().all(|token| !token.is_superseded()));
        replaced.iter().for_each(|token| token.supersede());
        for name in all {
            let hash = TokenHash::of(name.as_bytes());
            let old = earlier.find(&hash).unwrap();
            assert_eq!(old.is_superseded(), name != "kept", "{name}");
            let is_same = later.find(&hash).is_some_and(|new| Arc::ptr_eq(old, new));
            assert_eq!(is_same, name == "kept", "{name}");
        }
    }
}
