//! What fuzzers call of a tokens file and of bearer tokens: see `lsm::fuzzing`.

use crate::{Need, RequestedKeys, TOKEN_BYTES_MAX, TokenHash, bearer, read};

/// Takes bytes as a tokens file. What is read must be found again, and allow no more than
/// its rights name.
pub fn tokens_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match read(text) {
        Ok(table) => {
            assert!(!table.is_empty() && table.names().all(|name| !name.is_empty()));
            assert!(table.find(&TokenHash([0x5a; 32])).is_none());
            for token in table.tokens() {
                let found = table.find(&token.hash).map(|found| &found.name);
                assert_eq!(found, Some(&token.name));
                let rights = &token.rights;
                let all = rights.allow(Need::Read, RequestedKeys::Range(b"", None));
                assert!(!all || rights.allow(Need::Read, RequestedKeys::Key(bytes)));
            }
        }
        Err(error) => {
            let line = error.to_string();
            assert!(!line.is_empty() && !line.contains('\n'), "{line:?}");
        }
    }
}

/// Takes bytes as the value of an `Authorization` field.
pub fn authorization(bytes: &[u8]) {
    if let Some(token) = bearer(bytes) {
        assert!((1..=TOKEN_BYTES_MAX).contains(&token.len()));
        assert!(bytes[..6].eq_ignore_ascii_case(b"bearer"));
        assert!(token.iter().all(u8::is_ascii_graphic));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What changes the meaning of TOML and of the field.
    const SIGNS: &[u8] = b"[]{}\"'=#,.\\\n \t0_-true\xff\xc3\0";

    #[test]
    fn files_and_fields_survive_mutations() {
        let file: &[u8] = include_bytes!("../tests/fixtures/tokens.toml");
        assert_eq!(read(std::str::from_utf8(file).unwrap()).unwrap().len(), 2);
        let field: &[u8] = b"Bearer kvorum_aZ-_0.~+/=";
        let mut random = fastrand::Rng::with_seed(19);
        for (sound, take) in [(file, tokens_file as fn(&[u8])), (field, authorization)] {
            take(sound);
            for _ in 0..3_000 {
                let mut bytes = sound.to_vec();
                for _ in 0..random.usize(1..5) {
                    if bytes.is_empty() {
                        break;
                    }
                    let at = random.usize(0..bytes.len());
                    let end = (at + random.usize(0..30)).min(bytes.len());
                    match random.u8(0..6) {
                        0 => drop(bytes.drain(at..end)),
                        1 => bytes.extend_from_within(at..end),
                        2 => bytes[at] = random.u8(..),
                        3 => bytes.insert(at, SIGNS[random.usize(0..SIGNS.len())]),
                        _ => bytes[at] = SIGNS[random.usize(0..SIGNS.len())],
                    }
                }
                take(&bytes);
            }
        }
    }
}
