//! An entity as a line of JSON (`api::EntityLine`), as a part of an answer.
//!
//! A value can be six times as long in JSON, so a long value is never converted as a whole, but
//! piece by piece while the client reads it.

use api::{EntityLine, rfc3339};
use base::{Entry, Expiry, LONG_VALUE_BYTES};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;

/// How many bytes of a long value are converted at a time. It is a multiple of three,
/// so that the base64 of the pieces is that of the whole.
const PIECE_BYTES: usize = 12 << 10;

/// A line, or its beginning and the pieces that follow.
pub(crate) struct JsonLine {
    /// All of a short line; the part of a long one before its value.
    pub(crate) head: Bytes,
    /// The value of a long line and all that follows it.
    pub(crate) value_pieces: Option<ValuePieces>,
}

/// When an entity expires, as text; `None` if it never does.
pub(crate) fn time_of(expiry: Expiry) -> Option<String> {
    (expiry != Expiry::NEVER).then(|| rfc3339::of_unix_ms(expiry.unix_ms()))
}

/// A long value and the end of its line, as pieces of JSON.
#[derive(Clone)]
pub(crate) struct ValuePieces {
    value: Bytes,
    is_text: bool,
    written: usize,
    end: Option<Bytes>,
}

impl JsonLine {
    /// The line of a live entity.
    pub(crate) fn of(entry: &Entry) -> Self {
        let value = entry.value_bytes();
        if value.len() <= LONG_VALUE_BYTES {
            return Self::whole(entry, Some(value));
        }
        let is_text = std::str::from_utf8(value).is_ok();
        let mut head = Vec::new();
        let end = with_line(entry, |line| line.write_around_value(is_text, &mut head));
        let value_pieces = ValuePieces::new(entry.value_handle(), is_text, Bytes::from(end));
        Self {
            head: Bytes::from(head),
            value_pieces: Some(value_pieces),
        }
    }

    /// The line of a live entity, without its value.
    pub(crate) fn without_value(entry: &Entry) -> Self {
        Self::whole(entry, None)
    }

    fn whole(entry: &Entry, value: Option<&[u8]>) -> Self {
        let mut head = Vec::with_capacity(entry.key().len() + value.map_or(0, <[u8]>::len) + 64);
        with_line(entry, |line| line.write(value, &mut head));
        Self {
            head: Bytes::from(head),
            value_pieces: None,
        }
    }
}

/// Writes the line of an entity.
fn with_line<T>(entry: &Entry, write: impl FnOnce(EntityLine<'_>) -> T) -> T {
    let version = entry.timestamp().to_string();
    let expires = time_of(entry.expiry());
    write(EntityLine {
        key: entry.key(),
        version: Some(&version),
        expires: expires.as_deref(),
    })
}

impl ValuePieces {
    /// The pieces of a value, which is text if `is_text`, and of what follows it.
    pub(crate) fn new(value: Bytes, is_text: bool, end: Bytes) -> Self {
        Self {
            value,
            is_text,
            written: 0,
            end: Some(end),
        }
    }

    /// The length of the value, in bytes.
    pub(crate) fn value_bytes(&self) -> usize {
        self.value.len()
    }
}

impl Iterator for ValuePieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let left = &self.value[self.written..];
        if left.is_empty() {
            return self.end.take();
        }
        let mut bytes = left.len().min(PIECE_BYTES);
        if !self.is_text {
            let piece = BASE64.encode(&left[..bytes]);
            self.written += bytes;
            return Some(Bytes::from(piece));
        }
        // Pieces end between characters, which have four bytes at most.
        while left.get(bytes).is_some_and(|byte| byte & 0xc0 == 0x80) {
            bytes -= 1;
        }
        self.written += bytes;
        let text = std::str::from_utf8(&left[..bytes]).unwrap_or_default();
        let quoted = Bytes::from(serde_json::to_vec(text).unwrap_or_default());
        Some(quoted.slice(1..quoted.len().saturating_sub(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Expiry, Timestamp};

    fn text(key: &[u8], value: &[u8]) -> String {
        let entry = Entry::value(key, Timestamp::from_u64(9), value, Expiry::NEVER, 1);
        line_of(JsonLine::of(&entry))
    }

    fn line_of(line: JsonLine) -> String {
        let mut bytes = line.head.to_vec();
        bytes.extend(line.value_pieces.into_iter().flatten().flatten());
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_line_has_base64_only_for_bytes_that_are_not_utf8() {
        for (key, value, line) in [
            (
                &b"k\n"[..],
                &b"v\""[..],
                "{\"key\":\"k\\n\",\"value\":\"v\\\"\",\"version\":\"9\"}\n",
            ),
            (
                b"\xff",
                b"",
                "{\"key_base64\":\"/w==\",\"value\":\"\",\"version\":\"9\"}\n",
            ),
            (
                b"k",
                b"\xff\xfe",
                "{\"key\":\"k\",\"value_base64\":\"//4=\",\"version\":\"9\"}\n",
            ),
        ] {
            assert_eq!(text(key, value), line);
        }
    }

    #[test]
    fn a_line_tells_when_the_entity_expires() {
        let expiry = Expiry::at_unix_ms(1_795_363_200_250);
        let expires = "2026-11-22T16:00:00.250Z";
        let long = "v".repeat(LONG_VALUE_BYTES + 1);
        for value in ["v", &long] {
            let at = Timestamp::from_u64(9);
            let entry = Entry::value(b"k", at, value.as_bytes(), expiry, 1);
            let whole = format!(
                "{{\"key\":\"k\",\"value\":\"{value}\",\"version\":\"9\",\"expires\":\"{expires}\"}}\n"
            );
            assert!(line_of(JsonLine::of(&entry)) == whole, "{}", value.len());
            assert_eq!(
                line_of(JsonLine::without_value(&entry)),
                format!("{{\"key\":\"k\",\"version\":\"9\",\"expires\":\"{expires}\"}}\n")
            );
        }
    }

    #[test]
    fn the_pieces_of_a_long_line_make_the_same_json() {
        // Characters of one to four bytes, and escapes, on all borders of pieces.
        let long = "a\u{e4}\n\u{20ac}\"\u{1f980}\u{1}".repeat(6_000);
        assert!(long.len() > LONG_VALUE_BYTES);
        let read: serde_json::Value = serde_json::from_str(&text(b"k", long.as_bytes())).unwrap();
        let whole = serde_json::json!({"key": "k", "value": long, "version": "9"});
        assert!(read == whole);
        for cut in 0..3 {
            let long = vec![0xff; LONG_VALUE_BYTES + 1 + cut];
            let read: serde_json::Value = serde_json::from_str(&text(b"\xff", &long)).unwrap();
            assert!(read["value_base64"] == BASE64.encode(&long));
            assert_eq!(
                (&read["key_base64"], &read["version"]),
                (&"/w==".into(), &"9".into())
            );
        }
    }
}
