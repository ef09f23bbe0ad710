//! How a message names its repair session: a kind, a number, and an attempt.

use base::ByteReader;
use cluster::repair::{SessionId, Token};

/// Appends which session it is.
pub(crate) fn put_session_id(out: &mut Vec<u8>, session: SessionId) {
    let (is_full, token) = match session {
        SessionId::Incremental(session) => {
            let attempt = 0;
            (false, Token { session, attempt })
        }
        SessionId::Full(token) => (true, token),
    };
    out.push(is_full.into());
    token.encode(out);
}

/// Reads which session it is.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn take_session_id(reader: &mut ByteReader<'_>) -> Result<SessionId, &'static str> {
    let (kind, token) = (reader.u8(), Token::decode(reader));
    match (kind, token) {
        (Some(1), Some(token)) => Ok(SessionId::Full(token)),
        (Some(0), Some(token)) if token.attempt == 0 => Ok(SessionId::Incremental(token.session)),
        (Some(0), Some(_)) => Err("an attempt of an incremental repair"),
        (Some(_), Some(_)) => Err("an unknown kind of repair"),
        _ => Err("too short a payload"),
    }
}
