//! The header field with a token (RFC 6750): `Authorization: Bearer TOKEN`.

/// The longest token that is looked at, in bytes.
pub const TOKEN_BYTES_MAX: usize = 256;

const SCHEME: &[u8] = b"bearer";

/// The token in the value of an `Authorization` field; `None` if there is none that could
/// be in force.
#[must_use]
pub fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(SCHEME.len())?;
    if !scheme.eq_ignore_ascii_case(SCHEME) || rest.first() != Some(&b' ') {
        return None;
    }
    let token = rest.trim_ascii();
    let is_token = (1..=TOKEN_BYTES_MAX).contains(&token.len()) && token.iter().all(is_of_token);
    is_token.then_some(token)
}

/// Whether tokens have such a byte (`b64token` of RFC 6750).
fn is_of_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_follows_the_scheme() {
        let long = format!("Bearer {}", "a".repeat(TOKEN_BYTES_MAX));
        let too_long = format!("{long}a");
        for (value, token) in [
            ("Bearer kvorum_aZ-_0", Some("kvorum_aZ-_0")),
            ("bearer a", Some("a")),
            ("BEARER   a+/=~. ", Some("a+/=~.")),
            ("", None),
            ("Bearer", None),
            ("Bearer ", None),
            ("Bearera", None),
            ("Bearer\ta", None),
            ("Basic a", None),
            ("Bearer a b", None),
            ("Bearer a,Bearer b", None),
            ("Bearer \u{e4}", None),
            ("Bearer \"a\"", None),
            (&*long, Some(&long[7..])),
            (&*too_long, None),
        ] {
            assert_eq!(
                bearer(value.as_bytes()),
                token.map(str::as_bytes),
                "{value}"
            );
        }
    }
}
