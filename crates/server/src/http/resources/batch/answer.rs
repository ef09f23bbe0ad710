//! The answer to an operation, as a line:
//!
//! ```text
//! {"status":201,"version":"228111136384352257"}                          put
//! {"status":202,"version":"228111136461946883"}                          delete
//! {"status":200,"version":"9","value":"v"}                               get
//! {"status":200,"version":"9","expires":"2026-11-22T16:00:00Z","value_base64":"//4="}
//! {"status":404,"version":"9","problem":{…}}     a key that was deleted or has expired
//! {"status":504,"problem":{…}}
//! ```

use crate::http::problem::Problem;
use crate::http::response::chunk::BodyChunk;
use crate::http::response::json_line::{JsonLine, ValuePieces, time_of};
use base::{Entry, Reservation, Timestamp};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use hyper::StatusCode;

/// The longest value that is written with its line, in bytes. In JSON it may be six times as
/// long; of a longer one only a piece exists at a time.
const WHOLE_BYTES_MAX: usize = 8 << 10;

/// The answer to an operation.
#[derive(Debug)]
pub(super) enum OperationAnswer {
    /// A write is stored.
    Written(StatusCode, Timestamp),
    /// A live value, and its reservation of memory if it is long.
    Found(Entry, Option<Reservation>),
    /// The operation was refused or has failed; for a read with the version that it found.
    Problem(Option<Timestamp>, Problem),
}

impl OperationAnswer {
    /// Its status.
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Written(status, _) => *status,
            Self::Found(..) => StatusCode::OK,
            Self::Problem(_, problem) => problem.status(),
        }
    }

    /// The length of the value that it holds, in bytes.
    pub(super) fn value_bytes(&self) -> usize {
        match self {
            Self::Found(entry, _) => entry.value_bytes().len(),
            Self::Written(..) | Self::Problem(..) => 0,
        }
    }

    /// Whether it holds a value so long that it has a reservation of memory.
    pub(super) fn is_long(&self) -> bool {
        matches!(self, Self::Found(_, Some(_)))
    }

    /// Appends the line to `out`. The end of one with a long value is returned as a chunk
    /// instead, whose pieces are made when they are written.
    pub(super) fn encode(self, out: &mut Vec<u8>) -> Option<(BodyChunk, Option<Reservation>)> {
        out.extend_from_slice(b"{\"status\":");
        put_decimal(out, self.status().as_u16().into());
        match self {
            Self::Written(_, version) => put_version(out, version),
            Self::Problem(version, problem) => {
                if let Some(version) = version {
                    put_version(out, version);
                }
                out.extend_from_slice(b",\"problem\":");
                out.extend_from_slice(&problem.document());
            }
            Self::Found(entry, reservation) => {
                put_version(out, entry.timestamp());
                if let Some(expires) = time_of(entry.expiry()) {
                    out.extend_from_slice(b",\"expires\":\"");
                    out.extend_from_slice(expires.as_bytes());
                    out.push(b'"');
                }
                let value = entry.value_bytes();
                let text = std::str::from_utf8(value).ok();
                out.extend_from_slice(match text {
                    Some(_) => b",\"value\":",
                    None => b",\"value_base64\":",
                });
                if value.len() > WHOLE_BYTES_MAX {
                    out.push(b'"');
                    let end = Bytes::from_static(b"\"}\n");
                    let pieces = ValuePieces::new(entry.value_handle(), text.is_some(), end);
                    let chunk = BodyChunk::of_line(JsonLine {
                        head: Bytes::new(),
                        value_pieces: Some(pieces),
                    });
                    return Some((chunk, reservation));
                }
                match text {
                    // Writing to memory cannot fail, and strings always have a JSON form.
                    Some(text) => drop(serde_json::to_writer(&mut *out, text)),
                    None => {
                        out.push(b'"');
                        out.extend_from_slice(BASE64.encode(value).as_bytes());
                        out.push(b'"');
                    }
                }
            }
        }
        out.extend_from_slice(b"}\n");
        None
    }
}

fn put_version(out: &mut Vec<u8>, version: Timestamp) {
    out.extend_from_slice(b",\"version\":\"");
    put_decimal(out, version.as_u64());
    out.push(b'"');
}

/// Appends a decimal number. Each answer has two of them, and `write!` takes several times
/// as long.
fn put_decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Expiry;
    use bytes::Buf;

    fn entry(value: &[u8], expiry: Expiry) -> Entry {
        Entry::value(b"k", Timestamp::from_u64(9), value, expiry, 1)
    }

    fn line(answer: OperationAnswer) -> String {
        let mut out = Vec::new();
        if let Some((mut chunk, _)) = answer.encode(&mut out) {
            out.extend(chunk.copy_to_bytes(chunk.remaining()));
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_answer_is_a_line() {
        let expiry = Expiry::at_unix_ms(1_795_363_200_000);
        for (answer, expected) in [
            (
                OperationAnswer::Written(StatusCode::CREATED, Timestamp::from_u64(u64::MAX)),
                r#"{"status":201,"version":"18446744073709551615"}"#,
            ),
            (
                OperationAnswer::Written(StatusCode::ACCEPTED, Timestamp::ZERO),
                r#"{"status":202,"version":"0"}"#,
            ),
            (
                OperationAnswer::Found(entry(b"a\n\"", Expiry::NEVER), None),
                r#"{"status":200,"version":"9","value":"a\n\""}"#,
            ),
            (
                OperationAnswer::Found(entry(b"\xff\xfe", expiry), None),
                r#"{"status":200,"version":"9","expires":"2026-11-22T16:00:00Z","value_base64":"//4="}"#,
            ),
        ] {
            assert_eq!(line(answer), format!("{expected}\n"));
        }
        let absent = OperationAnswer::Problem(Some(Timestamp::from_u64(9)), Problem::absent());
        let text = line(absent);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&json["status"], &json["version"]),
            (&404.into(), &"9".into())
        );
        assert_eq!(json["problem"]["type"], "urn:kvorum:problem:no-such-entity");
    }

    #[test]
    fn a_value_of_any_length_makes_the_same_line() {
        let lengths = [WHOLE_BYTES_MAX, WHOLE_BYTES_MAX + 1, 70_000];
        let values = lengths.map(|length| [vec![b'\n'; length], vec![0xff; length]]);
        for value in values.into_iter().flatten() {
            let entry = entry(&value, Expiry::NEVER);
            let line = line(OperationAnswer::Found(entry, None));
            let json: serde_json::Value = serde_json::from_str(&line).unwrap();
            let same = match json["value"].as_str() {
                Some(text) => text.as_bytes() == value,
                None => {
                    BASE64
                        .decode(json["value_base64"].as_str().unwrap())
                        .unwrap()
                        == value
                }
            };
            assert!(same && line.ends_with("\"}\n"));
        }
    }
}
